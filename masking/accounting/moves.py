"""What each move of a boundary has saved since."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Move(NamedTuple):
    """A move, at a `request` counted from 0: the tokens that it removed, and its price."""

    request: int
    removed: float
    price: float


class Earned(NamedTuple):
    """What a move has saved up to the last request, its price not deducted.

    repaid_at: the request by which it had saved its price; None if it has not.
    """

    saved: float
    repaid_at: int | None


def divide_savings(
    moves: Sequence[Move], saved: Sequence[float], removed_before: float = 0.0
) -> list[Earned]:
    """Return what each move has saved, in order; `saved` is what each request saved.

    The saving of a request is divided among the moves made so far, by the tokens that each removed.
    So what all moves saved, less their prices, is what the conversation saved. `removed_before` are
    the tokens that were removed before the first request, which have their part, too. Prices and
    savings are in one unit.
    """
    by_request = {move.request: move for move in moves}
    total, by_token = removed_before, []
    for at, amount in enumerate(saved):
        if move := by_request.get(at):
            total += _weight(move)
            amount += move.price  # else the move's own request would seem to lose
        by_token.append(amount / total if total > 0 else 0.0)
    return [_add_up(move, by_token[move.request :]) for move in moves]


def _weight(move: Move) -> float:
    return max(1.0, move.removed)  # placeholders can be longer than what they replace


def _add_up(move: Move, by_token: Sequence[float]) -> Earned:
    sums = [*accumulate(_weight(move) * each for each in by_token)]
    repaid = (at for at, reached in enumerate(sums, move.request) if reached >= move.price)
    return Earned(sums[-1], next(repaid, None))
