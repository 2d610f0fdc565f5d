"""What a move of the boundary costs: what follows the newly masked results is written anew."""

from typing import NamedTuple

from masking.accounting.cost import Cost
from masking.measures.pricing import Pricing


class MovePrice(NamedTuple):
    """A move as it stands at its own request.

    removed: the tokens that it took out of the prompt.
    uncached: the tokens that the cache held before the move and no longer holds.
    rewritten: those of them that are still sent, and so are written again.
    price: what writing them costs, in input-token equivalents.
    """

    removed: float
    uncached: float
    rewritten: float
    price: float


def price_move(last: Cost | None, cost: Cost, pricing: Pricing) -> MovePrice:
    """Return what the move at a request cost, given the cost of the request before it.

    Without the move the previous prompt would still have been cached, as far as the cache held
    anything: in the share that it held of what was sent, and at most what it held of the longer
    prompt.
    """
    removed = _removed(cost) - (_removed(last) if last else 0.0)
    warm = min(last.after.prompt * cost.share, cost.before.cached) if last else 0.0
    uncached = max(0.0, warm - cost.after.cached)
    rewritten = max(0.0, uncached - removed)
    price = (pricing.write - pricing.read) * pricing.find_factor(cost.after.prompt) * rewritten
    return MovePrice(removed, uncached, rewritten, price)


def _removed(cost: Cost) -> float:
    return cost.before.prompt - cost.after.prompt
