import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from addon.places import shipped
from addon.proxy.server import running_proxy
from addon.recordings.flows import read_flows
from tests.live.harness import SECONDS
from tests.support.marks import as_one_test
from tests.support.scripted_actions import perform, run
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import Received, Reply, Said
from tests.tools.studio.__main__ import command
from tests.tools.studio.client import REPAIR
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.recorder import REDIRECT, record
from tests.tools.studio.scenario import (
    PROJECTS,
    Action,
    Scenario,
    Task,
    read_scenario,
    write_project,
)
from tests.tools.studio.scripted_client import script_replies

(TASK,) = REPAIR.tasks
SHORT = replace(REPAIR, tasks=(replace(TASK, turns=TASK.turns[:2]),))
QUESTIONS = read_scenario("questions")
LONG = read_scenario("cells")


def bodies(path: Path) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (each.request.content, each.response.content if each.response else None)
        for each in read_flows(path)
    ]


@pytest.mark.thorough
@pytest.mark.live
@pytest.mark.parametrize("agent", ["openai", "openai-stream"])
def test_records_a_short_scenario(agent: str, tmp_path: Path) -> None:
    out = tmp_path / "short.flow"
    assert record(agent, out, scenario=SHORT) == 3
    flows = list(read_flows(out))
    assert {each.request.url for each in flows} == {"https://api.openai.com/v1/chat/completions"}
    messages: Any = json.loads(flows[-1].request.content or b"")["messages"]
    assert [each["role"] for each in messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "tool")
    ]
    assert messages[1]["content"] == TASK.prompt
    assert messages[3]["content"].startswith("README.md\ndata/orders.json\n")
    assert [path.name for path in tmp_path.iterdir()] == ["short.flow"]


@pytest.mark.live
def test_one_question_follows_the_answer_to_another(tmp_path: Path) -> None:
    tasks = tuple(replace(task, turns=task.turns[-1:]) for task in QUESTIONS.tasks[:2])
    out = tmp_path / "two.flow"
    assert record("openai-questions", out, scenario=replace(QUESTIONS, tasks=tasks)) == 4
    request: Any = json.loads(list(read_flows(out))[-1].request.content or b"")
    assert [each["function"]["name"] for each in request["tools"]] == ["shell", "read_file"]
    contents = [each.get("content") for each in request["messages"] if each["role"] != "system"]
    assert contents[0] == tasks[0].prompt
    assert contents[2].startswith('{\n "orders": [')
    assert contents[3:5] == [tasks[0].answer, tasks[1].prompt]
    assert contents[6] == "[Errno 2] No such file or directory: 'logs/refused.log'\n"


@pytest.mark.thorough
@pytest.mark.live
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="tracebacks differ between Pythons")
@pytest.mark.parametrize("name", ["openai-scratch", "openai-stream-scratch", "openai-questions"])
def test_shipped_recordings_regenerate(name: str, tmp_path: Path) -> None:
    record(name.removesuffix("-scratch"), tmp_path / "again.flow")
    expected = bodies(shipped("recordings") / f"{name}.flow")
    assert bodies(tmp_path / "again.flow") == expected


def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown agent 'nobody', expected one of openai, "):
        record("nobody", tmp_path / "out.flow")


