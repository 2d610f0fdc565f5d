"""Replaying a recording yields what lies beside it, through a real mitmdump."""

import json
from pathlib import Path

import pytest

from addon.expectations import expectation_file, replay_recording
from addon.shipped import recordings


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.stem)
def test_a_replay_yields_what_is_expected(recording: Path) -> None:
    expected = json.loads(expectation_file(recording).read_text(encoding="utf-8"))
    assert expected == replay_recording(recording)


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.stem)
def test_a_recording_is_worth_replaying(recording: Path) -> None:
    """It is masked in the end, and never more results are masked than there are old ones."""
    expected = json.loads(expectation_file(recording).read_text(encoding="utf-8"))
    last = expected[-1]
    assert last["tool_turns"] >= 15
    assert last["masked"] > 0
    assert last["request_tokens_after"] < last["request_tokens_before"]
