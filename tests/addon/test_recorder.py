import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from addon.proxy.launch import running_proxy
from addon.proxy.shipped import shipped
from addon.recordings.clients import CLIENTS
from addon.recordings.flows import read_flows
from addon.recordings.provider.completions import completion
from addon.recordings.provider.provider import HOST, Provider
from addon.recordings.provider.script import Reply
from addon.recordings.recorder import REDIRECT, record, tell
from addon.recordings.scenarios import long_session, questions, scratch
from addon.recordings.scenarios.scratch import Step
from tests.stories import perform, run

SHORT = (replace(scratch.ACTS[0], turns=scratch.TURNS[:2]),)


def bodies(path: Path) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (each.request.content, each.response.content if each.response else None)
        for each in read_flows(path)
    ]


@pytest.mark.parametrize("agent", ["openai", "openai-stream"])
def test_records_a_short_story(agent: str, tmp_path: Path) -> None:
    out = tmp_path / "short.flow"
    assert record(agent, out, acts=SHORT) == 3
    flows = list(read_flows(out))
    assert {each.request.url for each in flows} == {"https://api.openai.com/v1/chat/completions"}
    messages: Any = json.loads(flows[-1].request.content or b"")["messages"]
    assert [each["role"] for each in messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "tool")
    ]
    assert messages[1]["content"] == scratch.TASK
    assert messages[3]["content"].startswith("README.md\ndata/orders.json\n")
    assert [path.name for path in tmp_path.iterdir()] == ["short.flow"]


def test_one_question_follows_the_answer_to_another(tmp_path: Path) -> None:
    acts = tuple(replace(act, turns=act.turns[-1:]) for act in questions.ACTS[:2])
    out = tmp_path / "two.flow"
    assert record("openai-questions", out, acts=acts) == 4
    request: Any = json.loads(list(read_flows(out))[-1].request.content or b"")
    assert [each["function"]["name"] for each in request["tools"]] == ["shell", "read_file"]
    contents = [each.get("content") for each in request["messages"] if each["role"] != "system"]
    assert contents[0] == acts[0].task
    assert contents[2].startswith('{\n "orders": [')
    assert contents[3:5] == [acts[0].ending, acts[1].task]
    assert contents[6] == "[Errno 2] No such file or directory: 'logs/refused.log'\n"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="tracebacks differ between Pythons")
@pytest.mark.parametrize("name", ["openai-scratch", "openai-stream-scratch", "openai-questions"])
def test_shipped_recordings_regenerate(name: str, tmp_path: Path) -> None:
    record(name.removesuffix("-scratch"), tmp_path / "again.flow")
    expected = bodies(shipped("recordings") / f"{name}.flow")
    assert bodies(tmp_path / "again.flow") == expected


def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown agent 'nobody', expected one of openai, "):
        record("nobody", tmp_path / "out.flow")


