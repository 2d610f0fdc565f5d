"""A plan is the cheapest schedule of all, on small cases where all can be tried."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from masking.window.boundary import pays_now


class Outlook(NamedTuple):
    """What a plan knows, as in `pays_now`."""

    requests: int
    read: float
    write: float
    price: float
    savings: Sequence[float]
    tails: Sequence[float]


def cost(outlook: Outlook, moves: dict[int, int]) -> float:
    """What a schedule costs beyond what every schedule pays.

    `moves` are request: place; nothing is masked before the first. A request pays the rent of
    what is not masked and could be in the end, and, when the boundary moves, for what it breaks.
    """
    saved, w, r = outlook.savings, outlook.write, outlook.read
    total, place = 0.0, -1
    for request in range(outlook.requests):
        moved_to = moves.get(request)
        if moved_to is None:
            masked = 0.0 if place < 0 else saved[place]
            total += r * (_ripe(outlook, request) - masked)
        elif place < 0:
            total += outlook.price + r * saved[0] - (w - r) * (saved[moved_to] - saved[0])
            place = moved_to
        else:
            total += (w - r) * (outlook.tails[place] + saved[-1] - saved[moved_to])
            place = moved_to
    return total


def _ripe(outlook: Outlook, request: int) -> float:
    return outlook.savings[min(request, len(outlook.savings) - 1)]


def schedules(outlook: Outlook) -> list[dict[int, int]]:
    """All of them: at each request the boundary stands still or moves to the edge of then."""
    last = min(len(outlook.savings), outlook.requests)
    return [
        {request: request for request, moves in enumerate(choice) if moves}
        for choice in itertools.product([False, True], repeat=last)
    ]


@st.composite
def outlooks(draw: st.DrawFn) -> Outlook:
    steps = draw(st.lists(st.integers(0, 1_000), max_size=5))
    saved = list(itertools.accumulate(steps, initial=draw(st.integers(1, 2_000))))
    tails = sorted(draw(st.lists(st.integers(0, 5_000), min_size=len(saved), max_size=len(saved))))
    return Outlook(
        requests=draw(st.integers(1, 9)),
        read=draw(st.sampled_from([0.02, 0.1, 0.5])),
        write=draw(st.sampled_from([1.0, 1.25])),
        price=draw(st.integers(1, 6_000)),
        savings=saved,
        tails=tails[::-1],
    )


@given(outlooks())
def test_it_agrees_with_the_best_of_all_schedules(outlook: Outlook) -> None:
    costs = [(0 in moves, cost(outlook, moves)) for moves in schedules(outlook)]
    now = min(paid for moves_now, paid in costs if moves_now)
    later = min(paid for moves_now, paid in costs if not moves_now)
    if abs(now - later) > 1e-6:
        assert (now < later) is pays_now(**outlook._asdict())
