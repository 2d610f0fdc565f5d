"""Whether an agent's results will be masked: what is said of the model that it will ask."""

import os
from pathlib import Path

import pytest

from addon.accounts import Account, Learned, Verdict
from addon.agents import find_agent
from addon.commands.doctor.examination import Setup, examine
from addon.commands.doctor.forecast import foresee
from masking.config import Settings, parse_settings
from tests.support.findings import fixes, says
from tests.support.marks import as_one_test

MASKED = "old results will be masked"
REFUSED = "nothing will be masked, because the provider would refuse the request"
LOST = "nothing will be masked, because the model would lose its reasoning"
TRIED = "depends on your account, which one request will test"


@as_one_test
@pytest.mark.parametrize(
    ("agent", "model", "expected"),
    [
        ("claude-code", "claude-opus-4-8", MASKED),
        ("claude-code", "claude-opus-5-5", TRIED),
        ("claude-code", "claude-fable-5-2", REFUSED),
        ("claude-code", "our-own-alias", REFUSED),
        ("codex", "gpt-5.5", MASKED),
        ("codex", "gpt-6.1-sol", LOST),
        ("opencode", "claude-fable-5-2", MASKED),
        ("opencode", "gpt-6.1-sol", LOST),
        ("opencode", "claude-opus-5-5", MASKED),
        ("opencode", "glm-5", MASKED),
        ("codex", "", "masked, unless the model binds its reasoning"),
    ],
)
def test_it_is_said_whether_a_model_will_be_masked(agent: str, model: str, expected: str) -> None:
    assert expected in says(foresee(find_agent(agent), model, "as named", Settings(), ()))


@as_one_test
@pytest.mark.parametrize(
    ("verdict", "expected"),
    [("takes", "because your account accepts that"), ("refuses", REFUSED)],
)
def test_what_an_account_has_taught_is_known(verdict: Verdict, expected: str) -> None:
    claude = find_agent("claude-code")
    account = Account(b"", "api.anthropic.com", "claude-opus-5-5")
    learned = [Learned(account, verdict, 0.0)]
    assert expected in says(foresee(claude, account.model, "", Settings(), learned))
    assert TRIED in says(foresee(claude, "claude-sonnet-5-5", "", Settings(), learned))


def test_the_other_roads_come_with_what_each_gives_up_and_what_to_type() -> None:
    found = [*foresee(find_agent("codex"), "gpt-6.1-sol", "its default", Settings(), ())]
    assert says(found).endswith(
        "Other ways to save, and what each gives up (docs/agents.md#roads): --shorten, the middle "
        "of long results; --drop-reasoning, the model's earlier reasoning"
    )
    assert ["obsmask run --shorten -- COMMAND"] == fixes(found)


def test_a_road_that_is_taken_needs_no_advice() -> None:
    shortens = parse_settings(b"[observation_masking.arrival]\nenabled = true\n")
    observes = parse_settings(b'[observation_masking]\nmode = "observe"\n')
    assert shortens
    assert observes
    (found,) = foresee(find_agent("codex"), "gpt-6.1-sol", "its default", shortens, ())
    assert ("ok", True) == (found.level, "--shorten is on" in found.says)
    assert [] == [*foresee(find_agent("codex"), "gpt-6.1-sol", "its default", observes, ())]


@pytest.mark.parametrize(
    ("command", "files", "expected"),
    [
        ("claude", {}, "claude-opus-5-5 (its default): "),
        (
            "claude",
            {".claude/settings.json": '{"model": "opus"}'},
            "claude-opus-5-5 (named opus): ",
        ),
        ("claude --model claude-opus-4-6", {}, "claude-opus-4-6 (as named): "),
        ("codex", {}, "gpt-6.1-sol (its default): "),
        ("codex exec -m gpt-5.5 task", {}, "gpt-5.5 (as named): "),
        ("codex", {".codex/config.toml": 'model = "gpt-5.4"\n'}, "gpt-5.4 (as named): "),
        ("codex", {".codex/config.toml": "model = \n"}, "gpt-6.1-sol (its default): "),
        ("opencode --model=anthropic/claude-opus-5", {}, "claude-opus-5 (as named): "),
        ("opencode", {}, "opencode: old results are masked, unless "),
        ("qwen", {}, "qwen-code: old results are masked, unless "),
    ],
)
def test_the_model_is_looked_up_where_the_agent_does(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: str, files: dict[str, str], expected: str
) -> None:
    program = home / command.split()[0]
    program.touch(0o700)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    for name, text in files.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    found = [each for _, each in examine(Setup("", tuple(command.split()), dict(os.environ)))]
    assert [expected] == [each.says[: len(expected)] for each in found if expected in each.says]