def test_a_client_that_stops_early_leaves_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the client stopped at turn 0 of 2"):
        record("openai", tmp_path / "out.flow", acts=SHORT, time_limit=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("agent", CLIENTS)
def test_a_story_is_told_in_the_clients_own_tools(agent: str) -> None:
    client = CLIENTS[agent]
    story = tell(client, Path("/project"))
    told: list[dict[str, Any]] = []
    for reply in story.replies:
        assert story({"tools": [client.shell.name], "messages": told}) == reply
        told.append(completion({}, reply, {})["choices"][0]["message"])
    calls = [each for reply in story.replies for each in reply.calls]
    kinds = {step.kind for act in client.acts for turn in act.turns for step in turn}
    assert {each.tool for each in calls} == {
        client.tools.get(kind, client.shell).name for kind in kinds
    }
    values = [value for each in calls for value in json.loads(each.arguments).values()]
    assert len(values) >= len(calls)
    assert not [value for value in values if str(value).endswith(("{what}", "{old}", "{new}"))]
    assert not any("{work}" in each.arguments for each in calls)


def test_the_recorders_proxy_goes_nowhere_else(tmp_path: Path) -> None:
    with (
        Provider(lambda _: Reply(content="Hello."), tls_folder=tmp_path) as provider,
        running_proxy(tmp_path, *settings(provider), script=REDIRECT) as proxy,
        httpx.Client(proxy=proxy.url, verify=False) as client,
    ):
        assert client.get("http://example.com/").status_code == 403
        with pytest.raises(httpx.ProxyError, match="403"):
            client.get("https://example.com/")
        assert provider.requests == []


def test_one_connection_carries_many_requests(tmp_path: Path) -> None:
    url = "https://api.openai.com/v1/chat/completions"
    with (
        Provider(lambda _: Reply(content="Hello."), tls_folder=tmp_path) as provider,
        running_proxy(tmp_path, *settings(provider), script=REDIRECT) as proxy,
        httpx.Client(proxy=proxy.url, verify=False) as client,
    ):
        answers = [client.post(url, json={"messages": []}, timeout=10) for _ in range(8)]
    assert [each.status_code for each in answers] == [200] * 8


def settings(provider: Provider) -> tuple[str, ...]:
    return (
        *("--set", "connection_strategy=lazy"),
        *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
        *("--set", f"provider={HOST}:{provider.port}"),
    )


def test_the_scratch_project_is_the_same_everywhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        scratch.write_project(tmp_path / name)
    one, two = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two
    assert len(one) == 10


@pytest.mark.parametrize(
    ("acts", "failures"),
    [
        pytest.param(scratch.ACTS, 4, id="one task"),
        pytest.param(questions.ACTS, 2, id="several questions"),
    ],
)
def test_a_story_repairs_the_scratch_project(
    acts: tuple[scratch.Act, ...], failures: int, tmp_path: Path
) -> None:
    scratch.write_project(tmp_path)
    steps = (step for act in acts for turn in act.turns for step in turn)
    done = [run(step.what, tmp_path) for step in steps if step.kind == "shell"]
    assert sum(bool(each.returncode) for each in done) == failures
    assert run("python3 run_tests.py --quiet", tmp_path).stdout == "12 passed, 0 failed\n"


def test_an_edit_is_told_with_both_its_texts() -> None:
    """What looks like a field in one of them is none."""
    client = CLIENTS["qwen-code-long"]
    edit = Step("edit", "cells/sheet.py", old='f"{what}"', new='f"{old}"')
    acts = (scratch.Act("task", ((edit,),), "ending"),)
    (call,) = tell(replace(client, acts=acts), Path("/project")).replies[0].calls
    assert json.loads(call.arguments) == {
        "file_path": "/project/cells/sheet.py",
        "old_string": 'f"{what}"',
        "new_string": 'f"{old}"',
    }


def test_a_story_of_edits_wants_a_client_that_edits(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the client has no tool to edit cells/addresses\.py"):
        record("openai", tmp_path / "out.flow", acts=long_session.ACTS)


def test_the_edits_of_the_long_session_repair_its_project(tmp_path: Path) -> None:
    long_session.write_project(tmp_path)
    assert run("python3 run_tests.py --quiet", tmp_path).stdout.endswith("132 passed, 22 failed\n")
    (act,) = long_session.ACTS
    edits = tuple(tuple(step for step in turn if step.kind == "edit") for turn in act.turns)
    assert sum(map(len, edits)) == len(list(perform([replace(act, turns=edits)], tmp_path)))
    assert run("python3 run_tests.py --quiet", tmp_path).stdout == "159 passed, 0 failed\n"


def test_the_long_session_edits_what_was_read_long_before() -> None:
    """Half of the edits are of a file that was read as a whole twenty turns before, or more."""
    (act,) = long_session.ACTS
    read: dict[str, int] = {}
    gaps = []
    for place, turn in enumerate(act.turns):
        gaps += [place - read.get(step.what, 0) for step in turn if step.kind == "edit"]
        read |= {step.what: place for step in turn if step.kind == "read"}
    assert statistics.median(gaps) >= 20
