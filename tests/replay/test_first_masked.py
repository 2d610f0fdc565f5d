"""From which request on a tool result is masked: as the boundary says, and as the tests find it."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from addon.replay.reread import NEVER
from masking.prices import PriceStep
from masking.window import BoundaryPosition, MaskPolicy
from masking.window.boundary import Boundary, Candidate, RequestSize
from tests.support.builders import examples
from tests.support.first_behind import find_first_behind
from tests.support.first_masked import find_first_masked
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy, find_boundaries

TURNS = [1, 2, 3, 4, 5]
"""A tool turn a request, so that its result comes with the next one."""


def result(turn: int | None, tool: str | None = "read") -> Candidate:
    return Candidate(turn, 0.0, 1.0, tool)


EVENLY = [result(turn) for turn in range(5)]
SLIDING = [BoundaryPosition(max(0, turns - 2), turns) for turns in TURNS]


@as_one_test
@pytest.mark.parametrize(
    ("results", "boundaries", "k", "expected"),
    [
        pytest.param([], SLIDING, 0, [], id="no result"),
        pytest.param(EVENLY, SLIDING, 0, [2, 3, 4, NEVER, NEVER], id="once out of the window"),
        pytest.param(EVENLY, SLIDING, -1, [2, 3, 4, NEVER, NEVER], id="less than 0 is off, too"),
        pytest.param(
            EVENLY,
            [BoundaryPosition(0, 0)] * 3 + [BoundaryPosition(2, 3)] * 2,
            0,
            [3, 3, NEVER, NEVER, NEVER],
            id="when the boundary moves",
        ),
        pytest.param(
            EVENLY, SLIDING, 4, [4, NEVER, NEVER, NEVER, NEVER], id="once it is not among the last"
        ),
        pytest.param(
            [result(0), result(1, None), result(2, "write"), result(3), result(4)],
            SLIDING,
            1,
            [3, 3, NEVER, NEVER, NEVER],
            id="each tool has its own last ones and an unknown tool none",
        ),
        pytest.param([result(None)], SLIDING, 0, [NEVER], id="an orphan never"),
        pytest.param(
            [result(0), result(0), result(0)],
            [BoundaryPosition(1, 1), BoundaryPosition(1, 1), BoundaryPosition(2, 3)],
            0,
            [0, 2, 2],
            id="one that the boundary did not know waits for the next move",
        ),
        pytest.param(
            [result(0), result(3), *EVENLY[1:]],
            SLIDING,
            1,
            [2, NEVER, 3, 4, NEVER, NEVER],
            id="one before its call is among the last only when it was called",
        ),
        pytest.param(
            [result(0), result(3), result(1, "write")],
            [BoundaryPosition(max(0, turns - 2), 3) for turns in TURNS],
            1,
            [3, NEVER, NEVER],
            id="until then it releases no other",
        ),
    ],
)
def test_it_is_found(
    results: list[Candidate], boundaries: list[BoundaryPosition], k: int, expected: list[int]
) -> None:
    policy = MaskPolicy(window_turns=2, keep_last_k_per_tool=k)
    assert expected == find_first_behind(results, boundaries, TURNS[: len(boundaries)], policy)


def make_session(random: Random, *, knows_all: bool) -> tuple[list[RequestSize], list[Candidate]]:
    """Return the requests and the results of a session.

    There are orphans, and results that stand before their call: `knows_all` says whether of these
    the tool is known.
    """
    requests, results = [], list[Candidate]()
    size, turns = 1_000.0, 0
    for _ in range(random.randint(2, 40)):
        requests.append(RequestSize(size, turns, len(results)))
        size += random.randint(20, 300)
        if random.random() < 0.9:
            turns += 1
            for _ in range(random.randint(1, 3)):
                early = random.randint(0, 3) if random.random() < 0.1 else 0
                turn = None if random.random() < 0.05 else turns - 1 + early
                own = random.choice([50, 400, 3_000, 9_000])
                saving = own - 30 if random.random() < 0.8 else 0
                tool = random.choice(["read", "bash", "grep", None])
                target = ("read", f"f{random.randint(0, 4)}") if random.random() < 0.5 else None
                if turn is None or (early and not knows_all):
                    tool = target = None
                images = random.choice([0, 0, 0, 1, 2])
                results.append(Candidate(turn, size, saving, tool, target, images))
                size += own
    return [*requests, RequestSize(size, turns, len(results))], results


def choose_policy(random: Random, *, slides: bool) -> PricedPolicy:
    return PricedPolicy(
        True,
        window_turns=random.randint(1, 10),
        keep_last_k_per_tool=random.choice([None, 1, 3]),
        keep_latest_turns=random.choice([0, 0, 6, 20]),
        mask_images=random.random() < 0.5,
        keep_last_images=random.choice([0, 1, 3]),
        max_loss=random.choice([0.05, 0.1, 0.5]),
        cache_read_ratio=1.0 if slides else random.choice([0.1, 0.25, 0.5]),
        price_steps=(PriceStep(20_000, 2.0),) if random.random() < 0.2 else (),
    )


@pytest.mark.parametrize("slides", [False, True], ids=["priced", "sliding"])
@examples(5)
@given(seed=st.integers(0, 2**32))
def test_the_boundary_says_from_which_request_on_each_result_is_masked(
    seed: int, slides: bool
) -> None:
    random = Random(seed)
    requests, results = make_session(random, knows_all=slides)
    policy = choose_policy(random, slides=slides)
    positions: Sequence[BoundaryPosition] = find_boundaries(requests, results, policy)
    turns = [request.turns for request in requests]
    expected = find_first_behind(results, positions, turns, policy)
    assume(
        not slides
        or not any(
            result.turn is not None and result.turn >= turns_before(result, requests)
            for result in results
        )
    )
    boundary = Boundary(results, policy, policy.prices)
    first = find_first_masked(boundary, requests)
    assert expected == [first.get(place, NEVER) for place in range(len(results))]


def turns_before(result: Candidate, requests: Sequence[RequestSize]) -> int:
    """Return how many turns there were before a result: those of the first request that has it."""
    return next(request.turns for request in requests if request.size > result.offset)
