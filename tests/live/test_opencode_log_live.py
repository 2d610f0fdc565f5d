"""A real opencode at work: its log gives the very requests that the provider got.

It is tested where `python -m tests.tools.studio` has installed it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import running_proxy
from addon.replay.logs.log import LoggedRequest
from addon.replay.logs.opencode import CLEARED, OPENCODE
from masking.wire import CHAT, GEMINI, MESSAGES, RESPONSES, Usage, WireFormat, read_usage
from tests.live.harness import SECONDS
from tests.live.test_run_clients_live import prepare
from tests.support.ports import hold_port
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import Call, JsonDict, Received, Reply, call
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import write_project

pytestmark = pytest.mark.thorough

SESSIONS = """
"$0" serve --port "$2" &
until (exec 3<> "/dev/tcp/127.0.0.1/$2") 2> /dev/null; do sleep .1; done
say() { "$0" run --attach "http://127.0.0.1:$2" -m "$1" "${@:3}"; }
say "$@" MAINTASK
say "$@" --continue "And what else?"
say "$@" --continue "Or what?"
say "$@" --continue "Go on."
kill %1
"""
"""A session, resumed. opencode prunes what is older than two tasks, behind the last answer; so it
has to stay."""

LIMIT = {"limit": {"context": 160_000, "input": 150_000, "output": 8_000}}
"""The last task goes on until opencode compacts the session."""


class Case(NamedTuple):
    """A provider as opencode is configured for it, and what its log is to say of it."""

    provider: str
    model: str
    wire: WireFormat
    host: str | None
    options: JsonDict


CASES = (
    Case(
        *("scripted", "gpt-4o", CHAT, None),
        {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "https://api.openai.com/v1", "apiKey": "sk-scripted"},
        },
    ),
    Case("anthropic", "claude-sonnet-4-5", MESSAGES, "api.anthropic.com", {}),
    Case("openai", "gpt-5.2", RESPONSES, "api.openai.com", {}),
    Case("google", "gemini-2.5-pro", GEMINI, "generativelanguage.googleapis.com", {}),
)

NOT_SENT_ON = frozenset({"cache_control"})
"""What a block is sent with, and is no part of the conversation."""


class Recorded(NamedTuple):
    """What a provider was asked and said, and where the log of it is."""

    case: Case
    bodies: list[JsonDict]
    usages: list[Usage | None]
    home: Path


class Model:
    """Answers with parallel calls, failing ones, long results, thoughts and a sub-agent."""

    def __init__(self, work: Path, wire: WireFormat) -> None:
        self.work = work
        self.wire = wire
        self.asked = 0
        self.last: int | None = None
        """The number of the request that gets the last answer, once there was a compaction."""

    def __call__(self, received: Received) -> Reply:
        if not received.offers_tools:
            if self.asked:  # it asks for a title before anything else
                self.last = self.asked + 6
            return Reply(content="It was counted.")
        text = json.dumps(received.request)
        if "SUBTASK" in text and "MAINTASK" not in text:
            done = len(received.said)
            return Reply(calls=(_shell(done, 20),)) if done < 3 else Reply(content="Counted.")
        self.asked += 1
        turn = self.asked
        if turn in (62, 66, 70, self.last) or turn > 200:
            return Reply(content="All done.", thinking="That was all.")
        if turn == 5:
            task = {"description": "Counts", "prompt": "SUBTASK", "subagent_type": "general"}
            return Reply(calls=(call("call_agent", "task", **task),))
        read = call(f"read_{turn}", "read", filePath=f"{self.work}/README.md")
        missing = call(f"missing_{turn}", "read", filePath=f"{self.work}/missing-{turn}.txt")
        fails = call(f"fails_{turn}", "bash", command="sleep .2; exit 3", description="Fails")
        nothing = call(f"a_{turn}", "nothing"), call(f"b_{turn}", "nothing")
        return {
            1: Reply(content="Let me look.", calls=(_shell(turn, 1500), read, fails)),
            3: Reply(thinking="Hm.", calls=(_shell(turn, 1500),)),
            4: Reply(calls=(missing,)),
            # What Gemini signs, opencode does not send back with a call of an unknown tool.
            6: Reply(calls=(missing,) if self.wire is GEMINI else nothing),
        }.get(turn % 7, Reply(content="I go on.", calls=(_shell(turn, 1500),)))


def _shell(turn: int, lines: int) -> Call:
    command = f"seq {turn}000 {turn}000 | head -1; seq 1000 {1000 + lines}"
    return call(f"call_{turn}", "bash", command=command, description="Counts")


@pytest.fixture(scope="module", params=CASES, ids=lambda case: str(case.provider))
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    case, folder, client = request.param, tmp_path_factory.mktemp("session"), prepare("opencode")
    package = find_installed(client)
    if package is None:
        pytest.skip(
            f"{client.packages[0]} is not installed: python -m tests.tools.studio installs it"
        )
    config = {
        "autoupdate": False,
        "share": "disabled",
        "compaction": {"prune": True},
        "provider": {case.provider: {**case.options, "models": {case.model: LIMIT}}},
    }
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY")
    client = replace(
        client,
        command=(
            *("bash", "-c", SESSIONS.replace("{", "{{").replace("}", "}}")),
            "{package}/node_modules/.bin/opencode",
            f"{case.provider}/{case.model}",
            str(hold_port()),
        ),
        files={".config/opencode/opencode.json": json.dumps(config)},
        environment={
            **(client.environment or {}),
            **dict.fromkeys(keys, "sk-scripted"),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        },
    )
    workspace = Workspace(folder)
    write_project(client.scenario.project, workspace.work)
    (folder / "outer").mkdir()
    with Provider(
        Model(workspace.work, case.wire), tls_folder=folder / "tls", strict=True
    ) as provider:
        behind = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(folder / "outer", *behind, script=REDIRECT) as outer:
            write_bundle(workspace.bundle, [outer.ca])
            said = run_client(client, package, workspace, outer.url, 3 * SECONDS)
    assert [] == provider.refusals, said
    return Recorded(
        case,
        [each.request for each in provider.requests],
        [read_usage(bytes(each)) for each in provider.answers],
        workspace.home,
    )


def test_the_log_gives_the_requests_that_were_sent(recorded: Recorded) -> None:
    """The request for a title is not logged, and that for a summary without what was sent."""
    logged = list(_yield_requests(recorded))
    assert len(logged) == len({each.key for each in logged})
    key = str(recorded.case.wire.list_paths[0][-1])
    sent = Counter(_render(body[key]) for body in recorded.bodies if body.get("tools"))
    summaries = [each for each in logged if not each.items]
    read = Counter(_render(each.items) for each in logged if each.items)
    assert Counter() == read - sent
    assert Counter() == sent - read
    assert read.total() > 100
    assert summaries, "it was compacted"
    assert any(CLEARED in text for text in read), "it was pruned"


def test_the_log_has_the_usage_that_was_reported(recorded: Recorded) -> None:
    reported = Counter(_take_tokens(usage) for usage in recorded.usages)
    logged = Counter(_take_tokens(each.usage) for each in _yield_requests(recorded))
    assert Counter() == logged - reported


def _yield_requests(recorded: Recorded) -> Iterator[LoggedRequest]:
    for log in OPENCODE.find(recorded.home):
        for conversation in OPENCODE.read(log):
            assert frozenset() == conversation.unread
            assert recorded.case.host == conversation.host
            assert recorded.case.wire is conversation.wire
            yield from conversation.requests()


def _take_tokens(usage: Usage | None) -> tuple[int | None, ...]:
    return (usage.prompt, usage.cached or 0, usage.completion) if usage else ()


def _render(items: object) -> str:
    """Return elements as text, without system prompts, marks, and the ids that are not sent on."""
    assert isinstance(items, list | tuple)
    said = [item for item in items if item.get("role") not in ("system", "developer")]
    return json.dumps(_strip(said), sort_keys=True)


def _strip(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_strip(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _strip(each) for name, each in value.items() if name not in NOT_SENT_ON}
