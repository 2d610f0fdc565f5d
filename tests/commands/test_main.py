"""`obsmask`, command by command."""

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from addon.commands.demo import RECORDING, SESSIONS
from addon.commands.demo_tables import BOUNDARY
from addon.commands.main import main, obsmask
from addon.places import shipped
from addon.proxy.server import ADDON
from addon.recordings.expectations import expectation_file, write_config
from addon.recordings.flows import read_flows, write_flows
from masking.config import parse_settings
from masking.model import CHANGES
from tests.sessions import CHATS

SESSION = shipped("recordings") / RECORDING

DOLLARS_A_TOKEN = 2.5e-6
"""What gpt-4o, which the sessions were recorded with, takes for a plain input token."""


@pytest.mark.live
def test_the_demo_shows_each_request_and_the_way_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    expected = json.loads(expectation_file(SESSION).read_text(encoding="utf-8"))
    assert [f"{each['masked']} of {each['tool_results']}" for each in expected] == [
        " ".join(row[1:4]) for row in demo_rows(shown)
    ]
    assert "mini-swe-agent" in shown
    assert "[bash: 9505 chars masked]" in shown
    assert BOUNDARY in " ".join(shown.split())
    assert "every answer intact" in shown
    assert f"mitmdump --listen-host 127.0.0.1 -s {ADDON}" in shown


def demo_rows(shown: str) -> list[list[str]]:
    """Return the rows of the demo's table: number, replaced, "of", results, tokens, costs, ..."""
    lines = (line.split() for line in shown.splitlines())
    return [cells for cells in lines if cells[2:3] == ["of"] and cells[0].isdecimal()]


