"""Which tool results could be masked by now and are not, as a conversation goes on.

A result is ripe once its turn has left the window, later results of its tool have taken its place
among the last K, later images that of its own, and it is not kept as the latest of its target. It
stays ripe until it is masked.

Each result waits in the bucket of the turn that must leave the window first. It changes to an
earlier bucket at most once, so the work is linear in the conversation.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Self

from masking.history import Copyable
from masking.model import Maskable, Target
from masking.strategies.policy import MaskPolicy


@dataclass(slots=True)
class _Bucket:
    """The results that wait for a turn to leave the window: places, saving, first offset."""

    places: list[int] = field(default_factory=list)
    saving: float = 0.0
    offset: float = math.inf

    def copy(self) -> "_Bucket":
        """Return another one."""
        return _Bucket([*self.places], self.saving, self.offset)


class Ripening(Copyable):
    """The results of a conversation, in order.

    saving: what masking the ripe results would save on each request.
    """

    def __init__(self, policy: MaskPolicy) -> None:
        self.received = 0
        self.saving = 0.0
        self._policy = policy
        self._last_k = policy.keep_last_k_per_tool or 0
        self._protects = policy.protects
        self._edge = 0
        self._results: list[Maskable] = []
        self._ripe: list[int] = []
        """A heap of the ripe results. Some may have been taken since they entered it."""
        self._counted: set[int] = set()
        """The results that are ripe or masked."""
        self._taken: set[int] = set()
        """The results that a move which was made has masked."""
        self._buckets: defaultdict[int, _Bucket] = defaultdict(_Bucket)
        self._bucket_of: dict[int, int] = {}
        self._last_of_tool: defaultdict[str, deque[int]] = defaultdict(deque)
        self._kept_by_tool: set[int] = set()
        self._last_with_images: deque[int] = deque()
        self._last_images = 0
        """How many images these results hold together."""
        self._kept_by_images: set[int] = set()
        self._latest: dict[Target, int] = {}

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        buckets = {turn: bucket.copy() for turn, bucket in self._buckets.items()}
        other._buckets = defaultdict(_Bucket, buckets)
        last_of_tool = {tool: deque(last) for tool, last in self._last_of_tool.items()}
        other._last_of_tool = defaultdict(deque, last_of_tool)
        return other

    def has_received(self, results: Sequence[Maskable]) -> bool:
        """Whether what it has received are the first of these results."""
        return self._results == results[: self.received]

    @property
    def offset(self) -> float:
        """The size of everything before the first ripe result; infinite if none is ripe."""
        return self._results[self._ripe[0]].offset if self._ripe else math.inf

    def advance(self, turns: int) -> None:
        """Move the edge of the window to where it is after this many tool turns."""
        edge = self._policy.find_edge(turns)
        opened = range(self._edge, edge)
        self._edge = edge
        bucket_of = self._bucket_of
        for turn in opened:
            for place in self._buckets.pop(turn, _NOTHING).places:
                if bucket_of.get(place) == turn:
                    del bucket_of[place]
                    self._ripen(place)

    def receive(self, fresh: Iterable[Maskable]) -> None:
        """Add the new results."""
        for result in fresh:
            place = self.received
            self.received += 1
            self._results.append(result)
            if not self._protects:
                if result.turn is not None:
                    self._wait(place, result.turn)
                continue
            released = [
                *self._count_as_last(place, result.tool),
                *self._count_images(place, result.images),
            ]
            older = self._count_as_latest(place, result)
            if result.turn is not None:
                self._wait(place, self._find_leaving(place))
            if older is not None:
                self._wait(older, self._find_leaving(older))
            for each in released:
                self._ripen(each)

    def harvest(self) -> None:
        """Count all ripe results as masked."""
        self._ripe.clear()
        self.saving = 0.0

    def take(self, places: Sequence[int]) -> None:
        """Count these results as masked, ripe or not."""
        for place in places:
            self._leave_bucket(place)
            if place in self._counted and place not in self._taken:
                self.saving -= self._results[place].saving
        self._counted.update(places)
        self._taken.update(places)
        while self._ripe and self._ripe[0] in self._taken:
            heappop(self._ripe)
        if not self._ripe:
            self.saving = 0.0

    def look_ahead(self, stop: int, size: float) -> tuple[list[float], list[float]]:
        """Return two lists: what masking saves, and what follows, for each turn up to `stop`.

        The first has, for each turn from the edge on, the saving with every result before that
        turn masked. The second has the size, with everything masked, from the first result that
        could be masked at that turn or later to the end of a prompt of this `size`. A bucket
        that a result has left gives a bound.
        """
        buckets = [self._buckets.get(turn, _NOTHING) for turn in range(self._edge, stop)]
        tails, first, saving = [0.0], math.inf, 0.0
        for bucket in reversed(buckets):
            first = min(first, bucket.offset)
            saving += bucket.saving
            tails.append(max(0.0, size - first - saving))
        savings = accumulate((bucket.saving for bucket in buckets), initial=self.saving)
        return [*savings], tails[::-1]

    def _count_as_last(self, place: int, tool: str | None) -> Iterator[int]:
        """Yield the result that is no longer among the last K of the tool."""
        if tool is None or self._last_k <= 0:
            return
        last = self._last_of_tool[tool]
        last.append(place)
        self._kept_by_tool.add(place)
        if len(last) > self._last_k:
            released = last.popleft()
            self._kept_by_tool.remove(released)
            yield released

    def _count_images(self, place: int, images: int) -> Iterator[int]:
        """Yield the results that no longer hold any of the last K images."""
        if not images or not self._policy.kept_images:
            return
        last = self._last_with_images
        last.append(place)
        self._kept_by_images.add(place)
        self._last_images += images
        while self._last_images - self._results[last[0]].images >= self._policy.kept_images:
            released = last.popleft()
            self._last_images -= self._results[released].images
            self._kept_by_images.remove(released)
            yield released

    def _count_as_latest(self, place: int, result: Maskable) -> int | None:
        """Return the result that is no longer the latest of the target."""
        if result.target is None or result.turn is None or self._policy.keep_latest_turns <= 0:
            return None
        older = self._latest.get(result.target)
        self._latest[result.target] = place
        return older

    def _find_leaving(self, place: int) -> int:
        """Return the turn that the edge must pass before the result may be masked."""
        result = self._results[place]
        turn = result.turn or 0
        if result.target is None or self._latest.get(result.target) != place:
            return turn
        return max(turn, turn + self._policy.keep_latest_turns - self._policy.window_turns)

    def _wait(self, place: int, turn: int) -> None:
        """Put a result into the bucket of this turn; if the edge has passed it, it is ripe."""
        if place in self._bucket_of:
            self._leave_bucket(place)
        if turn < self._edge:
            self._ripen(place)
            return
        result, bucket = self._results[place], self._buckets[turn]
        self._bucket_of[place] = turn
        bucket.places.append(place)
        bucket.saving += result.saving
        if result.saving:
            bucket.offset = min(bucket.offset, result.offset)

    def _leave_bucket(self, place: int) -> None:
        turn = self._bucket_of.pop(place, None)
        if turn is not None:
            self._buckets[turn].saving -= self._results[place].saving

    def _ripen(self, place: int) -> None:
        """Count a result as ripe, unless something keeps it or it is counted already."""
        is_kept = place in self._kept_by_tool or place in self._kept_by_images
        if (
            is_kept
            or place in self._bucket_of
            or place in self._counted
            or self._results[place].turn is None
        ):
            return
        result = self._results[place]
        self._counted.add(place)
        if result.saving:
            heappush(self._ripe, place)
            self.saving += result.saving


_NOTHING = _Bucket()
