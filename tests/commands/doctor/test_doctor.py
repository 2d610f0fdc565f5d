"""`obsmask doctor` as a whole."""

import json
import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from addon.commands.doctor.examination import Setup
from addon.commands.doctor.examination import examine as check_all
from addon.commands.doctor.report import Finding, broken, note, ok
from addon.commands.main import main
from addon.places import shipped
from tests.support.findings import levels, record

Screen = pytest.CaptureFixture[str]


def test_it_says_all_of_it_and_that_nothing_is_broken(capsys: Screen) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "obsmask run -- COMMAND" in shown
    assert "Nothing is broken" in shown


def test_what_is_broken_makes_it_fail(capsys: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/bundle.pem")
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["findings"]
    assert [("Certificates", "unset SSL_CERT_FILE")] == [
        (each["topic"], each["mend"]) for each in told if each["level"] == "broken"
    ]


def test_a_command_that_is_not_there_is_broken(capsys: Screen) -> None:
    assert main(["doctor", "no-such-agent", "--json"]) == 1
    assert "no-such-agent: no such command" in capsys.readouterr().out


def test_a_check_that_fails_is_told_and_the_others_go_on(capsys: Screen, home: Path) -> None:
    file = home / "mine.toml"
    file.write_text('[observation_masking.metrics]\npath = "~nobody-here/requests.jsonl"\n')
    assert main(["doctor", "--config", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["findings"]
    assert ["What is stored"] == [each["topic"] for each in told if each["level"] == "broken"]
    assert "Versions" == told[-1]["topic"]


def test_findings_have_three_levels() -> None:
    assert ["ok", "note", "broken"] == levels([ok("a"), note("b"), broken("c", "d")])


def examine(*arguments: str) -> list[tuple[str, Finding]]:
    return list(check_all(Setup("", arguments, dict(os.environ))))


RECORD = record(host="127.0.0.1", time=f"{datetime.now(UTC):%Y-%m-%d}T00:00:00.000+00:00")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"NO_PROXY": "127.0.0.1"},
        {"NO_PROXY": "api.openai.com", "no_proxy": "*"},
    ],
    ids=["none is set", "this machine", "a provider, which run leads through the proxy"],
)
@pytest.mark.parametrize("command", [[], ["sh", "-c", "an agent"]], ids=["no command", "a command"])
def test_a_model_on_this_machine_is_reached_as_run_would_have_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], variables: dict[str, str]
) -> None:
    """`run` sets NO_PROXY itself, to this machine: that is no mistake, and no remedy changes it."""
    records = home / "state" / "observation-masking" / "requests.jsonl"
    records.parent.mkdir(parents=True)
    records.write_text(RECORD.model_dump_json() + "\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = examine(*command)
    assert [] == [finding for _, finding in found if finding.level == "broken"]
    (bypass,) = (finding for topic, finding in found if topic == "Bypasses")
    filled_in = shlex.join(command) or "COMMAND"
    assert f"obsmask run --reverse http://127.0.0.1:11434 -- {filled_in}" == bypass.fix


@pytest.mark.parametrize(
    ("command", "mend"),
    [
        (
            ["fast-agent", "go", "two words"],
            "obsmask run --force-http -- fast-agent go 'two words'",
        ),
        (["sudo", "claude"], "sudo -E claude"),
    ],
    ids=["arguments", "sudo"],
)
def test_the_command_is_filled_in(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], mend: str
) -> None:
    program = home / command[0]
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    assert mend in [finding.fix for topic, finding in examine(*command) if topic == "Command"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            "claude-opus-4-6",
            ("ok", "claude-code: ANTHROPIC_BASE_URL leads through the proxy to "),
        ),
        ("fable", ("note", "claude-code is unchanged: claude-fable-5-2 (fable) binds ")),
    ],
)
def test_it_says_what_run_does_to_claude_code(
    home: Path, monkeypatch: pytest.MonkeyPatch, model: str, expected: tuple[str, str]
) -> None:
    (home / "claude").write_text("#!/bin/sh\n", encoding="utf-8")
    (home / "claude").chmod(0o700)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_MODEL", model)
    said = [each for topic, each in examine("claude") if topic == "Command"]
    level, begins = expected
    assert [level] == [each.level for each in said if each.says.startswith(begins)]


def test_one_file_is_not_told_of_in_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout the shipped configuration lies in the working directory."""
    monkeypatch.chdir(shipped("config.toml").parent)
    said = [finding.says for topic, finding in examine() if topic == "Configuration"]
    assert [
        f"{shipped('config.toml')} is used: it is the default one, because you have none of your "
        "own"
    ] == said


def test_a_home_where_nothing_can_be_made_is_no_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/proc/nope")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = examine()
    said = " ".join(finding.says for topic, finding in found if topic == "What is stored")
    assert "is full" not in said
    assert "cannot be written: no records are kept" in said
    assert [] == [finding.says for _, finding in found if "Errno" in finding.says]
