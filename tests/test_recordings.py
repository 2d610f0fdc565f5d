"""Replaying a recording yields what lies beside it, through a real mitmdump."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from addon.config_file import ConfigFile
from addon.expectations import expectation_file, find_configs, replay_recording
from addon.flows import read_flows
from addon.shipped import recordings, shipped
from masking.model import replacements_of
from masking.observation import find_blocks
from masking.rewrite import change_request, read_request

CASES = pytest.mark.parametrize(
    ("recording", "config"),
    [
        pytest.param(recording, config, id=expectation_file(recording, config).stem)
        for recording in recordings()
        for config in find_configs(recording)
    ],
)

QUESTIONS = shipped("recordings") / "openai-questions.flow"


def expected(recording: Path, config: Path | None = None) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(
        expectation_file(recording, config).read_text(encoding="utf-8")
    )
    return read


def beside(name: str) -> Path:
    return QUESTIONS.with_suffix(f".{name}.toml")


@CASES
def test_a_replay_yields_what_is_expected(recording: Path, config: Path | None) -> None:
    assert expected(recording, config) == replay_recording(recording, config)


@CASES
def test_a_recording_is_worth_replaying(recording: Path, config: Path | None) -> None:
    """Something is changed in the end, and then less is sent."""
    last = expected(recording, config)[-1]
    changed = [last[name] for name in ("masked", "redacted", "reduced", "dropped")]
    assert last["tool_turns"] >= 15
    assert last["masked"] > 0 if config is None else any(changed)
    assert last["request_tokens_after"] < last["request_tokens_before"]


def test_the_switch_of_the_environment_changes_no_expectation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAM_REDACTION_ENABLED", "false")
    config = beside("redaction")
    assert expected(QUESTIONS, config) == replay_recording(QUESTIONS, config)


def test_redaction_follows_the_answers() -> None:
    """Results of the named tool alone go, all of them at once with the answer that follows."""
    records = expected(QUESTIONS, beside("redaction"))
    redacted = [record["redacted"] for record in records]
    assert redacted == [0] * 4 + [4] * 4 + [5] * 5 + [7] * 5 + [9] * 3
    scenarios = [record["redaction_scenarios"] for record in records]
    assert [any(column) for column in zip(*scenarios, strict=True)] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert [one + five for one, *_, five in scenarios] == redacted


def test_reduction_reaches_every_stage() -> None:
    records = expected(QUESTIONS, beside("reduction"))
    stages = {record["reduction_stage"] for record in records}
    assert stages == {None, "masking", "summarization", "fallback"}
    assert {bool(record["dropped_messages"]) for record in records} == {True, False}


def test_a_dispatch_result_survives_a_reduction() -> None:
    config = ConfigFile(beside("reduction"))
    records = expected(QUESTIONS, beside("reduction"))
    kept = 0
    for flow, record in zip(read_flows(QUESTIONS), records, strict=True):
        body = flow.request.content or b""
        outcome = change_request(body, read_request(body), config.settings.strategies)
        assert hashlib.sha256(outcome.body).hexdigest() == record["sha256"]
        for replacement in replacements_of(outcome.decisions):
            blocks = find_blocks(replacement.text)
            assert blocks == find_blocks(replacement.placeholder)
            kept += len(blocks)
    assert kept > 5


def test_each_strategy_settles_results_beside_the_others() -> None:
    records = expected(QUESTIONS, beside("all"))
    for record in records:
        counts = [record[name] for name in ("masked", "redacted", "reduced", "dropped")]
        assert sum(counts) + sum(record["kept"].values()) == record["tool_results"]
    for name in ("masked", "redacted", "reduced", "dropped"):
        assert max(record[name] for record in records) > 0
