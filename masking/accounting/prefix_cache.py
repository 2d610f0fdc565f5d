"""A provider's prefix cache, simulated: how much of a prompt was sent before.

A prompt is a sequence of pieces: its head, then the elements of its list, each with a digest and
its tokens. The cache matches whole pieces from the front; a changed piece ends the common prefix.
Some providers' caches can be read at certain points only (see `masking.prices`).

An agent's prompts continue where its last one ended. So pieces that are always sent together are
one run of a tree, compared as a list, and to follow a prompt takes as many steps as it has runs,
which are few. A table of all prefixes takes ten times the memory, and a fifth more of the time that
accounting takes for a request of 1 MB.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Optional

from masking.conversation import Piece
from masking.prices import CacheRules


class CachePoints(NamedTuple):
    """Where a prompt can be read from a cache and is written to it, in numbers of pieces.

    Both are in ascending order.
    """

    reads: Sequence[int]
    writes: Sequence[int]


def cache_points(pieces: Sequence[Piece], rules: CacheRules) -> CachePoints | None:
    """Return where a prompt of these pieces is read and written; None if anywhere."""
    if rules.reads_at == "any prefix":
        return None
    if rules.reads_at == "request ends":
        # Read at the ends of the latest requests, of which the last is the prompt's own.
        ends = (*(at for at, piece in enumerate(pieces) if piece.begins_answer), len(pieces))
        return CachePoints(ends[-(rules.lookback or 0) :], (len(pieces),))
    # Written at the marks, and read there and at whatever is near enough before one: a mark looks
    # back over so many blocks, its own the first of them.
    marks = tuple(at for at, piece in enumerate(pieces, 1) if piece.is_marked)
    blocks = [*accumulate((piece.blocks for piece in pieces), initial=0)]
    reads = {near for mark in marks for near in _look_back(blocks, mark, rules.lookback)}
    return CachePoints(tuple(sorted(reads)), marks)


def _look_back(blocks: Sequence[int], mark: int, lookback: int | None) -> Iterator[int]:
    for at in range(mark, 0, -1):
        if lookback is not None and blocks[mark] - blocks[at] >= lookback:
            return
        yield at


def count_writable(
    sizes: Sequence[int], points: CachePoints | None, rules: CacheRules
) -> int | None:
    """Return how many tokens of a prompt are read or written; None if all of them are.

    `sizes` are the tokens of its prefixes of 0, 1, 2, ... pieces.
    """
    if points is None:
        return None
    size = sizes[points.writes[-1]] if points.writes else 0
    return size if size >= rules.minimum else 0


class _Run:
    """Consecutive pieces, all of them last used at the same time.

    parent: the run before this one; the root, which has no digests, is its own parent.
    start: how many pieces stand before it.
    longer: the runs that continue it, by the digest of their first piece.
    written: the numbers of pieces at which the cache was written, and so can be read, where it
        cannot be read at any prefix.
    """

    __slots__ = ("digests", "longer", "parent", "start", "used", "written")

    def __init__(self, parent: Optional["_Run"], start: int, digests: list[bytes]) -> None:
        self.parent = parent or self
        self.start, self.digests = start, digests
        self.used = 0.0
        self.longer: dict[bytes, _Run] = {}
        self.written: set[int] = set()

    @property
    def end(self) -> int:
        """How many pieces there are up to its end."""
        return self.start + len(self.digests)

    def find(self, at: int) -> "_Run":
        """Return the run, this one or one before it, that has the last of so many pieces."""
        run = self
        while run.start >= at and run.parent is not run:
            run = run.parent
        return run

    def split(self, at: int) -> "_Run":
        """Make a run of its own of the pieces up to `at`, and return that."""
        place = at - self.start
        first = _Run(self.parent, self.start, self.digests[:place])
        first.used = self.used
        first.written = {each for each in self.written if each <= at}
        self.parent.longer[first.digests[0]] = first
        self.parent, self.start = first, at
        self.digests, self.written = self.digests[place:], self.written - first.written
        first.longer[self.digests[0]] = self
        return first


class PrefixCache:
    """The prefixes of all prompts sent so far, at most `max_prefixes`: those that were used last.

    Times are in seconds, from any origin, and do not go back.
    """

    def __init__(self, max_prefixes: int = 50_000) -> None:
        self._max_prefixes = max_prefixes
        self._root = _Run(None, 0, [])
        self._runs: OrderedDict[_Run, None] = OrderedDict()
        """By their last use, and a run behind those that continue it."""
        self._count = 0

    def __len__(self) -> int:
        """How many prefixes are remembered."""
        return self._count

    def send(
        self,
        cache_scope: bytes,
        digests: list[bytes],
        now: float = 0.0,
        ttl: float | None = None,
        *,
        points: CachePoints | None = None,
    ) -> int:
        """Send a prompt of pieces with these digests; return how many of them are cached.

        Any prefix that was sent before is cached; with `points`, those that were written. A prefix
        that was not used for longer than `ttl` is forgotten. Prompts of different scopes share
        nothing, as those of another model or another account.
        """
        if digests:
            digests = [cache_scope + digests[0], *digests[1:]]

        # Follow the tree. A run that the pieces leave before its end is split in two, as only its
        # first part is used now.
        run, matched = self._root, 0
        while matched < len(digests) and (longer := run.longer.get(digests[matched])):
            run = longer
            matched += count_common(run.digests, digests[matched : matched + len(run.digests)])
            if matched < run.end:
                run = run.split(matched)

        # What uses a prefix uses all shorter ones, too: the first found in time is the longest.
        found, cached = run, 0
        if points is None:
            while ttl is not None and now - found.used > ttl and found is not self._root:
                found = found.parent
            cached = found.end
        else:
            for at in reversed(points.reads):
                if at <= matched:
                    found = found.find(at)
                    if at in found.written and (ttl is None or now - found.used <= ttl):
                        cached = at
                        break

        # What is new goes into the last run, unless other prompts continue that.
        if new := digests[matched:]:
            self._count += len(new)
            if run is self._root or run.longer:
                parent, run = run, _Run(run, run.end, new)
                parent.longer[new[0]] = run
            else:
                run.digests += new
        if points is not None:
            found = run
            for at in reversed(points.writes):
                found = found.find(at)
                found.written.add(at)

        while run is not self._root:
            run.used = now
            self._runs[run] = None
            self._runs.move_to_end(run)  # the shorter ones last, so that they stay longer
            run = run.parent
        while self._count > self._max_prefixes:
            oldest, _ = self._runs.popitem(last=False)
            self._count -= len(oldest.digests)
            del oldest.parent.longer[oldest.digests[0]]
        return cached


def count_common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return how many values two lists have in common at their beginning."""
    size = min(len(one), len(other))
    if one[:size] == other[:size]:  # as long as a conversation only grows
        return size
    return next(at for at in range(size) if one[at] != other[at])
