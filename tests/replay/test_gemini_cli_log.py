"""gemini-cli's own logs: which requests they show, and what each sent."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from addon.replay.logs.gemini_cli import GEMINI_CLI
from addon.replay.logs.log import LoggedConversation, LoggedRequest
from masking.wire import Usage

Message = Mapping[str, Any]

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
ABOUT = {"sessionId": "5b6234f8", "projectHash": "79b6", "startTime": "2026-03-01T12:00:00Z"}
BROKEN = '{"id": "m1", "type": "us\n'


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def user(name: str, seconds: float, *parts: Message | str) -> Message:
    content = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"id": name, "timestamp": at(seconds), "type": "user", "content": content}


def answer(
    name: str, seconds: float, text: str = "", *calls: Message, prompt: int | None = None
) -> Message:
    tokens = {"input": prompt, "output": 7, "cached": 3, "thoughts": 4, "tool": 0, "total": 9}
    return {
        "id": name,
        "timestamp": at(seconds),
        "type": "gemini",
        "content": text,
        "thoughts": [{"subject": "Plan", "description": "Look first."}],
        "tokens": None if prompt is None else tokens,
        "model": "gemini-3-pro-preview",
        "toolCalls": list(calls),
    }


def call(name: str, seconds: float, status: str = "success") -> Message:
    told = {"error": "no such file"} if status == "error" else {"output": f"what {name} printed"}
    return {
        "id": name,
        "name": "shell",
        "args": {"command": name},
        "result": [{"functionResponse": {"id": name, "name": "shell", "response": told}}],
        "status": status,
        "timestamp": at(seconds),
    }


def asked(*calls: Message) -> list[Message]:
    return [{"functionCall": {"id": c["id"], "args": c["args"], "name": c["name"]}} for c in calls]


def results(*calls: Message) -> list[Message]:
    return [part for each in calls for part in each["result"]]


def content(role: str, *parts: Message | str) -> Message:
    spelled = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"parts": spelled, "role": role}


def write(path: Path, *lines: Message) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (ABOUT, *lines)))
    return path


def write_document(path: Path, *messages: Message, indent: int | None = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**ABOUT, "messages": messages}, indent=indent))
    return path


def read_one(path: Path) -> LoggedConversation:
    (log,) = GEMINI_CLI.find(path)
    (conversation,) = GEMINI_CLI.read(log)
    return conversation


def requests_of(path: Path) -> list[LoggedRequest]:
    return list(read_one(path).requests())


A, B, C = call("a", 4), call("b", 4.002, "error"), call("c", 9)
TALK = (user("u1", 1, "Find the bug."), answer("g1", 2, "Let me see.", A, B, prompt=100))
SENT = [
    content("user", "Find the bug."),
    content("model", "Let me see.", *asked(A, B)),
    content("user", *results(A, B)),
]


@pytest.mark.parametrize("indent", [None, 2])
def test_an_answer_is_a_request_and_its_calls_are_answered(
    indent: int | None, tmp_path: Path
) -> None:
    messages = (*TALK, answer("g2", 6, "Found.", prompt=140))
    path = write_document(tmp_path / "session.json", *messages, indent=indent)
    first, second = requests_of(path)
    assert SENT[:1] == list(first.items)
    assert SENT == list(second.items)
    assert first.items[0] is second.items[0]
    assert Usage(prompt=100, cached=3, completion=11, reasoning=4) == first.usage
    assert "gemini-3-pro-preview" == second.model
    assert [BEGAN + timedelta(seconds=n) for n in (1, 4.002)] == [first.when, second.when]
    assert len({first.key, second.key}) == 2


def test_results_that_are_logged_twice_are_sent_once(tmp_path: Path) -> None:
    told = user("u2", 5, *results(A, B))
    path = write(tmp_path / "session.jsonl", *TALK, told, answer("g2", 6, "Found.", prompt=140))
    assert SENT == list(requests_of(path)[1].items)


def test_a_message_counts_as_it_was_written_last(tmp_path: Path) -> None:
    early = {**TALK[1], "toolCalls": [], "tokens": None}
    lines = (TALK[0], early, {"$set": {"lastUpdated": at(3)}}, TALK[1], answer("g2", 6))
    first, second = requests_of(write(tmp_path / "session.jsonl", *lines))
    assert (100, SENT) == (first.usage and first.usage.prompt, list(second.items))


def test_each_further_batch_of_calls_was_a_request_of_unknown_usage(tmp_path: Path) -> None:
    lines = (TALK[0], answer("g1", 2, "Let me see.", A, B, C, prompt=100))
    path = write_document(tmp_path / "session.json", *lines, answer("g2", 12, "Found.", prompt=160))
    first, second, third = requests_of(path)
    assert [100, None, 160] == [r.usage and r.usage.prompt for r in (first, second, third)]
    assert SENT == list(second.items)
    both = [content("model", *asked(C)), content("user", *results(C))]
    assert [*SENT, *both] == list(third.items)
    assert BEGAN + timedelta(seconds=9) == third.when


def test_messages_of_one_speaker_are_one_content(tmp_path: Path) -> None:
    lines = (user("u0", 0, "<session_context>"), TALK[0], answer("g1", 2))
    (request,) = requests_of(write(tmp_path / "session.jsonl", *lines))
    assert [content("user", "<session_context>", "Find the bug.")] == list(request.items)


def test_a_result_may_be_followed_by_what_the_user_said(tmp_path: Path) -> None:
    lines = (*TALK, user("u2", 5, "Stop."), answer("g2", 6))
    _, request = requests_of(write_document(tmp_path / "session.json", *lines))
    assert content("user", *results(A, B), "Stop.") == request.items[-1]


def test_ids_are_as_they_are_sent_and_thoughts_are_not(tmp_path: Path) -> None:
    named = {**A, "id": "shell__a"}
    part = {"functionResponse": {**A["result"][0]["functionResponse"], "id": "shell__a"}}
    thought = {"text": "Look first.", "thought": True}
    again = {"functionCall": {"id": "shell__a", "args": A["args"], "name": "shell"}}
    for said in ("", [thought, again]):
        spoken = {**answer("g1", 2, "", {**named, "result": [part]}), "content": said}
        lines = (TALK[0], spoken, answer("g2", 6))
        _, request = requests_of(write(tmp_path / "session.jsonl", *lines))
        expected = [content("model", *asked(A)), content("user", *results(A))]
        assert expected == list(request.items[1:])


def test_a_changed_history_that_is_written_one_by_one_first_has_no_requests(
    tmp_path: Path,
) -> None:
    cut = {"functionResponse": {"id": "a", "name": "shell", "response": {"output": "cut"}}}
    said = {"id": "n2", "timestamp": at(8), "type": "gemini", "content": asked(A), "tokens": None}
    copies = (user("n1", 8, "Find the bug."), said, user("n3", 8, cut))
    lines = (*TALK, *copies, {"$set": {"messages": copies}}, answer("g2", 9, "Found."))
    _, second = requests_of(write(tmp_path / "session.jsonl", *lines))
    expected = [content("user", "Find the bug."), content("model", *asked(A)), content("user", cut)]
    assert expected == [*second.items]


def test_a_compression_replaces_all_that_is_sent(tmp_path: Path) -> None:
    short = (TALK[0], user("s1", 7, "<state_snapshot>"), answer("s2", 7, "Got it."))
    lines = (*TALK, {"$set": {"messages": short}}, user("u2", 8, "Go on."), answer("g2", 9))
    _, last = requests_of(write(tmp_path / "session.jsonl", *lines))
    expected = [
        content("user", "Find the bug.", "<state_snapshot>"),
        content("model", "Got it."),
        content("user", "Go on."),
    ]
    assert expected == list(last.items)

    kept = (*TALK, answer("g2", 6, "Found."))
    tail = ({"$set": {"messages": kept}}, user("u2", 8, "Go on."), answer("g3", 9))
    _, second, last = requests_of(write(tmp_path / "session.jsonl", *kept, *tail))
    assert all(one is other for one, other in zip(second.items, last.items, strict=False))


@pytest.mark.parametrize(("to", "kept"), [("u2", SENT), ("nowhere", [])])
def test_what_was_rewound_is_not_sent_again(to: str, kept: list[Message], tmp_path: Path) -> None:
    lines = (
        *(*TALK, user("u2", 5, *results(A, B)), answer("g2", 6, "Found."), {"$rewindTo": to}),
        *(user("u3", 8, "Go on."), answer("g3", 9)),
    )
    *_, last = requests_of(write(tmp_path / "session.jsonl", *lines))
    said = [*kept[:-1], content("user", *(kept[-1]["parts"] if kept else ()), "Go on.")]
    assert said == list(last.items)


@pytest.mark.parametrize(("total", "prompt"), [(400_011, 400_000), (100_011, 100_000)])
def test_what_its_own_tools_add_to_a_prompt_counts(total: int, prompt: int, tmp_path: Path) -> None:
    tokens = {"input": 100_000, "output": 7, "thoughts": 4, "tool": 300_000, "total": total}
    lines = user("u1", 0, "Look it up."), {**answer("g1", 1, "Found."), "tokens": tokens}
    (request,) = requests_of(write(tmp_path / "session.jsonl", *lines))
    assert Usage(prompt=prompt, cached=0, completion=11, reasoning=4) == request.usage


# Files


def test_a_conversation_says_whose_it_is(tmp_path: Path) -> None:
    chats = tmp_path / "tmp" / "shop-1" / "chats"
    conversation = read_one(write(chats / "session-1.jsonl", *TALK))
    assert ("gemini-cli", "5b6234f8", "shop-1", None, "gemini", False) == (
        conversation.agent,
        conversation.name,
        conversation.project,
        conversation.host,
        conversation.wire.name,
        conversation.is_side,
    )
    assert "/v1beta/models/m:generateContent" == conversation.path.format(model="m")

    (chats.parent / ".project_root").write_text("/home/me/shop")
    about = {"$set": {"summary": "A bug in the cache", "kind": "subagent"}}
    conversation = read_one(write(chats / "5b6234f8" / "sub.jsonl", *TALK, about))
    assert ("A bug in the cache", "shop", True) == (
        conversation.name,
        conversation.project,
        conversation.is_side,
    )
    assert read_one(write(tmp_path / ("0" * 64) / "chats" / "s.jsonl", *TALK)).project is None
    assert read_one(write(tmp_path / "s.jsonl", *TALK)).project is None


def test_what_is_not_understood_is_named(tmp_path: Path) -> None:
    told = {"id": "i", "timestamp": at(3), "type": "info", "content": "Request cancelled."}
    shrunk = {**told, "content": "Chat history compressed from 900000 to 30000 tokens."}
    future = {"id": "f", "timestamp": at(3), "type": "hologram", "content": "?"}
    for extra, expected in (
        ((told,), set()),
        ((shrunk,), {"compression"}),
        ((future,), {"hologram"}),
        ((answer("g2", 3, "Hm."), answer("g3", 4, "Found.")), {"call"}),
    ):
        path = write_document(tmp_path / "session.json", *TALK, *extra)
        assert expected == read_one(path).unread


def test_broken_lines_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", *TALK)
    with path.open("a") as file:
        file.write(BROKEN + "\n[1]\n" + json.dumps(answer("g2", 6, "A lone \ud83d.")) + "\n")
        file.write('{"id": "u3", "type": "us')
    assert 2 == len(requests_of(path))
    assert {"broken entry"} == read_one(path).unread


def test_half_a_document_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = write_document(tmp_path / "session.json", *TALK)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(ValueError, match=re.escape(f"{path}:1: not a chat of gemini-cli: ")):
        read_one(path)


def test_logs_are_found_by_their_content(tmp_path: Path) -> None:
    old = write_document(tmp_path / "a" / "session-1.json", *TALK)
    write_document(tmp_path / "a" / "logs.json").write_text('[{"sessionId": "x", "type": "user"}]')
    (tmp_path / "a" / "checkpoint-x.json").write_text(json.dumps({"history": SENT}))
    assert [old] == [log.path for log in GEMINI_CLI.find(tmp_path)]
    new = write(old.with_suffix(".jsonl"), *TALK)  # the chat was taken up by a newer version
    assert [new] == [log.path for log in GEMINI_CLI.find(tmp_path)]
    assert (Path("/home/me/.gemini/tmp"),) == GEMINI_CLI.homes(Path("/home/me"), {})
    assert (Path("/x/.gemini/tmp"),) == GEMINI_CLI.homes(Path("/me"), {"GEMINI_CLI_HOME": "/x"})
