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
    """The digests of a request's messages of the assistant, each with all those before it.

    Alone a message tells little: what is asked twice is often answered alike, and some providers
    number the calls of every turn anew.
    """

    def __init__(self, body: Mapping[str, object]) -> None:
        before = b""
        self._digests = [before := _digest(texts, before) for texts in find_answers(body)]

    def __len__(self) -> int:
        return len(self._digests)

    def __getitem__(self, at: int) -> bytes:
        return self._digests[at]


def _digest(texts: Iterable[str], before: bytes = b"") -> bytes:
    """Return one digest of all texts, each with its length, so that none runs into the next."""
    pieces = [before]
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        pieces += len(data).to_bytes(8, "big"), data
    return blake2b(b"".join(pieces), digest_size=16).digest()
