"""How far a bill has ever been above that of sending everything: what `max_loss` bounds."""

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple


class WorstBill(NamedTuple):
    """The highest bill of a conversation so far, as a `part` of that of sending everything.

    A part of 1 is as much; `request` is the first at which it was that high, counted from 0.
    """

    part: float
    request: int


AS_MUCH = WorstBill(1.0, 0)
"""That of a conversation which costs nothing either way."""


def find_worst_bill(costs: Iterable[float], whole: Iterable[float]) -> WorstBill | None:
    """Return the worst bill of one conversation; None where sending everything costs nothing.

    `costs` are those of its requests in order, `whole` those of sending everything.
    """
    sums = zip(accumulate(costs), accumulate(whole), strict=True)
    bills = (WorstBill(paid / full, request) for request, (paid, full) in enumerate(sums) if full)
    return max(bills, key=lambda bill: bill.part, default=None)
