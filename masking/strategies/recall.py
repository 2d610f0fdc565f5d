"""The id under which a masked text can be had back: a digest of the text, the same everywhere."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from masking.model import Decision

ID_CHARS = 16
"""Of hexadecimal digits, 64 bits: among a million texts two have the same id in one of 37 million
cases. Every placeholder pays for them."""

_ID = re.compile(f"[0-9a-f]{{{ID_CHARS}}}")


def recall_id(text: str) -> str:
    """Return the id of a text: 16 hexadecimal digits."""
    return digest_bytes(encode(text))


def digest_bytes(data: bytes) -> str:
    """Return the id of a text that `encode` has encoded."""
    return blake2b(data, digest_size=ID_CHARS // 2).hexdigest()


def encode(text: str) -> bytes:
    """Return a text as UTF-8; a half of a surrogate pair, which JSON can spell, as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def is_recall_id(text: str) -> bool:
    """Whether a text is one that `recall_id` may return."""
    return _ID.fullmatch(text) is not None


def find_masked_texts(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield each text that the window has replaced, without what follows it and stays.

    Neither images nor what is redacted, reduced or dropped: its placeholder tells no id.
    """
    for decision in decisions:
        if decision.reason == "masked":
            result = decision.result
            replaced = {r.path for r in decision.replacements if r.image is None}
            for slot, text in zip(result.slots, result.texts, strict=True):
                if (*result.at, *slot) in replaced:
                    yield text
