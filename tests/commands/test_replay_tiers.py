"""What `obsmask replay` says of sessions in Claude's fast mode."""

import json
from pathlib import Path

import pytest

from addon.commands.main import main
from tests.replay.claude_log import ClaudeLog, text

FAST = {"input_tokens": 1_000_000, "output_tokens": 1_000, "speed": "fast"}


@pytest.mark.parametrize(
    ("model", "dollars", "standard"),
    [("claude-opus-4-6", (30.0, 0.15), {}), ("claude-opus-5-5", (4.0, 0.02), {"fast": 1})],
)
def test_fast_mode_has_its_price_or_is_named(
    model: str,
    dollars: tuple[float, float],
    standard: dict[str, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer("msg_1", text("Done."), model=model, usage=FAST)
    path = log.write(tmp_path / "s1.jsonl")
    assert main(["replay", "--processes", "1", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)["logs"]
    assert (dollars, standard) == (
        (found["dollars_before"], found["answer_dollars"]),
        found["standard_prices"],
    )
    assert main(["replay", "--processes", "1", str(path)]) == 0
    said = "at the standard price, not that of fast" in capsys.readouterr().out
    assert said == bool(standard)
