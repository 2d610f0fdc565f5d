"""Which program a command starts, what runs that, whether it trusts us, what is known of it."""

import os
from pathlib import Path

import pytest

from addon.commands.doctor.client import (
    Program,
    check_client,
    check_untried,
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
    ("content", "interpreter"),
    [
        ("#!/usr/bin/env node\nimport x", "node"),
        ("#!/usr/bin/env -S node --no-warnings\n", "node"),
        ("#!/usr/bin/env -S NODE_OPTIONS=--x node\n", "node"),
        ("#!{bin}/python3.12\nimport sys", "python3.12"),
        ("#!{bin}/python3.12 -I\n", "python3.12"),
        ("#!/usr/bin/env bun\n", None),
        ("#!{bin}/sh\nexec node x.js\n", None),
        ("#!/usr/bin/env perl\n", None),
        ("#!/nowhere/python3\n", None),
        ("#!/usr/bin/env 'node\n", None),
        ("#!\n", None),
        ("", None),
        (b"\x7fELF\x02\xff", None),
    ],
    ids=[
        "npm's",
        "env with an option",
        "env with a variable",
        "pip's",
        "with an option of its own",
        "bun's",
        "a shell script",
        "another language",
        "a runtime that is not there",
        "a quote that is left open",
        "no name",
        "empty",
        "a native program",
    ],
)
def test_a_script_is_run_by_what_its_first_line_names(
    folder: Path, content: bytes | str, interpreter: str | None
) -> None:
    if isinstance(content, str):
        content = content.replace("{bin}", str(folder))
    script = write(folder / "agent", content)
    expected = Program("agent", script, folder / interpreter if interpreter else None)
    assert expected == find(folder, "agent", "-p", "task")


def test_a_link_is_followed_to_the_script_but_not_to_the_python(folder: Path) -> None:
    """By the name of its link a Python finds the packages of its virtual environment."""
    script = write(folder.parent / "cli.js", "#!/usr/bin/env node\n")
    (folder / "qwen").symlink_to(script)
    (folder / "python").symlink_to(folder / "python3.12")
    assert Program("qwen", script, folder / "node") == find(folder, "qwen")
    assert Program("python", folder / "python", folder / "python") == find(folder, "python")


@pytest.mark.parametrize(
    "command",
    [("env", "A=b", "agent"), ("env", "-i", "A=", "agent", "-x"), ("/usr/bin/env", "agent")],
    ids=" ".join,
)
def test_env_is_left_out(folder: Path, command: tuple[str, ...]) -> None:
    write(folder / "agent", b"\x7fELF")
    assert Program("agent", folder / "agent") == find(folder, *command)


def test_a_file_may_be_named_by_its_path(folder: Path) -> None:
    write(folder / "agent", b"\x7fELF")
    found = find_program([str(folder / "agent")], {"PATH": ""})
    assert Program("agent", folder / "agent") == found


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
        ("bunx", None),
        ("nodemon", None),
        ("python-config", None),
    ],
)
def test_a_runtime_has_its_names(name: str, runtime: str | None) -> None:
    assert runtime == find_runtime(Path(name))


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "agent", 0o755)
    assert find(folder, "agent") == Program("agent", folder / "agent")


# What is known of clients


def test_what_cannot_be_asked_is_not_guessed() -> None:
    native = Program("agent", Path("/bin/agent"))
    (found,) = check_untried(native, None)
    assert found.level == "note"
    assert "cannot be known" in found.says
    (known,) = check_untried(native, find_client("claude"))
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


def test_a_client_that_takes_a_base_url_need_not_trust_us() -> None:
    known, without = check_untried(Program("codex", Path("/bin/codex")), find_client("codex"))
    assert "SSL_CERT_FILE or CODEX_CA_CERTIFICATE" in known.says
    assert without.says.endswith("obsmask run --reverse https://api.openai.com -- codex")
