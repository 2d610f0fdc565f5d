"""How far a bill has ever exceeded that of sending everything, which `max_loss` bounds."""

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple


class WorstBill(NamedTuple):
    """The highest bill of a conversation so far, relative to that of sending everything.

    `request` is the first request at which it was that high, counted from 0.
    """

    part: float
    request: int


AS_MUCH = WorstBill(1.0, 0)
"""The worst bill of a conversation that costs nothing either way."""


def find_worst_bill(costs: Iterable[float], whole: Iterable[float]) -> WorstBill | None:
    """Return the worst bill of one conversation; None if sending everything costs nothing.

    `costs` are the costs of its requests in order, `whole` those with everything sent.
    """
    sums = zip(accumulate(costs), accumulate(whole), strict=True)
    bills = (WorstBill(paid / full, request) for request, (paid, full) in enumerate(sums) if full)
    return max(bills, key=lambda bill: bill.part, default=None)
