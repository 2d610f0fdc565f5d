"""The command that starts an agent: what is known of that, and whether what runs it trusts us."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

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
_SUDO = Agent(
    "sudo",
    is_native=True,
    remark=("sudo drops the environment, and with it the proxy", "sudo -E COMMAND"),
)
_PROGRAMS: Mapping[str, Agent] = {
    **{agent.program: agent for agent in AGENTS},
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor"), _EDITOR),
    "sudo": _SUDO,
}
"""Agents, and what else starts them."""


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
            "obsmask run --force-http -- COMMAND",
        )


# Which program a command starts, and what runs it

Runtime = Literal["node", "python"]

_RUNTIMES: Mapping[Runtime, re.Pattern[str]] = {
    "node": re.compile(r"node(?:js)?\d*(?:\.exe)?"),
    "python": re.compile(r"(?:python|pypy)[\d.]*t?(?:\.exe)?"),
}
_FIRST_LINE_BYTES = 1_024


class Program(NamedTuple):
    """A program: the name it is called by, its file, and the interpreter that can be tried.

    The last one keeps the name of its link: by that a Python finds its virtual environment.
    """

    name: str
    path: Path
    interpreter: Path | None = None


def find_program(command: Sequence[str], environment: Mapping[str, str]) -> Program | None:
    """Return the program that a command starts, `env` left out; None if there is none."""
    path = _find(_skip_env(command), environment)
    if path is None:
        return None
    if find_runtime(path):
        return Program(path.name, path, path)
    script = path.resolve()
    return Program(path.name, script, _find_interpreter(script, environment))


def find_runtime(interpreter: Path) -> Runtime | None:
    """Return the runtime that an executable is by its name; None for any other."""
    name = interpreter.name
    return next((each for each, names in _RUNTIMES.items() if names.fullmatch(name)), None)


def _find(words: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    found = shutil.which(words[0], path=environment.get("PATH")) if words else None
    return Path(found) if found else None


def _skip_env(command: Sequence[str]) -> Sequence[str]:
    """Return a command without `env`, its options and its variables."""
    if not command or Path(command[0]).name != "env":
        return command
    words = (
        place for place, word in enumerate(command) if place and word[:1] != "-" and "=" not in word
    )
    return command[next(words, len(command)) :]


def _find_interpreter(script: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the Node or Python that a script's first line names; None for all else."""
    if not script.is_file():  # to read from a pipe may never end
        return None
    try:
        with script.open("rb") as file:
            line = file.readline(_FIRST_LINE_BYTES).decode()
        words = shlex.split(line.removeprefix("#!")) if line.startswith("#!") else []
    except (OSError, ValueError):  # a native program, or a quote that is left open
        return None
    started = _find(_skip_env(words), environment)
    return started if started and find_runtime(started) else None


# The trial: the interpreter asks a URL through the proxy. Nothing of the user's is started

_SECONDS = 60.0

_SCRIPTS: Mapping[Runtime, tuple[tuple[str, ...], str]] = {
    "python": (
        ("-c",),
        """
import ssl, sys, urllib.request
urllib.request.urlopen(sys.argv[-1], timeout=15, context=ssl.create_default_context()).close()
""",
    ),
    # What undici's ProxyAgent and https-proxy-agent do, which most clients bring along.
    "node": (
        ("--input-type=module", "-e"),
        """
import { connect } from "node:net";
import * as tls from "node:tls";
const { hostname } = new URL(process.argv[process.argv.length - 1]);
const proxy = new URL(process.env.HTTPS_PROXY);
const socket = connect(Number(proxy.port), proxy.hostname);
socket.write(`CONNECT ${hostname}:443 HTTP/1.1\r\nHost: ${hostname}:443\r\n\r\n`);
socket.once("data", () => tls.connect({ socket, servername: hostname }, () => process.exit()));
""",
    ),
}
"""How a runtime is given a script, and the script: it fails, with the reason, without an answer."""

_UNTRUSTED = re.compile(rb"CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT\w*|UNABLE_TO_\w+|CERT_\w+")


def try_interpreter(
    interpreter: Path,
    called: str,
    url: str,
    environment: Mapping[str, str],
    fix: str | None = None,
) -> Iterator[Finding]:
    """Yield whether an interpreter, which is `called` so, trusts the proxy's certificate.

    `fix` is what would have it trust the proxy.
    """
    options, script = _SCRIPTS[find_runtime(interpreter) or "python"]
    try:
        done = subprocess.run(  # noqa: S603 - the runtime that the user would start
            [interpreter, *options, script, url],
            env=dict(environment),
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        yield note(f"Could not test whether {called} trusts the proxy's certificate")
        return
    if done.returncode == 0:
        yield ok(f"{called} trusts the proxy's certificate")
    elif reason := _UNTRUSTED.search(done.stderr):
        yield broken(
            f"{called} does not trust the proxy's certificate ({reason[0].decode()}): its requests "
            "fail, or pass unmasked",
            fix,
        )
    else:
        (*_, last) = done.stderr.decode(errors="replace").split("\n\n")[0].splitlines() or [""]
        yield broken(f"{called} gets no answer through the proxy: {last.strip()}")


def check_untried(program: Program, client: Agent | None) -> Iterator[Finding]:
    """Yield what is known of a program whose trust cannot be tested."""
    if client and client.authorities:
        names = " or ".join(client.authorities)
        yield ok(
            f"Whether {program.name} trusts the proxy cannot be tested. It is known to read {names}"
        )
        if client.url_option:
            yield ok(
                f"With an API key, it needs to trust nothing: obsmask run --reverse "
                f"{client.url_option.server} -- {program.name}"
            )
    else:
        yield note(
            f"Whether {program.path} trusts the proxy's certificate cannot be known from outside. "
            "If it does not, the proxy's log says so"
        )
