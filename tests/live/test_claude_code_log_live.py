"""A real claude-code at work: its log gives the very requests that the provider got.

It is tested where `python -m tests.tools.studio` has installed it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.server import running_proxy
from addon.replay.logs import find_logs, mark_copies
from addon.replay.logs.claude_code import CLAUDE_CODE
from addon.replay.logs.log import LoggedRequest
from masking.wire import Usage, read_usage
from tests.live.harness import SECONDS
from tests.live.test_run_clients_live import prepare
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import Call, JsonDict, Received, Reply, call
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import REDIRECT, Workspace, run_client
from tests.tools.studio.scenario import write_project

pytestmark = pytest.mark.thorough

TURNS, SUB_TURNS = 62, 4

SESSIONS = """
say() { "$0" --dangerously-skip-permissions --model "$1" "${@:2}"; }
say "$1" -p MAINTASK
say "$1" --continue -p "And what else?"
say "$1" --continue --fork-session -p "Or what?"
say "$1" --continue -p /compact
say "$1" --continue -p "Go on."
"""
"""A session, resumed, forked, and the fork compacted and resumed."""

SUMMARIZES = "CRITICAL: Respond with TEXT ONLY"
MODELS = ("claude-sonnet-4-5", "claude-opus-5-5")
NOT_SENT_ON = frozenset({"cache_control", "output_config"})
"""What a block or message is sent with, and is no part of the conversation."""


class Recorded(NamedTuple):
    """What a provider was asked and said, and the folder of the log of it."""

    bodies: list[JsonDict]
    usages: list[Usage | None]
    folder: Path


@pytest.fixture(scope="module", params=MODELS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder, client = tmp_path_factory.mktemp("session"), prepare("claude-code")
    package = find_installed(client)
    if package is None:
        pytest.skip(
            f"{client.packages[0]} is not installed: python -m tests.tools.studio installs it"
        )
    program = "{package}/node_modules/.bin/claude"
    script = SESSIONS.replace("{", "{{").replace("}", "}}")
    client = replace(client, command=("bash", "-c", script, program, request.param))
    workspace = Workspace(folder)
    write_project(client.scenario.project, workspace.work)
    (folder / "outer").mkdir()

    def answer(received: Received) -> Reply:
        return _answer(received, workspace.work)

    with Provider(answer, tls_folder=folder / "tls") as provider:
        behind = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(folder / "outer", *behind, script=REDIRECT) as outer:
            write_bundle(workspace.bundle, [outer.ca])
            run_client(client, package, workspace, outer.url, SECONDS)
    return Recorded(
        [each.request for each in provider.requests],
        [read_usage(bytes(each)) for each in provider.answers],
        workspace.home / ".claude" / "projects",
    )


def _answer(received: Received, work: Path) -> Reply:
    """Answer with parallel calls, failing ones, long results, thoughts and a sub-agent."""
    messages = received.request["messages"]
    first = json.dumps(messages[0])
    if SUMMARIZES in json.dumps(messages[-1]):
        return Reply(content="<summary>It was counted.</summary>")
    if not received.offers_tools:
        return Reply(content="A title")
    done = len(received.said)
    count = _shell(done, f"seq {done} {done + 400}")
    if "SUBTASK" in first and "MAINTASK" not in first:
        return Reply(calls=(count,)) if done < SUB_TURNS else Reply(content="Counted.")
    if done >= TURNS:
        return Reply(content="All done.", thinking="That was all.")
    if done == 5:
        task = {"description": "Counts", "prompt": "SUBTASK", "run_in_background": False}
        agent = call("call_agent", "Agent", subagent_type="general-purpose", **task)
        return Reply(calls=(agent,))
    if done == 12:
        return Reply(calls=(_shell(done, "seq 1 30000"),))
    read = call(f"read_{done}", "Read", file_path=f"{work}/README.md")
    missing = call(f"missing_{done}", "Read", file_path=f"{work}/missing-{done}.txt")
    return {
        1: Reply(content="Let me look.", calls=(count, read, _shell(-done, "sleep .2; exit 3"))),
        3: Reply(thinking="Hm.", calls=(_shell(done, "false"),)),
        4: Reply(calls=(missing,)),
        6: Reply(calls=(call(f"a_{done}", "Nothing"), call(f"b_{done}", "Nothing"))),
    }.get(done % 7, Reply(content="I go on.", calls=(count,)))


def _shell(number: int, command: str) -> Call:
    return call(f"call_{number}", "Bash", command=command, description="Counts")


def test_the_log_gives_the_requests_that_were_sent(recorded: Recorded) -> None:
    check(recorded, recorded.folder)


def test_so_it_does_without_the_requests_that_some_versions_log(
    recorded: Recorded, tmp_path: Path
) -> None:
    for log in recorded.folder.rglob("*.jsonl"):
        lines = log.read_text().splitlines(keepends=True)
        copy = tmp_path / log.relative_to(recorded.folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("".join(line for line in lines if '"type":"api-request' not in line))
    check(recorded, tmp_path)


def check(recorded: Recorded, folder: Path) -> None:
    """Compare the logs of a folder with what was sent; the request for a summary is not logged."""
    logged = list(_yield_requests(folder))
    assert len(logged) == len({each.key for each in logged})
    assert len(logged) > TURNS
    sent = Counter(_render(body["messages"]) for body in recorded.bodies)
    read = Counter(_render(each.items) for each in logged)
    assert Counter() == read - sent
    (summary,) = (sent - read).elements()
    assert SUMMARIZES in summary
    usages = Counter(map(_prompt_and_answer, recorded.usages))
    assert Counter() == Counter(_prompt_and_answer(each.usage) for each in logged) - usages


def _yield_requests(folder: Path) -> Iterator[LoggedRequest]:
    (found,) = mark_copies(find_logs(folder))
    for log in found.logs:
        for conversation in CLAUDE_CODE.read(log):
            kinds = (re.match(r"attachment|broken|content", kind) for kind in conversation.unread)
            assert [] == [kind.string for kind in kinds if kind]
            assert "api.anthropic.com" == conversation.host
            assert conversation.is_side == bool(re.search("agent-", log.path.name))
            yield from conversation.requests()


def _prompt_and_answer(usage: Usage | None) -> Usage | None:
    """Return a usage without the share of thoughts, which Claude Code notes as 0 if unsaid."""
    return usage and replace(usage, reasoning=None)


def _render(messages: object) -> str:
    """Return messages as JSON, without those that are empty: they carry settings alone."""
    stripped = _strip(json.loads(json.dumps(messages)))
    assert isinstance(stripped, list)
    return json.dumps([each for each in stripped if each["content"]], sort_keys=True)


def _strip(value: object) -> object:
    """Return messages without marks, and with all content as lists of blocks."""
    if isinstance(value, list):
        return [_strip(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _strip(each) for name, each in value.items() if name not in NOT_SENT_ON}
    if "role" in kept and isinstance(kept["content"], str):
        kept["content"] = [{"type": "text", "text": kept["content"]}]
    return kept
