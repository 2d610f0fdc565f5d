"""What tells one conversation from another: digests of its opening and of the assistant's messages.

They cover texts alone. A cache mark that moves on changes nothing, nor does a text that is a string
in one request and a list of parts in the next.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from masking.wire.chat import find_answers, find_opening

_BILLING_HEADER = "x-anthropic-billing-header:"
"""claude-code begins a system text with this; the rest of it differs in every request."""


def digest_opening(body: Mapping[str, object]) -> bytes:
    """Return a conversation's digest: that of its texts up to and with the first user message."""
    texts = (text for text in find_opening(body) if not text.startswith(_BILLING_HEADER))
    return _digest(texts)


class Answers:
    """The digests of a request's messages of the assistant, each with all before it.

    A single message tells little: the same question often gets the same answer, and some providers
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
    """Return one digest of all texts; their lengths are in it, so that none runs into the next."""
    pieces = [before]
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        pieces += len(data).to_bytes(8, "big"), data
    return blake2b(b"".join(pieces), digest_size=16).digest()
