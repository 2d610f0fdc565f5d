"""From which request on a tool result is masked."""

import pytest

from addon.replay.first_masked import NEVER, find_first_behind
from masking.model import Maskable
from masking.strategies.boundary_fold import Boundary
from masking.strategies.policy import MaskPolicy

TURNS = [1, 2, 3, 4, 5]
"""A tool turn a request, so that its result comes with the next one."""


def result(turn: int | None, tool: str | None = "read") -> Maskable:
    return Maskable(turn, 0.0, 1.0, tool)


EVENLY = [result(turn) for turn in range(5)]
SLIDING = [Boundary(max(0, turns - 2), turns) for turns in TURNS]


@pytest.mark.parametrize(
    ("results", "boundaries", "k", "expected"),
    [
        pytest.param([], SLIDING, 0, [], id="no result"),
        pytest.param(EVENLY, SLIDING, 0, [2, 3, 4, NEVER, NEVER], id="once out of the window"),
        pytest.param(EVENLY, SLIDING, -1, [2, 3, 4, NEVER, NEVER], id="less than 0 is off, too"),
        pytest.param(
            EVENLY,
            [Boundary(0, 0)] * 3 + [Boundary(2, 3)] * 2,
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
            [Boundary(1, 1), Boundary(1, 1), Boundary(2, 3)],
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
            [Boundary(max(0, turns - 2), 3) for turns in TURNS],
            1,
            [3, NEVER, NEVER],
            id="until then it releases no other",
        ),
    ],
)
def test_it_is_found(
    results: list[Maskable], boundaries: list[Boundary], k: int, expected: list[int]
) -> None:
    policy = MaskPolicy(window_turns=2, keep_last_k_per_tool=k)
    assert expected == find_first_behind(results, boundaries, TURNS[: len(boundaries)], policy)
