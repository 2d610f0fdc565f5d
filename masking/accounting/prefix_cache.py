"""A provider's prefix cache: how much of a prompt it has seen before.

A prompt is a sequence of pieces: its tool schemas, then its messages, each with a digest and its
tokens. The cache matches whole pieces from the front; a changed piece ends the common prefix.
Some providers' caches can be read at certain points alone.

An agent's prompts go on where its last one ended. So pieces that are always sent together are one
run of a tree, compared as a list, and a prompt takes as many steps as it has runs, few of them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Optional


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


class _Run:
    """Pieces that follow each other, all of them last used at the same time.

    parent: the run that they follow; the root, which has no digests, is its own.
    key: what its parent has it by: the digest of the first piece; at the root, behind the seed.
    start: how many pieces stand before them.
    written: the numbers of pieces at which the cache can be read where not any prefix can.
    """

    __slots__ = ("digests", "key", "longer", "parent", "start", "used", "written")

    def __init__(
        self, parent: Optional["_Run"], key: bytes, start: int, digests: list[bytes]
    ) -> None:
        self.parent = parent or self
        self.key, self.start, self.digests = key, start, digests
        self.used = 0.0
        self.longer: dict[bytes, _Run] = {}
        self.written: set[int] = set()

    @property
    def end(self) -> int:
        """How many pieces there are up to its last one."""
        return self.start + len(self.digests)


class SentPrompt:
    """A prompt as it was last sent; one object for as long as it grows and changes.

    `sizes` are the tokens of its prefixes of 0, 1, 2, ... pieces. Prompts with different seeds have
    nothing in common: another model, another account.
    """

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self.sizes: list[int] = [0]
        self.last: _Run | None = None
        """The run that it ended in."""


class PrefixCache:
    """All prompts sent so far; at most `max_prefixes` of their prefixes, the last used.

    None is no bound. Times are in seconds, from any origin, and do not go back. Without a bound the
    use of a prefix is noted only where there is a time to live: one has to be given always, or
    never.
    """

    def __init__(self, max_prefixes: int | None = 50_000) -> None:
        self._max_prefixes = max_prefixes
        self._root = _Run(None, b"", 0, [])
        self._runs: OrderedDict[_Run, None] = OrderedDict()
        """Where there is a bound: what was used last is last, and follows what is longer."""
        self._count = 0

    def __len__(self) -> int:
        """How many prefixes are known."""
        return self._count

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
        sizes, new = prompt.sizes, pieces[unchanged:]
        sizes[unchanged:] = accumulate([each.tokens for each in new], initial=sizes[unchanged])
        if self._max_prefixes is not None:
            new, unchanged = pieces, 0  # some may have been dropped since
        digests = [each.digest for each in new]
        begun = _find_run(prompt.last or self._root, unchanged)
        last, known = self._follow(prompt.seed, begun, unchanged, digests)
        if points is None:
            read = _find_longest(last, now, ttl)
        else:
            read = _find_point(last, points.reads, known, now, ttl)
        prompt.last = last = self._extend(prompt.seed, last, digests[known - unchanged :])
        if points is not None:
            _write(last, points.writes)
        if ttl is not None or self._max_prefixes is not None:
            self._use(last, now)
        return sizes[read]

    def _follow(
        self, seed: bytes, run: _Run, begin: int, digests: Sequence[bytes]
    ) -> tuple[_Run, int]:
        """Follow the tree from so many pieces on, in a run; return where what is known ends.

        `digests` are those of the pieces from there on. A run that they leave before its end is
        cut in two.
        """
        at, end = begin, begin + len(digests)
        while at < end:
            ahead = run.digests[at - run.start :]
            if ahead:
                at += count_common(ahead, digests[at - begin : at - begin + len(ahead)])
                if at < run.end:
                    break
            elif longer := run.longer.get(_find_key(seed, run, digests[at - begin])):
                run = longer
            else:
                break
        return (self._cut(run, at) if at < run.end else run), at

    def _cut(self, run: _Run, at: int) -> _Run:
        """Cut a run in two; return the first one, which is new: the other was not used now."""
        place = at - run.start
        first = _Run(run.parent, run.key, run.start, run.digests[:place])
        first.used = run.used
        first.written = {each for each in run.written if each <= at}
        run.parent.longer[run.key] = first
        run.parent, run.key, run.start = first, run.digests[place], at
        run.digests, run.written = run.digests[place:], run.written - first.written
        first.longer[run.key] = run
        return first

    def _extend(self, seed: bytes, run: _Run, digests: list[bytes]) -> _Run:
        """Add pieces behind a run; return the run that ends with them."""
        self._count += len(digests)
        if not digests:
            return run
        if run is not self._root and not run.longer:
            run.digests += digests
            return run
        key = _find_key(seed, run, digests[0])
        run.longer[key] = longer = _Run(run, key, run.end, digests)
        return longer

    def _use(self, last: _Run, now: float) -> None:
        run = last
        while run is not self._root:
            run.used = now
            if self._max_prefixes is not None:
                self._runs[run] = None
                self._runs.move_to_end(run)  # the shorter ones last, so that they outlive
            run = run.parent
        while self._max_prefixes is not None and self._count > self._max_prefixes:
            self._forget(self._count - self._max_prefixes)

    def _forget(self, most: int) -> None:
        """Forget the run that was unused for longest, or so many pieces at its end."""
        run = next(iter(self._runs))
        gone = min(most, len(run.digests))
        del run.digests[-gone:]
        self._count -= gone
        run.written = {each for each in run.written if each <= run.end}
        if not run.digests:
            del self._runs[run], run.parent.longer[run.key]


def _find_key(seed: bytes, run: _Run, digest: bytes) -> bytes:
    """Return what a run has a longer one by."""
    return seed + digest if run.parent is run else digest


def _find_run(run: _Run, at: int) -> _Run:
    """Return the run, this one or one before it, that has the last of so many pieces."""
    while run.start >= at and run.parent is not run:
        run = run.parent
    return run


def _find_longest(run: _Run, now: float, ttl: float | None) -> int:
    """Return how many pieces of a prompt known up to the end of a run are read from the cache.

    What uses a prefix uses all shorter ones, too: the first found in time is the longest.
    """
    while ttl is not None and now - run.used > ttl and run.parent is not run:
        run = run.parent
    return run.end


def _find_point(run: _Run, reads: Sequence[int], known: int, now: float, ttl: float | None) -> int:
    """Return the same where it can be read at certain points alone, of those that are known."""
    for at in reversed(reads):
        if at <= known:
            run = _find_run(run, at)
            if at in run.written and (ttl is None or now - run.used <= ttl):
                return at
    return 0


def _write(run: _Run, writes: Sequence[int]) -> None:
    """Note where a prompt that ends with a run was written."""
    for at in reversed(writes):
        run = _find_run(run, at)
        run.written.add(at)


def count_common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return how many values two lists have in common from their first one on."""
    size = min(len(one), len(other))
    if one[:size] == other[:size]:  # as long as a conversation only grows
        return size
    return next(at for at in range(size) if one[at] != other[at])
