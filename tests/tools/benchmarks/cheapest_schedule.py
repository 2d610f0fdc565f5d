"""What a schedule of moves costs, and which is the cheapest, as only hindsight can tell.

A schedule says at which requests of a conversation the boundary moves. It always moves to the edge
of the window, because a shorter move costs more at once and saves less later. The provider's cache
is taken to match whole messages, without a minimum, or to be read up to one certain point after a
move. Sizes are in any unit, the same throughout;
bills are in that unit at a plain token's price.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from addon.replay.reread import NEVER
from masking.prices import Pricing

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSizes:
    """How a conversation grew.

    requests: the size of each request, unmasked.
    offsets: the size of what is before each tool result, in order.
    savings: what masking each tool result saves.
    ripe: the first request at which each tool result is masked if the boundary moves to the
        window's edge; NEVER if it never is.
    readable: how much of a prompt can be read from the cache at most when the boundary moves.
    """

    requests: Sequence[float]
    offsets: Sequence[float]
    savings: Sequence[float]
    ripe: Sequence[int]
    readable: float = math.inf


def add_up_bills(
    sizes: ConversationSizes, first_masked: Sequence[int], pricing: Pricing
) -> list[float]:
    """Return the bill up to each request; arguments as for `find_costs`."""
    return [*accumulate(find_costs(sizes, first_masked, pricing))]


def find_costs(
    sizes: ConversationSizes, first_masked: Sequence[int], pricing: Pricing
) -> list[float]:
    """Return what each request costs.

    `first_masked` has for each tool result the request from which on it is masked.
    """
    costs: list[float] = []
    newly_masked = _group(first_masked)
    size = saved = 0.0
    for request, full in enumerate(sizes.requests):
        cached = size
        if places := newly_masked.get(request):
            # The cache ends before the first of them. What was masked before it takes less room.
            first = places[0]
            earlier = zip(sizes.savings[:first], first_masked[:first], strict=True)
            taken_out = sum(saving for saving, since in earlier if since < request)
            cached = min(size, sizes.offsets[first] - taken_out, sizes.readable)
            saved += sum(sizes.savings[place] for place in places)
        size = full - saved
        costs.append(pricing.read * cached + pricing.write * (size - cached))
    return costs


def add_up_everything(sizes: ConversationSizes, pricing: Pricing) -> list[float]:
    """Return the bill up to each request if nothing is ever masked."""
    return add_up_bills(sizes, [NEVER] * len(sizes.ripe), pricing)


def apply_moves(sizes: ConversationSizes, moves: Sequence[int]) -> list[int]:
    """Return the request from which on each tool result is masked, given the moves."""
    at = [bisect_left(moves, request) for request in sizes.ripe]
    return [moves[n] if n < len(moves) else NEVER for n in at]


def find_cheapest(
    sizes: ConversationSizes, pricing: Pricing, max_loss: float = math.inf
) -> list[int]:
    """Return the moves of the cheapest schedule that keeps the promise.

    The promise is that at no request the bill so far exceeds `1 + max_loss` times that of sending
    everything. Time grows with the square of the requests.
    """
    # A dynamic programme over the request of the last move. Two schedules with the same last move
    # are alike from there on, so the cheaper of them ends with the smaller bill, and keeps the
    # promise more easily. Only at moves does the promise have to be checked: the loss shrinks
    # between them.
    plain = add_up_everything(sizes, pricing)
    ripening = _group(sizes.ripe)
    bills = {_BEFORE_ALL: 0.0}
    came_from: dict[int, int] = {}
    final_bills: dict[int, float] = {}
    for last in range(_BEFORE_ALL, len(plain)):
        if last not in bills:
            continue
        standing = _StandingBoundary(sizes, pricing, plain, last, bills[last])
        final_bills[last] = standing.find_bill_before(len(plain))
        for move, bill in standing.find_moves(ripening):
            keeps_promise = bill <= (1 + max_loss) * plain[move] * (1 + _ROUNDING)
            if keeps_promise and bill < bills.get(move, math.inf):
                bills[move], came_from[move] = bill, last
    return _trace(min(final_bills, key=final_bills.__getitem__), came_from)


_BEFORE_ALL = -1
"""Stands for the last move where the boundary has never moved: nothing is masked."""


class _StandingBoundary:
    """The boundary that stands where it moved to at the request `last`, with the bill up to there.

    `_saved` has, for each tool result, what is masked before it, and at its end what is masked.
    """

    def __init__(
        self,
        sizes: ConversationSizes,
        pricing: Pricing,
        plain: Sequence[float],
        last: int,
        bill: float,
    ) -> None:
        self._sizes, self._pricing, self._plain = sizes, pricing, plain
        self._last = last
        self._excess = bill - (0.0 if last == _BEFORE_ALL else plain[last])
        pairs = zip(sizes.savings, sizes.ripe, strict=True)
        masked = (saving if request <= last else 0.0 for saving, request in pairs)
        self._saved = [*accumulate(masked, initial=0.0)]

    def find_bill_before(self, request: int) -> float:
        """Return the bill before a request if the boundary stands still until then.

        Each request since the last move has cost as much less as carrying what is masked would
        have: all of that would have been cached.
        """
        carried = self._pricing.read * self._saved[-1] * (request - 1 - self._last)
        return self._excess + (self._plain[request - 1] if request else 0.0) - carried

    def find_moves(self, ripening: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, float]]:
        """Yield the requests at which the boundary could move next, each with the bill up to it."""
        sizes, (read, write) = self._sizes, self._pricing.ratios
        first, saved = NEVER, self._saved[-1]
        for move in range(self._last + 1, len(sizes.requests)):
            for place in ripening.get(move, ()):
                first = min(first, place)
                saved += sizes.savings[place]
            if first < NEVER:  # the cache ends before the first that is newly masked
                before = sizes.requests[move - 1] - self._saved[-1] if move else 0.0
                unchanged = sizes.offsets[first] - self._saved[first]
                cached = min(before, unchanged, sizes.readable)
                cost = read * cached + write * (sizes.requests[move] - saved - cached)
                yield move, self.find_bill_before(move) + cost


def _group(requests: Sequence[int]) -> dict[int, list[int]]:
    """Return the places that have each request, in order."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        groups[request].append(place)
    return dict(groups)


def _trace(move: int, came_from: dict[int, int]) -> list[int]:
    moves = []
    while move != _BEFORE_ALL:
        moves.append(move)
        move = came_from[move]
    return moves[::-1]
