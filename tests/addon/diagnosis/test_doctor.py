"""`obsmask doctor` as a whole."""

import json
from pathlib import Path

import pytest

from addon.commands.diagnosis.finding import broken, note, ok
from addon.commands.main import main
from tests.findings import levels

Screen = pytest.CaptureFixture[str]


def test_it_says_all_of_it_and_that_nothing_is_broken(capsys: Screen) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "obsmask run -- COMMAND" in shown
    assert "0 things broken" in shown


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
