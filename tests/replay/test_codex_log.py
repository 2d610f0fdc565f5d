"""codex's own logs: which requests they show, and what each sent."""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import zstandard

from addon.replay.logs.codex import CODEX
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest
from masking.wire import Usage

Line = Mapping[str, Any]

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
THREAD = "0195aaaa-0000-7000-8000-000000000001"
FORK = "0195aaaa-0000-7000-8000-000000000002"


def spell(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(path: Path, *lines: Line, first: int = 0) -> Path:
    """Write a log whose lines are a second apart, and numbered from `first`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stamped = (
        {"timestamp": spell(BEGAN + timedelta(seconds=n)), "ordinal": n, **line}
        for n, line in zip(count(first), lines, strict=False)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in stamped))
    return path


def read_one(path: Path) -> LoggedConversation:
    (log,) = [log for log in CODEX.find(path.parent) if log.path == path]
    (conversation,) = CODEX.read(log)
    return conversation


def requests_of(path: Path) -> list[LoggedRequest]:
    return list(read_one(path).requests())


def meta(thread: str = THREAD, **more: object) -> Line:
    payload = {"id": thread, "cwd": "/home/me/shop", "model_provider": "openai", **more}
    return {"type": "session_meta", "payload": payload}


def item(kind: str, **more: object) -> Line:
    return {"type": "response_item", "payload": {"type": kind, **more}}


def user(text: str) -> Line:
    return item("message", role="user", content=[{"type": "input_text", "text": text}])


def said(text: str) -> Line:
    return item("message", role="assistant", content=[{"type": "output_text", "text": text}])


def thought(number: int) -> Line:
    return item("reasoning", summary=[], encrypted_content=f"sealed {number}")


def call(name: str) -> Line:
    return item("function_call", call_id=name, name="shell", arguments="{}")


def result(name: str) -> Line:
    return item("function_call_output", call_id=name, output=f"what {name} printed")


def event(kind: str, **more: object) -> Line:
    return {"type": "event_msg", "payload": {"type": kind, **more}}


def counts(prompt: int, cached: int = 0, said: int = 5) -> dict[str, int]:
    return {
        "input_tokens": prompt,
        "cached_input_tokens": cached,
        "output_tokens": said,
        "reasoning_output_tokens": 2,
        "total_tokens": prompt + said,
    }


def token_count(prompt: int, total: int, **more: object) -> Line:
    info = {"last_token_usage": counts(prompt), "total_token_usage": counts(total)}
    return event("token_count", info=info, **more)


def usage_record(prompt: int, response: str, thread: str = THREAD) -> Line:
    payload = {"thread_id": thread, "response_id": response, "usage": counts(prompt)}
    return {"type": "token_usage_record", "payload": payload}


def model(name: str = "gpt-5.5") -> Line:
    return {"type": "turn_context", "payload": {"model": name}}


def payloads(*lines: Line) -> list[Any]:
    return [line["payload"] for line in lines]


FIRST = (
    user("<environment_context>"),
    user("Find the bug."),
    thought(1),
    call("a"),
    call("b"),
    result("a"),
    result("b"),
)
SECOND = (*FIRST, thought(2), said("Found."))


def test_a_run_of_the_models_items_is_one_answer(tmp_path: Path) -> None:
    path = write(
        tmp_path / "rollout.jsonl",
        meta(),
        model(),
        *FIRST[:5],
        *FIRST[5:],
        token_count(1000, 1000),
        token_count(1000, 1000),
        thought(2),
        said("Found."),
        token_count(1400, 2400),
    )
    first, second = requests_of(path)
    assert payloads(*FIRST[:2]) == list(first.items)
    assert payloads(*FIRST) == list(second.items)
    assert all(one is other for one, other in zip(first.items, second.items, strict=False))
    assert Usage(prompt=1000, cached=0, completion=5, reasoning=2) == first.usage
    assert (1400, "gpt-5.5") == (second.usage and second.usage.prompt, second.model)
    # A request was sent when the last thing before its answer was there: a message, a result.
    assert [BEGAN + timedelta(seconds=n) for n in (3, 8)] == [first.when, second.when]
    assert first.key != second.key


def test_a_conversation_says_whose_it_is(tmp_path: Path) -> None:
    conversation = read_one(write(tmp_path / "rollout.jsonl", meta(), *SECOND))
    assert ("codex", THREAD, "shop", "api.openai.com", "responses", False, frozenset()) == (
        conversation.agent,
        conversation.name,
        conversation.project,
        conversation.host,
        conversation.wire.name,
        conversation.is_side,
        conversation.unread,
    )
    assert 2 == len(list(conversation.requests())) == len(list(conversation.requests()))


@pytest.mark.parametrize(
    ("provider", "limits", "expected"),
    [
        ("openai", None, "api.openai.com"),
        ("openai", {"primary": None, "plan_type": None}, "api.openai.com"),
        ("openai", {"primary": {"used_percent": 3.0}}, "chatgpt.com"),
        ("openai", {"primary": None, "plan_type": "pro"}, "chatgpt.com"),
        ("my-gateway", None, None),
    ],
)
def test_the_host_is_told_by_the_provider_and_by_a_plan(
    provider: str, limits: object, expected: str | None, tmp_path: Path
) -> None:
    lines = (*SECOND, token_count(10, 10, rate_limits=limits))
    path = write(tmp_path / "rollout.jsonl", meta(model_provider=provider), *lines)
    assert expected == read_one(path).host


@pytest.mark.parametrize(
    "source", [{"source": {"subagent": "review"}}, {"source": "cli", "thread_source": "subagent"}]
)
def test_a_sub_agent_is_a_side_conversation(source: dict[str, Any], tmp_path: Path) -> None:
    assert read_one(write(tmp_path / "rollout.jsonl", meta(**source), *SECOND)).is_side


def prompts(path: Path) -> list[tuple[int, int | None]]:
    """How many items each request has, and how long its prompt was."""
    return [(len(r.items), r.usage.prompt if r.usage else None) for r in requests_of(path)]


def test_a_usage_may_stand_before_the_items_of_its_answer(tmp_path: Path) -> None:
    lines = (*FIRST[:2], token_count(10, 10), *FIRST[2:], token_count(30, 40), *SECOND[7:])
    assert [(2, 10), (7, 30)] == prompts(write(tmp_path / "rollout.jsonl", meta(), *lines))


def test_a_usage_may_stand_among_the_items_of_its_answer(tmp_path: Path) -> None:
    lines = (*FIRST[:3], token_count(10, 10), *FIRST[3:], *SECOND[7:], token_count(30, 40))
    assert [(2, 10), (7, 30)] == prompts(write(tmp_path / "rollout.jsonl", meta(), *lines))


def test_two_usages_are_two_answers_though_nothing_was_sent_between_them(tmp_path: Path) -> None:
    lines = (user("Go."), said("Well."), token_count(10, 10), said("Done."), token_count(20, 30))
    path = write(tmp_path / "rollout.jsonl", meta(), *lines)
    assert [(1, 10), (2, 20)] == prompts(path)


def test_an_answer_without_usage_is_a_request_all_the_same(tmp_path: Path) -> None:
    lines = (*FIRST, event("token_count", info=None), *SECOND[7:])
    assert [(2, None), (7, None)] == prompts(write(tmp_path / "rollout.jsonl", meta(), *lines))


def test_a_call_that_was_interrupted_gets_the_result_that_codex_sends(tmp_path: Path) -> None:
    lines = (*FIRST[:-1], user("Stop."), said("All right."))
    _, request = requests_of(write(tmp_path / "rollout.jsonl", meta(), *lines))
    aborted = {"type": "function_call_output", "call_id": "b", "output": "aborted"}
    assert payloads(*FIRST[:5]) == list(request.items[:5])
    assert [aborted, *payloads(result("a"), user("Stop."))] == list(request.items[5:])


def test_what_codex_does_not_send_is_left_out(tmp_path: Path) -> None:
    lines = (user("Go."), item("ghost_snapshot", ghost_commit={}), said("Done."))
    (request,) = requests_of(write(tmp_path / "rollout.jsonl", meta(), *lines))
    assert payloads(user("Go.")) == list(request.items)


# Compaction, and turns that were taken back


def test_a_compaction_is_a_request_and_replaces_the_list(tmp_path: Path) -> None:
    kept = payloads(user("Find the bug."), item("compaction", encrypted_content="in short"))
    path = write(
        tmp_path / "rollout.jsonl",
        meta(),
        *FIRST[:5],
        usage_record(10, "r1"),
        *FIRST[5:],
        token_count(10, 10),
        usage_record(30, "r2"),
        {"type": "compacted", "payload": {"message": "", "replacement_history": kept}},
        event("token_count", info={"last_token_usage": {**counts(0, said=0), "total_tokens": 9}}),
        *SECOND[7:],
        usage_record(12, "r3"),
    )
    first, summary, last = requests_of(path)
    assert [10, 30, 12] == [r.usage and r.usage.prompt for r in (first, summary, last)]
    assert payloads(*FIRST) == list(summary.items)
    assert kept == list(last.items)


def test_an_older_compaction_leaves_what_the_user_said_and_a_summary(tmp_path: Path) -> None:
    compacted = {"type": "compacted", "payload": {"message": "It was the cache."}}
    lines = (*FIRST, token_count(10, 10), token_count(40, 50), compacted, said("Done."))
    _, summary, last = requests_of(write(tmp_path / "rollout.jsonl", meta(), *lines))
    assert (7, 40) == (len(summary.items), summary.usage and summary.usage.prompt)
    assert payloads(*FIRST[:2], user("It was the cache.")) == list(last.items)


def test_turns_that_were_taken_back_are_not_sent_again(tmp_path: Path) -> None:
    lines = (
        *SECOND,
        user("Another way."),
        said("Which?"),
        user("<turn_aborted>"),
        event("thread_rolled_back", num_turns=1),
        user("Write it down."),
        said("Done."),
    )
    *_, last = requests_of(write(tmp_path / "rollout.jsonl", meta(), *lines))
    assert payloads(*SECOND, user("Write it down.")) == list(last.items)


# Forks


def test_a_fork_goes_on_where_its_parent_ended(tmp_path: Path) -> None:
    home = tmp_path / "codex"
    parent = write(
        home / "archived_sessions" / f"rollout-2026-03-01T12-00-00-{THREAD}.jsonl", meta(), *SECOND
    )
    forked = meta(FORK, forked_from_id=THREAD, forked_from_ordinal_exclusive=10)
    lines = (forked, user("And now?"), said("Nothing."), usage_record(50, "r9", FORK))
    fork = write(
        home / "sessions" / "2026" / "03" / f"rollout-2026-03-01T12-00-10-{FORK}.jsonl",
        *lines,
        first=10,
    )
    assert [(2, None), (7, None)] == prompts(parent)
    (request,) = requests_of(fork)
    assert payloads(*SECOND, user("And now?")) == list(request.items)
    assert frozenset() == read_one(fork).unread

    parent.unlink()
    assert [(1, 50)] == prompts(fork)
    assert {"forked_from_id"} == read_one(fork).unread


@pytest.mark.parametrize("parent_is_there", [True, False])
def test_a_copy_of_a_request_is_told_by_its_key(parent_is_there: bool, tmp_path: Path) -> None:
    entries = (*FIRST, token_count(10, 10), *SECOND[7:], token_count(30, 40))
    parent = write(tmp_path / f"rollout-1-{THREAD}.jsonl", meta(), *entries)
    keys = [request.key for request in requests_of(parent)]
    if not parent_is_there:
        parent.unlink()
    own = (user("And now?"), said("Nothing."), token_count(50, 90))
    forked = meta(FORK, forked_from_id=THREAD)
    fork = write(tmp_path / f"rollout-2-{FORK}.jsonl", forked, meta(), *entries, *own)
    requests = requests_of(fork)
    assert FORK == read_one(fork).name
    assert keys[: 0 if parent_is_there else 2] == [r.key for r in requests[:-1]]
    assert payloads(*SECOND, user("And now?")) == list(requests[-1].items)


def total_count(prompt: int, cached: int = 0) -> Line:
    return event("token_count", info={"total_token_usage": counts(prompt, cached, prompt // 10)})


def test_sums_alone_are_used_by_their_difference(tmp_path: Path) -> None:
    nothing = event("token_count", info=None)
    lines = (
        *(*FIRST[:5], total_count(1000), total_count(1000), *FIRST[5:]),
        *(thought(2), said("Found."), nothing, total_count(3000, 900), nothing),
        *(user("Go on."), said("Well."), total_count(3000, 900), total_count(4500, 1900)),
        *(user("And?"), said("Anew."), total_count(700)),
    )
    requests = requests_of(write(tmp_path / "rollout-1.jsonl", meta(), model(), *lines))
    assert [(1000, 0, 100), (2000, 900, 200), (1500, 1000, 150), (700, 0, 70)] == [
        (usage.prompt, usage.cached, usage.completion)
        for request in requests
        if (usage := request.usage) is not None
    ]


def test_a_total_alone_is_an_estimate(tmp_path: Path) -> None:
    estimated = {**counts(0, 0, 0), "reasoning_output_tokens": 0, "total_tokens": 9000}
    told = event(
        "token_count", info={"last_token_usage": estimated, "total_token_usage": estimated}
    )
    (request,) = requests_of(write(tmp_path / "rollout-1.jsonl", meta(), *SECOND[7:], told))
    assert request.usage is None


# Files


def test_a_log_without_the_envelope_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2025-08-22T19-51-40.jsonl"
    began: Line = {"id": THREAD, "timestamp": spell(BEGAN), "instructions": None, "git": {}}
    lines = [began, *payloads(*FIRST[:2]), {"record_type": "state"}, *payloads(*SECOND[2:])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    requests = requests_of(path)
    assert [payloads(*FIRST[:2]), payloads(*FIRST)] == [list(r.items) for r in requests]
    assert {BEGAN} == {request.when for request in requests}
    assert (THREAD, "api.openai.com") == (read_one(path).name, read_one(path).host)


def test_a_compressed_log_is_read_unless_it_lies_there_plain_too(tmp_path: Path) -> None:
    long = user(" ".join(f"{number:x}" for number in range(100_000)))
    plain = write(tmp_path / "rollout.jsonl", meta(), *SECOND, long, said("Read."))
    packed = tmp_path / "rollout.jsonl.zst"
    packed.write_bytes(zstandard.compress(plain.read_bytes()))
    assert [plain] == [log.path for log in CODEX.find(tmp_path)]
    expected = [list(request.items) for request in requests_of(plain)]
    plain.unlink()
    assert expected == [list(request.items) for request in requests_of(packed)]

    whole = packed.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-2000] + bytes(2000)):
        packed.write_bytes(damaged)
        assert expected[:2] == [list(request.items) for request in requests_of(packed)]


def test_what_cannot_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "rollout.jsonl", meta(), *FIRST)
    with path.open("a") as file:
        file.write('{"type": "response_item", "payl\n\n[1]\n')
        file.write(json.dumps({"type": "from_the_future", "payload": {}}) + "\n")
        file.write(json.dumps(said("A lone \ud83d.")) + "\n")
        file.write('{"type": "response_item", "payload": {"type": "mess')
    assert [(2, None), (7, None)] == prompts(path)
    assert {"broken entry", "from_the_future"} == read_one(path).unread


def test_times_that_cannot_be_read_are_those_of_the_line_before(tmp_path: Path) -> None:
    path = write(tmp_path / "rollout.jsonl", meta(), user("Go."), said("Done."))
    path.write_text(path.read_text().replace("12:00:01.000Z", "noon"))
    (request,) = requests_of(path)
    assert BEGAN == request.when


def test_logs_are_found_by_their_content_the_newest_first(tmp_path: Path) -> None:
    def dated(path: Path, age: int) -> Path:
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
        return path

    old = dated(write(tmp_path / "a" / "renamed.jsonl", meta(), *SECOND), 50)
    new = dated(write(tmp_path / "b" / "rollout.jsonl", meta(), *SECOND), 10)
    (tmp_path / "history.jsonl").write_text('{"session_id": "x", "text": "session_meta"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "bad.jsonl.zst").write_bytes(b"not packed")
    expected = [
        LogFile("codex", path, path.stat().st_size, datetime.fromtimestamp(at, UTC))
        for path, at in ((new, 1_699_999_990), (old, 1_699_999_950))
    ]
    assert expected == list(CODEX.find(tmp_path))
    assert expected[:1] == list(CODEX.find(new))
    assert [] == list(CODEX.find(tmp_path / "history.jsonl"))


def test_the_logs_are_where_codex_keeps_them() -> None:
    def named(environment: Mapping[str, str]) -> Iterator[str]:
        return map(str, CODEX.homes(Path("/home/me"), environment))

    assert ["/home/me/.codex/sessions", "/home/me/.codex/archived_sessions"] == [*named({})]
    assert ["/data/sessions", "/data/archived_sessions"] == [*named({"CODEX_HOME": "/data"})]
