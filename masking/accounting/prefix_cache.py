"""A provider's prefix cache: how much of a prompt it has seen before.

A prompt is a sequence of pieces: its tool schemas, then its messages, each with a digest and its
tokens. The cache matches whole pieces from the front; a changed piece ends the common prefix.
Some providers' caches can be read at certain points alone.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple


class Piece(NamedTuple):
    """A part of a prompt: the digest of its content, and its size in tokens.

    blocks: how many blocks of content it has.
    is_marked: whether it ends with a cache mark.
    begins_answer: whether an earlier request ended before it.
    """

    digest: bytes
    tokens: int
    blocks: int = 1
    is_marked: bool = False
    begins_answer: bool = False


class CachePoints(NamedTuple):
    """Where a prompt can be read from a cache and is written to it, in numbers of pieces.

    Both are in ascending order.
    """

    reads: Sequence[int]
    writes: Sequence[int]


class SentPrompt:
    """A prompt as it was last sent; one object for as long as it grows and changes.

    `prefixes` are what a cache knows its prefixes of 0, 1, 2, ... pieces by, `sizes` their tokens.
    Prompts with different seeds have nothing in common: another model, another account.
    """

    def __init__(self, seed: bytes) -> None:
        self.prefixes: list[_Prefix] = [seed]
        self.sizes: list[int] = [0]


_Prefix = bytes | int
"""The seed, for the prefix without any piece; else a number."""


class PrefixCache:
    """All prompts sent so far, as a tree; at most `max_prefixes`, the last used; None is no bound.

    From a prefix, the digest of the next piece leads to the prefix that is one piece longer. Times
    are in seconds, from any origin, and do not go back. Without a bound the use of a prefix is
    noted only where there is a time to live: one has to be given always, or never.
    """

    def __init__(self, max_prefixes: int | None = 50_000) -> None:
        self._max_prefixes = max_prefixes
        self._numbers = count()
        self._longer: dict[tuple[_Prefix, bytes], int] = {}
        self._steps: dict[_Prefix, tuple[_Prefix, bytes]] = {}
        self._last_used: OrderedDict[_Prefix, float] = OrderedDict()
        self._written: set[_Prefix] = set()
        """The prefixes that can be read where not any can."""

    def send(
        self,
        prompt: SentPrompt,
        pieces: Sequence[Piece],
        now: float = 0.0,
        ttl: float | None = None,
        *,
        unchanged: int = 0,
        points: CachePoints | None = None,
    ) -> int:
        """Send a prompt with these pieces; return the tokens of its longest prefix that is cached.

        That is any prefix that was sent before, or, with `points`, one that was written. A prefix
        that was not used for longer than `ttl` is forgotten. The first `unchanged` pieces are those
        that the same prompt was last sent with: without a bound they take no time.
        """
        if self._max_prefixes is not None:
            unchanged = 0  # some may have been dropped since
        known = self._follow(prompt, pieces, unchanged)
        # What uses a prefix uses all shorter ones, too: the first found in time is the longest.
        for read in range(known, 0, -1) if points is None else reversed(points.reads):
            prefix = prompt.prefixes[read]
            is_cached = read <= known and (points is None or prefix in self._written)
            if is_cached and (ttl is None or now - self._last_used[prefix] <= ttl):
                break
        else:
            read = 0
        if points is not None:
            self._written.update(prompt.prefixes[at] for at in points.writes)
        if ttl is not None or self._max_prefixes is not None:
            self._use(prompt.prefixes, now)
        return prompt.sizes[read]

    def _follow(self, prompt: SentPrompt, pieces: Sequence[Piece], unchanged: int) -> int:
        """Lead a prompt along the tree, which grows; return how many pieces were known before."""
        prefixes, sizes, longer = prompt.prefixes, prompt.sizes, self._longer
        del prefixes[unchanged + 1 :], sizes[unchanged + 1 :]
        known = len(pieces)
        for place in range(unchanged, len(pieces)):
            piece = pieces[place]
            step = (prefixes[-1], piece.digest)
            number = longer.get(step)
            if number is None:
                known = min(known, place)
                number = longer[step] = next(self._numbers)
                self._steps[number] = step
            prefixes.append(number)
            sizes.append(sizes[-1] + piece.tokens)
        return known

    def _use(self, prefixes: Sequence[_Prefix], now: float) -> None:
        for prefix in reversed(prefixes[1:]):  # the shorter ones last, so that they outlive
            self._last_used[prefix] = now
            self._last_used.move_to_end(prefix)
        while self._max_prefixes is not None and len(self._last_used) > self._max_prefixes:
            dropped, _ = self._last_used.popitem(last=False)
            del self._longer[self._steps.pop(dropped)]
            self._written.discard(dropped)
