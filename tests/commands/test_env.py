"""`obsmask env`: what a shell makes of it, and that it can be taken back."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from addon.commands.env import SHELLS
from addon.commands.main import main
from addon.proxy.environment import (
    CA_VARIABLES,
    DIRECT_VARIABLES,
    OTHER_CA_VARIABLES,
    OTHER_PROXY_VARIABLES,
    PROXY_VARIABLES,
    REPLACED,
    WGET_VARIABLE,
    restore,
)
from tests.support.ports import hold_port

URL = "http://127.0.0.1:8080"
OURS = (
    *(*PROXY_VARIABLES, *OTHER_PROXY_VARIABLES, *DIRECT_VARIABLES),
    *(*CA_VARIABLES, *OTHER_CA_VARIABLES, WGET_VARIABLE, "NODE_USE_ENV_PROXY", REPLACED),
    *("ANTHROPIC_BASE_URL", "ENABLE_TOOL_SEARCH", "ANTHROPIC_MODEL"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def run_env(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Return what is printed of a proxy that does not run, without the line that says so."""
    assert main(["env", "--force", *arguments]) == 0
    shown = capsys.readouterr()
    lines = shown.err.splitlines(keepends=True)
    absent = [line for line in lines if line.startswith("obsmask: no proxy answers at ")]
    assert len(absent) == ("--unset" not in arguments)
    return shown.out, "".join(line for line in lines if line not in absent)


@contextlib.contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """Yield the URL of a server that gives the same answer to every request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def test_nothing_is_printed_where_no_proxy_answers(capsys: pytest.CaptureFixture[str]) -> None:
    hint = (
        ": start one with obsmask proxy, or name another one with --proxy; --force prints the "
        "variables all the same\n"
    )
    for scheme in ("http", "https"):
        url = f"{scheme}://127.0.0.1:{hold_port()}"
        assert main(["env", "--proxy", url]) == 1
        assert ("", f"obsmask: no proxy answers at {url}{hint}") == capsys.readouterr()
    with listening(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi") as url:
        assert main(["env", "--proxy", url]) == 1
    problem = f"obsmask: what answers at {url} is no proxy with the addon{hint}"
    assert ("", problem) == capsys.readouterr()
    assert main(["env", "--unset"]) == 0


def evaluate(script: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that a shell starts once it has evaluated a script."""
    shell = ["/bin/sh", "-c", f"{script}\nexec env -0"]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=True)
    pairs = [line.partition("=") for line in done.stdout.split("\0") if line]
    return {name: value for name, _, value in pairs if name not in ("_", "PWD", "SHLVL", "OLDPWD")}


def use(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


BEFORE = {
    "nothing": {},
    "a company's proxy": {
        "https_proxy": 'http://me:it\'s a "secret"$HOME@corp:1',
        "NO_PROXY": "corp,10.0.0.0/8",
        "ALL_PROXY": "socks5://corp:2",
    },
    "a gateway": {"ANTHROPIC_BASE_URL": "https://gateway.example.com/v1"},
    "tools as the user wants them": {"ENABLE_TOOL_SEARCH": "false"},
    "an empty one": {"http_proxy": "", "no_proxy": "a b\nc"},
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_a_shell_gets_the_variables_and_can_take_them_back(
    before: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(before, monkeypatch)
    set_once = evaluate(run_env(capsys)[0], before)
    assert {URL} == {set_once[name] for name in PROXY_VARIABLES}
    use(set_once, monkeypatch)
    set_twice = evaluate(run_env(capsys)[0], set_once)
    assert set_once == set_twice
    assert before == evaluate(run_env(capsys, "--unset")[0], set_twice)
    assert before == {name: value for name, value in restore(set_twice).items() if name in OURS}


def test_claude_code_is_led_to_its_server_by_way_of_the_proxy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = {"ANTHROPIC_BASE_URL": "https://gateway.example.com/v1"}
    use(gateway, monkeypatch)
    set_once = evaluate(run_env(capsys)[0], gateway)
    assert f"{URL}/to/https/gateway.example.com/v1" == set_once["ANTHROPIC_BASE_URL"]
    assert "true" == set_once["ENABLE_TOOL_SEARCH"]
    use(gateway, monkeypatch)
    kept = evaluate(run_env(capsys, "--no-agent-setup")[0], gateway)
    assert gateway.items() <= kept.items()
    assert "ENABLE_TOOL_SEARCH" not in kept
    assert gateway == evaluate(run_env(capsys, "--unset")[0], kept)


@pytest.mark.parametrize(
    ("environment", "arguments", "why"),
    [
        (
            {"ANTHROPIC_MODEL": "claude-fable-5-2"},
            (),
            "claude-fable-5-2 binds its reasoning to what precedes it",
        ),
        (
            {},
            ("--proxy", "http://proxy.invalid:8080"),
            "the proxy at http://proxy.invalid:8080 is a base URL for clients of its own machine "
            "alone",
        ),
    ],
    ids=["the model", "the proxy"],
)
def test_claude_code_is_left_as_it_is_where_that_would_gain_nothing(
    environment: Mapping[str, str],
    arguments: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(environment, monkeypatch)
    out, err = run_env(capsys, *arguments)
    assert f"obsmask: claude-code is unchanged: {why}\n" == err
    assert "ANTHROPIC_BASE_URL" not in evaluate(out, environment)


def test_what_is_set_between_two_times_can_be_taken_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_once = evaluate(run_env(capsys)[0], {})
    changed = {**set_once, "ALL_PROXY": "http://corp:1"}
    use(changed, monkeypatch)
    set_twice = evaluate(run_env(capsys)[0], changed)
    assert URL == set_twice["ALL_PROXY"]
    use(set_twice, monkeypatch)
    assert {"ALL_PROXY": "http://corp:1"} == evaluate(run_env(capsys, "--unset")[0], set_twice)


def test_what_was_there_is_named_once_and_without_its_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (home / "own.pem").touch()
    use(
        {
            "HTTPS_PROXY": "http://me:secret@corp:1",
            "SSL_CERT_FILE": f"{home}/own.pem",
            "NODE_USE_ENV_PROXY": "1",
        },
        monkeypatch,
    )
    out, err = run_env(capsys)
    assert "obsmask: replaced, until env --unset: HTTPS_PROXY, SSL_CERT_FILE\n" == err
    use(evaluate(out, {**os.environ}), monkeypatch)
    assert "" == run_env(capsys)[1]


def test_without_a_note_of_what_was_there_our_variables_are_unset() -> None:
    theirs = {"PATH": "/bin", "PIP_CERT": "/own.pem"}
    for note in ({}, {REPLACED: "nonsense"}, {REPLACED: "[1]"}, {REPLACED: '{"HTTPS_PROXY": 1}'}):
        assert theirs == restore({**theirs, **note, "HTTPS_PROXY": URL})


SPELLED = {
    "posix": ["export A='it'\"'\"'s $x'", "unset A"],
    "fish": ["set -gx A 'it\\'s $x';", "set -e A;"],
    "powershell": ["$env:A = 'it''s $x'", "Remove-Item Env:A -ErrorAction SilentlyContinue"],
}


@pytest.mark.parametrize("name", SHELLS)
def test_each_shell_gets_its_own_language(name: str) -> None:
    shell = SHELLS[name]
    assert SPELLED[name] == [shell.export("A", "it's $x"), shell.unset("A")]
