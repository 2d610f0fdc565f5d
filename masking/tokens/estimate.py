"""The estimated o200k tokens of a text: a function of the text, cheap enough for a request's path.

A short text is measured whole, a long one by slices of it. Agents repeat their texts at every turn,
so measurements are remembered, each under all that it was made from: no estimate depends on what
was estimated before.
"""

import functools
import sys
import threading
from collections.abc import Callable
from operator import itemgetter

from masking.tokens.cost import UNIT, compute_cost, forget_short_texts

_WHOLE_CHARS = 1024
"""Up to this length a text is measured whole."""

_CLOSE_CHARS = 32_768
"""Up to this length a text whose slices differ too much is measured whole, too."""

_SLICE_CHARS = 128
_FEWEST_SLICES = 4
_CHARS_PER_SLICE = 2048
_MOST_SLICES = 64
_CLOSE_SLICES = 256

_BLOCK_BITS = 8
"""Texts whose lengths differ only in this many low bits are cut at the same places."""

_GOLDEN = 40_503
"""2**16 divided by the golden ratio: places spread by it fall into step with no line length."""

_RATE_BITS = 24
"""A rate is in tokens per 2**24 characters."""

_UNEVEN = -1
"""In place of the rate of a sample whose slices differ too much."""

_ENTRY_BYTES = 128
"""The size of an entry of a table, without its key."""

_Sample = tuple[str, ...]
_Cutter = Callable[[str], _Sample]


class TokenEstimator:
    """Estimates tokens, and remembers texts and samples within `max_bytes`.

    There are two tables. An entry found in the old one moves to the young one; when that has taken
    half of the bytes, it becomes the old one. Threads may share an estimator.
    """

    def __init__(self, max_bytes: int = 16 << 20) -> None:
        self._max_young = max_bytes // 2
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Forget every text, as if the process had just begun."""
        forget_short_texts()
        with self._lock:
            self._young: dict[str | _Sample, int] = {}
            self._old: dict[str | _Sample, int] = {}
            self._young_bytes = 0

    def estimate(self, text: str) -> int:
        """Return the estimated o200k tokens of a text: 0 for "", else one or more."""
        chars = len(text)
        if chars <= _WHOLE_CHARS:
            tokens = self._young.get(text)
            return self._measure_once(text) if tokens is None else tokens
        sample = _get_cutter(chars >> _BLOCK_BITS)(text)
        rate = self._young.get(sample)
        if rate is None:
            rate = self._measure_once(sample)
        return chars * rate >> _RATE_BITS if rate >= 0 else self._estimate_closely(text)

    def _estimate_closely(self, text: str) -> int:
        chars = len(text)
        if chars <= _CLOSE_CHARS:
            return self._measure(text)
        sample = _get_close_cutter(chars >> _BLOCK_BITS)(text)
        return chars * self._measure(sample) >> _RATE_BITS

    def _measure(self, key: str | _Sample) -> int:
        """Return the tokens of a text, or the rate of a sample; count only what is unknown."""
        known = self._young.get(key)
        return self._measure_once(key) if known is None else known

    def _measure_once(self, key: str | _Sample) -> int:
        """Return what is not in the young table, from the old one or measured, and put it there."""
        known = self._old.get(key)
        if known is None:  # unlocked: two threads may at worst measure the same text
            known = _count_tokens(key) if isinstance(key, str) else _measure_rate(key)
        self._remember(key, known)
        return known

    def _remember(self, key: str | _Sample, value: int) -> None:
        size = sys.getsizeof(key) if isinstance(key, str) else sum(map(sys.getsizeof, key))
        with self._lock:
            self._young[key] = value
            self._young_bytes += _ENTRY_BYTES + size
            if self._young_bytes > self._max_young:
                self._old, self._young, self._young_bytes = self._young, {}, 0


ESTIMATOR = TokenEstimator()
"""The estimator of the whole process: a global of up to 16 MB on every request's path. It is locked
where it is written, and it changes how long an estimate takes, never what it is."""

estimate_tokens = ESTIMATOR.estimate
"""Return the estimated o200k tokens of a text: 0 for "", else one or more."""


def _count_tokens(text: str) -> int:
    return (compute_cost(text) + UNIT // 2) // UNIT


def _measure_rate(sample: _Sample) -> int:
    """Return a sample's tokens per 2**24 characters, or `_UNEVEN` if a closer look is needed.

    The slices are joined, so that a word cut off at the end of one meets one cut off at the start
    of the next. The rate is at least a token per 1,024 characters: a long text has at least one.
    """
    if len(sample) < _CLOSE_SLICES and _is_uneven(sample):
        return _UNEVEN
    joined = "".join(sample)
    return max((compute_cost(joined) << _RATE_BITS) // (UNIT * len(joined)), 1 << _RATE_BITS - 10)


def _is_uneven(sample: _Sample) -> bool:
    """Whether the mean of the slices has a standard error of more than a tenth.

    It is measured in bytes other than blanks, which go with tokens in any script.
    """
    sizes = [len(text.encode("utf-8", "surrogatepass")) - text.count(" ") for text in sample]
    many, total = len(sizes), sum(sizes)
    return 100 * (many * sum(size * size for size in sizes) - total**2) > (many - 1) * total**2


@functools.lru_cache(maxsize=1024)
def _get_cutter(block: int) -> _Cutter:
    """Return a function that cuts a sample from a text of this block of lengths."""
    longer = (block << _BLOCK_BITS) // _CHARS_PER_SLICE
    return _make_cutter(block, min(_MOST_SLICES, _FEWEST_SLICES + longer))


@functools.lru_cache(maxsize=64)
def _get_close_cutter(block: int) -> _Cutter:
    return _make_cutter(block, _CLOSE_SLICES)


def _make_cutter(block: int, slices: int) -> _Cutter:
    """Return a function that cuts a slice from each of so many equal parts of a text.

    Slices in the first half are counted from the beginning, the others from the end, because
    lengths differ within a block.
    """
    chars = block << _BLOCK_BITS
    part = chars // slices
    starts = [
        at * part + ((part - _SLICE_CHARS) * (at * _GOLDEN & 0xFFFF) >> 16) for at in range(slices)
    ]
    shifts = [0 if 2 * at < slices else chars for at in range(slices)]
    return itemgetter(
        *(
            slice(start - shift, (start - shift + _SLICE_CHARS) or None)
            for start, shift in zip(starts, shifts, strict=True)
        )
    )
