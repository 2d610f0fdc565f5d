"""The command that starts an agent: what runs it, whom that trusts, and what is known of it."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from addon.agents import AGENTS, Agent
from addon.commands.doctor.report import Finding, broken, note, ok
from masking.config import Settings

# What is known of programs by the name of their command

_EDITOR = Agent(
    "editor",
    is_native=True,
    remark=(
        "Its extensions get the environment that a window was opened with: open a new one, and "
        "have the command wait until it is closed",
        "obsmask run -- code --new-window --wait .",
    ),
)

_PROGRAMS: Mapping[str, Agent] = {
    **{agent.program: agent for agent in AGENTS},
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor"), _EDITOR),
    "curl": Agent("curl", authorities=("SSL_CERT_FILE", "CURL_CA_BUNDLE"), is_native=True),
    "git": Agent("git", authorities=("GIT_SSL_CAINFO",), is_native=True),
    "sudo": Agent(
        "sudo",
        is_native=True,
        remark=("sudo drops the environment, and with it the proxy", "sudo -E COMMAND"),
    ),
}
"""Agents, and what else may be started, or starts them."""


def find_client(name: str) -> Agent | None:
    """Return what is known of the client that is started by a command of this name."""
    return _PROGRAMS.get(name.removesuffix(".exe"))


def check_client(
    name: str, client: Agent, environment: Mapping[str, str], settings: Settings
) -> Iterator[Finding]:
    """Yield what to know of a client in an environment, under settings."""
    if client.remark:
        yield note(*client.remark)
    socket = client.socket
    if socket is None:
        return
    if socket.variable and environment.get(socket.variable[0]) != socket.variable[1]:
        return
    if settings.websocket.mode == "http":
        yield ok(f'websocket.mode = "http": {name} sends whole histories, which are masked')
    elif settings.websocket.mode == "auto" and settings.any_changes and client.fallback:
        yield ok(
            f'websocket.mode = "auto": {name} is made to use HTTP where something could be masked'
        )
    else:
        yield note(
            f"{name} sends only new messages over a WebSocket{socket.models}, and the provider "
            "keeps the rest: nothing is masked",
            "obsmask run --client-changes -- COMMAND",
        )


# Which program a command starts, and what runs it


Runtime = Literal["node", "python", "bun", "deno"]
"""What can be tested."""

Other = Literal["native", "shell script", "unknown"]
"""What cannot."""


class Interpreter(NamedTuple):
    """The runtime of a program, and the file by which it is started.

    Names of links are kept where a runtime finds its packages by them, as that of a virtual
    environment does.
    """

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


# A trial: the runtime asks a URL through the proxy. Nothing of the user's is started

Outcome = Literal["trusted", "untrusted", "unreached", "failed"]
"""`unreached`: it looked for the host itself, past the proxy. `failed`: for another reason."""

_TRIAL_SECONDS = 120.0

_SCRIPTS: Mapping[Runtime, tuple[tuple[str, ...], str]] = {
    "node": (("--input-type=module", "-e"), "trial.js"),
    "bun": (("-e",), "trial.js"),
    "deno": (("eval",), "trial.js"),
    "python": (("-c",), "trial.py"),
}
"""How a runtime is given a script, and which."""


class Attempt(BaseModel):
    """What became of one of the ways in which a client of a runtime may ask."""

    model_config = ConfigDict(frozen=True)

    way: str
    outcome: Outcome
    detail: str


def try_interpreter(
    interpreter: Interpreter, url: str, environment: Mapping[str, str]
) -> list[Attempt]:
    """Return how each way to ask ends here; none if the interpreter cannot be started."""
    options, name = _SCRIPTS[interpreter.runtime]
    script = (files("addon.commands.doctor") / "trials" / name).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(  # noqa: S603 - the runtime that the user would start
                [interpreter.path, *options, script, url],
                env=dict(environment),
                cwd=folder,
                timeout=_TRIAL_SECONDS,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
    return [found for found in map(_read_line, done.stdout.splitlines()) if found]


def _read_line(line: bytes) -> Attempt | None:
    """Parse a line of the script; None for a line that something else printed."""
    try:
        return Attempt.model_validate_json(line)
    except ValidationError:
        return None


# What the trial showed

_REVERSE = "obsmask run --reverse URL -- COMMAND"


def check_unasked(program: Program, client: Agent | None) -> Iterator[Finding]:
    """Yield what is known of a program whose trust cannot be tested."""
    if client and client.authorities:
        yield ok(
            f"Whether {program.name} trusts the proxy cannot be tested. It is known to read "
            f"{' or '.join(client.authorities)}"
        )
        return
    runs_on = program.runs_on
    kind = _KINDS["native" if isinstance(runs_on, Interpreter) else runs_on]
    yield note(
        f"{program.path} {kind}: whether it trusts the proxy's certificate "
        "cannot be known from outside. If it does not, the proxy's log says so"
    )


_KINDS: dict[Other, str] = {
    "native": "is, or starts, a native program",
    "shell script": "is a shell script, and it is unclear what it starts",
    "unknown": "is run by an unknown interpreter",
}


def check_attempts(
    program: Program,
    interpreter: Interpreter,
    client: Agent | None,
    attempts: Sequence[Attempt],
    fix: str | None = None,
) -> Iterator[Finding]:
    """Yield whether a runtime trusts the proxy's certificate, and whether it uses the proxy.

    `fix` is what would have it trust the proxy.
    """
    is_itself = interpreter.path == program.path
    runtime = f"{interpreter.path}" + ("" if is_itself else f", which runs {program.name},")
    if not attempts:
        yield note(f"Could not test whether {runtime} trusts the proxy's certificate")
        return
    ways = {each.outcome: [a for a in attempts if a.outcome == each.outcome] for each in attempts}
    if trusting := ways.get("trusted"):
        yield ok(f"{runtime} trusts the proxy's certificate ({_name_ways(trusting)})")
    if refusing := ways.get("untrusted"):
        yield broken(
            f"{runtime} does not trust the proxy's certificate ({_describe_ways(refusing)}): its "
            "requests fail, or pass unmasked",
            fix,
        )
    if passing := ways.get("unreached"):
        yield from _check_passing(runtime, program, client, passing, is_trusted=bool(trusting))
    if failing := ways.get("failed"):
        yield broken(f"{runtime} gets no answer through the proxy ({_describe_ways(failing)})")


def _check_passing(
    runtime: str,
    program: Program,
    client: Agent | None,
    passing: Sequence[Attempt],
    *,
    is_trusted: bool,
) -> Iterator[Finding]:
    """Yield a note on ways that look for a server past the proxy, as Node 20's fetch.

    A client that is known to work brings its own way, whatever its runtime does.
    """
    if client is not None and client.authorities and is_trusted:
        return
    yield note(
        f"{runtime} bypasses the proxy with {_name_ways(passing)}: requests are masked only if "
        f"{program.name} sends them in another way. A base URL needs no proxy setting",
        _REVERSE,
    )


def _name_ways(attempts: Sequence[Attempt]) -> str:
    return ", ".join(each.way for each in attempts)


def _describe_ways(attempts: Sequence[Attempt]) -> str:
    return ", ".join(f"{each.way}: {each.detail}" if each.detail else each.way for each in attempts)
