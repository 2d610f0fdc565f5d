"""What other roads would have cost is what they cost once they are taken."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from addon.replay.replay import RecordedRequest, ReplaySettings, replay
from masking import MaskPolicy
from masking.accounting import NO_BILL, Bill
from masking.config import Settings
from masking.prices import PriceSettings
from masking.rewrite import Strategies
from masking.roads import ROADS
from masking.tokens import TokenCounter
from masking.wire import MESSAGES, RESPONSES, WireFormat
from tests.replay.test_replay import Recording
from tests.support.long_results import ARRIVAL, run_tests
from tests.support.marks import as_one_test

COUNTER = TokenCounter()
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
TURNS = 24
SETTINGS = ReplaySettings(
    strategies=Strategies(
        schema1=MaskPolicy(True, 4, skip_if_not_shorter=True, bound_reasoning="try"),
        arrival=replace(ARRIVAL, enabled=False),
    ),
    price_settings=PriceSettings((0.1, 1.25)),
    remembers=True,
)


def record(
    number: int, wire: WireFormat, model: str, items: list[dict[str, Any]]
) -> RecordedRequest:
    name, path = ("messages", "/v1/messages") if wire is MESSAGES else ("input", "/v1/responses")
    marked: dict[str, Any] = {}
    if wire is MESSAGES:
        marked = {"cache_control": {"type": "ephemeral"}, "system": "Be brief. " * 1_000}
    body = json.dumps({"model": model, name: items, **marked}).encode()
    when = NOON + timedelta(seconds=20 * number)
    return RecordedRequest(body=body, when=when, host="a.example", wire=wire, path=path)


def make_session(model: str, *, thinks: bool = True) -> Recording:
    """Return a session of Anthropic's format whose model thinks before each call."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Repair it."}]
    recorded = []
    for number in range(TURNS):
        recorded.append(record(number, MESSAGES, model, messages))
        thought = {"type": "thinking", "thinking": f"{number}. " * 60, "signature": "x"}
        call = {"type": "tool_use", "id": f"c{number}", "name": "shell", "input": {"n": number}}
        result = {"tool_use_id": f"c{number}", "content": f"{number} {run_tests(40)}"}
        messages = [
            *messages,
            {"role": "assistant", "content": [*([thought] if thinks else []), call]},
            {"role": "user", "content": [{"type": "tool_result", **result}]},
        ]
    return Recording(tuple(recorded))


def make_codex_session(model: str) -> Recording:
    items: list[dict[str, Any]] = [{"role": "user", "content": "Repair it."}]
    recorded = []
    for number in range(TURNS):
        recorded.append(record(number, RESPONSES, model, items))
        items = [
            *items,
            {"type": "reasoning", "summary": [], "encrypted_content": "x" * 400},
            {"type": "function_call", "call_id": f"c{number}", "name": "s", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": f"c{number}",
                "output": f"{number} {run_tests(40)}",
            },
        ]
    return Recording(tuple(recorded))


def add_up(session: Recording, settings: ReplaySettings) -> Bill:
    """Return what a session costs, beside what it would cost by other roads."""
    requests = replay(session, settings, COUNTER, with_roads=True)
    return sum((request.entry.bill for request in requests), start=NO_BILL)


@pytest.mark.parametrize(
    ("make", "recorded", "model", "open_roads"),
    [
        (make_session, "claude-fable-5-2", None, ("shorten", "clear", "drop")),
        (make_session, "claude-opus-4-5", "claude-fable-5-2", ("shorten", "clear", "drop")),
        (make_codex_session, "gpt-6", None, ("shorten", "drop")),
    ],
    ids=["claude", "another model's", "openai"],
)
def test_a_road_costs_what_it_was_said_to(
    make: Callable[[str], Recording],
    recorded: str,
    model: str | None,
    open_roads: tuple[str, ...],
) -> None:
    session, settings = make(recorded), replace(SETTINGS, model=model)
    bill = add_up(session, settings)
    assert [*open_roads] == [*bill.roads]
    for name in open_roads:
        road = ROADS[name]
        strategies = road.adapt(SETTINGS.strategies)
        taken = replace(settings, strategies=strategies, taken=(road.name,))
        alone = add_up(session, taken)
        assert alone.tokens.before == pytest.approx(bill.tokens.before)
        assert alone.tokens.after == pytest.approx(bill.roads[name].tokens.after)
        assert alone.tokens.after < bill.tokens.after
        assert {*open_roads} - {name} == {*alone.roads}


def test_where_nothing_is_bound_no_other_road_is_looked_at() -> None:
    assert {} == add_up(make_session("claude-opus-5"), SETTINGS).roads
    off = replace(SETTINGS, strategies=Strategies(schema1=MaskPolicy(False)))
    assert {} == add_up(make_session("claude-fable-5-2"), off).roads


@as_one_test
@pytest.mark.parametrize(
    ("name", "table", "key", "value"),
    [
        ("shorten", "arrival", "enabled", True),
        ("clear", "schema1", "provider_clearing", True),
        ("drop", "schema1", "bound_reasoning", "drop"),
    ],
)
def test_settings_say_which_road_is_taken(name: str, table: str, key: str, value: object) -> None:
    shipped = Settings()
    chosen = replace(shipped, **{table: replace(getattr(shipped, table), **{key: value})})
    assert ["mask", name] == [road.name for road in ROADS.values() if road.is_taken(chosen)]
    assert ["mask"] == [road.name for road in ROADS.values() if road.is_taken(shipped)]
