import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.ledger import Breaker

REQUESTS = {
    "h": (1_000, 900, False),  # a prediction that holds
    "f": (1_000, 100, False),  # one that fails
    "m": (200, 200, True),  # a move of the boundary
    "M": (1_000, 0, True),  # a move, and nothing is cached of it
    "0": (0, 0, False),  # nothing predicted
    "c": (0, 500, False),  # nothing predicted, and something cached
    "?": (1_000, None, False),  # nothing reported
}
"""By a letter: what was predicted, what was reported, and whether the boundary moved."""


def watch(requests: str) -> list[int]:
    """Return at which requests the breaker trips."""
    breaker = Breaker()
    return [
        place
        for place, letter in enumerate(requests)
        for predicted, cached, moved in [REQUESTS[letter]]
        if breaker.watch(predicted, cached, moved=moved)
    ]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param("hhmfff", [5], id="the third failure in a row after a move"),
        pytest.param("hhmff", [], id="only two"),
        pytest.param("hhmfffff", [5], id="it trips once"),
        pytest.param("hhmfffhhmfff", [5], id="and never again"),
        pytest.param("hhMfff", [5], id="what the move itself costs is no failure"),
        pytest.param("hh0m?fcf0f", [9], id="what says nothing is ignored"),
        pytest.param("fffhhmfff", [8], id="after earlier failures that passed"),
        pytest.param("mhhhhmfff", [8], id="after an earlier move that held"),
        pytest.param("fffff", [], id="no move"),
        pytest.param("hhhhfffff", [], id="no move, though it held before"),
        pytest.param("mfff", [], id="nothing before the move"),
        pytest.param("hmfff", [], id="one prediction before the move is too few"),
        pytest.param("hfhmfff", [], id="one failed among those before the move"),
        pytest.param("hhfmfff", [], id="the last one before the move failed"),
        pytest.param("fffmfffmfff", [], id="they never held"),
        pytest.param("hhmhfff", [], id="the first one after the move held"),
        pytest.param("hhmffhfff", [], id="a late one after the move held"),
        pytest.param("hhmffhhmfff", [10], id="a later move"),
        pytest.param("hhmfmff", [6], id="a move in between"),
        pytest.param("hhmfmfmf", [7], id="a move after each"),
        pytest.param("hhmfmhfff", [], id="one that held after a second move"),
        pytest.param("hhfmfmff", [], id="moves, and the one before the first had failed"),
        pytest.param("00m000", [], id="nothing predicted"),
        pytest.param("??m???", [], id="nothing reported"),
        pytest.param("ccmccc", [], id="cached without a prediction"),
        pytest.param("", [], id="no request"),
    ],
)
def test_it_trips_at_the_third_failure_after_a_move_where_predictions_had_held(
    requests: str, expected: list[int]
) -> None:
    assert expected == watch(requests)


@pytest.mark.parametrize(
    ("cached", "expected"),
    [
        pytest.param(0, True, id="nothing"),
        pytest.param(499, True, id="less than half"),
        pytest.param(500, False, id="half"),
        pytest.param(2_000, False, id="more than predicted"),
    ],
)
def test_a_prediction_fails_where_less_than_half_of_it_is_cached(
    cached: int, expected: bool
) -> None:
    breaker = Breaker()
    for predicted, reported, moved in [(1_000, 900, False)] * 2 + [(0, 0, True)]:
        breaker.watch(predicted, reported, moved=moved)
    assert expected == [breaker.watch(1_000, cached, moved=False) for _ in range(3)][-1]
    assert expected == breaker.tripped


TRIPS = re.compile(r"h[0c?]*h[0c?]*[mM][mM0c?]*f[mM0c?]*f[mM0c?]*f")
letters = st.sampled_from([*REQUESTS, *"hhhfff"])


@given(st.lists(letters, max_size=30).map("".join))
def test_it_trips_once_and_only_so(requests: str) -> None:
    found = TRIPS.search(requests)
    assert ([found.end() - 1] if found else []) == watch(requests)


@given(st.lists(st.sampled_from("mMfc0?"), max_size=30).map("".join))
def test_where_nothing_is_cached_as_predicted_it_never_trips(requests: str) -> None:
    assert [] == watch(requests)
