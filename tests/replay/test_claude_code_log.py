"""What becomes of the logs that Claude Code keeps of its sessions."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from addon.replay.logs.claude_code import CLAUDE_CODE
from addon.replay.logs.log import LoggedConversation, LoggedRequest
from masking.wire import MESSAGES, Usage
from tests.replay.claude_log import ClaudeLog, call, result, text

REMINDER = "<system-reminder>\n{}\n</system-reminder>"


def read(path: Path) -> list[LoggedConversation]:
    return [each for log in CLAUDE_CODE.find(path) for each in CLAUDE_CODE.read(log)]


def requests_of(log: ClaudeLog, folder: Path) -> list[LoggedRequest]:
    (conversation,) = read(log.write(folder / "s1.jsonl"))
    return list(conversation.requests())


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def model(*blocks: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(blocks)}


def contents(request: LoggedRequest) -> Sequence[object]:
    return [item["content"] for item in request.items]


def test_an_answer_of_several_lines_is_one_request_with_its_last_usage(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Weed the beds.")
    begun = {
        "input_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 20},
        "output_tokens": 1,
    }
    log.answer("msg_1", text("I look."), usage=begun)
    log.answer("msg_1", call("c1"), usage=begun | {"output_tokens": 77})
    log.result("c1", "nettles")
    log.answer("msg_2", text("Done."))
    (conversation,) = read(log.write(tmp_path / "s1.jsonl"))
    first, second = conversation.requests()
    usage = Usage(prompt=123, cached=100, written=20, written_long=20, completion=77)
    assert usage == first.usage
    assert datetime(2026, 5, 4, 10, 0, 1, tzinfo=UTC) == first.when
    assert ("claude-sonnet-4-5", "msg_1 2026-05-04T10:00:01.000Z") == (first.model, first.key)
    assert [user("Weed the beds.")] == first.items
    assert [
        user("Weed the beds."),
        model(text("I look."), call("c1")),
        user([result("c1", "nettles")]),
    ] == second.items
    assert second.items[0] is first.items[0]
    expected = LoggedConversation(
        agent="claude-code",
        name="s1",
        project="garden",
        host="api.anthropic.com",
        wire=MESSAGES,
        requests=conversation.requests,
        path="/v1/messages",
    )
    assert expected == conversation
    assert [first, second] == list(conversation.requests())


def test_results_of_parallel_calls_are_all_sent_in_the_order_in_which_they_came(
    tmp_path: Path,
) -> None:
    log = ClaudeLog()
    log.user("Go.")
    one, two, three = log.answer("msg_1", call("c1"), call("c2"), call("c3"))
    log.result("c2", "second", parentUuid=two)
    log.result("c1", "first", parentUuid=one)
    log.attachment("hook_additional_context", [REMINDER.format("a hook")])
    log.result("c3", "third", parentUuid=three)
    log.answer("msg_2", text("All three."))
    said = contents(requests_of(log, tmp_path)[1])[-1]
    reminded = f"first\n\n{REMINDER.format('a hook')}"
    assert [result("c2", "second"), result("c1", reminded), result("c3", "third")] == said


def test_an_answer_whose_calls_run_while_it_is_written_stays_one(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer("msg_1", call("c1"), requestId="req_1")
    log.result("c1", "first")
    log.answer("msg_1", call("c2"), requestId="req_1")
    log.result("c2", "second")
    log.answer("msg_2", text("Both."), requestId="req_2")
    first, second = requests_of(log, tmp_path)
    assert [user("Go.")] == first.items
    assert [
        user("Go."),
        model(call("c1"), call("c2")),
        user([result("c1", "first"), result("c2", "second")]),
    ] == second.items


def test_a_rewound_conversation_follows_the_parents_of_each_answer(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    (fork,) = log.answer("msg_1", text("Where?"))
    log.user("Left.")
    log.answer("msg_2", text("A wall."))
    log.last = fork
    log.user("Right.")
    log.answer("msg_3", text("A door."))
    log.user("Open it.")
    log.answer("msg_4", text("It is open."))
    *_, third, fourth = requests_of(log, tmp_path)
    assert ["Go.", [text("Where?")], "Right."] == contents(third)
    expected = ["Go.", [text("Where?")], "Right.", [text("A door.")], "Open it."]
    assert expected == contents(fourth)
    assert all(one is other for one, other in zip(third.items, fourth.items, strict=False))


def test_reminders_go_before_a_prompt_and_into_the_last_result(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.attachment("environment", [REMINDER.format("a garden")], "system")
    log.attachment("prompt_snapshot", systemPrompt=["You are a gardener."])
    log.answer("msg_1", call("c1"))
    log.result("c1", [{"type": "image"}])
    log.attachment("date", [REMINDER.format("May")], "system")
    log.answer("msg_2", text("Done."))
    before, after = requests_of(log, tmp_path)
    reminder = text(f"{REMINDER.format('a garden')}\n")
    assert [user([reminder, text("Go.")])] == before.items
    inner = [{"type": "image"}, text(REMINDER.format("May"))]
    assert user([result("c1", inner)]) == after.items[-1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claude-opus-5-5", "a garden\n\nin May"),
        ("claude-sonnet-5", f"{REMINDER.format('a garden')}\n\n{REMINDER.format('in May')}"),
    ],
)
def test_newer_models_get_reminders_as_a_message_of_the_system(
    name: str, said: str, tmp_path: Path
) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.attachment("environment", [REMINDER.format("a garden")], "system")
    log.attachment("date", [REMINDER.format("in May")], "system")
    log.answer("msg_1", text("Done."), model=name)
    (request,) = requests_of(log, tmp_path)
    assert [user("Go."), {"role": "system", "content": said}] == request.items


def test_older_logs_do_not_say_what_attachments_became(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.attachment("file", filename="a.txt", content={"file": {"content": "one\ntwo"}})
    log.attachment("queued_command", prompt="And water.")
    log.attachment("hook_success", hookEvent="PostToolUse", content="unheard")
    log.attachment("hook_non_blocking_error", stderr="unheard")
    log.attachment("moon_phase", moons=[{"phase": "full"}], content="The moon is full.")
    log.answer("msg_1", text("Done."))
    (conversation,) = read(log.write(tmp_path / "s1.jsonl"))
    (request,) = conversation.requests()
    told = json.dumps(request.items)
    for words in ("1\\tone\\n2\\ttwo", "And water."):
        assert words in told
    assert "unheard" not in told
    assert "moon" not in told
    passed_over = {"attachment hook_non_blocking_error", "attachment moon_phase"}
    assert passed_over == conversation.unread


def test_what_a_newer_log_does_not_say_of_an_attachment_is_nothing(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.attachment("prompt_snapshot", content="unheard")
    log.attachment("date_change", rendered=["It is May."])
    log.user("Go.")
    log.answer("msg_1", text("Done."))
    (conversation,) = read(log.write(tmp_path / "s1.jsonl"))
    (request,) = conversation.requests()
    assert "It is May." in json.dumps(request.items)
    assert "unheard" not in json.dumps(request.items)
    assert not conversation.unread


def test_what_is_no_request_is_not_counted(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer("e1", text("API Error: overloaded"), model="<synthetic>", isApiErrorMessage=True)
    log.entry("system", subtype="api_error", content="retrying")
    log.answer("e2", text("No response requested."), model="<synthetic>")
    log.entry("progress", data={"type": "bash_progress"})
    log.user("Again.", isMeta=True)
    log.answer("msg_1", text("Done."))
    (request,) = requests_of(log, tmp_path)
    assert ["Go.", [text("No response requested.")], "Again."] == contents(request)


def test_after_a_compaction_the_list_begins_anew_with_what_was_kept(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer("msg_1", text("Gone."))
    kept = [log.user("And back?"), *log.answer("msg_2", text("Back."))]
    before = log.last
    log.last = None
    log.entry("system", subtype="compact_boundary", logicalParentUuid=before)
    log.lines[-1]["compactMetadata"] = {
        "preservedSegment": {"headUuid": kept[0], "anchorUuid": "s1-u5", "tailUuid": kept[1]}
    }
    log.user("A summary.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    log.user("Once more.")
    log.answer("msg_3", text("Gone again."))
    log.user("Thanks.")
    log.answer("msg_4", text("Welcome."))
    *_, third, fourth = requests_of(log, tmp_path)
    begin = ["A summary.\n", "And back?"]
    said = [[text(begin[0]), text(begin[1])], [text("Back.")], "Once more."]
    assert said == contents(third)
    assert [*said, [text("Gone again.")], "Thanks."] == contents(fourth)


def test_cleared_results_are_gone_from_that_request_on(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer("msg_1", call("c1"))
    log.result("c1", "a long text")
    log.answer("msg_2", call("c2"))
    log.result("c2", "another")
    micro = {"trigger": "auto", "tokensSaved": 3, "compactedToolIds": ["c1"]}
    log.entry("system", subtype="microcompact_boundary", microcompactMetadata=micro)
    log.answer("msg_3", call("c3"))
    log.result("c3", "a third")
    about = {"kind": "tool-result", "toolUseId": "c3", "replacement": "<stored>"}
    log.note("content-replacement", replacements=[about])
    log.answer("msg_4", text("Done."))
    _, second, third, fourth = requests_of(log, tmp_path)
    assert [result("c1", "a long text")] == contents(second)[2]
    cleared = [result("c1", "[Old tool result content cleared]")]
    assert [cleared, [result("c2", "another")]] == contents(third)[2::2]
    expected = [cleared, [result("c2", "another")], [result("c3", "<stored>")]]
    assert expected == contents(fourth)[2::2]
    assert third.items[2] is fourth.items[2]


def test_a_request_that_is_logged_as_it_was_sent_is_taken_so(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    blob = user("Go, as it was sent.")
    log.note("api-request-blob", hash="h1", message=blob)
    log.note("api-request", id="r1", keep=0, tail=["h1"])
    log.answer("msg_1", call("c1"), requestRef="r1")
    log.result("c1", "found")
    sent = user([result("c1", "found, and cut")])
    log.note("api-request-blob", hash="h3", message=sent)
    # What Claude Code finds in the conversation again is named by its hash alone.
    own = json.dumps(model(call("c1")), sort_keys=True, separators=(",", ":"))
    log.note(
        "api-request", id="r2", base="r1", keep=1, tail=[sha256(own.encode()).hexdigest(), "h3"]
    )
    log.answer("msg_2", call("c2"), requestRef="r2")
    log.result("c2", "nothing")
    log.note("api-request", id="r3", base="r2", keep=3, tail=["no message has this hash"])
    log.answer("msg_3", text("Done."), requestRef="r3")
    first, second, third = requests_of(log, tmp_path)
    assert [blob] == first.items
    assert [blob, model(call("c1")), sent] == second.items
    rebuilt = ["Go.", [call("c1")], [result("c1", "found")], [call("c2")]]
    assert [*rebuilt, [result("c2", "nothing")]] == contents(third)


def test_sub_agents_are_conversations_of_their_own(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer("msg_1", call("c1"))
    begin = log.last
    log.last = None
    log.user("Count the beds.", isSidechain=True)
    log.answer("msg_2", text("Four."), isSidechain=True)
    log.last = begin
    log.result("c1", "Four.")
    log.answer("msg_3", text("Four beds."))
    log.note("ai-title", aiTitle="Beds").note("custom-title", customTitle="My beds")
    log.write(tmp_path / "s1.jsonl")
    agent = ClaudeLog("s1", isSidechain=True, agentId="a7")
    agent.user("Count the trees.")
    agent.answer("msg_4", text("Two."))
    place = tmp_path / "s1" / "subagents" / "agent-a7.jsonl"
    agent.write(place)
    place.with_suffix(".meta.json").write_text('{"description": "Trees"}')
    found = read(tmp_path)
    said = {
        (each.name, each.is_side): [contents(request) for request in each.requests()]
        for each in found
    }
    assert {
        ("My beds", False): [["Go."], ["Go.", [call("c1")], [result("c1", "Four.")]]],
        ("s1-u2", True): [["Count the beds."]],
        ("Trees", True): [["Count the trees."]],
    } == said


def test_logs_are_found_by_what_they_hold_the_newest_first(tmp_path: Path) -> None:
    for number, name in enumerate(("b.jsonl", "a.jsonl", "deep/er/c.jsonl")):
        log = ClaudeLog(name).note("mode", mode="normal")
        log.user("Go.")
        os.utime(log.write(tmp_path / name), (number, number))
    (tmp_path / "other.jsonl").write_text('{"messages": []}\n{"text": "\\"parentUuid\\":"}\n')
    (tmp_path / "notes.txt").write_text("nothing")
    assert ["c", "a", "b"] == [each.path.stem for each in CLAUDE_CODE.find(tmp_path)]
    renamed = tmp_path / "b.backup"
    (tmp_path / "b.jsonl").rename(renamed)
    (found,) = CLAUDE_CODE.find(renamed)
    assert (renamed, renamed.stat().st_size) == (found.path, found.size)
    assert [] == list(CLAUDE_CODE.find(tmp_path / "notes.txt"))
    assert [] == list(CLAUDE_CODE.find(tmp_path / "missing"))
    assert [] == read(renamed)  # nothing was answered in it


def test_a_damaged_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    log = ClaudeLog().note("quantum-state", spin=1)
    log.user("Go.")
    log.answer("msg_1", text("half an emoji: \ud83d"))
    path = log.write(tmp_path / "s1.jsonl")
    whole = path.read_text()
    log.user("More.")
    log.answer("msg_2", text("Done."))
    more = log.write(path).read_text().removeprefix(whole)
    path.write_text(f'{whole}{{"type": "user", \n[1]\n{more}{{"type": "assis')
    (conversation,) = read(path)
    _, second = conversation.requests()
    assert ["Go.", [text("half an emoji: ?")], "More."] == contents(second)
    assert frozenset({"quantum-state", "broken entry"}) == conversation.unread


@pytest.mark.parametrize(
    ("name", "said_by", "host"),
    [
        ("msg_01A", "claude-opus-5-5", "api.anthropic.com"),
        ("msg_bdrk_01A", "claude-opus-5-5", "bedrock-runtime.us-east-1.amazonaws.com"),
        ("msg_vrtx_01A", "claude-opus-5-5", "aiplatform.googleapis.com"),
        ("gen-17", "claude-opus-5-5", None),
        ("msg_01A", "glm-4.6", None),
    ],
)
def test_the_host_is_told_by_ids(name: str, said_by: str, host: str | None, tmp_path: Path) -> None:
    log = ClaudeLog()
    log.user("Go.")
    log.answer(name, text("Done."), model=said_by)
    (conversation,) = read(log.write(tmp_path / "s1.jsonl"))
    assert host == conversation.host


def test_claude_code_says_where_it_keeps_its_logs() -> None:
    home = Path("/home/me")
    own = {"CLAUDE_CONFIG_DIR": "/elsewhere"}
    assert (Path("/elsewhere/projects"),) == CLAUDE_CODE.homes(home, own)
    expected = (home / ".claude/projects", home / ".config/claude/projects")
    assert expected == CLAUDE_CODE.homes(home, {})
