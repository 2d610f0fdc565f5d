"""What each move of a boundary has saved since."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from masking.accounting.bill import Money


class Move(NamedTuple):
    """A move, at a `request` counted from 0.

    results: how many results it masked.
    removed: the tokens that it took out.
    price: what it cost, as what follows the newly masked results was written to the cache anew.
    saved: what it has saved up to the last request, its price not deducted.
    repaid_at: the request by which it had saved its price; None if it has not.
    """

    request: int
    results: int
    removed: float
    price: float
    saved: float = 0.0
    repaid_at: int | None = None

    @property
    def net(self) -> float:
        """What it has saved beyond its price; less than 0 if it has not paid off."""
        return self.saved - self.price


def divide_savings(
    moves: Sequence[Move], requests: Sequence[Money], removed_before: float = 0.0
) -> list[Move]:
    """Return the moves of a conversation with what each has saved.

    What masking saved of a request is divided among the moves made so far, by the tokens that each
    removed: no move has saved what was left out at arrival. So what all moves saved, less their
    prices, is what masking saved of the conversation. `removed_before` are the tokens that were
    removed before the first request, which have their part, too. Prices and savings are in one
    unit.
    """
    by_request = {move.request: move for move in moves}
    total, by_token = removed_before, []
    for at, money in enumerate(requests):
        amount = money.by_masking
        if move := by_request.get(at):
            total += _weight(move)
            amount += move.price  # else the move's own request would seem to lose
        by_token.append(amount / total if total > 0 else 0.0)
    return [_add_up(move, by_token[move.request :]) for move in moves]


def _weight(move: Move) -> float:
    return max(1.0, move.removed)  # placeholders can be longer than what they replace


def _add_up(move: Move, by_token: Sequence[float]) -> Move:
    sums = [*accumulate(_weight(move) * each for each in by_token)]
    repaid = (at for at, reached in enumerate(sums, move.request) if reached >= move.price)
    return move._replace(saved=sums[-1], repaid_at=next(repaid, None))
