"""The moves of a conversation's boundary: what each removed, what it cost, what it has saved.

The saving of a request is divided among the moves made so far, by the tokens that each removed. So
what the moves saved adds up to what the whole conversation saved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest

from addon.replay.replay import ReplayedRequest
from masking.accounting import Bill, Cost, MovePrice
from masking.model import Reason

Value = Callable[[Bill], float]
"""Returns a bill's amount in the unit that is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryMove:
    """One move, at a `request` counted from 0.

    results: how many results it masked.
    removed: the tokens that these results no longer take.
    uncached: the tokens that the cache held before the move and no longer holds.
    rewritten: those of them that are still sent, and so are written again.
    price: what writing them costs, in input-token equivalents.
    paid, saved: the price, and what the move has saved up to the last request, in the wanted unit.
    repaid_at: the request by which it had saved its price; None if it has not.
    """

    request: int
    results: int
    removed: float
    uncached: float
    rewritten: float
    price: float
    paid: float
    saved: float = 0.0
    repaid_at: int | None = None

    @property
    def net(self) -> float:
        """What it has saved beyond its price; less than 0 if it has not paid off."""
        return self.saved - self.paid


def find_moves(requests: Sequence[ReplayedRequest], value: Value) -> list[BoundaryMove]:
    """Return the moves of one conversation's boundary, in order."""
    moves = [
        _describe_move(place, requests[place - 1].reasons if place else (), request, move, value)
        for place, request in enumerate(requests)
        if (move := request.entry.move) is not None
    ]
    savings = _savings_per_token([request.entry.cost for request in requests], moves, value)
    return [_add_savings(move, savings[move.request :]) for move in moves]


def _describe_move(
    place: int,
    reasons_before: Sequence[Reason],
    request: ReplayedRequest,
    move: MovePrice,
    value: Value,
) -> BoundaryMove:
    """Return a move as it stands at its own request."""
    bill = request.entry.cost.after
    reasons = zip_longest(reasons_before, request.reasons)
    return BoundaryMove(
        request=place,
        results=sum(before != "masked" == now for before, now in reasons),
        removed=move.removed,
        uncached=move.uncached,
        rewritten=move.rewritten,
        price=move.price,
        paid=move.price * value(bill) / bill.cost if bill.cost else 0.0,
    )


def _savings_per_token(
    costs: Sequence[Cost], moves: Sequence[BoundaryMove], value: Value
) -> list[float]:
    """Return what each request has saved, without the price of a move, per token removed so far."""
    by_request = {move.request: move for move in moves}
    total, savings = 0.0, []
    for place, cost in enumerate(costs):
        saved = value(cost.before) - value(cost.after)
        if move := by_request.get(place):
            total += _weight(move)
            saved += move.paid
        savings.append(saved / total if total else 0.0)
    return savings


def _weight(move: BoundaryMove) -> float:
    return max(1.0, move.removed)  # placeholders can be longer than what they replace


def _add_savings(move: BoundaryMove, savings: Sequence[float]) -> BoundaryMove:
    """Return a move with what it has saved, given what each token saved at each request since."""
    saved = [*accumulate(_weight(move) * each for each in savings)]
    repaid = (move.request + n for n, sum_ in enumerate(saved) if sum_ >= move.paid)
    return replace(move, saved=saved[-1], repaid_at=next(repaid, None))
