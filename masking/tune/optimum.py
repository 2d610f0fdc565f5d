"""What a schedule of moves costs, and the cheapest there is: known only afterwards.

A schedule says at which requests of a conversation the boundary moves, each time to the edge of the
window: a shorter move costs more at once and saves less later. The provider's cache is taken for
one that matches whole messages and nothing less, without a minimum. Sizes are in any unit, the
same throughout, bills in that unit at a plain token's price.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from masking.measures.pricing import Pricing
from masking.replay.first_masked import NEVER

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSizes:
    """How a conversation grew: the size of each request, unmasked, and its tool results in order.

    `offsets` are the sizes of what is before each result, `savings` what masking it saves. `ripe`
    gives the first request at which it is masked where the boundary moves to the window's edge;
    NEVER where it never is.
    """

    requests: Sequence[float]
    offsets: Sequence[float]
    savings: Sequence[float]
    ripe: Sequence[int]


def add_up_bills(
    sizes: ConversationSizes, first_masked: Sequence[int], pricing: Pricing
) -> list[float]:
    """Return what has been paid up to each request.

    `first_masked` gives for each tool result the request from which on it is masked.
    """
    return [*accumulate(_pay(sizes, first_masked, pricing))]


def _pay(
    sizes: ConversationSizes, first_masked: Sequence[int], pricing: Pricing
) -> Iterator[float]:
    changes = _group(first_masked)
    before = saved = 0.0
    for request, full in enumerate(sizes.requests):
        cached = before
        if request in changes:
            at = changes[request][0]
            kept = sum(
                saving
                for saving, since in zip(sizes.savings[:at], first_masked[:at], strict=True)
                if since < request
            )
            cached = min(before, sizes.offsets[at] - kept)
            saved += sum(sizes.savings[place] for place in changes[request])
        before = full - saved
        yield pricing.read * cached + pricing.write * (before - cached)


def add_up_everything(sizes: ConversationSizes, pricing: Pricing) -> list[float]:
    """Return what has been paid up to each request where nothing is ever masked."""
    return add_up_bills(sizes, [NEVER] * len(sizes.ripe), pricing)


def apply_moves(sizes: ConversationSizes, moves: Sequence[int]) -> list[int]:
    """Return from which request on each tool result is masked where the boundary moves at these."""
    at = [bisect_left(moves, request) for request in sizes.ripe]
    return [moves[n] if n < len(moves) else NEVER for n in at]


def find_cheapest(
    sizes: ConversationSizes, pricing: Pricing, max_loss: float = math.inf
) -> list[int]:
    """Return the requests at which the cheapest schedule moves, that keeps the promise.

    The promise is that at no request the bill so far is above `1 + max_loss` times that of sending
    everything. A dynamic programme over the request of the last move: two schedules whose last
    move is the same one stand alike from there on, so that of the cheaper is not only the bill the
    smaller in the end but also the promise the easier to keep. And the promise has to be looked at
    only where the boundary moves: between moves the loss shrinks. Time grows with the square of
    the requests.
    """
    plain = add_up_everything(sizes, pricing)
    ripening = _group(sizes.ripe)
    paid = {-1: 0.0}
    came_from: dict[int, int] = {}
    in_the_end: dict[int, float] = {}
    for last in range(-1, len(plain)):
        if last not in paid:
            continue
        since = _SinceMove(sizes, pricing, plain, last, paid[last])
        in_the_end[last] = since.pay_before(len(plain))
        for move, total in since.find_moves(ripening):
            may_move = total <= (1 + max_loss) * plain[move] * (1 + _ROUNDING)
            if may_move and total < paid.get(move, math.inf):
                paid[move], came_from[move] = total, last
    return _trace(min(in_the_end, key=in_the_end.__getitem__), came_from)


class _SinceMove:
    """The boundary since its last move, at the request `last`, up to which `paid` was the bill.

    The requests before the first are those numbered -1 and less: nothing is masked in them.
    """

    def __init__(
        self,
        sizes: ConversationSizes,
        pricing: Pricing,
        plain: Sequence[float],
        last: int,
        paid: float,
    ) -> None:
        self._sizes, self._pricing, self._plain = sizes, pricing, plain
        self._last = last
        self._excess = paid - (plain[last] if last >= 0 else 0.0)
        pairs = zip(sizes.savings, sizes.ripe, strict=True)
        masked = (saving if request <= last else 0.0 for saving, request in pairs)
        self._kept = [*accumulate(masked, initial=0.0)]

    def pay_before(self, request: int) -> float:
        """Return the bill before a request, had the boundary stood still until then."""
        rent = self._pricing.read * self._kept[-1] * (request - 1 - self._last)
        return self._excess + (self._plain[request - 1] if request else 0.0) - rent

    def find_moves(self, ripening: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, float]]:
        """Yield the requests at which the boundary could move next, and the bill with each."""
        sizes, (read, write) = self._sizes, self._pricing.ratios
        first, saved = NEVER, self._kept[-1]
        for move in range(self._last + 1, len(sizes.requests)):
            for place in ripening.get(move, ()):
                first = min(first, place)
                saved += sizes.savings[place]
            if first < NEVER:
                before = sizes.requests[move - 1] - self._kept[-1] if move else 0.0
                cached = min(before, sizes.offsets[first] - self._kept[first])
                size = sizes.requests[move] - saved
                yield move, self.pay_before(move) + read * cached + write * (size - cached)


def _group(requests: Sequence[int]) -> dict[int, list[int]]:
    """Return the places of what has to do with each request, in order."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        groups[request].append(place)
    return dict(groups)


def _trace(move: int, came_from: dict[int, int]) -> list[int]:
    moves = []
    while move >= 0:
        moves.append(move)
        move = came_from[move]
    return moves[::-1]
