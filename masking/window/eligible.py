"""Which tool results could be masked by now and are not, as a conversation goes on.

A result is eligible once its turn has left the window, unless another rule pins it: it is among the
last K of its tool, holds one of the last images, or is the latest of its target. It stays eligible
until it is masked.
"""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple, Self

from masking.history import Copyable
from masking.model import KeepReason, Target
from masking.window.policy import MaskPolicy


class Candidate(NamedTuple):
    """A tool result as the boundary sees it; sizes are in any unit, the same throughout.

    offset: the unmasked size of everything before it.
    saving: what masking it saves on each request; 0 if it is never masked, less than 0 if its
        placeholder is longer.
    tool: None if it does not count among the last K of a tool.
    target: None if it has none.
    images: how many images it holds.
    """

    turn: int | None
    offset: float
    saving: float
    tool: str | None
    target: Target | None = None
    images: int = 0


class PinnedResults(Copyable):
    """The results that stay because of the others: the last of a tool, the last images, the latest.

    Results are added in the order of the request. What is pinned changes with each.
    """

    def __init__(self, policy: MaskPolicy) -> None:
        self._last_k = policy.keep_last_k_per_tool or 0
        self._kept_images = policy.kept_images
        self._keep_latest_turns = policy.keep_latest_turns
        self._kept_turns_beyond_window = policy.keep_latest_turns - policy.window_turns
        self._last_of_tool: defaultdict[str, deque[int]] = defaultdict(deque)
        self._by_tool: set[int] = set()
        self._last_with_images: deque[tuple[int, int]] = deque()
        """The places of these results, and how many images each holds."""
        self._images = 0
        """How many images they hold together."""
        self._by_images: set[int] = set()
        self._latest: dict[Target, tuple[int, int]] = {}
        """The place and the turn of the latest result of each target."""

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        last_of_tool = {tool: deque(last) for tool, last in self._last_of_tool.items()}
        other._last_of_tool = defaultdict(deque, last_of_tool)
        return other

    def add(self, place: int, tool: str | None, images: int) -> list[int]:
        """Add the next result; return those that it releases from the last of a tool or images."""
        released = []
        if tool is not None and self._last_k > 0:
            last = self._last_of_tool[tool]
            last.append(place)
            self._by_tool.add(place)
            if len(last) > self._last_k:
                released.append(last.popleft())
                self._by_tool.remove(released[-1])
        if images and self._kept_images:
            with_images = self._last_with_images
            with_images.append((place, images))
            self._by_images.add(place)
            self._images += images
            while self._images - with_images[0][1] >= self._kept_images:
                oldest, held = with_images.popleft()
                self._images -= held
                self._by_images.remove(oldest)
                released.append(oldest)
        return released

    def add_latest(self, place: int, turn: int, target: Target) -> tuple[int, int] | None:
        """Make a result the latest of its target; return place and turn of the one that was."""
        if self._keep_latest_turns <= 0:
            return None
        older = self._latest.get(target)
        self._latest[target] = place, turn
        return older

    def is_pinned(self, place: int) -> bool:
        """Whether a result is among the last of its tool, or holds one of the last images."""
        return place in self._by_tool or place in self._by_images

    def leaves_at(self, turn: int, *, is_latest: bool) -> int:
        """Return the turn that the window's edge must pass before a result of `turn` may go."""
        # "Latest" is counted in turns since the call, as the window is, so it delays a result.
        return turn + max(0, self._kept_turns_beyond_window) if is_latest else turn

    def reasons(self, edge: int) -> dict[int, KeepReason]:
        """Return why results of turns before the edge stay, by place."""
        found: dict[int, KeepReason] = {}
        for place, turn in self._latest.values():
            if self.leaves_at(turn, is_latest=True) >= edge:
                found[place] = "latest"
        found |= dict.fromkeys(self._by_images, "last_images")
        found |= dict.fromkeys(self._by_tool, "last_k")
        return found


@dataclass(slots=True)
class _Bucket:
    """The results that wait for a turn to leave the window: places, saving, first offset."""

    places: list[int] = field(default_factory=list)
    saving: float = 0.0
    offset: float = math.inf

    def copy(self) -> "_Bucket":
        return _Bucket([*self.places], self.saving, self.offset)


_NOTHING = _Bucket()


