"""OpenHands' conversations: which requests they show, and what each sent."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from addon.replay.logs.log import LoggedConversation, LoggedRequest
from addon.replay.logs.openhands import OPENHANDS
from masking.wire import CHAT, RESPONSES, Usage

Event = Mapping[str, Any]

BEGAN = datetime(2026, 3, 1, 12)
"""A time of the place, as it is written."""


def local(seconds: float) -> datetime:
    return (BEGAN + timedelta(seconds=seconds)).astimezone(UTC)


def text(words: str) -> Event:
    return {"type": "text", "text": words}


def logged(words: str) -> list[Event]:
    return [{"cache_prompt": False, **text(words)}]


def event(kind: str, name: str, seconds: float = 0, source: str = "agent", **rest: object) -> Event:
    when = (BEGAN + timedelta(seconds=seconds)).isoformat()
    return {"kind": kind, "id": name, "timestamp": when, "source": source, **rest}


def user(name: str, words: str, seconds: float = 1) -> Event:
    message = {"role": "user", "content": logged(words)}
    return event("MessageEvent", name, seconds, "user", llm_message=message)


def said(name: str, answer: str, words: str) -> Event:
    message = {"role": "assistant", "content": logged(words)}
    return event("MessageEvent", name, llm_message=message, llm_response_id=answer)


def action(name: str, answer: str, thought: str = "") -> Event:
    call = {"id": name, "name": "terminal", "arguments": "{}", "origin": "completion"}
    return event(
        *("ActionEvent", f"act-{name}", 2),
        thought=logged(thought) if thought else [],
        tool_call_id=name,
        tool_call=call,
        llm_response_id=answer,
    )


def result(name: str, seconds: float = 3, **observation: object) -> Event:
    told = {"content": logged(f"what {name} printed"), "is_error": False, **observation}
    return event(
        *("ObservationEvent", f"obs-{name}", seconds, "environment"),
        tool_call_id=name,
        tool_name="terminal",
        observation=told,
    )


def usage(answer: str, prompt: int) -> Event:
    return {
        "model": "anthropic/claude-fable-5",
        "response_id": answer,
        "prompt_tokens": prompt,
        "completion_tokens": 7,
        "cache_read_tokens": 3,
        "cache_write_tokens": 5,
        "reasoning_tokens": 2,
    }


SYSTEM = event("SystemPromptEvent", "sys", system_prompt=text("You are able."), tools=[])
TALK = (SYSTEM, user("u1", "Find the bug."), action("a", "r1", "Let me see."), action("b", "r1"))


def write(folder: Path, *events: Event, **usages: Sequence[Event]) -> Path:
    (folder / "events").mkdir(parents=True)
    for number, each in enumerate(events):
        path = folder / "events" / f"event-{number:05}-{each['id']}.json"
        path.write_text(json.dumps(each))
    metrics = {name: {"token_usages": each} for name, each in usages.items()}
    state = {
        "workspace": {"working_dir": "/home/me/shop"},
        "agent": {"llm": {"model": "anthropic/claude-fable-5", "base_url": None}},
        "stats": {"usage_to_metrics": metrics},
    }
    (folder / "base_state.json").write_text(json.dumps(state))
    return folder


def read_all(path: Path) -> list[LoggedConversation]:
    (log,) = OPENHANDS.find(path)
    return list(OPENHANDS.read(log))


def requests_of(path: Path) -> list[LoggedRequest]:
    return list(read_all(path)[0].requests())


def message(role: str, *words: str) -> Event:
    return {"role": role, "content": [text(each) for each in words]}


def answered(*names: str, thought: str = "") -> Event:
    function = {"name": "terminal", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function} for name in names]
    content = {"content": [text(thought)]} if thought else {}
    return {"role": "assistant", "tool_calls": calls, **content}


def returned(name: str, *words: str) -> Event:
    about = {"tool_call_id": name, "name": "terminal"}
    return {**message("tool", *(words or (f"what {name} printed",))), **about}


HEAD = [message("system", "You are able."), message("user", "Find the bug.")]


def test_the_actions_of_an_answer_are_one_request(tmp_path: Path) -> None:
    events = (*TALK, result("a"), result("b", 4), said("m", "r2", "Found."))
    path = write(tmp_path / "5b62", *events, agent=[usage("r1", 100), usage("r2", 140)])
    (conversation,) = read_all(tmp_path)
    assert ("5b62", "shop", "api.anthropic.com", CHAT, False) == (
        *(conversation.name, conversation.project, conversation.host),
        *(conversation.wire, conversation.is_side),
    )
    first, second = requests_of(path)
    assert HEAD == list(first.items)
    assert [
        *(*HEAD, answered("a", "b", thought="Let me see.")),
        *(returned("a"), returned("b")),
    ] == list(second.items)
    assert first.items[1] is second.items[1]
    assert Usage(prompt=140, cached=3, written=5, completion=7, reasoning=2) == second.usage
    assert "claude-fable-5" == second.model
    assert [local(1), local(4)] == [first.when, second.when]
    assert frozenset() == conversation.unread


def test_calls_of_the_responses_api_are_sent_as_its_items(tmp_path: Path) -> None:
    call = {"id": "a", "responses_item_id": "fc_a", "name": "terminal", "arguments": "{}"}
    thought = {"id": "rs_a", "summary": ["Look first."], "encrypted_content": "gAAA"}
    asked = {
        **action("a", "r1", "Let me see."),
        "tool_call": {**call, "origin": "responses"},
        "responses_reasoning_item": thought,
    }
    events = (*TALK[:2], asked, result("a", is_error=True), said("m", "r2", "Found."))
    path = write(tmp_path / "c", *events, agent=[usage("r1", 100), usage("r2", 140)])
    assert RESPONSES is read_all(path)[0].wire
    first, second = requests_of(path)
    said_first = {"type": "message", "role": "user"}
    assert [{**said_first, "content": [{"type": "input_text", "text": "Find the bug."}]}] == list(
        first.items
    )
    told = {"type": "function_call_output", "call_id": "a"}
    summary = [{"type": "summary_text", "text": "Look first."}]
    assert [
        {"type": "reasoning", "id": "rs_a", "summary": summary, "encrypted_content": "gAAA"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me see."}],
        },
        {
            "type": "function_call",
            "id": "fc_a",
            "call_id": "a",
            "name": "terminal",
            "arguments": "{}",
        },
        {**told, "output": "[An error occurred during execution.]\n"},
        {**told, "output": "what a printed"},
    ] == list(second.items[1:])
    assert first.items[0] is second.items[0]


def test_a_command_is_sent_with_how_it_ended(tmp_path: Path) -> None:
    about = {"prefix": "", "suffix": "\n[Done.]", "working_dir": "/shop", "exit_code": 2}
    ended = result("a", metadata=about, is_error=True)
    path = write(
        *(tmp_path / "c", *TALK[:3], ended, said("m", "r2", "Found.")),
        agent=[usage("r1", 100), usage("r2", 140)],
    )
    told = requests_of(path)[1].items[-1]["content"]
    assert [
        text("[An error occurred during execution.]\n"),
        text(
            "what a printed\n[Done.]\n[Current working directory: /shop]"
            "\n[Command finished with exit code 2]"
        ),
    ] == told


def test_other_results_are_errors_and_rejections(tmp_path: Path) -> None:
    error = event("AgentErrorEvent", "e", tool_call_id="a", tool_name="terminal", error="No such.")
    no = event(
        *("UserRejectObservation", "n", 3, "user"),
        tool_call_id="b",
        tool_name="terminal",
        rejection_reason="Not now.",
    )
    usages = [usage("r1", 100), usage("r2", 140)]
    path = write(tmp_path / "c", *TALK, error, no, said("m", "r2", "Well."), agent=usages)
    assert [returned("a", "No such."), returned("b", "Action rejected: Not now.")] == list(
        requests_of(path)[1].items[-2:]
    )


def test_a_condensation_puts_a_summary_in_place_of_events(tmp_path: Path) -> None:
    condensed = event(
        *("Condensation", "c1", 5, "environment"),
        forgotten_event_ids=["act-a", "act-b", "obs-a", "obs-b"],
        summary="All in short.",
        summary_offset=2,
        llm_response_id="r-c",
    )
    events = (*TALK, result("a"), result("b"), condensed, action("c", "r2"), result("c"))
    path = write(
        *(tmp_path / "c", *events, said("m", "r3", "Found.")),
        agent=[usage("r1", 100), usage("r2", 110), usage("r3", 120)],
        condenser=[usage("r-c", 90)],
    )
    _, side = read_all(path)
    _, second, third = requests_of(path)
    merged = message("user", "Find the bug.", "All in short.")
    assert [HEAD[0], merged] == list(second.items)
    assert [HEAD[0], merged, answered("c"), returned("c")] == list(third.items)
    assert second.items[1] is third.items[1]
    assert side.is_side
    (summary,) = side.requests()
    assert () == summary.items
    assert 90 == (summary.usage or Usage()).prompt
    assert local(5) == summary.when


def test_one_may_go_back_to_an_earlier_event(tmp_path: Path) -> None:
    events = (*TALK[:3], result("a"), said("m1", "r2", "Wrong."))
    again = ({**user("u2", "Otherwise."), "parent_id": "u1"}, said("m2", "r3", "Right."))
    usages = [usage("r1", 100), usage("r2", 140), usage("r3", 110)]
    chain = [{"parent_id": before["id"], **each} for before, each in pairwise(events)]
    last = {"parent_id": "u2", **again[1]}
    path = write(tmp_path / "c", events[0], *chain, again[0], last, agent=usages)
    assert [HEAD[0], message("user", "Find the bug.", "Otherwise.")] == list(
        requests_of(path)[2].items
    )


def test_a_call_without_a_result_is_not_sent(tmp_path: Path) -> None:
    events = (*TALK[:3], user("u2", "Stop."), said("m", "r2", "Well."), result("x"))
    path = write(tmp_path / "c", *events, agent=[usage("r1", 100), usage("r2", 140)])
    # What was said before and after the call stays in two messages.
    assert [*HEAD, message("user", "Stop.")] == list(requests_of(path)[1].items)


def test_what_is_not_understood_is_told(tmp_path: Path) -> None:
    unknown, pause = event("NewEvent", "n"), event("PauseEvent", "p")
    odd = {**action("a", "r1"), "tool_call_id": ["a"]}
    events = (*TALK[:2], unknown, pause, odd, said("m", "r2", "Well."))
    path = write(tmp_path / "c", *events, agent=[usage("r2", 100)])
    (path / "events" / "event-00009-x.json").write_text('{"kind": "Mess')
    (conversation,) = read_all(path)
    assert frozenset(("NewEvent", "broken entry")) == conversation.unread
    (request,) = conversation.requests()
    assert HEAD == list(request.items)


def test_conversations_are_found_by_their_state(tmp_path: Path) -> None:
    path = write(tmp_path / "all" / "c", *TALK, agent=[])
    (tmp_path / "base_state.json").write_text("{}")
    for place in (tmp_path, path, path / "base_state.json"):
        assert [path] == [log.path for log in OPENHANDS.find(place)]
    assert [] == list(OPENHANDS.find(tmp_path / "base_state.json"))
    assert (tmp_path / ".openhands" / "conversations",) == OPENHANDS.homes(tmp_path, {})
    kept = {"OPENHANDS_PERSISTENCE_DIR": "/kept"}
    assert (Path("/kept/conversations"),) == OPENHANDS.homes(tmp_path, kept)


def test_a_state_that_is_broken_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c", *TALK, agent=[])
    (path / "base_state.json").write_text("{")
    (log,) = OPENHANDS.find(path)
    with pytest.raises(ValueError, match=r"base_state\.json:1: not a conversation"):
        list(OPENHANDS.read(log))


def test_no_link_that_leads_out_of_a_conversation_is_followed(tmp_path: Path) -> None:
    folder = write(tmp_path / "given" / "one", *TALK, agent=[usage("r1", 50)])
    away = write(tmp_path / "away", *TALK, agent=[usage("r1", 50)])
    events = sorted((folder / "events").iterdir())
    events[-1].unlink()
    events[-1].symlink_to("/dev/zero")
    assert [folder] == [log.path for log in OPENHANDS.find(tmp_path / "given")]
    (tmp_path / "given" / "two").mkdir()
    (tmp_path / "given" / "two" / "events").symlink_to(away / "events")
    (tmp_path / "given" / "two" / "base_state.json").write_text("{}")
    (tmp_path / "given" / "three" / "events").mkdir(parents=True)
    (tmp_path / "given" / "three" / "base_state.json").symlink_to(away / "base_state.json")
    assert [folder] == [log.path for log in OPENHANDS.find(tmp_path / "given")]
