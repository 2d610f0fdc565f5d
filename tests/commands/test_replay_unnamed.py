"""What `obsmask replay` says of a log that names no model, and how `--model` changes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from tests.replay.test_codex_log import FIRST, call, item, meta, model, said, user
from tests.replay.test_codex_log import write as write_codex

TURNS = 45


def write(path: Path, *head: Mapping[str, Any]) -> Path:
    """Write a session of codex whose every turn begins with encrypted reasoning."""
    turns = [
        line
        for turn in range(TURNS)
        for line in (
            item("reasoning", summary=[], encrypted_content="q" * 200),
            call(f"c{turn}"),
            item("function_call_output", call_id=f"c{turn}", output=f"line of file {turn}\n" * 300),
        )
    ]
    return write_codex(
        path, meta(), *map(dict, head), *FIRST[:2], user("Find it."), *turns, said("Found.")
    )


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["replay", "--processes", "1", "--json", *map(str, arguments)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def kept(found: dict[str, Any]) -> set[str]:
    return {reason for each in found["conversations"] for reason in each["kept"]}


@pytest.mark.parametrize("named", [(), (model("codex-auto-review"),)], ids=["none", "unknown"])
def test_a_log_without_a_known_model_says_nothing_of_a_saving(
    named: tuple[dict[str, Any], ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "rollout-1.jsonl", *named)
    assert main(["replay", "--processes", "1", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "what masking would have saved isn't known." in out
    assert "not known" in out
    assert "1 without a known model, which decides what may be masked (--model NAME)" in out
    assert "1 session without a provider's counts" in out
    assert "saved nothing" not in out
    assert "Masking pays" not in out


def test_the_model_that_is_named_decides_what_is_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = write(tmp_path / "rollout-1.jsonl")
    named = write(tmp_path / "b" / "rollout-1.jsonl", model("gpt-5"))
    free = replay(capsys, unnamed, "--model", "gpt-5")
    assert replay(capsys, named)["total"] == free["total"]
    assert 0.1 < free["logs"]["dollars_saved"] / free["logs"]["dollars_before"]
    assert ({}, 1) == (free["logs"]["cost_only"], free["logs"]["uncounted_sessions"])
    bound = replay(capsys, named, "--model", "gpt-5.6")
    assert (0, {}) == (bound["logs"]["dollars_saved"], bound["logs"]["cost_only"])
    assert main(["replay", "--processes", "1", str(named), "--model", "gpt-5.6"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "In 1 session, the model binds its reasoning to all that precedes it" in out
    assert "shorten: --shorten. Gives up: the middle of long results." in out
    assert "Masking pays" not in out


def test_the_model_that_is_named_decides_for_a_recorded_conversation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in write(tmp_path / "x.jsonl").read_text().splitlines()]
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps({"model": "gpt-5.6", "input": items}))
    assert 0 == replay(capsys, path)["total"]["masked_tool_results"]
    assert 0 < replay(capsys, path, "--model", "gpt-5")["total"]["masked_tool_results"]


@pytest.mark.parametrize(("account", "masks"), [("old", True), ("new", False)])
def test_the_account_holds_for_the_model_that_is_named(
    account: str, masks: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = "--model", "claude-opus-5-5", "--account", account
    found = replay(capsys, write(tmp_path / "rollout-1.jsonl"), *named)
    assert masks == (found["total"]["masked_tool_results"] > 0)
