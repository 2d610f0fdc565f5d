"""What the readers find in the agents' own logs, against what their provider was really sent.

Each client works for more than 60 turns, with parallel calls and errors. Its history is compacted
on the way, and its session resumed and, with codex, forked. The clients are those that the studio
has installed; `python -m tests.tools.studio NAME OUT` installs one.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import running_proxy
from addon.replay.logs.codex import CODEX
from addon.replay.logs.gemini_cli import GEMINI_CLI
from addon.replay.logs.log import LoggedRequest, LogKind
from tests.live.harness import SECONDS
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import Call, Received, Reply, call
from tests.tools.studio.client import Client
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client

pytestmark = pytest.mark.thorough

TURNS = 33
"""What the model does for each task; the last turn is a text."""


class Model:
    """Answers a client's turns one after the other, whatever its history has become."""

    def __init__(self, client: Client) -> None:
        self._shell = client.shell
        self._turn = 0

    def __call__(self, received: Received) -> Reply:
        if not received.offers_tools:
            return Reply(content="<state_snapshot>All that was done, in short.</state_snapshot>")
        self._turn += 1
        thinking = f"I should look at number {self._turn} next." if self._turn % 2 else None
        if self._turn % TURNS == 0:
            return Reply(content=f"Task {self._turn // TURNS} is done.", thinking=thinking)
        commands = [f"seq 1 {20 * self._turn}"]
        if self._turn % 3 == 0:
            commands.append("ls /there/is/no/such/folder")
        return Reply(thinking=thinking, calls=tuple(map(self._call, range(9), commands)))

    def _call(self, number: int, command: str) -> Call:
        assert isinstance(self._shell.arguments, Mapping)
        filled = {
            name: command if value == "{what}" else value
            for name, value in self._shell.arguments.items()
        }
        return call(f"call_{self._turn}_{number}", self._shell.name, **filled)


Work = Callable[[Sequence[str]], None]
"""Starts the client with further arguments, and waits until it has ended."""


def play(name: str, tmp_path: Path, work: Callable[[Workspace, Work], None]) -> list[Received]:
    """Return what the provider was sent while a client worked."""
    client, workspace = CLIENTS[name], Workspace(tmp_path)
    package = find_installed(client)
    if package is None:
        pytest.skip(f"{name} is not installed")
    workspace.work.mkdir()
    with Provider(Model(client), tls_folder=tmp_path / "tls", websockets=False) as provider:
        settings = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(tmp_path, *settings, script=REDIRECT) as proxy:
            write_bundle(workspace.bundle, [proxy.ca])

            def start(command: Sequence[str]) -> None:
                asking = replace(client, command=tuple(command), files=FILES.get(name))
                output = run_client(asking, package, workspace, proxy.url, SECONDS)
                assert "is done." in output, output

            work(workspace, start)
    return provider.requests


FILES = {
    "gemini-cli": {
        ".gemini/settings.json": json.dumps(
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "model": {"disableLoopDetection": True, "compressionThreshold": 0.025},
            }
        )
    }
}
"""Gemini's history is compacted from 25,000 tokens on."""


def read_all(kind: LogKind, home: Path) -> Iterator[LoggedRequest]:
    for log in kind.find(home):
        for conversation in kind.read(log):
            assert frozenset() == conversation.unread
            yield from conversation.requests()


def sent_items(request: LoggedRequest, *unseen: str) -> list[Any]:
    return [without(item, unseen) for item in request.items]


def without(value: object, unseen: Sequence[str]) -> Any:  # noqa: ANN401 - what a body holds
    """Return a value without keys that no model sees, and without what is null."""
    if isinstance(value, list):
        return [without(each, unseen) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key not in unseen and each is not None}
    return {key: without(each, unseen) for key, each in kept.items()}


def test_a_log_of_codex_has_all_that_was_sent(tmp_path: Path) -> None:
    program = "{package}/node_modules/.bin/codex"
    flags = (
        *("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5"),
        *("-c", "model_auto_compact_token_limit=30000"),
    )

    def work(workspace: Workspace, start: Work) -> None:
        start((program, "exec", *flags, "The first task."))
        (log,) = CODEX.find(workspace.home)
        (conversation,) = CODEX.read(log)
        for action, task in (("resume", "The second task."), ("fork", "The third task.")):
            start((program, "exec", action, *flags, conversation.name, task))

    received = play("codex", tmp_path, work)
    metadata = "internal_chat_message_metadata_passthrough"
    found = sorted(read_all(CODEX, Workspace(tmp_path).home), key=lambda request: request.when)
    bodies = [without(r.request["input"], [metadata]) for r in received]
    # The instructions are the first item; they and the trigger of a compaction are not logged.
    heads = [items.pop(0) for items in bodies]
    triggers = [items.pop() for items in bodies if items[-1]["type"] == "compaction_trigger"]
    assert {"developer"} == {head["role"] for head in heads}
    assert len(triggers) >= 2
    assert 3 * TURNS <= len(received) == len(found) == len({request.key for request in found})
    assert bodies == [sent_items(request, metadata) for request in found]
    assert {"gpt-5.5"} == {request.model for request in found}
    assert all(request.usage is not None for request in found)


def test_a_log_of_gemini_cli_has_all_that_was_sent(tmp_path: Path) -> None:
    program = (
        *("{package}/node_modules/.bin/node",),
        *("{package}/node_modules/@google/gemini-cli/bundle/gemini.js",),
        *("--yolo", "--model", "gemini-3-pro-preview"),
    )

    def work(_: Workspace, start: Work) -> None:
        start((*program, "-p", "The first task."))
        start((*program, "--resume", "latest", "-p", "The second task."))

    received = play("gemini-cli", tmp_path, work)
    found = sorted(read_all(GEMINI_CLI, Workspace(tmp_path).home), key=lambda each: each.when)
    # What it asks for a summary is not logged.
    answered = [each for each in received if each.offers_tools]
    assert len(received) > len(answered)
    assert 2 * TURNS == len(found) == len({request.key for request in found})
    expected = [without(each.request["contents"], ["thoughtSignature"]) for each in answered]
    assert expected == [sent_items(request, "thoughtSignature") for request in found]
    assert all(request.usage is not None for request in found)
