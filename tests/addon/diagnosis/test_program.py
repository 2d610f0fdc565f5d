"""What a command starts, and what runs that: by its first line, its first bytes, its name."""

import os
from pathlib import Path

import pytest

from addon.commands.diagnosis.program import (
    Interpreter,
    Other,
    Program,
    Runtime,
    find_program,
    find_runtime,
)


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
