"""What the page's charts and its masking map are drawn from."""

import dataclasses
import json
import re
from typing import Any, get_args

import pytest

from addon.replay.boundary_moves import Value
from addon.replay.compare import Comparison
from addon.replay.report.page import bills_by_policy, render_chart, render_charts
from masking.accounting.cost import Bill
from masking.reasons import REASONS, ChangeReason, KeepReason
from masking.wire.usage import Usage
from tests.replays import Talk, in_dollars, in_tokens, replayed


def described(comparison: Comparison) -> dict[str, Any]:
    (found,) = json.loads(render_charts([render_chart(comparison)]))["conversations"]
    return dict(found)


@pytest.mark.parametrize(
    ("model", "unit", "value"),
    [
        pytest.param("gpt-4o", "usd", in_dollars, id="a price that is known"),
        pytest.param("nobody's", "input_tokens", in_tokens, id="a price that is not known"),
        pytest.param(None, "input_tokens", in_tokens, id="no model"),
    ],
)
def test_the_series_are_those_of_the_requests(model: str | None, unit: str, value: Value) -> None:
    comparison = replayed(Talk(model=model))
    actual = described(comparison)
    assert unit == actual["unit"]
    for policy, expected in bills_by_policy(comparison).items():
        series = actual["series"][policy]
        assert [bill.prompt for bill in expected] == series["prompt"]
        assert [bill.cached for bill in expected] == series["cached"]
        assert [value(bill) for bill in expected] == pytest.approx(series["cost"], abs=1e-8)


def test_fractions_of_tokens_are_rounded_to_tenths() -> None:
    series = described(replayed(Talk(usage=Usage(prompt=10_000))))["series"]["chosen"]["prompt"]
    assert series == [round(number, 1) for number in series]
    assert any(number % 1 for number in series)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (0, "15 requests to gpt-4o; window of 3 turns; cached tokens simulated."),
        (15, "15 requests to gpt-4o; window of 3 turns; cached tokens as the provider reported"),
        (1, "cached tokens as reported for 1 request, simulated for the others."),
    ],
)
def test_it_tells_what_is_known_of_the_cache(reported: int, expected: str) -> None:
    whole = replayed(Talk(usage=Usage(prompt=5_000, cached=1_024))).chosen
    simulated = replayed(Talk()).chosen
    chosen = (*whole[:reported], *simulated[reported:])
    assert expected in described(dataclasses.replace(replayed(Talk()), chosen=chosen))["about"]


def test_a_request_without_a_model_is_to_an_unknown_one() -> None:
    assert "to an unknown model;" in described(replayed(Talk(model=None)))["about"]


def test_moves_are_told_with_what_they_have_saved() -> None:
    moves = described(replayed(Talk()))["moves"]
    assert len(moves) > 1
    assert [move["saved"] - move["paid"] for move in moves] == [move["net"] for move in moves]


def test_a_move_that_costs_nothing_has_no_price() -> None:
    comparison = replayed(Talk(turns=0))
    nothing = Bill(0.0, 0.0, 0.0, 0.0)
    (request,) = comparison.chosen
    cost = dataclasses.replace(request.entry.cost, before=nothing, after=nothing)
    entry = dataclasses.replace(request.entry, cost=cost, moved=True)
    empty = dataclasses.replace(comparison, chosen=(dataclasses.replace(request, entry=entry),))
    (move,) = described(empty)["moves"]
    assert 0 == move["price"] == move["paid"]


def spelled_out(row: str) -> str:
    return re.sub(r"(\d+)(\D)", lambda run: int(run[1]) * run[2], row)


def test_the_map_spells_every_result_of_every_request() -> None:
    reasons = json.loads(render_charts([]))["reasons"]
    expected = [list(request.reasons) for request in replayed(Talk()).chosen]
    found = described(replayed(Talk()))["map"]
    rows = [[reasons[letter][0] for letter in spelled_out(row)] for row in found]
    assert expected == rows
    assert {"masked", "held", "in_window"} <= {reason for row in rows for reason in row}


def test_a_conversation_without_tool_results_has_an_empty_map() -> None:
    actual = described(replayed(Talk(turns=0)))
    assert ([""], []) == (actual["map"], actual["moves"])


def test_every_reason_has_a_letter_of_its_own() -> None:
    assert {*get_args(ChangeReason), *get_args(KeepReason)} == {*REASONS}


def test_the_legend_names_a_reason_and_explains_it() -> None:
    reasons = json.loads(render_charts([]))["reasons"]
    expected = ["in_window", "in window: in one of the last tool turns"]
    assert expected == reasons[REASONS["in_window"].letter]
