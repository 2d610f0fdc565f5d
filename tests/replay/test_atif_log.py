"""Trajectories in the interchange format: which requests they show, and what each sent.

The files in `atif` were written and checked by the models of the package `atif` 1.8.0 (PyPI).
"""

import base64
import json
import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from addon.commands.work import find_sessions
from addon.replay.logs import find_logs, mark_copies
from addon.replay.logs.atif import ATIF
from addon.replay.logs.log import LogChoice, LogFile, LoggedConversation, LoggedRequest
from masking.wire import CHAT, MESSAGES, RESPONSES, Usage
from tests.replay.test_mini_swe_agent_log import TASK
from tests.replay.test_mini_swe_agent_log import answer as mini_answer
from tests.replay.test_mini_swe_agent_log import write as write_mini_swe_agent
from tests.support.images import png
from tests.support.made_logs import MadeSession, make_text, write_claude_code

Step = Mapping[str, Any]

HERE = Path(__file__).parent / "atif"
MODEL = "claude-sonnet-4-5-20250929"
USER: Step = {"source": "user", "message": "Mend it."}


def at(second: int) -> str:
    return f"2026-11-20T12:00:{second:02}Z"


def when(second: int) -> datetime:
    return datetime(2026, 11, 20, 12, 0, second, tzinfo=UTC)


