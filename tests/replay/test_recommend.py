"""Settings tried on sessions, and the choice among them."""

import dataclasses
from collections.abc import Sequence

import pytest

from addon.replay.replay import ReplaySettings, Session, replay
from addon.replay.reread import Rereads
from addon.replay.tune.recommend import (
    DEFAULTS,
    Grid,
    Outcome,
    Sweep,
    Tuning,
    add_outcomes,
    list_tunings,
    pareto_front,
    recommend,
    split_into_batches,
    switch_off,
    try_tunings,
    tuning_of,
)
from masking.prices import PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.marks import as_one_test
from tests.support.sessions import Talk, grow, work, write_body

SHIPPED = MaskPolicy(True, 8, skip_if_not_shorter=True)
SETTINGS = ReplaySettings(
    strategies=Strategies(schema1=SHIPPED),
    price_settings=PriceSettings((0.5, 1.0)),
    model="deepseek-chat",
)
PRESENT = tuning_of(SETTINGS)
GRID = Grid(window_turns=(1, 4), keep_errors=(True,), keep_last_k_per_tool=(0,), min_chars=(0,))
SESSIONS = [grow(work(turns, chars=8_000)) for turns in (3, 8, 20)]


def try_all(
    session: Session, settings: ReplaySettings, tunings: Sequence[Tuning]
) -> dict[Tuning, Outcome]:
    return dict(zip(tunings, try_tunings(session, settings, tunings), strict=True))


# The grid


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=MaskPolicy(True))),
            DEFAULTS,
            id="as shipped",
        ),
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=MaskPolicy())),
            switch_off(DEFAULTS),
            id="off",
        ),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(schema1=MaskPolicy(True)),
                price_settings=PriceSettings("none"),
            ),
            DEFAULTS._replace(max_loss=None),
            id="no prices",
        ),
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=MaskPolicy(True)), slides=True),
            DEFAULTS._replace(max_loss=None),
            id="sliding",
        ),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(
                    schema1=MaskPolicy(
                        True, 3, False, -1, min_chars=9, max_loss=0.3, keep_latest_turns=24
                    )
                )
            ),
            Tuning(True, 3, False, 0, 9, 0.3, 24),
            id="everything else",
        ),
    ],
)
def test_the_settings_of_a_course(settings: ReplaySettings, expected: Tuning) -> None:
    assert expected == tuning_of(settings)
    assert expected == tuning_of(expected.apply(settings))


def test_settings_leave_the_rest_of_a_course_alone() -> None:
    settings = ReplaySettings(
        strategies=Strategies(schema1=dataclasses.replace(SHIPPED, placeholder_template="-")),
        price_settings=PriceSettings("none"),
    )
    applied = Tuning(True, 2, False, 1, 7, 0.2).apply(settings)
    assert applied == ReplaySettings(
        strategies=Strategies(
            schema1=MaskPolicy(
                True, 2, False, 1, "-", skip_if_not_shorter=True, min_chars=7, max_loss=0.2
            )
        ),
        price_settings=PriceSettings("auto"),
    )
    assert Tuning(True, 2, False, 1, 7, None).apply(settings).slides


def test_the_present_settings_and_none_are_tried_first_and_nothing_twice() -> None:
    tunings = list_tunings(DEFAULTS, Grid())
    assert (DEFAULTS, switch_off(DEFAULTS)) == tunings[:2]
    assert len(set(tunings)) == len(tunings) == 7 * 2 * 3 * 4 * 3 + 1
    other = Tuning(True, 3, True, 0, 0, None)
    assert 1 + len(tunings) == len(list_tunings(other, Grid()))


def test_no_window_is_tried_that_is_too_short_to_tell() -> None:
    assert all(tuning.is_window_long_enough for tuning in Grid().combine())
    short = DEFAULTS._replace(window_turns=4)
    assert not short.is_window_long_enough
    assert switch_off(short).is_window_long_enough
    assert DEFAULTS._replace(window_turns=0).is_window_long_enough


