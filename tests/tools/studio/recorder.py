"""Makes a recording: a real client, a real mitmdump and a scripted provider, all on loopback.

The client believes that it speaks with its vendor. The recorder's own proxy sends its requests
to the provider, without root and without a hosts file, and lets nothing else through. The recording
is scrubbed (`addon.recordings.scrub`), so that it can be published.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from addon.proxy.authorities import write_bundle
from addon.proxy.environment import client_environment
from addon.proxy.server import running_proxy
from addon.recordings.scrub import OwnRecording, Spellings, own_home, respell, scrub_recording
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import SIDE_ANSWER, ScriptedReplies
from tests.tools.studio.client import FAKE_KEY, Client
from tests.tools.studio.clients import AGENTS, CLIENTS
from tests.tools.studio.installation import installed
from tests.tools.studio.scenario import Scenario, write_project
from tests.tools.studio.scripted_client import script_replies

REDIRECT = Path(__file__).with_name("redirect.py")


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


def run_client(
    client: Client,
    package: Path,
    workspace: Workspace,
    proxy: str | None,
    time_limit: float,
    launcher: Sequence[str] = (),
) -> str:
    """Let the client work in front of a proxy, given as a URL; return the end of what it printed.

    Without a proxy, its environment names the bundle alone.
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
        process = subprocess.Popen(
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


def _environment(client: Client, workspace: Workspace, proxy: str | None) -> dict[str, str]:
    """Return the client's environment; of the user's own it has the path to programs alone."""
    network = {"SSL_CERT_FILE": str(workspace.bundle)}
    if proxy is not None:
        network = client_environment(proxy, workspace.bundle)
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
        **network,
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
