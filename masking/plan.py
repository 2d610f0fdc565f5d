"""Whether to move the boundary now or a few turns later, seen from what the window holds.

The results in the window are known: they leave it one turn at a time. Suppose that nothing new
arrives and that as many requests come as there have been; then the cheapest schedule that moves
now can be compared with the cheapest that waits, by dynamic programming over "the boundary stands
j turns beyond the edge".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a plan is made from, in any unit of size and in prices relative to a plain token.

    requests: how many requests are still expected.
    read, write: the price of a cached token and of one that is not.
    price: what moving to the edge costs now, once.
    savings: what masking saves per request with the boundary at the edge, and 1, 2, ... turns
        beyond it.
    tails: the size, all masked, from the first maskable result of the turns beyond each of these
        places to the end.
    """

    requests: int
    read: float
    write: float
    price: float
    savings: Sequence[float]
    tails: Sequence[float]


def pays_now(outlook: Outlook) -> bool:
    """Whether the cheapest schedule that moves now costs no more than the cheapest that waits."""
    plan = _Plan(outlook)
    return plan.cost_now() <= plan.cost_of_waiting()


class _Plan:
    def __init__(self, outlook: Outlook) -> None:
        self.o = outlook
        self.places = min(len(outlook.savings) - 1, outlook.requests - 1)
        self.totals = [0.0, *accumulate(outlook.savings)]
        self.later = [0.0] * (self.places + 1)
        for place in range(self.places, -1, -1):
            self.later[place] = self._cost_from(place)

    def cost_now(self) -> float:
        return self._moving() + self.later[0]

    def cost_of_waiting(self) -> float:
        saved = self.o.savings
        return min(
            self.o.read * self._forgone(0, self.o.requests),
            *(
                self.o.read * self._forgone(0, place)
                + self._moving()
                - (self.o.write - self.o.read) * (saved[place] - saved[0])
                + self.later[place]
                for place in range(1, self.places + 1)
            ),
            float("inf"),
        )

    def _moving(self) -> float:
        return self.o.price + self.o.read * self.o.savings[0]

    def _cost_from(self, place: int) -> float:
        """The cheapest way on from a boundary at `place`, as dearer than all masked at once."""
        saved = self.o.savings
        return min(
            self._rent(place, self.o.requests),
            *(
                self._rent(place, further)
                + (self.o.write - self.o.read) * (self.o.tails[place] + saved[-1] - saved[further])
                + self.later[further]
                for further in range(place + 1, self.places + 1)
            ),
            float("inf"),
        )

    def _rent(self, place: int, until: int) -> float:
        """What standing at `place` forgoes on the requests after it and before `until`."""
        waited = max(0, until - place - 1)
        return self.o.read * (self._forgone(place + 1, until) - waited * self.o.savings[place])

    def _forgone(self, start: int, stop: int) -> float:
        """Savings of the requests from `start` to before `stop`, were the boundary at the edge."""
        known = len(self.o.savings)
        inside = self.totals[min(stop, known)] - self.totals[min(start, known)]
        return inside + max(0, stop - max(start, known)) * self.o.savings[-1]