def test_changes_are_counted() -> None:
    assert 0 == DEFAULTS.count_changes(DEFAULTS)
    assert 2 == DEFAULTS._replace(window_turns=2, max_loss=None).count_changes(DEFAULTS)


# What settings come to


def test_an_outcome_is_that_of_a_replay() -> None:
    session, tuning = SESSIONS[2], PRESENT._replace(window_turns=2)
    outcomes = try_all(session, SETTINGS, [tuning, switch_off(tuning)])
    requests = [*replay(session, tuning.apply(SETTINGS), TokenCounter())]
    dollars = [request.entry.cost.after.dollars or 0.0 for request in requests]
    outcome, plain = outcomes[tuning], outcomes[switch_off(tuning)]
    assert len(requests) == outcome.requests
    assert sum(request.sizes.request_tokens_after or 0 for request in requests) == outcome.tokens
    assert pytest.approx(sum(request.entry.cost.after.cost for request in requests)) == outcome.cost
    assert pytest.approx(sum(request.entry.cost.before.cost for request in requests)) == plain.cost
    assert pytest.approx(sum(dollars)) == outcome.dollars
    assert sum(request.entry.moved for request in requests) == outcome.moves > 0
    assert 0 == plain.moves


def test_the_worst_is_that_of_any_conversation_at_any_request() -> None:
    session, tuning = SESSIONS[2], Tuning(True, 4, True, 0, 0, None)
    settings = dataclasses.replace(SETTINGS, price_settings=PriceSettings((0.02, 1.0)))
    paid = full = worst = 0.0
    for request in replay(session, tuning.apply(settings), TokenCounter()):
        paid += request.entry.cost.after.cost
        full += request.entry.cost.before.cost
        worst = max(worst, paid / full)
    assert pytest.approx(worst) == try_all(session, settings, [tuning])[tuning].worst
    assert worst > 1


def test_requests_without_a_price_are_counted_and_have_no_dollars() -> None:
    listed = try_all(
        SESSIONS[0], ReplaySettings(strategies=Strategies(schema1=SHIPPED)), [PRESENT]
    )[PRESENT]
    unlisted = try_all(
        Talk((write_body(work(2), model=None),)),
        ReplaySettings(strategies=Strategies(schema1=SHIPPED)),
        [PRESENT],
    )[PRESENT]
    assert (0, 1) == (listed.assumed, unlisted.assumed)
    assert listed.dollars
    assert unlisted.dollars is None
    assert (listed + unlisted).dollars is None
    assert listed + Outcome() == listed


def test_a_price_of_nothing_counts_as_sending_everything() -> None:
    free = dataclasses.replace(SETTINGS, price_settings=PriceSettings((0.0, 0.0)))
    assert 1.0 == try_all(SESSIONS[0], free, [PRESENT])[PRESENT].worst


# All sessions together


@pytest.mark.parametrize("parts", [1, 3])
def test_the_sums_are_those_of_the_sessions(parts: int) -> None:
    tunings = list_tunings(PRESENT, GRID)
    batches = split_into_batches(tunings, parts)
    found = [try_tunings(session, SETTINGS, batch) for session in SESSIONS for batch in batches]
    alone = [try_all(session, SETTINGS, tunings) for session in SESSIONS]
    summed = add_outcomes(tunings, batches, found)
    assert {t: alone[0][t] + alone[1][t] + alone[2][t] for t in tunings} == summed
    assert list(tunings) == list(summed)


def test_no_sessions_give_an_empty_outcome() -> None:
    assert {PRESENT: Outcome()} == add_outcomes([PRESENT], split_into_batches([PRESENT], 1), [])


# The choice


def tried(
    cost: float, rereads: int = 0, worst: float = 1.0, dollars: float | None = None
) -> Outcome:
    return Outcome(
        requests=100,
        cost=cost,
        dollars=dollars,
        worst=worst,
        rereads=Rereads(calls=200, affected=rereads),
    )