@pytest.mark.live
@pytest.mark.parametrize(
    ("agent", "wanted"),
    [
        ("claude-code", "obsmask run -- claude"),
        ("codex", "obsmask run -- codex"),
    ],
)
def test_the_demo_plays_sessions_of_other_wire_formats(
    agent: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each at the prices of its vendor, which are those under which it was recorded."""
    recording = shipped("recordings") / SESSIONS[agent].recording
    expected = json.loads(expectation_file(recording).read_text(encoding="utf-8"))
    assert main(["demo", agent]) == 0
    shown = capsys.readouterr().out
    assert [f"{each['masked']}" for each in expected] == [row[1] for row in demo_rows(shown)]
    assert wanted in " ".join(shown.split())
    cost = re.search(r"cost ([\d,]+) -> ([\d,]+)", shown)
    assert cost is not None
    before, after = (int(found.replace(",", "")) for found in cost.groups())
    assert after < 0.99 * before


@pytest.mark.live
@pytest.mark.parametrize("strategy", ["redaction", "reduction", "all"])
def test_the_demo_shows_the_other_strategies_and_claims_no_more_than_a_replay(
    strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the session costs without masking is what its replay says, or up to 1% less."""
    recording = shipped("recordings") / SESSIONS[strategy].recording
    expected = json.loads(recording.with_suffix(f".{strategy}.json").read_text(encoding="utf-8"))
    assert main(["replay", str(recording), "--prices", "0.5,1", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert main(["demo", strategy]) == 0
    shown = capsys.readouterr().out
    assert [f"{sum(each[name] for name in CHANGES)}" for each in expected] == [
        row[1] for row in demo_rows(shown)
    ]
    cost = re.search(r"cost ([\d,]+) -> ", shown)
    assert cost is not None
    replayed = total["cost_before"] / DOLLARS_A_TOKEN
    assert 0.99 * replayed <= int(cost[1].replace(",", "")) <= replayed
    assert BOUNDARY not in " ".join(shown.split())


def test_the_environment_names_a_bundle_with_the_proxys_authority(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)
    assert main(["env", "--proxy", "http://127.0.0.1:9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    variables = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert variables["HTTPS_PROXY"] == "http://127.0.0.1:9"
    authority = (tmp_path / ".mitmproxy" / "mitmproxy-ca-cert.pem").read_text()
    bundles = {variables[n] for n in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")}
    assert [authority in Path(bundle).read_text() for bundle in bundles] == [True]


def test_a_scrubbed_recording_holds_as_many_requests(tmp_path: Path) -> None:
    out = tmp_path / "scrubbed.flow"
    assert main(["scrub", str(SESSION), str(out)]) == 0
    assert len(list(read_flows(SESSION))) == len(list(read_flows(out)))
    assert b"weekly report" not in out.read_bytes()


@pytest.mark.live
def test_expectations_are_written_and_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recording = Path(shutil.copy(CHATS[0], tmp_path))
    assert main(["expect", "--write", str(recording)]) == 0
    written = expectation_file(recording)
    assert expectation_file(CHATS[0]).read_text() == written.read_text()
    assert main(["expect", str(recording)]) == 0
    written.write_text(written.read_text().replace('"masked": 0', '"masked": 1', 1))
    assert main(["expect", str(recording)]) == 1
    assert "yields something else" in capsys.readouterr().err
    assert '"masked": 1' in written.read_text()


METRICS = "[observation_masking.metrics]\n"


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param("", id="no metrics"),
        pytest.param(METRICS, id="metrics without a path"),
        pytest.param(f'{METRICS}max_megabytes = 1\npath = "elsewhere.jsonl"\n', id="a path"),
    ],
)
def test_a_recording_is_replayed_with_its_records_kept_apart_and_no_memory(
    metrics: str, tmp_path: Path
) -> None:
    source = tmp_path / "some.off.toml"
    source.write_text(f"[observation_masking.schema1]\nwindow_turns = 3\n\n{metrics}")
    (tmp_path / "run").mkdir()
    settings = parse_settings(write_config(tmp_path / "run", source=source).read_bytes())
    assert settings is not None
    assert (str(tmp_path / "run" / "requests.jsonl"), 3, False) == (
        settings.metrics.path,
        settings.policy.window_turns,
        settings.memory.enabled,
    )


@pytest.mark.live
def test_a_configuration_beside_a_recording_has_its_own_expectation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recording = tmp_path / "some.flow"
    write_flows(recording, list(read_flows(SESSION))[:2])
    config = tmp_path / "some.off.toml"
    config.write_text("[observation_masking.schema1]\nenabled = false\n")
    (tmp_path / "other.off.toml").write_text("another recording's")
    assert main(["expect", "--write", str(recording)]) == 0
    files = [tmp_path / "some.json", tmp_path / "some.off.json"]
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert [json.loads(file.read_text())[0]["masking"] for file in files] == ["on", "off"]
    assert set(tmp_path.iterdir()) == {recording, config, tmp_path / "other.off.toml", *files}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["scrub", "missing.flow", "out.flow"], "missing.flow"),
        (["scrub", __file__, "out.flow"], "no complete mitmproxy recording"),
        (["expect", __file__], "test_main.py"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place(
    arguments: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("obsmask: ")
    assert problem in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["record", "nobody"],
        ["compare", "x.flow"],
        *(["env", "--proxy", url] for url in ("nonsense", "ftp://a:1", "http://a", "http://a:x")),
        ["prices", "--reset", "--update", "x.json"],
    ],
    ids=" ".join,
)
def test_a_call_that_cannot_be_read_exits_with_2(arguments: list[str]) -> None:
    assert main(arguments) == 2


def test_a_misspelt_command_or_option_gets_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments, close in ((["replya"], "replay"), (["tune", "--windw-turns", "3"], "--window")):
        assert main(arguments) == 2
        assert f"Did you mean '{close}" in capsys.readouterr().err


NAMES = (
    *("run", "demo", "env", "doctor", "config", "proxy", "page", "replay", "tune"),
    *("status", "recall", "mcp", "prices", "record", "scrub", "expect"),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_has_a_help_text(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: obsmask {name} ")
    found = obsmask.get_command(click.Context(obsmask), name)
    assert found is not None
    assert found.help
    assert [] == [o.name for o in found.params if isinstance(o, click.Option) and not o.help]


_SHOW_MODULES = """
import sys
from addon.commands.main import main
main(["--help"])
print(*sys.modules)
"""


def test_the_commands_are_listed_and_nothing_heavy_is_loaded_for_that() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW_MODULES], capture_output=True, text=True, check=True
    )
    listed, _, modules = done.stdout.rstrip().rpartition("\n")
    assert [*NAMES] == re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)
    heavy = {"mitmproxy", "pydantic", "rich", "masking", "tiktoken"}
    assert set() == heavy & set(modules.split())


def test_tuning_recommends_settings_by_the_command_that_sets_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tune", str(SESSION)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("obsmask config set schema1.enabled=true schema1.window_turns=")
    assert any(line.startswith((" present", " use")) for line in lines)


@pytest.mark.parametrize(
    ("port", "problem"),
    [("99999", "expected a whole number from 0 to 65535: 99999"), ("-1", "from 0 to 65535: -1")],
)
@pytest.mark.parametrize("command", ["proxy", "ext-proc"])
def test_a_port_that_cannot_be_is_refused(
    command: str, port: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--port", port]) == 2
    assert problem in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_in_our_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["proxy", "--port", str(port)]) == 1
    expected = f"obsmask: port {port} of 127.0.0.1 is taken: --port 0 takes any free one\n"
    assert expected == capsys.readouterr().err
