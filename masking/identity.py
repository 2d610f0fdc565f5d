"""What tells one conversation from another: digests of its opening and of the assistant's messages.

They are of texts alone, so that a cache marker that wanders on, and a text that is written as a
string here and as a list of parts there, change nothing.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from masking.wire.chat import find_answers, find_opening

_BILLING_HEADER = "x-anthropic-billing-header:"
"""How claude-code begins a system text that is another one in every request."""


def digest_opening(body: Mapping[str, object]) -> bytes:
    """Return the digest of a conversation: of its texts up to the first user message, included."""
    texts = (text for text in find_opening(body) if not text.startswith(_BILLING_HEADER))
    return _digest(texts)


class Answers:
    """The digests of a request's messages of the assistant, each made when it is asked for."""

    def __init__(self, body: Mapping[str, object]) -> None:
        self._answers = find_answers(body)

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, at: int) -> bytes:
        return _digest(self._answers[at])


def _digest(texts: Iterable[str]) -> bytes:
    """Return one digest of all texts, each with its length, so that none runs into the next."""
    digest = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()
