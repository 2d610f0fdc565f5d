"""The logs of qwen-code, pi, mini-swe-agent and OpenHands, read."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from addon.commands.work import find_sessions
from addon.replay.logs import LOGS, find_logs
from addon.replay.logs.log import LogChoice, LoggedConversation, LogKind
from addon.replay.logs.pi import PI
from addon.replay.logs.qwen_code import QWEN_CODE
from masking.wire import CHAT, MESSAGES, Usage
from tests.replay.opencode_log import MadeSession, write_files

Entry = dict[str, Any]

USER = {"role": "user", "content": "Mend it."}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "ls", "arguments": '{"path":"."}'},
}
LOOKS = {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "a.py"}


def at(second: int) -> str:
    return f"2026-11-20T12:00:{second:02}.000Z"


def when(second: int) -> datetime:
    return datetime(2026, 11, 20, 12, 0, second, tzinfo=UTC)


def write_lines(path: Path, *entries: Entry | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each) for each in entries]
    path.write_text("\n".join(lines) + "\n")
    return path


def read(kind: LogKind, path: Path) -> list[LoggedConversation]:
    """Read the logs of a folder, each of which no other agent may claim."""
    (found,) = find_logs(path)
    assert kind.agent == found.agent
    return [conversation for log in found.logs for conversation in kind.read(log)]


# qwen-code


def record(number: int, kind: str, parent: int | None = None, **more: object) -> Entry:
    before = number - 1 if parent is None else parent
    return {
        "uuid": f"r{number}",
        "parentUuid": f"r{before}" if before else None,
        "sessionId": "s",
        "timestamp": at(number),
        "type": kind,
        "cwd": "/home/me/app",
        "version": "0.24.4",
        **more,
    }


def say(*parts: Entry, role: str = "user") -> Entry:
    return {"message": {"role": role, "parts": [*parts]}}


QWEN_USAGE = {"promptTokenCount": 90, "candidatesTokenCount": 9, "cachedContentTokenCount": 40}
QWEN_CALL = {"functionCall": {"id": "call_1", "name": "ls", "args": {"path": "."}}}
QWEN_RESULT = {"functionResponse": {"id": "call_1", "name": "ls", "response": {"output": "a.py"}}}
QWEN = (
    record(1, "user", **say({"text": "Mend it."})),
    record(
        2,
        "assistant",
        model="qwen9",
        usageMetadata=QWEN_USAGE,
        **say({"text": "Let me look."}, QWEN_CALL, role="model"),
    ),
    record(3, "tool_result", **say(QWEN_RESULT)),
    record(4, "assistant", model="qwen9", **say({"text": "Done."}, role="model")),
)


def test_qwen_code_logs_a_request_for_each_answer(tmp_path: Path) -> None:
    write_lines(tmp_path / "chats" / "s.jsonl", *QWEN)
    (conversation,) = read(QWEN_CODE, tmp_path)
    assert ("app", None, CHAT) == (conversation.project, conversation.host, conversation.wire)
    first, second = conversation.requests()
    assert ((USER,), when(1), "qwen9") == (first.items, first.when, first.model)
    assert Usage(prompt=90, cached=40, completion=9, reasoning=0) == first.usage
    assert ((USER, LOOKS, RESULT), when(3), None) == (second.items, second.when, second.usage)


def test_qwen_code_sends_what_a_compression_left(tmp_path: Path) -> None:
    left = [{"role": "user", "parts": [{"text": "It was mended."}]}]
    compressed: Entry = {
        "subtype": "chat_compression",
        "systemPayload": {"compressedHistory": left},
    }
    write_lines(
        tmp_path / "s.jsonl",
        *QWEN,
        record(5, "system", **compressed),
        record(6, "user", **say({"text": "Go on."})),
        record(7, "assistant", **say({"text": "Well."}, role="model")),
    )
    *_, last = read(QWEN_CODE, tmp_path)[0].requests()
    texts = [{"type": "text", "text": text} for text in ("It was mended.", "Go on.")]
    assert ({"role": "user", "content": texts},) == last.items


def test_qwen_code_goes_back_on_a_branch(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "s.jsonl",
        *QWEN,
        record(5, "user", 3, **say({"text": "Or else?"})),
        record(6, "assistant", **say({"text": "Yes."}, role="model")),
        record(7, "assistant", agentId="explore-1", isSidechain=True, **say({"text": "?"})),
        "{ broken",
        '{"half',
    )
    main, side = read(QWEN_CODE, tmp_path)
    *_, request = main.requests()
    assert (USER, LOOKS, RESULT, {"role": "user", "content": "Or else?"}) == request.items
    assert (False, True) == (main.is_side, side.is_side)
    assert {"broken entry"} == main.unread


# pi

PI_USAGE = {"input": 10, "output": 9, "cacheRead": 40, "cacheWrite": 5, "totalTokens": 64}


def entry(number: int, parent: int | None = None, **more: object) -> Entry:
    before = number - 1 if parent is None else parent
    base = {"type": "message", "id": f"e{number}", "parentId": f"e{before}" if before else None}
    return {**base, "timestamp": at(number), **more}


def answer(number: int, *content: Entry, provider: str = "groq", **more: object) -> Entry:
    api = "anthropic-messages" if provider == "anthropic" else "openai-completions"
    said = {"role": "assistant", "content": [*content], "usage": PI_USAGE, "model": "m"}
    message = said | {"provider": provider, "api": api, "stopReason": "stop"}
    return entry(number, message=message | more)


HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": at(0), "cwd": "/home/me/app"}
PI_CALL = {"type": "toolCall", "id": "call_1|fc_1", "name": "ls", "arguments": {"path": "."}}
PI_RESULT = {
    "role": "toolResult",
    "toolCallId": "call_1|fc_1",
    "toolName": "ls",
    "content": [{"type": "text", "text": "a.py"}],
    "isError": False,
}
PI_LOG = (
    HEADER,
    entry(1, message={"role": "user", "content": "Mend it."}),
    answer(2, {"type": "text", "text": "Let me look."}, PI_CALL),
    entry(3, message=PI_RESULT),
    answer(4, {"type": "text", "text": "Done."}),
)


def test_pi_logs_a_request_for_each_answer(tmp_path: Path) -> None:
    write_lines(tmp_path / "s.jsonl", *PI_LOG)
    (conversation,) = read(PI, tmp_path)
    assert ("app", "api.groq.com", CHAT) == (
        conversation.project,
        conversation.host,
        conversation.wire,
    )
    first, second = conversation.requests()
    assert ((USER,), when(1)) == (first.items, first.when)
    assert Usage(prompt=55, cached=40, written=5, completion=9) == first.usage
    assert ((USER, LOOKS, RESULT), when(3)) == (second.items, second.when)


def test_pi_counts_reasoning_that_stands_outside_of_an_answer(tmp_path: Path) -> None:
    outside = answer(4, {"type": "text", "text": "Done."})
    outside["message"]["usage"] = PI_USAGE | {"totalTokens": 364}
    write_lines(tmp_path / "s.jsonl", *PI_LOG[:4], outside)
    usages = [request.usage for request in read(PI, tmp_path)[0].requests()]
    assert [9, 309] == [usage and usage.completion for usage in usages]


def test_pi_sends_a_summary_and_what_was_kept(tmp_path: Path) -> None:
    compacts: Entry = {"type": "compaction", "summary": "It went well.", "firstKeptEntryId": "e4"}
    write_lines(
        tmp_path / "s.jsonl",
        *PI_LOG,
        entry(5, **compacts),
        entry(6, message={"role": "user", "content": "Go on."}),
        answer(7, {"type": "text", "text": "Well."}),
    )
    *_, last = read(PI, tmp_path)[0].requests()
    summary, kept, asked = (item["content"] for item in last.items)
    assert "<summary>\nIt went well.\n</summary>" in str(summary)
    assert ["Done.", "Go on."] == [kept, asked]


def test_pi_follows_branches_and_providers(tmp_path: Path) -> None:
    branch: Entry = {"type": "branch_summary", "summary": "It failed.", "fromId": "e4"}
    thinks = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "sig"}
    write_lines(
        tmp_path / "s.jsonl",
        *PI_LOG,
        entry(5, 2, **branch),
        answer(6, thinks, {"type": "text", "text": "Well."}, provider="anthropic"),
        answer(7, {"type": "text", "text": "So."}, provider="anthropic"),
        entry(8, 8, type="riddle"),
    )
    chat, messages = read(PI, tmp_path)
    *_, last = messages.requests()
    assert ("api.anthropic.com", MESSAGES) == (messages.host, messages.wire)
    said, called, told, thought = last.items
    assert "Mend it." in str(said)
    assert "call_1" in str(called)
    assert "No result provided" in str(told)
    assert "It failed." in str(told)
    assert "sig" in str(thought)
    assert {"riddle"} == chat.unread


# All of them


def test_each_agent_is_in_the_table_once() -> None:
    agents = [kind.agent for kind in LOGS]
    assert len(agents) == len({*agents})
    assert {"opencode", "qwen-code", "pi", "mini-swe-agent", "openhands"} <= {*agents}


@pytest.mark.parametrize("kind", LOGS, ids=lambda kind: str(kind.agent))
def test_a_folder_of_other_things_has_no_logs(kind: LogKind, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    write_lines(tmp_path / "other.jsonl", {"messages": [USER]}, "")
    (tmp_path / "base_state.json").write_text("{}")
    (tmp_path / "x.traj.json").write_text('{"messages": []}')
    assert [] == list(kind.find(tmp_path))


def test_the_parts_of_a_log_are_no_files_of_their_own(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Done.")
    write_files(tmp_path / "opencode", made)
    other = write_lines(tmp_path / "other.jsonl", {"messages": [USER]})
    found = find_sessions([tmp_path], LogChoice())
    assert ["opencode"] == [each.agent for each in found.logs]
    assert [other] == [file.path for file in found.files]