def metrics(prompt: int, completion: int = 5, **more: object) -> Step:
    return {"metrics": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


def called(name: str, given: str | None = "printed", said: str = "", **more: object) -> Step:
    call = {"tool_call_id": name, "function_name": "bash", "arguments": {"command": name}}
    results = [{"source_call_id": name, "content": given}] if given is not None else []
    step = {"source": "agent", "message": said, "tool_calls": [call]}
    return {**step, "observation": {"results": results}, **more}


def write(
    path: Path, *steps: Step, agent: str = "claude-code", model: str = MODEL, **more: object
) -> Path:
    about = {"name": agent, "version": "1", "model_name": model}
    document = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": about}
    path.write_text(json.dumps({**document, "steps": steps, **more}))
    return path


def read(path: Path) -> list[LoggedConversation]:
    """Read the trajectories at a path, which no agent's own reader may claim."""
    (found,) = mark_copies(find_logs(path))
    assert found.agent == ATIF.agent
    return [conversation for log in found.logs for conversation in ATIF.read(log)]


def requests_of(path: Path) -> Sequence[LoggedRequest]:
    (conversation,) = read(path)
    return list(conversation.requests())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(HERE, tmp_path / "run")
    (tmp_path / "run" / "images").mkdir()
    (tmp_path / "run" / "images" / "shot.png").write_bytes(base64.b64decode(png()))
    for age, name in enumerate(("trajectory.json", "helper.json")):
        os.utime(tmp_path / "run" / name, (2_000 - age, 2_000 - age))
    return tmp_path / "run"


def test_each_step_of_the_agent_was_a_request(folder: Path) -> None:
    conversation, *_ = read(folder / "trajectory.json")
    assert ("claude-code", "main", "shop", "api.anthropic.com", MESSAGES, "/v1/messages") == (
        *(conversation.agent, conversation.name, conversation.project),
        *(conversation.host, conversation.wire, conversation.path),
    )
    first, again, same, after, last = conversation.requests()
    assert [MODEL] * 5 == [each.model for each in (first, again, same, after, last)]
    assert [when(second) for second in (5, 9, 9, 13, 16)] == [
        each.when for each in (first, again, same, after, last)
    ]
    assert Usage(prompt=1000, cached=200, written=300, completion=50) == first.usage
    begins, copied, goes_on = first.items
    picture = {"type": "base64", "media_type": "image/png", "data": png()}
    assert [
        {"type": "text", "text": "You mend code."},
        {"type": "text", "text": "Mend what is seen here."},
        {"type": "image", "source": picture},
    ] == begins["content"]
    assert "As before." in str(copied)
    assert "Go on." in str(goes_on)
    assert not conversation.unread


def test_a_step_that_asked_no_model_is_no_request(folder: Path) -> None:
    _, again, *_ = read(folder / "trajectory.json")[0].requests()
    *_, saved = again.items
    assert "saved" in str(saved)


def test_a_sum_of_several_requests_is_shared_among_them(folder: Path) -> None:
    _, again, same, *_ = read(folder / "trajectory.json")[0].requests()
    assert Usage(prompt=1200, cached=1000, completion=15) == again.usage
    assert Usage(prompt=1201, cached=1000, completion=15) == same.usage
    assert again.items == same.items
    assert again.key != same.key


def test_a_result_may_have_an_image_and_have_failed(folder: Path) -> None:
    *_, after, _ = read(folder / "trajectory.json")[0].requests()
    last: Any = after.items[-1]
    result, told, why = last["content"]
    assert ("c4", True) == (result["tool_use_id"], result["is_error"])
    assert ["text", "image"] == [part["type"] for part in result["content"]]
    assert ["The tests ran.", "Why?"] == [told["text"], why["text"]]


def test_a_compaction_takes_the_place_of_all_before_it(folder: Path) -> None:
    *_, last = read(folder / "trajectory.json")[0].requests()
    texts = [{"type": "text", "text": text} for text in ("Summary: it was mended.", "And now?")]
    assert [{"role": "user", "content": texts}] == list(last.items)


def test_sub_agents_are_read_where_they_are_embedded_and_where_they_are_named(
    folder: Path,
) -> None:
    main_one, embedded, named = read(folder / "trajectory.json")
    assert [False, True] == [main_one.is_side, embedded.is_side]
    assert ("api.openai.com", RESPONSES) == (embedded.host, embedded.wire)
    (request,) = embedded.requests()
    assert ("gpt-5.5", 12) == (request.model, request.usage and request.usage.reasoning)
    (request,) = named.requests()
    assert Usage(prompt=200, completion=8) == request.usage


def test_what_is_named_twice_counts_once(folder: Path) -> None:
    paths = [folder / "trajectory.json", folder / "helper.json", folder]
    found = find_sessions(paths, LogChoice())
    requests = [
        request
        for source in found.read(None)
        for session, _ in source.open()
        if session is not None
        for request in session.requests()
    ]
    assert len(requests) == 7
    assert not found.files


def test_a_session_whose_own_log_is_there_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the folder of a trial of Harbor's."""
    own = write_claude_code(tmp_path / "sessions", MadeSession(turns=3))
    write(tmp_path / "trajectory.json", USER, called("a"), session_id=own.stem)
    write(tmp_path / "other.json", USER, called("a"))
    trial = tmp_path / "trial"
    trial.mkdir()
    write_mini_swe_agent(trial / "mini-swe-agent.trajectory.json", TASK, mini_answer("a", 2))
    write(trial / "trajectory.json", USER, called("a"))
    assert main(["replay", "--json", "--total", "--since", "2020-01-01", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)["logs"]["found"]
    logs = {each["agent"]: each["logs"] for each in found}
    assert {"claude-code": 1, "mini-swe-agent": 1, "atif": 1} == logs


def test_what_it_names_elsewhere_is_not_opened(tmp_path: Path) -> None:
    inside, outside = tmp_path / "run", tmp_path / "other.json"
    inside.mkdir()
    write(outside, USER, called("a"))
    refers = {"results": [{"subagent_trajectory_ref": [{"trajectory_path": "../other.json"}]}]}
    shot = {"type": "image", "source": {"media_type": "image/png", "path": "../shot.png"}}
    (tmp_path / "shot.png").write_bytes(base64.b64decode(png()))
    steps = {**USER, "message": [shot]}, {**called("a"), "observation": refers}
    (conversation,) = read(write(inside / "t.json", *steps))
    assert {"part image"} == conversation.unread


def test_a_continuation_counts_what_it_adds(tmp_path: Path) -> None:
    steps = USER, called("a", timestamp=at(1), **metrics(10)), {**USER, "message": "More."}
    goes_on = {**called("b", None), "timestamp": at(2), **metrics(20)}
    write(tmp_path / "t.json", *steps)
    write(tmp_path / "t.cont-1.json", *steps, goes_on)
    os.utime(tmp_path / "t.json", (1, 1))
    counted = {each.name: len(list(each.requests())) for each in read(tmp_path)}
    assert counted == {"s": 1}
    assert sum(len(list(each.requests())) for each in read(tmp_path)) == 2


def test_steps_that_are_parts_of_one_answer_are_one_request(tmp_path: Path) -> None:
    """Harbor writes a step of each call, and tells the usage with the first."""
    first = {"source": "agent", "message": "Let me look.", **metrics(10)}
    path = write(
        *(tmp_path / "t.json", USER, first, called("a", said="Executed bash a"), called("b")),
        {"source": "agent", "message": "Done.", **metrics(30)},
    )
    asked, again = requests_of(path)
    assert [10, 30] == [each.usage and each.usage.prompt for each in (asked, again)]
    _, answer, results = again.items
    assert ["thinking", "text", "tool_use", "tool_use"] == [
        part["type"]
        for part in answer["content"]  # type: ignore[attr-defined]
    ]
    assert ["a", "b"] == [part["tool_use_id"] for part in results["content"]]  # type: ignore[attr-defined]


def test_what_claude_code_answered_itself_was_no_request(tmp_path: Path) -> None:
    own = {"source": "agent", "message": "API Error", "model_name": "<synthetic>", **metrics(0)}
    path = write(tmp_path / "t.json", USER, own, USER, called("a", **metrics(10)), own)
    (request,) = requests_of(path)
    assert "API Error" in str(request.items)


def test_claude_code_goes_on_with_a_summary(tmp_path: Path) -> None:
    summary = (
        "This session is being continued from a previous conversation that ran out of context."
    )
    goes_on = {**USER, "message": summary}
    path = write(tmp_path / "t.json", USER, called("a"), goes_on, USER, called("b"))
    *_, last = requests_of(path)
    assert [summary, "Mend it."] == [part["text"] for part in last.items[0]["content"]]  # type: ignore[attr-defined]
    assert len(last.items) == 1


def test_where_no_usage_is_told_each_step_is_a_request(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", USER, called("a"), called("b"))
    assert [None, None] == [each.usage for each in requests_of(path)]


def test_a_result_without_a_name_is_that_of_the_call_in_its_place(tmp_path: Path) -> None:
    step = called("a", None)
    step = {**step, "observation": {"results": [{"content": "printed"}]}}
    path = write(tmp_path / "t.json", USER, step, {**USER, "message": "And?"}, called("b"))
    *_, last = requests_of(path)
    assert "printed" in str(last.items[-1]["content"][0]["content"])  # type: ignore[index]


def test_a_result_is_as_it_was_sent_where_harbor_says_so(tmp_path: Path) -> None:
    image = {"type": "base64", "media_type": "image/png", "data": png()}
    sent = [{"type": "text", "text": "a.py"}, {"type": "image", "source": image}]
    raw = {"raw_tool_result": {"type": "tool_result", "content": sent, "is_error": True}}
    step = called("a", "a.py\n\n[stdout]\na.py")
    step["observation"]["results"][0]["extra"] = {"tool_result_metadata": raw}
    *_, last = requests_of(write(tmp_path / "t.json", USER, step, called("b")))
    told: Any = last.items[-1]
    (result,) = told["content"]
    assert (sent, True) == (result["content"], result["is_error"])


def test_reasoning_is_bound_whether_it_is_told_or_not(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", USER, called("a"), called("b"), model="claude-opus-5-5")
    *_, last = requests_of(path)
    assert MESSAGES.read_element(last.items[1]).is_bound


def test_calls_that_were_made_of_text_are_sent_as_text(tmp_path: Path) -> None:
    steps = called("call_0_1", "ran"), called("call_1_task_complete")
    path = write(tmp_path / "t.json", USER, *steps, agent="terminus-2")
    (conversation,) = read(path)
    *_, last = conversation.requests()
    assert "terminus-2" == conversation.agent
    assert not any(MESSAGES.read_element(item).results for item in last.items)
    assert "ran" in str(last.items[-1])


def test_usage_of_all_steps_so_far_is_told_apart(tmp_path: Path) -> None:
    """Harbor writes so of OpenHands, with the same sum at each step of one answer."""
    sums = ((100, 0), (100, 0), (250, 90), (450, 240))
    steps = [
        called(f"c{number}", **metrics(prompt, prompt // 10, cached_tokens=cached))
        for number, (prompt, cached) in enumerate(sums)
    ]
    path = write(tmp_path / "t.json", USER, *steps, final_metrics={"total_prompt_tokens": 450})
    assert [
        Usage(prompt=100, cached=0, completion=10),
        Usage(prompt=150, cached=90, completion=15),
        Usage(prompt=200, cached=150, completion=20),
    ] == [each.usage for each in requests_of(path)]


def test_each_provider_has_a_conversation(tmp_path: Path) -> None:
    other = {**called("b"), "model_name": "groq/llama-5"}
    first, second = read(write(tmp_path / "t.json", USER, called("a"), other))
    assert (MESSAGES, CHAT) == (first.wire, second.wire)
    (request,) = second.requests()
    assert ("api.groq.com", "llama-5", 3) == (second.host, request.model, len(request.items))


def test_what_is_not_known_is_passed_over_and_named(tmp_path: Path) -> None:
    odd = {"source": "oracle", "message": "Beware."}
    parts = [{"type": "smell", "source": {}}, {"type": "text", "text": "Mend it."}, 7]
    heard = {**USER, "message": parts, "mood": "good"}
    cut = {
        "source": "system",
        "message": "",
        "extra": {"context_management": {"boundary": "truncate"}},
    }
    path = write(
        *(tmp_path / "t.json", odd, heard, cut, called("a", **metrics(10, odd=[1]), odd=1)),
        odd={"odd": 1},
        schema_version="ATIF-v1.23",
    )
    (conversation,) = read(path)
    assert {"step oracle", "part smell", "context truncate"} == conversation.unread
    (request,) = conversation.requests()
    assert ({"role": "user", "content": [{"type": "text", "text": "Mend it."}]},) == request.items


@pytest.mark.parametrize("version", ["ATIF-v1.1", "ATIF-v2.0"])
def test_another_version_is_named(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "t.json", USER, called("a"), schema_version=version)
    assert main(["replay", str(path)]) == 1
    told = f"{path}:1: expected ATIF-v1.2 or a later 1.x, got {version}"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("steps", ["null", "{}"])
def test_a_trajectory_without_steps_is_named(
    steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.json"
    path.write_text(f'{{"agent": {{}}, "schema_version": "ATIF-v1.7", "steps": {steps}}}')
    assert main(["replay", str(path)]) == 1
    assert f"{path}:1: a trajectory without steps" in capsys.readouterr().err


def test_whatever_stands_in_a_field_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    document = json.loads((HERE / "trajectory.json").read_text())
    for place, odd in product(list_places(document), (7, ["x"])):
        changed: Any = json.loads(json.dumps(document))
        *above, last = place
        reduce(getitem, above, changed)[last] = odd
        path.write_text(json.dumps(changed))
        with suppress(ValueError):  # where it is no trajectory any more
            log = LogFile(ATIF.agent, path, 0, when(0))
            assert all(each.items for one in ATIF.read(log) for each in one.requests())


def list_places(value: object, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value in a document."""
    inner = enumerate(value) if isinstance(value, list) else ()
    for key, each in value.items() if isinstance(value, dict) else inner:
        yield (*above, key)
        yield from list_places(each, (*above, key))


def test_half_a_trajectory_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", USER, called("a"))
    path.write_text(path.read_text()[:-1])
    with pytest.raises(ValueError, match=r"t\.json:1: not a trajectory: "):
        read(path)


def test_it_costs_what_the_agents_own_log_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a long session cost, and what masking would have saved, whichever of the two tells."""
    log = write_claude_code(tmp_path / "own", MadeSession(turns=40, model=MODEL))
    steps: list[dict[str, Any]] = []
    for entry in map(json.loads, log.read_text().splitlines()):
        message, moment = entry["message"], entry["timestamp"]
        content = message["content"]
        if isinstance(content, str):
            steps.append({"source": "user", "message": content, "timestamp": moment})
        elif entry["type"] == "user":
            result = {"source_call_id": content[0]["tool_use_id"], "content": content[0]["content"]}
            steps[-1]["observation"] = {"results": [result]}
        else:
            (block,), usage = content, message["usage"]
            read, wrote = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
            own = metrics(
                *(usage["input_tokens"] + read + wrote, usage["output_tokens"]),
                cached_tokens=read,
                extra={"cache_creation_input_tokens": wrote},
            )
            step = {"source": "agent", "message": block.get("text", ""), "timestamp": moment}
            if "input" in block:
                call = {"tool_call_id": block["id"], "function_name": block["name"]}
                step["tool_calls"] = [{**call, "arguments": block["input"]}]
            steps.append({**step, **own})
    (tmp_path / "atif").mkdir()
    write(tmp_path / "atif" / "trajectory.json", *steps)
    costs = []
    for folder in ("own", "atif"):
        arguments = ("--json", "--total", "--since", "2026-01-01", str(tmp_path / folder))
        assert main(["replay", *arguments]) == 0
        total = json.loads(capsys.readouterr().out)["total"]
        costs.append((total["requests"], total["cost_before"], total["cost_after"]))
    (requests, before, after), (told, paid, saved) = costs
    assert requests == told == 41
    assert paid == pytest.approx(before, rel=1e-9)
    assert saved == pytest.approx(after, rel=1e-3)
    assert after < before * 0.95


def test_the_end_names_no_command_of_an_agent_that_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(3)
    steps: list[Step] = [USER]
    for turn in range(40):
        step = called(f"c{turn}", make_text(rng, 6_000), timestamp=at(turn))
        steps.append({**step, **metrics(3_000 + turn * 1_900, cached_tokens=turn * 1_900)})
    write(tmp_path / "t.json", *steps, agent="own-agent")
    assert main(["replay", "--since", "2026-01-01", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "own-agent, claude-sonnet-4-5" in printed
    assert "Next:" not in printed
