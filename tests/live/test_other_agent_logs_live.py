"""Real agents at work: their logs give the very requests that the provider got.

An agent is tested where `python -m tests.tools.studio` has installed it; pi, which is not recorded,
where `install_packages` has.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import running_proxy
from addon.replay.logs.log import LoggedRequest, LogKind
from addon.replay.logs.mini_swe_agent import MINI_SWE_AGENT
from addon.replay.logs.pi import PI
from addon.replay.logs.qwen_code import QWEN_CODE
from masking.wire import CHAT, MESSAGES, RESPONSES, Usage, WireFormat, read_usage
from tests.live.harness import SECONDS
from tests.live.test_run_clients_live import prepare
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import Call, JsonDict, Received, Reply, call
from tests.tools.studio.client import Client, Tool
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import write_project

pytestmark = pytest.mark.thorough

TURNS = 62

PI_MODELS = {
    "providers": {
        "scripted": {
            "baseUrl": "https://api.openai.com/v1",
            "api": "openai-completions",
            "apiKey": "sk-scripted",
            "models": [{"id": "gpt-4o", "contextWindow": 32_000, "maxTokens": 4_000}],
        },
    },
}
PI_SETTINGS = {"compaction": {"reserveTokens": 10_000, "keepRecentTokens": 5_000}}

_PI = Client(
    registry="npm",
    packages=("@mariozechner/pi-coding-agent@0.73.1", "node@24"),
    command=("{package}/node_modules/.bin/node", "{package}/node_modules/.bin/pi"),
    environment={
        "PI_OFFLINE": "1",
        "ANTHROPIC_API_KEY": "sk-scripted",
        "OPENAI_API_KEY": "sk-scripted",
    },
    files={
        ".pi/agent/models.json": json.dumps(PI_MODELS),
        ".pi/agent/settings.json": json.dumps(PI_SETTINGS),
    },
    shell=Tool("bash", {"command": "{what}"}),
    read=Tool("read", {"path": "{work}/{what}"}),
    scenario=CLIENTS["qwen-code-tour"].scenario,
)


NOT_SENT_ON = frozenset({"cache_control", "id", "status", "annotations", "phase"})
"""What a block is sent with beside what it says; that a call has an id, its result shows."""


class Case(NamedTuple):
    """An agent, how it logs, and what it does.

    script: runs its command, "$@".
    skips: what a text may begin with that the log does not hold.
    unlogged: how many requests it sends that its log does not have.
    """

    name: str
    client: Callable[[], Client]
    kind: LogKind
    script: str
    wire: WireFormat = CHAT
    host: str | None = None
    skips: str = ""
    unlogged: int = 0


CASES = (
    Case(
        "qwen-code",
        lambda: prepare("qwen-code-tour"),
        QWEN_CODE,
        '"$@" -p MAINTASK; "$@" --continue -p "And what else?"; '
        '"$@" --continue -p /compress; "$@" --continue -p "Go on."',
        skips="<system-reminder>",
        unlogged=2,
    ),
    Case(
        "mini-swe-agent",
        lambda: prepare("mini-swe-agent"),
        MINI_SWE_AGENT,
        '"$@" MAINTASK',
        host="api.openai.com",
    ),
    Case(
        "pi",
        lambda: _PI,
        PI,
        '"$@" --model scripted/gpt-4o -p MAINTASK; '
        '"$@" --model scripted/gpt-4o --continue -p "And what else?"',
        unlogged=1,
    ),
    Case(
        "pi-messages",
        lambda: _PI,
        PI,
        '"$@" --model anthropic/claude-sonnet-4-5 -p MAINTASK; '
        '"$@" --model anthropic/claude-sonnet-4-5 --continue -p "And what else?"',
        wire=MESSAGES,
        host="api.anthropic.com",
    ),
    Case(
        "pi-responses",
        lambda: _PI,
        PI,
        '"$@" --model openai/gpt-5.2 -p MAINTASK; '
        '"$@" --model openai/gpt-5.2 --continue -p "And what else?"',
        wire=RESPONSES,
        host="api.openai.com",
    ),
)


class Model:
    """Answers with parallel calls, failing ones, long results and thoughts."""

    def __init__(self, client: Client, work: Path) -> None:
        self.client = client
        self.work = work
        self.asked = 0

    def __call__(self, received: Received) -> Reply:
        if not received.offers_tools:
            return Reply(content="<summary>It was counted.</summary>")
        self.asked += 1
        turn, last = self.asked, self.client.last_command
        if turn in (TURNS, TURNS + 4, TURNS + 8) or turn > 2 * TURNS:
            return Reply(
                content="All done.", calls=(self.shell(turn, last),) if last else (), thinking="So."
            )
        count = self.shell(turn, f"seq {turn} {turn + 400}")
        fails = self.shell(-turn, "sleep .2; exit 3")
        nothing = call(f"a_{turn}", "nothing"), call(f"b_{turn}", "nothing")
        return {
            1: Reply(content="Let me look.", calls=(count, self.read(turn, "README.md"), fails)),
            3: Reply(thinking="Hm.", calls=(self.shell(turn, "false"),)),
            4: Reply(calls=(self.read(turn, f"missing-{turn}.txt"),)),
            6: Reply(calls=nothing),
        }.get(turn % 7, Reply(content="I go on.", calls=(count,)))

    def shell(self, turn: int, command: str) -> Call:
        return self._fill(self.client.shell, f"call_{turn}", command)

    def read(self, turn: int, name: str) -> Call:
        if self.client.read is None:
            return self.shell(turn + 1000, f"cat {name}")
        return self._fill(self.client.read, f"read_{turn}", name)

    def _fill(self, tool: Tool, name: str, what: str) -> Call:
        assert not isinstance(tool.arguments, str)
        arguments = {
            key: value.replace("{what}", what).replace("{work}", str(self.work))
            if isinstance(value, str)
            else value
            for key, value in tool.arguments.items()
        }
        return call(name, tool.name, **(arguments | self._add(tool)))

    def _add(self, tool: Tool) -> JsonDict:
        return {"is_background": False} if tool.name == "run_shell_command" else {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_the_log_gives_the_requests_that_were_sent(case: Case, tmp_path: Path) -> None:
    client = case.client()
    package = find_installed(client)
    if package is None:
        pytest.skip(f"{client.packages[0]} is not installed")
    command = [part for part in client.command if part not in ("-p", "{task}")]
    client = replace(client, command=("bash", "-c", case.script, "agent", *command))
    workspace = Workspace(tmp_path)
    write_project(client.scenario.project, workspace.work)
    (tmp_path / "outer").mkdir()
    model = Model(client, workspace.work)
    with Provider(model, tls_folder=tmp_path / "tls", strict=True) as provider:
        behind = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(tmp_path / "outer", *behind, script=REDIRECT) as outer:
            write_bundle(workspace.bundle, [outer.ca])
            said = run_client(client, package, workspace, outer.url, SECONDS)
    assert [] == provider.refusals, said

    key = str(case.wire.list_paths[0][-1])
    sent = Counter(_render(each.request[key], case) for each in provider.requests)
    logged = list[LoggedRequest]()
    for log in case.kind.find(workspace.home):
        for conversation in case.kind.read(log):
            assert frozenset() == conversation.unread
            assert case.host == conversation.host
            assert case.wire is conversation.wire
            logged += conversation.requests()
    read = Counter(_render(each.items, case) for each in logged)
    assert Counter() == read - sent, said
    assert case.unlogged == (sent - read).total()
    assert len(logged) >= TURNS
    reported = Counter(_take_tokens(read_usage(bytes(each))) for each in provider.answers)
    assert Counter() == Counter(_take_tokens(each.usage) for each in logged) - reported


def _take_tokens(usage: Usage | None) -> tuple[int | None, ...]:
    return (usage.prompt, usage.cached or 0, usage.completion) if usage else ()


def _render(items: object, case: Case) -> str:
    """Return elements as text, without system prompts, marks, and the ids that are not sent on."""
    assert isinstance(items, list | tuple)
    said = [item for item in items if item.get("role") not in ("system", "developer")]
    return json.dumps(_strip(said, case.skips), sort_keys=True)


def _strip(value: object, skips: str) -> object:
    """Return content as one text where it is nothing else, and without what is empty."""
    if isinstance(value, list | tuple):
        blocks = [_strip(each, skips) for each in value]
        blocks = [each for each in blocks if not _begins(each, skips)]
        return "\n".join(map(str, blocks)) if blocks and _are_texts(blocks) else blocks
    if not isinstance(value, dict):
        return value
    kept = {name: _strip(each, skips) for name, each in value.items() if name not in NOT_SENT_ON}
    if kept.keys() <= {"type", "text"} and "text" in kept:
        return kept["text"]
    if value.get("type") == "message":
        del kept["type"]
    return {name: each for name, each in kept.items() if each not in (None, "", [], False)}


def _begins(block: object, skips: str) -> bool:
    return bool(skips) and isinstance(block, str) and block.startswith(skips)


def _are_texts(blocks: list[object]) -> bool:
    return all(isinstance(each, str) for each in blocks)
