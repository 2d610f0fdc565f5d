"""`obsmask`, command by command."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from addon.commands.group import obsmask
from addon.commands.main import main
from addon.places import shipped
from addon.recordings.flows import read_flows
from tests.support.marks import as_one_test
from tests.support.talks import work, write_body


def test_the_environment_names_a_bundle_with_the_proxys_authority(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"):
        monkeypatch.delenv(name, raising=False)
    assert main(["env", "--force", "--proxy", "http://127.0.0.1:9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    variables = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert variables["HTTPS_PROXY"] == "http://127.0.0.1:9"
    authority = (tmp_path / ".mitmproxy" / "mitmproxy-ca-cert.pem").read_text()
    bundles = {variables[n] for n in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")}
    assert [authority in Path(bundle).read_text() for bundle in bundles] == [True]


SESSION = shipped("recordings") / "mini-swe-agent-scratch.flow"


def test_a_scrubbed_recording_holds_as_many_requests(tmp_path: Path) -> None:
    out = tmp_path / "scrubbed.flow"
    assert main(["scrub", str(SESSION), str(out)]) == 0
    assert len(list(read_flows(SESSION))) == len(list(read_flows(out)))
    assert b"weekly report" not in out.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["scrub", "missing.flow", "out.flow"], "missing.flow"),
        (["scrub", __file__, "out.flow"], "no complete mitmproxy recording"),
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


@as_one_test
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["scrub", "some.flow"],
        *(["env", "--proxy", url] for url in ("nonsense", "ftp://a:1", "http://a", "http://a:x")),
        ["prices", "--reset", "--update", "x.json"],
        *(["replay", "--pause", each, "x.flow"] for each in ("10", "10,600,zzz", "0,1", "a,1")),
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


INTERRUPTED = """
import builtins, os, signal, sys
from addon.commands.main import main
find, place = builtins.__import__, int(sys.argv[1])

def interrupt(*arguments, **named):
    global place
    place -= 1
    if place == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return find(*arguments, **named)

signal.signal(signal.SIGINT, signal.default_int_handler)
builtins.__import__ = interrupt
sys.exit(main(["config"]))
"""


@pytest.mark.parametrize("place", [1, 2, 40, 400, 1500])
def test_ctrl_c_ends_a_command_that_is_loading_with_one_line(place: int) -> None:
    """At the nth import."""
    command = [sys.executable, "-c", INTERRUPTED, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (130, "", "obsmask: interrupted\n") == (
        done.returncode,
        done.stdout,
        done.stderr.lstrip("\n"),  # click ends the line of ^C
    )


SCREEN = 40
"""How many lines a user has at 80 columns without scrolling."""


@pytest.mark.parametrize("name", obsmask.list_commands(click.Context(obsmask)))
def test_a_commands_help_opens_with_its_purpose_and_fits_a_screen(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: obsmask {name} ")
    assert len(shown.splitlines()) <= SCREEN
    purpose = shown.split("\n\n")[1]
    assert re.search(rf"^  {name} +{re.escape(purpose.strip())}$", listed, re.MULTILINE)
    found = obsmask.get_command(click.Context(obsmask), name)
    assert found is not None
    assert [] == [o.name for o in found.params if isinstance(o, click.Option) and not o.help]


def test_the_help_fits_a_screen_and_begins_with_the_commands_of_every_day(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= SCREEN
    names = re.findall(r"^  ([a-z][a-z-]*)  ", shown, re.MULTILINE)
    assert ["run", "status", "page", "replay", "doctor"] == names[:5]


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
    names = re.findall(r"^  ([a-z][a-z-]*)  ", listed, re.MULTILINE)  # under one heading each
    assert sorted(obsmask.list_commands(click.Context(obsmask))) == sorted(names)
    heavy = {"mitmproxy", "pydantic", "rich", "masking", "tiktoken"}
    assert set() == heavy & set(modules.split())


def test_tuning_recommends_settings_by_the_command_that_sets_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (file := tmp_path / "talk.json").write_bytes(write_body(work(18, chars=1_500)))
    assert main(["tune", "--processes", "1", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("obsmask config set schema1.window_turns=")
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
