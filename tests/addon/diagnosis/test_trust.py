"""What runtimes did, what cannot be asked, and what is known of clients."""

import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from addon.commands.diagnosis import processes
from addon.commands.diagnosis.clients import find_client
from addon.commands.diagnosis.program import Interpreter, Program
from addon.commands.diagnosis.trial import Attempt, Outcome
from addon.commands.diagnosis.trust import check_attempts, check_unasked
from masking.config import Settings, parse_settings
from tests.findings import levels

NODE = Program("agent", Path("/bin/agent"), Interpreter("node", Path("/bin/node")))
PROXIED = Interpreter("node", Path("/bin/node"))


def attempt(way: str, outcome: Outcome) -> Attempt:
    return Attempt(way=way, outcome=outcome, detail="")


@pytest.mark.parametrize(
    ("outcomes", "name", "expected"),
    [
        (["trusted", "trusted"], "", ["ok"]),
        (["untrusted", "unreached"], "", ["broken", "note"]),
        (["trusted", "unreached"], "", ["ok", "note"]),
        (["trusted", "unreached"], "qwen", ["ok"]),
        (["untrusted", "unreached"], "qwen", ["broken", "note"]),
        (["trusted", "untrusted"], "", ["ok", "broken"]),
        (["failed"], "", ["broken"]),
        ([], "", ["note"]),
    ],
    ids=[
        "trusts",
        "does not trust, and has no proxy",
        "trusts, and its own fetch goes past",
        "the same, of a client that is known to ask in another way",
        "a known client that does not trust",
        "a package that has authorities of its own",
        "gets no answer",
        "cannot be asked",
    ],
)
def test_what_a_runtime_does_is_told(
    outcomes: list[Outcome], name: str, expected: list[str]
) -> None:
    attempts = [attempt(f"way {place}", each) for place, each in enumerate(outcomes)]
    assert expected == levels(check_attempts(NODE, PROXIED, find_client(name), attempts))


def test_what_cannot_be_asked_is_not_guessed() -> None:
    native = Program("agent", Path("/bin/agent"), "native")
    (found,) = check_unasked(native, None)
    assert found.level == "note"
    assert "cannot be known" in found.says
    (known,) = check_unasked(native, find_client("claude"))
    assert "SSL_CERT_FILE or NODE_EXTRA_CA_CERTS" in known.says


HTTP = b'[observation_masking.websocket]\nmode = "http"\n'
PASS = HTTP.replace(b"http", b"pass")
OBSERVE = b'[observation_masking]\nmode = "observe"\n'


@pytest.mark.parametrize(
    ("name", "environment", "config", "expected"),
    [
        ("codex", {}, b"", ["ok"]),
        ("codex", {}, PASS, ["note"]),
        ("codex", {}, OBSERVE, ["note"]),
        ("codex", {}, HTTP, ["ok"]),
        ("copilot", {}, b"", []),
        ("copilot", {"COPILOT_PROVIDER_TRANSPORT": "websockets"}, b"", ["ok"]),
        ("copilot", {"COPILOT_PROVIDER_TRANSPORT": "websockets"}, HTTP, ["ok"]),
        ("fast-agent", {}, b"", ["note"]),
        ("nanocoder", {}, b"", ["note"]),
        ("cline", {}, b"", ["note"]),
        ("aider", {}, b"", ["note"]),
        ("code", {}, b"", ["note"]),
        ("sudo", {}, b"", ["note"]),
        ("mini", {}, b"", []),
    ],
    ids=[
        "speaks over a WebSocket",
        "may keep its WebSocket",
        "keeps its WebSocket where masking is only observed",
        "is told to use HTTP",
        "speaks HTTP unless it is told otherwise",
        "was told to speak over a WebSocket",
        "was told so, and is told to use HTTP",
        "speaks over a WebSocket to some models",
        "takes no proxy",
        "keeps its old environment",
        "has no tool results",
        "is an editor",
        "drops the environment",
        "is masked",
    ],
)
def test_what_is_known_of_a_client_is_told(
    name: str,
    environment: dict[str, str],
    config: bytes,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)  # the user may have a hub of cline's
    client, settings = find_client(name), parse_settings(config) or Settings()
    assert client is not None
    assert expected == levels(client.remarks(environment, settings))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells")
@pytest.mark.parametrize(
    ("hub", "now", "expected"),
    [
        ({}, {}, ["broken"]),
        ({}, {"HTTPS_PROXY": "http://127.0.0.1:8080"}, ["broken"]),
        ({"https_proxy": "http://127.0.0.1:1"}, {"HTTPS_PROXY": "http://[::1]:1"}, ["broken"]),
        ({"https_proxy": "http://[::1]:1"}, {"HTTPS_PROXY": "http://[::1]:1"}, []),
    ],
    ids=["before run", "before a proxy", "of an earlier proxy", "of this proxy"],
)
def test_the_hub_of_cline_has_the_environment_of_its_start(
    hub: dict[str, str], now: dict[str, str], expected: list[str]
) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()", "--cline-hub-daemon"]
    cline = find_client("cline")
    assert cline is not None
    with subprocess.Popen(command, env=hub, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has its arguments and its environment now
        found = [each for each in cline.remarks(now, Settings()) if f"{process.pid}" in each.says]
        process.kill()
    assert expected == levels(found)
