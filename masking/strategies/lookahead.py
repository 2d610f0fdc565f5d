"""Whether to move the boundary now or a few turns later, by what the window holds.

The results in the window are known, and leave it one turn at a time. Suppose that nothing new
arrives, and that as many requests follow as there have been so far. Then the cheapest schedule
that moves now can be compared with the cheapest that waits, by dynamic programming over "the
boundary stands j turns beyond the edge".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the comparison needs. Sizes are in any unit, prices relative to a plain token.

    requests: how many requests are still expected.
    read, write: the price of a cached token and of one that is not.
    price: what moving to the edge costs now, once.
    savings: what masking saves on each request with the boundary at the edge, and 1, 2, ... turns
        beyond it.
    tails: for each of these places, the size from the first maskable result of the turns beyond
        it to the end, with everything masked.
    """

    requests: int
    read: float
    write: float
    price: float
    savings: Sequence[float]
    tails: Sequence[float]


def pays_now(outlook: Outlook) -> bool:
    """Whether the cheapest schedule that moves now costs no more than the cheapest that waits.

    Places are turns beyond the edge. `ways_on` has the cost of the cheapest way on from each place
    visited so far, the last place first, without what depends on where the boundary comes from.
    """
    o, saved = outlook, outlook.savings
    broken = o.write - o.read
    totals = [0.0, *accumulate(saved)]
    beyond = max(0, o.requests - len(saved))
    everything = totals[min(o.requests, len(saved))] + beyond * saved[-1]
    later = 0.0
    ways_on: list[tuple[int, float]] = []
    for place in reversed(range(min(len(saved), o.requests))):
        rent = o.read * saved[place]
        staying = o.read * (everything - totals[place + 1]) - rent * (o.requests - place - 1)
        leaving = broken * (o.tails[place] + saved[-1])
        leaving += rent * (place + 1) - o.read * totals[place + 1]
        later = min([staying, *[leaving + way - rent * further for further, way in ways_on]])
        ways_on.append((place, o.read * totals[place] - broken * saved[place] + later))
    moving = o.price + o.read * saved[0]
    first = moving + broken * saved[0]
    return moving + later <= min([o.read * everything, *[first + way for _, way in ways_on[:-1]]])
