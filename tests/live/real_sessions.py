"""What real agents do in a test: a long session, and a provider with a tokenizer of its own."""

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import Proxy, running_proxy
from masking.tokens import TokenCounter
from tests.live.harness import SECONDS, environment
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import ScriptedReplies
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import PROJECTS, Action, Scenario, Task, Turn, write_project
from tests.tools.studio.scripted_client import script_replies

_CHARS_PER_TOKEN = 4
"""The provider's: it counts characters."""

_LINES = 90


def read_project() -> Scenario:
    """Return a session that reads a project piece by piece, and runs its tests now and then."""
    turns: list[Turn] = []
    for file in sorted((PROJECTS / "cells").rglob("*.*")):
        if file.suffix not in (".py", ".md", ".csv", ".txt"):
            continue
        name = file.relative_to(PROJECTS / "cells")
        for first in range(1, len(file.read_text().splitlines()) + 1, _LINES):
            turns.append((Action("shell", f"sed -n '{first},{first + _LINES - 1}p' {name}"),))
            if len(turns) % 7 == 0:
                turns.append((Action("shell", "python3 run_tests.py"), Action("shell", "false")))
    thoughts = {at: f"Number {at} may explain what fails." for at in range(0, len(turns), 5)}
    return Scenario("cells", (Task("Find out what is broken.", tuple(turns), "All.", thoughts),))


class Tokenizer:
    """Has a provider that counts characters count tokens: it gives a text that is so long."""

    def __init__(self, scale: float) -> None:
        """Have it count so many tokens for one of o200k."""
        self._counter, self._scale = TokenCounter(), scale

    def __call__(self, text: str) -> str:
        said = text.replace("\\n", "\n").replace('\\"', '"')  # as the model gets it, not as JSON
        chars = round(_CHARS_PER_TOKEN * self._scale * self._counter.count(said))
        return hashlib.sha256(text.encode()).hexdigest()[: max(16, chars)].ljust(chars, ".")


class Played(NamedTuple):
    """A session that an agent has ended, while its proxy still runs.

    home: the proxy's, which has its state and its log.
    said: what the agent printed.
    """

    workspace: Workspace
    home: Path
    proxy: Proxy
    provider: Provider
    replies: ScriptedReplies
    said: str


@contextlib.contextmanager
def played_session(agent: str, folder: Path, scale: float, *options: str) -> Iterator[Played]:
    """Have an agent work on the project behind a proxy that records, and has these options.

    The provider counts `scale` tokens for each of o200k. Skips the test if the agent is not
    installed; `python -m tests.tools.studio NAME OUT` installs one.
    """
    client = replace(CLIENTS[agent], scenario=read_project())
    package = Path(sys.prefix) if agent == "openai" else find_installed(client)
    if package is None:
        pytest.skip(f"{agent} is not installed")
    workspace = Workspace(folder)
    write_project(client.scenario.project, workspace.work)
    for each in (last := folder / "last", first := folder / "first"):
        each.mkdir()
    replies = script_replies(client, workspace.work)
    tokenizer = Tokenizer(scale)
    with Provider(
        replies, tls_folder=folder / "tls", spell=tokenizer, websockets=False
    ) as provider:
        to_provider = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(last, *to_provider, script=REDIRECT) as outer:
            recording = (
                *("--mode", f"upstream:{outer.url}", "-w", str(workspace.raw)),
                *("--set", f"ssl_verify_upstream_trusted_ca={outer.ca}"),
            )
            with running_proxy(first, *recording, *options, env=environment(first)) as proxy:
                write_bundle(workspace.bundle, [proxy.ca])
                said = run_client(client, package, workspace, proxy.url, SECONDS)
                yield Played(workspace, first, proxy, provider, replies, said)
