"""qwen-code's own logs: which requests they show, and what each sent."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest
from addon.replay.logs.qwen_code import QWEN_CODE
from masking.wire import Usage

Entry = Mapping[str, Any]

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def entry(name: str, after: str | None, kind: str, **fields: object) -> Entry:
    when = BEGAN + timedelta(seconds=int(name[1:]))
    about = {"sessionId": "5b62", "cwd": "/home/someone/api", "version": "0.15"}
    named = {"uuid": name, "parentUuid": after, "timestamp": when.isoformat(), "type": kind}
    return {**named, **about, **fields}


def user(name: str, after: str | None, text: str) -> Entry:
    return entry(name, after, "user", message={"role": "user", "parts": [{"text": text}]})


def answer(name: str, after: str, text: str, *calls: str, prompt: int | None = 9) -> Entry:
    parts = [{"text": "Hm.", "thought": True}, {"text": text}]
    asked = [{"functionCall": {"id": each, "name": "sh", "args": {"what": each}}} for each in calls]
    usage = {"promptTokenCount": prompt, "cachedContentTokenCount": 3, "candidatesTokenCount": 2}
    return entry(
        name,
        after,
        "assistant",
        model="qwen3-coder",
        message={"role": "model", "parts": [*parts, *asked]},
        **({} if prompt is None else {"usageMetadata": usage}),
    )


def result(name: str, after: str, call: str, **response: object) -> Entry:
    given = {"functionResponse": {"id": call, "name": "sh", "response": response}}
    return entry(name, after, "tool_result", message={"role": "user", "parts": [given]})


def write(path: Path, *entries: Entry | str) -> LogFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (each if isinstance(each, str) else json.dumps(each) for each in entries)
    path.write_text("".join(f"{line}\n" for line in lines))
    (log,) = QWEN_CODE.find(path)
    return log


def read(path: Path, *entries: Entry | str) -> LoggedConversation:
    (conversation,) = QWEN_CODE.read(write(path, *entries))
    return conversation


def shown(request: LoggedRequest) -> list[str]:
    """Return each message in short: who says what."""
    found = []
    for item in request.items:
        content = item["content"]
        text = content if isinstance(content, str) else content[0]["text"]  # type: ignore[index]
        found.append(f"{item['role']}: {text}")
    return found


ASKED = user("u1", None, "Look.")
FIRST = (ASKED, answer("a2", "u1", "I do.", "c1", "c2"))
RESULTS = (result("r3", "a2", "c1", output="seen"), result("r4", "r3", "c2", error="no such file"))


def test_each_answer_is_a_request_of_what_came_before(tmp_path: Path) -> None:
    conversation = read(tmp_path / "a.jsonl", *FIRST, *RESULTS, answer("a5", "r4", "Done."))
    first, second = conversation.requests()
    assert ["user: Look."] == shown(first)
    assert ["user: Look.", "assistant: I do.", "tool: seen", "tool: no such file"] == shown(second)
    assert second.items[0] is first.items[0]
    call = {"id": "c1", "type": "function"}
    asked = {**call, "function": {"name": "sh", "arguments": '{"what":"c1"}'}}
    assert asked == second.items[1]["tool_calls"][0]  # type: ignore[index]
    assert "Hm." == second.items[1]["reasoning_content"]
    assert ("qwen-code", "a", "api", None) == (
        conversation.agent, conversation.name, conversation.project, conversation.host,
    )  # fmt: skip
    assert Usage(prompt=9, cached=3, completion=2, reasoning=0) == second.usage
    assert ("qwen3-coder", BEGAN + timedelta(seconds=4)) == (second.model, second.when)


def test_an_answer_may_have_no_usage(tmp_path: Path) -> None:
    (request,) = read(
        tmp_path / "a.jsonl", ASKED, answer("a2", "u1", "I do.", prompt=None)
    ).requests()
    assert None is request.usage


def test_entries_of_the_program_stand_between_others_and_add_nothing(tmp_path: Path) -> None:
    told = entry("s2", "u1", "system", subtype="ui_telemetry", systemPayload={"x": "y"})
    titled = entry("s3", "s2", "system", subtype="custom_title", systemPayload={"customTitle": "T"})
    other = entry("s4", "s3", "system", subtype="of_tomorrow", systemPayload={})
    conversation = read(
        tmp_path / "a.jsonl", ASKED, told, titled, other, answer("a5", "s4", "Yes.")
    )
    (request,) = conversation.requests()
    assert ["user: Look."] == shown(request)
    assert ("T", frozenset()) == (conversation.name, conversation.unread)


def test_after_a_compression_the_history_is_what_that_says(tmp_path: Path) -> None:
    history = [
        {"role": "user", "parts": [{"text": "In short: it was looked at."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
    ]
    compressed = entry(
        "s5",
        "r4",
        "system",
        subtype="chat_compression",
        systemPayload={"compressedHistory": history},
    )
    conversation = read(
        tmp_path / "a.jsonl",
        *(*FIRST, *RESULTS, compressed, user("u6", "s5", "And now?"), answer("a7", "u6", "Done.")),
    )
    *_, last = conversation.requests()
    assert [
        "user: In short: it was looked at.", "assistant: Got it.", "user: And now?",
    ] == shown(last)  # fmt: skip


def test_a_user_who_goes_back_goes_on_from_there(tmp_path: Path) -> None:
    again = user("u5", None, "Look elsewhere.")
    conversation = read(
        tmp_path / "a.jsonl",
        *(*FIRST, *RESULTS, answer("a6", "r4", "Done."), again, answer("a7", "u5", "I do.")),
    )
    assert ["user: Look elsewhere."] == shown([*conversation.requests()][-1])
    other = read(tmp_path / "b.jsonl", *FIRST, *RESULTS, answer("a6", "a2", "No results."))
    assert ["user: Look.", "assistant: I do."] == shown([*other.requests()][-1])


def test_what_is_broken_or_still_being_written_is_passed_over(tmp_path: Path) -> None:
    conversation = read(tmp_path / "a.jsonl", *FIRST, "[1]", '{"uuid": "r3", "par')
    assert 1 == len([*conversation.requests()])
    assert {"broken entry"} == conversation.unread


def test_parents_that_go_round_have_an_end(tmp_path: Path) -> None:
    loop = answer("a2", "a3", "One."), answer("a3", "a2", "Two.")
    assert 2 == len([*read(tmp_path / "a.jsonl", ASKED, *loop).requests()])


@pytest.mark.parametrize(
    "line",
    [
        '{"uuid": "u", "sessionId": "s", "type": "user", "message": {"content": "claude-code"}}',
        '{"type": "session_meta", "payload": {}}',
        "no JSON",
        "",
    ],
)
def test_other_files_are_none_of_its_logs(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(f"{line}\n")
    assert [] == [*QWEN_CODE.find(tmp_path)]


def test_logs_are_found_by_content_the_newest_first(tmp_path: Path) -> None:
    for number, name in enumerate(("projects/-home-api/chats/x.jsonl", "else/where.jsonl")):
        write(tmp_path / name, *FIRST)
        os.utime(tmp_path / name, (number, number))
    assert ["where.jsonl", "x.jsonl"] == [each.path.name for each in QWEN_CODE.find(tmp_path)]
    assert tmp_path / ".qwen" / "projects" in QWEN_CODE.homes(tmp_path, {})