@pytest.mark.parametrize(
    ("client", "out", "problem"),
    [
        pytest.param("nobody", "out.flow", "unknown agent 'nobody', expected one of", id="client"),
        pytest.param("openai", "missing/out.flow", "missing", id="folder"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(
    client: str, out: str, problem: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(command, [client, str(tmp_path / out)])
    assert 1 == done.exit_code
    *_, said = done.stderr.splitlines()
    assert said.startswith("Error: ")
    assert problem in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_a_client_that_stops_early_leaves_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the client stopped at turn 0 of 2"):
        record("openai", tmp_path / "out.flow", scenario=SHORT, time_limit=0)
    assert list(tmp_path.iterdir()) == []


@as_one_test
@pytest.mark.parametrize("agent", CLIENTS)
def test_a_scenario_is_scripted_in_the_clients_own_tools(agent: str) -> None:
    client = CLIENTS[agent]
    script = script_replies(client, Path("/project"))
    said: list[Said] = []
    for reply in script.replies:
        assert script(Received(request={}, said=tuple(said), offers_tools=True)) == reply
        said.append(Said(reply.content or "", tuple(each.tool for each in reply.calls)))
    calls = [each for reply in script.replies for each in reply.calls]
    kinds = {action.kind for action in client.scenario.actions}
    assert {each.tool for each in calls} == {
        client.tools.get(kind, client.shell).name for kind in kinds
    }
    values = [value for each in calls for value in find_values(each.arguments)]
    assert len(values) >= len(calls)
    assert not [value for value in values if str(value).endswith(("{what}", "{old}", "{new}"))]
    assert not any("{work}" in each.arguments for each in calls)


def find_values(arguments: str) -> list[object]:
    """Return the values in a tool's arguments; codex's tool takes a program, which is one."""
    if arguments.startswith("const "):
        return [arguments]
    return [*json.loads(arguments).values()]


@pytest.mark.live
def test_the_recorders_proxy_goes_nowhere_else(tmp_path: Path) -> None:
    with (
        Provider(lambda _: Reply(content="Hello."), tls_folder=tmp_path) as provider,
        running_proxy(tmp_path, *settings(provider), script=REDIRECT) as proxy,
        httpx.Client(proxy=proxy.url, verify=False, timeout=SECONDS) as client,
    ):
        assert client.get("http://example.com/").status_code == 403
        with pytest.raises(httpx.ProxyError, match="403"):
            client.get("https://example.com/")
        assert provider.requests == []


@pytest.mark.live
def test_one_connection_carries_many_requests(tmp_path: Path) -> None:
    url = "https://api.openai.com/v1/chat/completions"
    with (
        Provider(lambda _: Reply(content="Hello."), tls_folder=tmp_path) as provider,
        running_proxy(tmp_path, *settings(provider), script=REDIRECT) as proxy,
        httpx.Client(proxy=proxy.url, verify=False, timeout=SECONDS) as client,
    ):
        answers = [client.post(url, json={"messages": []}) for _ in range(8)]
    assert [each.status_code for each in answers] == [200] * 8


def settings(provider: Provider) -> tuple[str, ...]:
    return (
        *("--set", "connection_strategy=lazy"),
        *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
        *("--set", f"provider={HOST}:{provider.port}"),
    )


@pytest.mark.parametrize(("project", "count"), [("tally", 10), ("cells", 30)])
def test_a_project_is_written_as_it_stands(project: str, count: int, tmp_path: Path) -> None:
    write_project(project, tmp_path)
    written = files(tmp_path)
    assert count == len(written)
    assert files(PROJECTS / project) == written


def files(folder: Path) -> dict[Path, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder): path.read_bytes()
        for path in found
        if path.parent.name != "__pycache__"
    }


@pytest.mark.parametrize(
    ("scenario", "failures"),
    [
        pytest.param(REPAIR, 4, id="one task", marks=pytest.mark.thorough),
        pytest.param(QUESTIONS, 2, id="several questions"),
    ],
)
def test_a_scenario_repairs_its_project(scenario: Scenario, failures: int, tmp_path: Path) -> None:
    write_project(scenario.project, tmp_path)
    commands = [action.what for action in scenario.actions if action.kind == "shell"]
    done = [run(command, tmp_path) for command in commands]
    assert sum(bool(each.returncode) for each in done) == failures
    assert run("python3 run_tests.py --quiet", tmp_path).stdout == "12 passed, 0 failed\n"


def test_an_edit_is_scripted_with_both_its_texts() -> None:
    """What looks like a field in one of them is none."""
    edit = Action("edit", "cells/sheet.py", old='f"{what}"', new='f"{old}"')
    scenario = Scenario("cells", (Task("prompt", ((edit,),), "answer"),))
    client = replace(CLIENTS["qwen-code-long"], scenario=scenario)
    (call,) = script_replies(client, Path("/project")).replies[0].calls
    assert json.loads(call.arguments) == {
        "file_path": "/project/cells/sheet.py",
        "old_string": 'f"{what}"',
        "new_string": 'f"{old}"',
    }


def test_a_scenario_with_edits_wants_a_client_that_edits(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the client has no tool to edit cells/addresses\.py"):
        record("openai", tmp_path / "out.flow", scenario=LONG)


@pytest.mark.thorough
def test_the_edits_of_the_long_session_repair_its_project(tmp_path: Path) -> None:
    write_project("cells", tmp_path)
    assert run("python3 run_tests.py --quiet", tmp_path).stdout.endswith("132 passed, 22 failed\n")
    edits = [action for action in LONG.actions if action.kind == "edit"]
    assert len(edits) == len(list(perform(edits, tmp_path)))
    assert run("python3 run_tests.py --quiet", tmp_path).stdout == "159 passed, 0 failed\n"


def test_the_long_session_edits_what_was_read_long_before() -> None:
    """Half of the edits are of a file that was read as a whole twenty turns before, or more."""
    (task,) = LONG.tasks
    read: dict[str, int] = {}
    gaps = []
    for place, turn in enumerate(task.turns):
        gaps += [place - read.get(each.what, 0) for each in turn if each.kind == "edit"]
        read |= {each.what: place for each in turn if each.kind == "read"}
    assert statistics.median(gaps) >= 20
