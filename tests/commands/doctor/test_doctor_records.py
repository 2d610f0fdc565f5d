"""What the records of the last days say."""

from datetime import date
from pathlib import Path

import pytest

from addon.commands.doctor.records import (
    check_bound,
    check_list,
    check_passed,
    check_rules,
    check_windows,
)
from addon.config_commands import Advice
from addon.skip_reasons import HELD
from masking.config import Rule, Settings
from tests.support.findings import fixes, levels, record


def test_requests_that_passed_are_counted_by_reason() -> None:
    signed = [record(passed_through="signed (cch)") for _ in range(2)]
    found = list(check_passed([*signed, record(), record(passed_through="not JSON")], Advice()))
    assert "2 of 4 requests passed untouched: claude-code signs what it sends" == found[0].says
    assert ["obsmask run -- claude", None] == fixes(found)


def test_nothing_is_advised_where_the_model_would_refuse_masking_anyway() -> None:
    (found,) = check_passed([record(passed_through="signed (cch)", binding="refuses")], Advice())
    assert "the model binds its reasoning" in found.says
    assert found.fix is None


def test_an_unknown_client_of_a_websocket_is_tried_for_one_run() -> None:
    found = check_passed([record(passed_through=HELD["unknown"])], Advice())
    assert ["obsmask run --force-http -- COMMAND"] == fixes(list(found))


def test_what_a_setting_changes_is_told_by_its_command() -> None:
    (found,) = check_passed([record(passed_through=HELD["pass"])], Advice())
    assert "obsmask config set websocket.mode=auto" == found.fix


def test_what_costs_the_model_its_reasoning_is_no_fix_to_copy() -> None:
    bound = record(passed_through=HELD["bound"], binding="drops")
    (found,) = check_passed([bound], Advice(Path("mine.toml")))
    assert "obsmask run --shorten -- COMMAND" == found.fix
    assert found.says == (
        "1 request passed untouched: the model would lose its reasoning; obsmask run "
        "--shorten cuts long results all the same; obsmask config set --config mine.toml "
        "schema1.bound_reasoning=drop (undo: obsmask config unset --config mine.toml "
        "schema1.bound_reasoning) changes that, but the model then loses its earlier reasoning"
    )


def test_a_session_that_must_not_change_sides_is_told_once() -> None:
    bound = [record(binding="refuses", masked=masked) for masked in (0, 3, 4)]
    (found,) = check_bound([*bound, record(binding="drops", masked=3), record(masked=3)])
    assert "api.openai.com refuses to continue a session with gpt-5" in found.says


def test_conversations_that_need_masking_are_counted() -> None:
    grew = record(
        masked=1,
        fits_unmasked=False,
        conversation_id="a",
        request_tokens_before=300_000,
        model_window_tokens=400_000,
    )
    (found,) = check_windows([grew, grew, record(masked=1, fits_unmasked=True)])
    assert found.says.startswith("1 conversation no longer fits its model without masking")
    assert found.says.endswith("; gpt-5 at api.openai.com, a prompt of 75% of its window")
    assert [] == list(check_windows([record()]))


def test_a_rule_that_fits_no_request_is_named() -> None:
    rules = [
        (Rule(host="*.openai.com"), None),
        (Rule(model="claude-*"), None),
        (Rule(headers=(("x-team", "a"),)), None),
        (Rule(client="mini", headers=(("x-team", "a"),)), None),
    ]
    found = list(check_rules(rules, [record(), record(client="qwen")]))
    assert ["rules[1]", "rules[3]"] == [each.says.split()[0] for each in found]
    assert "matches none of the last 2 requests" in found[0].says
    assert [] == list(check_rules(rules, []))


# Prices


@pytest.mark.parametrize(
    ("today", "expected"),
    [(date(2026, 11, 23), "ok"), (date(2030, 1, 1), "note")],
    ids=["new", "old"],
)
def test_the_price_list_has_an_age(today: date, expected: str) -> None:
    assert [expected] == levels(check_list(Settings(), today))