OFF = switch_off(DEFAULTS)
SMALL, LARGE = DEFAULTS._replace(window_turns=5), DEFAULTS._replace(window_turns=24)
OTHER = DEFAULTS._replace(window_turns=5, min_chars=500)
BLIND = DEFAULTS._replace(window_turns=4)
ALL_SENT = {OFF: tried(1_000)}


@as_one_test
@pytest.mark.parametrize(
    ("outcomes", "front", "best"),
    [
        pytest.param({DEFAULTS: tried(1_200)}, [OFF], OFF, id="masking does not pay"),
        pytest.param(
            {DEFAULTS: tried(800), SMALL: tried(700), LARGE: tried(900)},
            [SMALL],
            SMALL,
            id="without re-reads the cheapest",
        ),
        pytest.param(
            {DEFAULTS: tried(800, 5), SMALL: tried(700, 20), LARGE: tried(900, 1)},
            [SMALL, DEFAULTS, LARGE, OFF],
            DEFAULTS,
            id="a re-read is one more request",
        ),
        pytest.param(
            {DEFAULTS: tried(800, 1), SMALL: tried(795, 2)},
            [DEFAULTS, OFF],
            DEFAULTS,
            id="the present settings stay for a hundredth",
        ),
        pytest.param(
            {DEFAULTS: tried(800, worst=1.2), SMALL: tried(700, worst=1.121), LARGE: tried(900)},
            [LARGE],
            LARGE,
            id="what breaks the promise is out",
        ),
        pytest.param(
            {DEFAULTS: tried(800, worst=1.119)}, [DEFAULTS], DEFAULTS, id="but for a margin"
        ),
        pytest.param(
            {DEFAULTS: tried(900), SMALL: tried(702), OTHER: tried(700)},
            [OTHER],
            SMALL,
            id="of two alike the one that changes less",
        ),
        pytest.param(
            {DEFAULTS: tried(900), DEFAULTS._replace(keep_errors=False): tried(500)},
            [DEFAULTS._replace(keep_errors=False)],
            DEFAULTS,
            id="whether errors are kept is not decided by a price",
        ),
        pytest.param(
            {DEFAULTS: tried(900), SMALL: tried(800), BLIND: tried(500)},
            [BLIND],
            SMALL,
            id="nor a window that is too short to tell",
        ),
        pytest.param({DEFAULTS: tried(0)}, [DEFAULTS], DEFAULTS, id="what is free is no trouble"),
    ],
)
def test_the_front_and_the_best(
    outcomes: dict[Tuning, Outcome], front: list[Tuning], best: Tuning
) -> None:
    sweep = Sweep(outcomes=outcomes | ALL_SENT, present=DEFAULTS, promise=0.1)
    assert front == pareto_front(sweep)
    assert best == recommend(sweep)


def test_of_settings_alike_the_shipped_ones_are_taken() -> None:
    present = Tuning(True, 7, True, 2, 2_000, 0.2)
    near = present._replace(max_loss=0.1)
    outcomes = {present: tried(900), near: tried(701), DEFAULTS: tried(704), SMALL: tried(700)}
    sweep = Sweep(
        outcomes=outcomes | {switch_off(present): tried(1_000)}, present=present, promise=0.1
    )
    assert DEFAULTS == recommend(sweep)
    without = {tuning: outcome for tuning, outcome in sweep.outcomes.items() if tuning != DEFAULTS}
    assert near == recommend(dataclasses.replace(sweep, outcomes=without))


def test_dollars_decide_where_all_are_known() -> None:
    outcomes = {DEFAULTS: tried(800, dollars=8.0), SMALL: tried(700, dollars=9.0)}
    sweep = Sweep(
        outcomes=outcomes | {OFF: tried(1_000, dollars=10.0)}, present=DEFAULTS, promise=0.1
    )
    assert sweep.in_dollars
    assert [DEFAULTS] == pareto_front(sweep)
    assert DEFAULTS == recommend(sweep)
    some = dataclasses.replace(sweep, outcomes=outcomes | ALL_SENT)
    assert not some.in_dollars
    assert SMALL == recommend(some)
