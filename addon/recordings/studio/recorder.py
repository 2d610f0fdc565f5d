"""Makes a recording: a real client, a real mitmdump and a scripted provider, all on loopback.

The client believes that it speaks with its vendor. The recorder's own proxy sends its requests
to the provider, without root and without a hosts file, and lets nothing else through. The recording
is scrubbed (`addon.recordings.scrub`), so that it can be published.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from addon.proxy.authorities import write_bundle
from addon.proxy.environment import client_environment
from addon.proxy.launch import running_proxy
from addon.recordings.leak_check import own_home
from addon.recordings.provider.provider import HOST, Provider
from addon.recordings.provider.script import SIDE_ANSWER, Call, Reply, ScriptedReplies, call
from addon.recordings.scrub import scrub_recording
from addon.recordings.scrubbed_text import OwnRecording, Spellings, respell
from addon.recordings.studio.client import FAKE_KEY, Client, Tool
from addon.recordings.studio.clients import AGENTS, CLIENTS
from addon.recordings.studio.scenario import Action, Scenario, Task, write_project

REDIRECT = Path(__file__).with_name("redirect.py")

_FIELD = re.compile(r"\{(?:work|what|old|new)\}")
_COMPLETE = "installed.txt"
"""Written at the end, with what is installed."""

_SIGNS = re.compile(r"[^\w.]+")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders of a recording session, which are removed at its end."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "project"

    @property
    def raw(self) -> Path:
        return self.root / "raw.flow"

    @property
    def bundle(self) -> Path:
        return self.root / "bundle.pem"


def record(
    agent: str, out: Path, *, scenario: Scenario | None = None, time_limit: float = 300.0
) -> int:
    """Record an agent (a name of `CLIENTS`) at work on its project; return the number of requests.

    A client that is missing is installed into the user's cache folder. A `scenario` takes the place
    of the client's own. The client has `time_limit` seconds. Raises ValueError for an unknown agent
    and for a recording that cannot be scrubbed clean, and RuntimeError if the client or the proxy
    fails; nothing is written to `out` then.
    """
    if agent not in CLIENTS:
        raise ValueError(f"unknown agent '{agent}', expected one of {', '.join(AGENTS)}")
    client = CLIENTS[agent]
    if scenario is not None:
        client = replace(client, scenario=scenario)
    package = installed(agent)
    with tempfile.TemporaryDirectory(prefix="obsmask-") as folder:
        workspace = Workspace(Path(folder).resolve())
        write_project(client.scenario.project, workspace.work)
        replies = script_replies(client, workspace.work)
        _run_session(workspace, client, package, replies, time_limit)
        return scrub_recording(workspace.raw, out, _describe_recording(client, workspace, package))


def script_replies(client: Client, work: Path) -> ScriptedReplies:
    """Return the scenario as calls of the client's own tools.

    The ids start from `call_0` again in every turn.
    """
    tasks = client.scenario.tasks
    return ScriptedReplies(tuple(reply for t in tasks for reply in _script_task(client, t, work)))


def installed(agent: str) -> Path:
    """Return the folder where the client is installed, and install it on first use.

    A Python client of this environment is used as it is. Raises RuntimeError if the client cannot
    be installed; the next call tries again.
    """
    client = CLIENTS[agent]
    if found := find_installed(client):
        return found
    folder = _find_folder(client)
    _install(client, folder)
    (folder / _COMPLETE).write_text("\n".join(client.packages))
    return folder


def find_installed(client: Client) -> Path | None:
    """Return the folder where the client is installed; None if it is not."""
    if client.module and find_spec(client.module):
        return Path(sys.prefix)
    folder = _find_folder(client)
    complete = folder / _COMPLETE
    is_there = complete.exists() and complete.read_text() == "\n".join(client.packages)
    return folder if is_there else None


def _find_folder(client: Client) -> Path:
    name = _SIGNS.sub("-", client.packages[0]).strip("-")  # clients with other scenarios share it
    return platformdirs.user_cache_path("observation-masking") / "clients" / name


def _run_session(
    workspace: Workspace,
    client: Client,
    package: Path,
    replies: ScriptedReplies,
    time_limit: float,
) -> None:
    """Let the client work through its scenario, and record it in `workspace.raw`."""
    spell = partial(respell, spellings=_spellings(client.volatile or {}))
    with Provider(
        replies,
        tls_folder=workspace.root / "tls",
        spell=spell,
        websockets=client.websockets,
    ) as provider:
        settings = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(
            workspace.root, "-w", str(workspace.raw), *settings, script=REDIRECT
        ) as proxy:
            write_bundle(workspace.bundle, [proxy.ca])
            output = run_client(client, package, workspace, proxy.url, time_limit)
        _check_complete(replies, provider, output)


def _install(client: Client, folder: Path) -> None:
    if client.registry == "pypi":
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _install_by([*pip, *client.packages])
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _install_by(["npm", "install", "--prefix", str(folder), *client.packages])


def _install_by(command: list[str]) -> None:
    if not shutil.which(command[0]):
        raise RuntimeError(f"{command[0]} is wanted to install {command[-1]}, and is not there")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise RuntimeError(f"{command[0]} could not install {command[-1]}:\n{done.stderr[-1000:]}")


def _script_task(client: Client, task: Task, work: Path) -> Iterator[Reply]:
    for index, turn in enumerate(task.turns):
        yield Reply(calls=tuple(_calls(client, turn, work)), thinking=task.thoughts.get(index))
    last = () if client.last_command is None else (Action("shell", client.last_command),)
    yield Reply(content=task.answer, calls=tuple(_calls(client, last, work)))


def _calls(client: Client, actions: Sequence[Action], work: Path) -> Iterator[Call]:
    tools = client.tools
    for number, action in enumerate(actions):
        possible = action if action.kind in tools else _by_command(action)
        yield _call(tools[possible.kind], f"call_{number}", possible, work)


def _by_command(action: Action) -> Action:
    """Return the action for a client whose only tool is a shell."""
    if action.kind != "read":
        raise ValueError(f"the client has no tool to {action.kind} {action.what}")
    return Action("shell", f"cat {action.what}")


def _call(tool: Tool, call_id: str, action: Action, work: Path) -> Call:
    texts = {
        "{work}": str(work),
        "{what}": action.what,
        "{old}": action.old,
        "{new}": action.new,
    }
    if isinstance(tool.arguments, str):
        text = _FIELD.sub(lambda found: json.dumps(texts[found[0]])[1:-1], tool.arguments)
        return Call(id=call_id, tool=tool.name, arguments=text)
    filled = {name: _fill(value, texts) for name, value in tool.arguments.items()}
    return call(call_id, tool.name, **filled)


def _fill(template: object, texts: Mapping[str, str]) -> object:
    match template:
        case str():
            return _FIELD.sub(lambda found: texts[found[0]], template)
        case list():
            return [_fill(each, texts) for each in template]
        case dict():
            return {name: _fill(each, texts) for name, each in template.items()}
    return template


def run_client(
    client: Client,
    package: Path,
    workspace: Workspace,
    proxy: str,
    time_limit: float,
    launcher: Sequence[str] = (),
) -> str:
    """Let the client work in front of a proxy, given as a URL; return the end of what it printed.

    `launcher` is a command that starts the client, if anything does.
    The workspace must hold the project, and the bundle of certificates that the client trusts.
    """
    for name, text in (client.files or {}).items():
        path = workspace.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    workspace.home.mkdir(exist_ok=True)
    log = workspace.root / "client.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the client's own program
            [*launcher, *_command(client, package, workspace)],
            cwd=workspace.work,
            env=_environment(client, workspace, proxy),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            process.wait(time_limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end(process)
    return log.read_text(errors="replace")[-2000:]


def _command(client: Client, package: Path, workspace: Workspace) -> Iterator[str]:
    tasks = client.scenario.tasks
    for part in client.command:
        for task in tasks if "{task}" in part else tasks[:1]:
            yield part.format(package=package, work=workspace.work, task=task.prompt)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the client and all that it has started, if anything still runs."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _environment(client: Client, workspace: Workspace, proxy: str) -> dict[str, str]:
    """Return the client's environment; of the user's own it has the path to programs alone."""
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        "PATH": os.pathsep.join(programs),
        "HOME": str(workspace.home),
        "USER": "user",
        "LOGNAME": "user",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENAI_API_KEY": FAKE_KEY,
        **client_environment(proxy, workspace.bundle),
        **(client.environment or {}),
    }


def _check_complete(replies: ScriptedReplies, provider: Provider, output: str) -> None:
    heard = [replies.place(each.said) for each in provider.requests]
    last = len(replies.replies) - 1
    if max(heard, default=-1) < last:
        turn = max(heard, default=0)
        raise RuntimeError(f"the client stopped at turn {turn} of {last}; it printed:\n{output}")


def _describe_recording(client: Client, workspace: Workspace, package: Path) -> OwnRecording:
    folders = {
        workspace.work: "/project",
        workspace.home: "/home/user",
        workspace.root: "/scratch",
        package: "/opt/client",
        own_home(): "/home/user",
    }
    spellings = {
        rf"{re.escape(str(folder))}(?!\w)": name for folder, name in folders.items() if folder
    }
    spellings |= client.volatile or {}
    return OwnRecording(
        texts=client.scenario.texts | {SIDE_ANSWER},
        foreign=tuple(map(re.compile, client.foreign)),
        spellings=_spellings(spellings),
    )


def _spellings(patterns: Mapping[str, str]) -> Spellings:
    return tuple((re.compile(old), new) for old, new in patterns.items())
