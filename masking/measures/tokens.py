"""Counting tokens with o200k_base, whatever the model: exact only where `is_exact_for` says so.

It is slow (some 6 MB/s) beside all else on a request's path, so it is done in a thread afterwards.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b

import orjson
from cachetools import LRUCache

from masking.measures.vocabulary import load_o200k_base

_PER_MESSAGE = 4
_PER_CALL = 8
"""What a message and a call cost besides their texts: role, separators, call id."""

_REMEMBERED_FROM = 128
"""In characters. Counting a shorter text takes hardly longer than looking it up."""

_NAME_CHARS = 24
"""In characters, too. Names of tools and empty arguments are in every call."""

_BLANKS = 65_536
"""A longer run of blanks is cut: at a million of them tiktoken's backtracking reaches its limit and
panics with a BaseException. Letters, signs and base64 of any length do no harm."""

_LONG_BLANKS = re.compile(rf"(?<!\s)\s{{{_BLANKS},}}")


class TokenCounter:
    """Counts tokens and remembers the counts of longer texts: an agent repeats its messages.

    It remembers digests, at most `max_entries` of them (200 bytes each), and forgets the longest
    unused first. Texts are remembered only if they are as short as a tool's name, such as `{}`, the
    same for all counters. Threads may share one. The vocabulary is loaded on first use.
    """

    def __init__(self, max_entries: int = 16_384) -> None:
        self._counts: LRUCache[bytes, int] = LRUCache(max_entries)
        self._lock = threading.Lock()

    def count(self, text: str) -> int:
        """Return the tokens of a text; the spellings of special tokens are ordinary text.

        A lone surrogate counts as U+FFFD. A run of 65,536 blanks or more is counted in pieces,
        which changes the result by about a token per piece, less than 0.2% of the run's own.
        """
        size = len(text)
        if size < _REMEMBERED_FROM:
            return _count_name(text) if size <= _NAME_CHARS else _count(text)
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return self._count_once(digest, lambda: text)

    def count_json(self, value: object) -> int:
        """Return the tokens of a decoded JSON value, spelled compactly."""
        try:
            # To spell it as json does takes ten times as long, so that is done once.
            spelled = orjson.dumps(value)
        except (TypeError, RecursionError):  # lone surrogates, long numbers, too deep
            return self.count(_compact_json(value))
        digest = blake2b(spelled, digest_size=16, person=b"json").digest()
        return self._count_once(digest, lambda: _compact_json(value))

    def _count_once(self, digest: bytes, find_text: Callable[[], str]) -> int:
        with self._lock:
            counted = self._counts.get(digest)
        if counted is None:
            counted = _count(find_text())  # unlocked: two threads may at worst count the same text
            with self._lock:
                self._counts[digest] = counted
        return counted


def count_tools(counter: TokenCounter, tools: object) -> int:
    """Return the tokens of a request's tool schemas as compact JSON; 0 if they are no list."""
    return counter.count_json(tools) if isinstance(tools, list) else 0


def _count(text: str) -> int:
    encoding = load_o200k_base()
    if len(text) <= _BLANKS:
        return len(encoding.encode_ordinary(text))
    return sum(len(encoding.encode_ordinary(piece)) for piece in _pieces(text))


_count_name = lru_cache(2_048)(_count)


def _pieces(text: str) -> Iterator[str]:
    """Yield all of `text` in order, cut only inside runs of blanks too long for tiktoken."""
    start = 0
    for run in _LONG_BLANKS.finditer(text):
        for end in range(run.start() + _BLANKS, run.end(), _BLANKS):
            yield text[start:end]
            start = end
    yield text[start:]


def _compact_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""
