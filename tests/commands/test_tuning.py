"""The settings that are tried, and the choice among them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from addon.commands.tuning import ARRIVAL, Changes, Outcome, list_choices, recommend, switch_off
from addon.replay.replay import ReplaySettings
from masking.accounting import Money
from masking.arrival import ArrivalPolicy
from masking.rewrite import Strategies
from masking.window import MaskPolicy
from tests.support.marks import as_one_test

# What is tried


def list_changes(policy: MaskPolicy, *, arrives: bool = False) -> list[Changes]:
    """Return what is tried where these are the present settings."""
    strategies = Strategies(schema1=policy, arrival=ArrivalPolicy(enabled=arrives))
    present = ReplaySettings(strategies=strategies)
    read: list[Changes] = []

    def make(changes: Changes) -> ReplaySettings:
        read.append(changes)
        return present

    choices = list_choices(make)
    assert [{}, *(each.changes for each in choices)] == read
    return [each.changes for each in choices]


def test_the_present_settings_come_first_and_a_handful_of_changes_after_them() -> None:
    found = list_changes(MaskPolicy(True, 8))
    assert {} == found[0]
    assert 4 * 3 + 1 == len(found)
    assert {"schema1.window_turns": 5, "schema1.min_chars": 2_000} in found
    assert {"schema1.keep_latest_turns": 24} in found
    assert {ARRIVAL: True} == found[-1]
    assert [] == [each for at, each in enumerate(found) if each in found[:at]]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(MaskPolicy(True, 3), {"schema1.min_chars": 2_000}, id="a window of its own"),
        pytest.param(
            MaskPolicy(True, 8, min_chars=500),
            {"schema1.window_turns": 5, "schema1.min_chars": 0},
            id="a rule that may go",
        ),
        pytest.param(MaskPolicy(window_turns=8), {"schema1.enabled": True}, id="masking is off"),
    ],
)
def test_what_is_tried_depends_on_the_present_settings(
    policy: MaskPolicy, expected: Changes
) -> None:
    assert expected in list_changes(policy)


def test_arrival_is_switched_whichever_way_it_is() -> None:
    assert {ARRIVAL: False} == list_changes(MaskPolicy(True, 8), arrives=True)[-1]


def test_no_window_is_tried_that_is_too_short_to_tell() -> None:
    tried = [each.get("schema1.window_turns", 8) for each in list_changes(MaskPolicy(True, 8))]
    assert 5 == min(map(int, map(str, tried)))


# The choice


def tried(
    after: float, asked_again: int = 0, worst: float = 1.0, window: int = 8, **changes: object
) -> Outcome:
    return Outcome(
        changes={f"schema1.{name}": value for name, value in changes.items()},
        money=Money(100, 1_000.0, after, asked_again=asked_again),
        calls=200,
        worst=worst,
        window_turns=window,
    )


OFF = tried(1_000, window=0, enabled=False)


@as_one_test
@pytest.mark.parametrize(
    ("outcomes", "best"),
    [
        pytest.param([tried(1_200)], OFF, id="masking does not pay"),
        pytest.param(
            [tried(800), tried(700, window_turns=5), tried(900, window_turns=20)],
            tried(700, window_turns=5),
            id="the cheapest, where no call asked again",
        ),
        pytest.param(
            [tried(800, 5), tried(700, 20, window_turns=5), tried(900, 1, window_turns=20)],
            tried(800, 5),
            id="a call that asked again is one more request",
        ),
        pytest.param(
            [tried(700), tried(691, window_turns=5)], tried(700), id="a hundredth is not worth it"
        ),
        pytest.param(
            [
                tried(900),
                tried(709, window_turns=5),
                tried(700, window_turns=5, min_chars=2_000),
                tried(705, min_chars=2_000),
            ],
            tried(705, min_chars=2_000),
            id="one change that does nearly as much as two",
        ),
        pytest.param(
            [tried(800, worst=1.2), tried(700, worst=1.121, window_turns=5), tried(900, n=1)],
            tried(900, n=1),
            id="what breaks the promise is out",
        ),
        pytest.param([tried(800, worst=1.119)], tried(800, worst=1.119), id="but for a margin"),
        pytest.param(
            [tried(500, window=4), tried(800, window_turns=8)],
            tried(800, window_turns=8),
            id="a window that is too short to tell",
        ),
        pytest.param(
            [tried(900), replace(tried(500), changes={ARRIVAL: True})],
            tried(900),
            id="arrival is left as it is",
        ),
    ],
)
def test_what_is_recommended(outcomes: Sequence[Outcome], best: Outcome) -> None:
    assert best == recommend([*outcomes, OFF], 0.1)


def test_no_window_is_recommended_that_is_shorter_than_that_of_an_agent() -> None:
    outcomes = [tried(900), tried(500, window=8, window_turns=8), tried(800, min_chars=2_000), OFF]
    assert tried(800, min_chars=2_000) == recommend(outcomes, 0.1, least_window=36)
    longer = tried(700, window=36, window_turns=36)
    assert longer == recommend([*outcomes, longer], 0.1, least_window=36)


def test_what_is_free_is_no_trouble() -> None:
    free = Outcome(changes={}, money=Money(3))
    assert free == recommend([free, replace(free, changes={"schema1.enabled": False})], 0.1)


def test_masking_is_switched_off_by_one_change_where_it_is_on() -> None:
    assert {"schema1.enabled": False} == switch_off(MaskPolicy(True, 8))
    assert {} == switch_off(MaskPolicy())
