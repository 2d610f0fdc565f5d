"""The moves of a conversation's boundary, as the page tells them: what each cost, and earned since.

What a request saved is divided among the moves made so far, by the tokens that each took out. So
what all moves earned, less their prices, is what the conversation saved.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from addon.dashboard.shown_request import ShownRequest


class ShownMove(NamedTuple):
    """A move, at a `request` counted from 0.

    results: how many results it masked.
    removed: the tokens that it took out.
    price: what it cost, as what follows the newly masked results was written to the cache anew.
    saved: what it has saved up to the last request, its price not deducted.
    repaid_at: the request by which it had saved its price; None if it has not.
    """

    request: int
    results: int
    removed: int
    price: float
    saved: float
    repaid_at: int | None


def find_moves(
    requests: Sequence[ShownRequest], saved: Sequence[float], unit: str
) -> list[ShownMove]:
    """Return the moves in order; `saved` is what each request saved, in `unit`."""
    moves = [_read_move(at, requests, unit) for at, each in enumerate(requests) if each.moved]
    by_request = {move.request: move for move in moves}
    # What was taken out before the first request that is kept has its share, too.
    total = 0.0 if 0 in by_request or not requests else float(requests[0].spared or 0)
    by_token = []
    for at, amount in enumerate(saved):
        price = 0.0
        if move := by_request.get(at):
            total += _weight(move)
            price = move.price
        by_token.append((amount + price) / total if total > 0 else 0.0)
    sums = [0.0, *accumulate(by_token)]
    return [_add_saved(move, sums) for move in moves]


def _read_move(at: int, requests: Sequence[ShownRequest], unit: str) -> ShownMove:
    """Return a move as it stands at its own request."""
    request = requests[at]
    masked, spared = (requests[at - 1].masked, requests[at - 1].spared) if at else (0, 0)
    price = request.move_price or 0.0
    if unit == "usd":
        price *= (request.dollars_after or 0.0) / (request.tokens_after or 1.0)
    removed = (request.spared or 0) - (spared or 0)
    return ShownMove(at, request.masked - masked, removed, price, 0.0, None)


def _weight(move: ShownMove) -> float:
    return max(1.0, move.removed)  # placeholders can be longer than what they replace


def _add_saved(move: ShownMove, sums: Sequence[float]) -> ShownMove:
    """Return a move with what it has saved, given what a token saved up to each request."""
    start, weight = sums[move.request], _weight(move)
    later = enumerate(sums[move.request + 1 :], move.request)
    repaid = (at for at, reached in later if weight * (reached - start) >= move.price)
    return move._replace(saved=weight * (sums[-1] - start), repaid_at=next(repaid, None))
