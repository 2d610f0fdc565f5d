"""Which program a command starts, what runs that, whether it trusts us, what is known of it."""

import os
from pathlib import Path

import pytest

from addon.commands.doctor.client import (
    Attempt,
    Interpreter,
    Other,
    Outcome,
    Program,
    Runtime,
    check_attempts,
    check_client,
    check_unasked,
    find_client,
    find_program,
    find_runtime,
)
from masking.config import Settings, parse_settings
from tests.support.findings import levels
from tests.support.marks import as_one_test

# Which program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A search path with the runtimes on it."""
    (tmp_path / "bin").mkdir()
    for name in ("node", "python3.12", "bun", "deno", "sh", "perl"):
        write(tmp_path / "bin" / name, b"\x7fELF")
    return tmp_path / "bin"


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755)
    return path


def find(folder: Path, *command: str) -> Program | None:
    return find_program(command, {"PATH": str(folder)})


@pytest.mark.parametrize(
    ("content", "runtime", "interpreter"),
    [
        ("#!/usr/bin/env node\nimport x", "node", "node"),
        ("#!/usr/bin/env -S node --no-warnings\n", "node", "node"),
        ("#!/usr/bin/env -S NODE_OPTIONS=--x node\n", "node", "node"),
        ("#!{bin}/python3.12\nimport sys", "python", "python3.12"),
        ("#!{bin}/python3.12 -I\n", "python", "python3.12"),
        ("#!/usr/bin/env bun\n", "bun", "bun"),
        ("#!/usr/bin/env -S deno run -A\n", "deno", "deno"),
        ("#!{bin}/sh\n'''exec' \"{bin}/python3.12\" \"$0\" \"$@\"\n' '''", "python", "python3.12"),
        ('#!{bin}/sh\nif x; then\n  exec "$basedir/node"  "$basedir/../x.js"\n', "node", "node"),
        ('#!{bin}/sh\nexec node  "$basedir/../x.js" "$@"\n', "node", "node"),
        ('#!{bin}/sh\nexec "{bin}/python3.12" -m agent "$@"\n', "python", "python3.12"),
    ],
    ids=[
        "npm's",
        "env with an option",
        "env with a variable",
        "pip's",
        "with an option of its own",
        "bun's",
        "deno's",
        "pip's, around a long path",
        "pnpm's, with a node that is not beside it",
        "pnpm's, with that of the search path",
        "a package's launcher",
    ],
)
def test_a_script_is_run_by_what_its_beginning_names(
    folder: Path, content: str, runtime: Runtime, interpreter: str
) -> None:
    script = write(folder / "agent", content.replace("{bin}", str(folder)))
    expected = Program("agent", script, Interpreter(runtime, folder / interpreter))
    assert expected == find(folder, "agent", "-p", "task")


@pytest.mark.parametrize(
    ("content", "runs_on"),
    [
        (b"\x7fELF\x02", "native"),
        (b"\xcf\xfa\xed\xfe", "native"),
        (b"MZ", "native"),
        (b"#!/usr/bin/env perl\n", "unknown"),
        (b"#!/nowhere/python3\n", "unknown"),
        (b"#!/usr/bin/env 'node\n", "unknown"),
        (b"#!\n", "unknown"),
        (b"", "unknown"),
        (b'#!/bin/sh\nexec "$(which agent)" "$@"\n', "shell script"),
        (b"#!/bin/sh\nexec /nowhere/at/all/python9 x\n", "shell script"),
    ],
    ids=[
        "Linux",
        "macOS",
        "Windows",
        "another language",
        "a runtime that is not there",
        "a quote that is left open",
        "no name",
        "empty",
        "a script that looks for itself",
        "a script with a runtime that is not there",
    ],
)
def test_what_cannot_be_asked_is_told_apart(folder: Path, content: bytes, runs_on: Other) -> None:
    script = write(folder / "agent", content)
    assert Program("agent", script, runs_on) == find(folder, "agent")


def test_a_link_is_followed_to_the_script_but_not_to_the_python(folder: Path) -> None:
    """By the name of its link a Python finds the packages of its virtual environment."""
    script = write(folder.parent / "cli.js", "#!/usr/bin/env node\n")
    (folder / "qwen").symlink_to(script)
    (folder / "python").symlink_to(folder / "python3.12")
    node = Interpreter("node", folder / "node")
    assert Program("qwen", script, node) == find(folder, "qwen")
    python = Interpreter("python", folder / "python")
    assert Program("python", folder / "python", python) == find(folder, "python")


@pytest.mark.parametrize(
    "command",
    [("env", "A=b", "agent"), ("env", "-i", "A=", "agent", "-x"), ("/usr/bin/env", "agent")],
    ids=" ".join,
)
def test_env_is_left_out(folder: Path, command: tuple[str, ...]) -> None:
    write(folder / "agent", b"\x7fELF")
    assert Program("agent", folder / "agent", "native") == find(folder, *command)


def test_a_file_may_be_named_by_its_path(folder: Path) -> None:
    write(folder / "agent", b"\x7fELF")
    found = find_program([str(folder / "agent")], {"PATH": ""})
    assert Program("agent", folder / "agent", "native") == found


@pytest.mark.parametrize("command", [(), ("none",), ("env",), ("env", "A=b")], ids=repr)
def test_a_command_that_is_not_there_is_nothing(folder: Path, command: tuple[str, ...]) -> None:
    assert find(folder, *command) is None


def test_a_file_that_cannot_be_read_is_unknown(folder: Path) -> None:
    (folder / "agent").symlink_to(write(folder / "it", b"\x7fELF"))
    (folder / "it").unlink()
    assert find(folder, "agent") is None


@as_one_test
@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("node", "node"),
        ("nodejs", "node"),
        ("node22", "node"),
        ("python", "python"),
        ("python3.13t", "python"),
        ("pypy3", "python"),
        ("bunx", "bun"),
        ("deno", "deno"),
        ("nodemon", None),
        ("python-config", None),
    ],
)
def test_a_runtime_has_its_names(name: str, runtime: str | None) -> None:
    assert runtime == find_runtime(name)


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "agent", 0o755)
    assert find(folder, "agent") == Program("agent", folder / "agent", "unknown")


# What runtimes did, and what is known of clients

NODE = Program("agent", Path("/bin/agent"), Interpreter("node", Path("/bin/node")))
PROXIED = Interpreter("node", Path("/bin/node"))


def attempt(way: str, outcome: Outcome) -> Attempt:
    return Attempt(way=way, outcome=outcome, detail="")


@as_one_test
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


@as_one_test
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
) -> None:
    client, settings = find_client(name), parse_settings(config) or Settings()
    assert client is not None
    assert expected == levels(check_client(name, client, environment, settings))
