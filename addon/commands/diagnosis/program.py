"""Which program a command starts, and what runs it: node, python, or nothing that can be asked.

Names of links are kept where a runtime finds its packages by them, as that of a virtual
environment does.
"""

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

Runtime = Literal["node", "python", "bun", "deno"]
"""What can be asked whom it trusts."""

Other = Literal["native", "shell script", "unknown"]
"""What cannot."""


class Interpreter(NamedTuple):
    """The runtime of a program, and the file by which it is started."""

    runtime: Runtime
    path: Path


class Program(NamedTuple):
    """A program: the name it is called by, its file, and what runs it."""

    name: str
    path: Path
    runs_on: Interpreter | Other


_RUNTIMES: tuple[tuple[Runtime, re.Pattern[str]], ...] = (
    ("node", re.compile(r"node(?:js)?(?:\d+)?(?:\.exe)?")),
    ("python", re.compile(r"(?:python|pypy)[\d.]*t?(?:\.exe)?")),
    ("bun", re.compile(r"bunx?")),
    ("deno", re.compile(r"deno")),
)

_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash"}

_HEAD_BYTES = 8_192

_NATIVE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
"""How executables begin on Linux, macOS and Windows."""

_EXEC = re.compile(
    r"""^\s*(?:'''exec'|exec)\s+(?:-a\s+\S+\s+)?"?([^"\n]*?[\w.])"?(?=\s|$)""", re.MULTILINE
)
"""What a shell script becomes, as pip writes it around a long path, or pnpm."""


def find_program(command: Sequence[str], environment: Mapping[str, str]) -> Program | None:
    """Return the program that a command starts, `env` left out; None if there is none."""
    words = _skip_env(command)
    found = shutil.which(words[0], path=environment.get("PATH")) if words else None
    if found is None:
        return None
    path = Path(found)
    if runtime := find_runtime(path.name):
        return Program(path.name, path, Interpreter(runtime, path))
    return Program(path.name, path.resolve(), _read_start(path.resolve(), environment))


def find_runtime(name: str) -> Runtime | None:
    """Return the runtime that an executable of this name is; None if it is none that is known."""
    return next((runtime for runtime, names in _RUNTIMES if names.fullmatch(name)), None)


def _skip_env(command: Sequence[str]) -> Sequence[str]:
    """Return a command without `env`, its options and its variables."""
    if not command or Path(command[0]).name != "env":
        return command
    words = (
        place for place, word in enumerate(command) if place and word[:1] != "-" and "=" not in word
    )
    return command[next(words, len(command)) :]


def _read_start(path: Path, environment: Mapping[str, str]) -> Interpreter | Other:
    """Return what runs a file, by its first bytes."""
    if not path.is_file():  # to read from a pipe may never end
        return "unknown"
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return "unknown"
    if not head.startswith(b"#!"):
        return "native" if head.startswith(_NATIVE) else "unknown"
    text = head.decode(errors="replace")
    started = _find_started(text.partition("\n")[0][2:], environment)
    if started is not None and started.name in _SHELLS:
        return _read_script(path, text, environment)
    runtime = find_runtime(started.name) if started else None
    return Interpreter(runtime, started) if runtime and started else "unknown"


def _find_started(line: str, environment: Mapping[str, str]) -> Path | None:
    """Return the program that a script's first line starts, `env` left out."""
    try:
        words = _skip_env(shlex.split(line))
    except ValueError:  # a quote that is left open
        return None
    found = shutil.which(words[0], path=environment.get("PATH")) if words else None
    return Path(found) if found else None


def _read_script(script: Path, text: str, environment: Mapping[str, str]) -> Interpreter | Other:
    """Return the runtime that a shell script becomes, if it says so and that is there."""
    for word in _EXEC.findall(text):
        runtime = find_runtime(Path(word).name)
        beside = Path(re.sub(r"\$\{?(?:basedir|DIR|here)\}?", str(script.parent), word))
        places = (str(beside), beside.name) if "/" in word else (word,)
        found = (shutil.which(place, path=environment.get("PATH")) for place in places)
        if runtime and (interpreter := next(filter(None, found), None)):
            return Interpreter(runtime, Path(interpreter))
    return "shell script"
