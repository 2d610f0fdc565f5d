"""The prompt cache and the usage of Messages, as Anthropic documents them.

A prompt is cached where `cache_control` stands and nowhere else. Each mark looks for an entry of an
earlier request at its own block and at the 19 before it, and what stands behind the longest entry
up to the last mark is written. Four characters count as a token. Nothing is ever forgotten: the
provider has no clock.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from addon.recordings.provider.messages_blocks import Block, read_blocks
from addon.recordings.provider.received import JsonDict, Received, Spell
from addon.recordings.provider.script import Reply

CHARS_PER_TOKEN = 4
LOOKBACK = 20

_LEAST = (
    (re.compile(r"(?:opus|fable)-5"), 512),
    (re.compile(r"opus-4-7"), 2048),
    (re.compile(r"opus-4-[56]|haiku-4-5"), 4096),
)
"""The shortest prompts that are cached, in tokens, by model; other models' is 1,024."""


class _Prefix(NamedTuple):
    """A prompt up to a block and with it."""

    digest: bytes
    tokens: int
    mark: JsonDict | None


class PromptCache:
    """The cache of all models; `spell` is applied to each block before it is counted."""

    def __init__(self, spell: Spell = str) -> None:
        self._entries: set[bytes] = set()
        self._spell = spell

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prompt up to each of its marks."""
        prefixes = list(_read_prefixes(received.request, self._spell))
        marks = _find_marks(received.request, prefixes)
        read = max((self._find_entry(prefixes, place) for place in marks), default=0)
        written = {"5m": 0, "1h": 0}
        done = read
        for place in marks:
            prefix = prefixes[place]
            self._entries.add(prefix.digest)
            lifetime = (prefix.mark or {}).get("ttl", "5m")
            written[lifetime] += max(0, prefix.tokens - done)
            done = max(done, prefix.tokens)
        return {
            "input_tokens": (prefixes[-1].tokens if prefixes else 0) - done,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
            "output_tokens": max(1, len(_said(reply)) // CHARS_PER_TOKEN),
            "service_tier": "standard",
        }

    def _find_entry(self, prefixes: Sequence[_Prefix], place: int) -> int:
        """Return the length in tokens of the entry that a mark finds; 0 if it finds none."""
        back = prefixes[max(0, place - LOOKBACK + 1) : place + 1]
        found = (each.tokens for each in reversed(back) if each.digest in self._entries)
        return next(found, 0)


def count_tokens(received: Received) -> JsonDict:
    """Return the answer to a count of tokens."""
    *_, tokens = (0, *(each.tokens for each in _read_prefixes(received.request, str)))
    return {"input_tokens": tokens}


def _read_prefixes(request: JsonDict, spell: Spell) -> Iterator[_Prefix]:
    digest = hashlib.sha256(str(request.get("model")).encode())
    chars = 0
    blocks: list[Block] = list(read_blocks(request))
    for block in blocks:
        text = spell(block.spelling)
        digest.update(text.encode())
        chars += len(text)
        yield _Prefix(digest.digest(), chars // CHARS_PER_TOKEN, block.mark)


def _find_marks(request: JsonDict, prefixes: Sequence[_Prefix]) -> list[int]:
    """Return the places of the marks in order; one at the top level marks the last block."""
    least = next((n for name, n in _LEAST if name.search(str(request.get("model")))), 1024)
    marked = {place for place, each in enumerate(prefixes) if each.mark}
    if request.get("cache_control") and prefixes:
        marked.add(len(prefixes) - 1)
    return [place for place in sorted(marked) if prefixes[place].tokens >= least]


def _said(reply: Reply) -> str:
    calls = "".join(each.tool + each.arguments for each in reply.calls)
    return (reply.thinking or "") + (reply.content or "") + calls