class EligibleResults(Copyable):
    """The results of a conversation, in order, and which of them could be masked.

    Each waits in the bucket of the turn that must leave the window first. It changes to an earlier
    bucket at most once, when a later result of its target arrives, so the work is linear in the
    conversation.

    received: how many results have arrived.
    saving: what masking the eligible results would save on each request.
    """

    def __init__(self, candidates: Sequence[Candidate], policy: MaskPolicy) -> None:
        self.received = 0
        self.saving = 0.0
        self._candidates = candidates
        self._pinned = PinnedResults(policy) if policy.pins else None
        self._edge = 0
        self._heap: list[int] = []
        """The eligible results that save anything. Some may have been masked since."""
        self._fresh: list[int] = []
        """The results that have become eligible since any were last masked."""
        self._counted: set[int] = set()
        """The results that are eligible or masked."""
        self._sent_masked: set[int] = set()
        """The results that were masked by a move that was really sent."""
        self._buckets: defaultdict[int, _Bucket] = defaultdict(_Bucket)
        self._bucket_of: dict[int, int] = {}

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        buckets = {turn: bucket.copy() for turn, bucket in self._buckets.items()}
        other._buckets = defaultdict(_Bucket, buckets)
        return other

    def continue_with(self, candidates: Sequence[Candidate]) -> None:
        """Take the results of a later request, which begin with those that have arrived."""
        self._candidates = candidates

    def has_received(self, candidates: Sequence[Candidate]) -> bool:
        """Whether what has arrived are the first of these candidates."""
        return self._candidates[: self.received] == candidates[: self.received]

    @property
    def offset(self) -> float:
        """The size of everything before the first eligible result; infinite without one."""
        return self._candidates[self._heap[0]].offset if self._heap else math.inf

    def advance(self, edge: int) -> None:
        """Move the edge of the window to this turn."""
        opened = range(self._edge, edge)
        self._edge = edge
        for turn in opened:
            for place in self._buckets.pop(turn, _NOTHING).places:
                if self._bucket_of.get(place) == turn:
                    del self._bucket_of[place]
                    self._add_eligible(place)

    def receive(self, count: int) -> None:
        """Let the first `count` results have arrived."""
        candidates, pinned = self._candidates, self._pinned
        for place in range(self.received, count):
            self.received = place + 1
            turn, _, _, tool, target, images = candidates[place]
            if pinned is None:
                if turn is not None:
                    self._wait(place, turn)
                continue
            released = pinned.add(place, tool, images)
            older = None
            if turn is not None:
                if target is not None:
                    older = pinned.add_latest(place, turn, target)
                self._wait(place, pinned.leaves_at(turn, is_latest=target is not None))
            if older is not None:
                self._wait(older[0], older[1])
            for each in released:
                self._add_eligible(each)

    def mark_masked(self) -> list[int]:
        """Count all eligible results as masked; return their places."""
        fresh, self._fresh = self._fresh, []
        self._heap.clear()
        self.saving = 0.0
        return fresh

    def mark_sent_masked(self, places: Sequence[int]) -> None:
        """Count these results as masked, eligible or not: they were."""
        for place in places:
            self._leave_bucket(place)
            if place in self._counted and place not in self._sent_masked:
                self.saving -= self._candidates[place].saving
        self._counted.update(places)
        self._sent_masked.update(places)
        while self._heap and self._heap[0] in self._sent_masked:
            heappop(self._heap)
        if not self._heap:
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

    def _wait(self, place: int, turn: int) -> None:
        """Put a result into the bucket of this turn; if the edge has passed it, it is eligible."""
        if place in self._bucket_of:
            self._leave_bucket(place)
        if turn < self._edge:
            self._add_eligible(place)
            return
        _, offset, saving, *_ = self._candidates[place]
        bucket = self._buckets[turn]
        self._bucket_of[place] = turn
        bucket.places.append(place)
        bucket.saving += saving
        if saving:
            bucket.offset = min(bucket.offset, offset)

    def _leave_bucket(self, place: int) -> None:
        turn = self._bucket_of.pop(place, None)
        if turn is not None:
            self._buckets[turn].saving -= self._candidates[place].saving

    def _add_eligible(self, place: int) -> None:
        """Count a result as eligible, unless something pins it, or it waits or is counted."""
        if place in self._bucket_of or place in self._counted:
            return
        if self._pinned is not None and self._pinned.is_pinned(place):
            return
        candidate = self._candidates[place]
        if candidate.turn is None:
            return
        self._counted.add(place)
        self._fresh.append(place)
        if candidate.saving:
            heappush(self._heap, place)
            self.saving += candidate.saving
