"""The logs of opencode, read: which requests a session shows, and what was sent with each."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from addon.replay.logs.log import LoggedConversation, LoggedRequest
from addon.replay.logs.opencode import CLEARED, OPENCODE
from masking.wire import CHAT, GEMINI, MESSAGES, RESPONSES, Usage
from tests.replay.opencode_log import (
    BEGAN,
    MadeSession,
    run,
    write_database,
    write_export,
    write_files,
)

USER = {"role": "user", "content": "Mend it."}
STORES: dict[str, Callable[[Path, MadeSession], Path]] = {
    "database": lambda folder, made: write_database(folder / "opencode.db", made),
    "files": write_files,
    "early files": lambda folder, made: write_files(folder, made, early=True),
    "export": lambda folder, made: write_export(folder / "session.json", made),
}


def read(folder: Path) -> list[LoggedConversation]:
    return [conversation for log in OPENCODE.find(folder) for conversation in OPENCODE.read(log)]


def read_one(folder: Path) -> list[LoggedRequest]:
    (conversation,) = read(folder)
    assert frozenset() == conversation.unread
    return list(conversation.requests())


def call(name: str) -> dict[str, object]:
    function = {"name": "bash", "arguments": f'{{"command":"{name}"}}'}
    return {"id": f"call_{name}", "type": "function", "function": function}


def result(name: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": f"call_{name}", "content": text}


@pytest.mark.parametrize("store", STORES)
def test_a_session_is_read_from_each_of_its_stores(store: str, tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Let me look.", run("ls", "a.py"), run("no", status="error", error="No such file"))
    made.answer("Done.", prompt=140)
    STORES[store](tmp_path, made)
    (conversation,) = read(tmp_path)
    assert ("Mend the parser", "app") == (conversation.name, conversation.project)
    assert "opencode" == conversation.agent
    assert (CHAT, "api.groq.com", False) == (
        conversation.wire,
        conversation.host,
        conversation.is_side,
    )
    first, second = conversation.requests()
    assert (USER,) == first.items
    asked = [call("ls"), call("no")]
    assert (
        USER,
        {"role": "assistant", "content": "Let me look.", "tool_calls": asked},
        result("ls", "a.py"),
        result("no", "No such file"),
    ) == second.items
    assert first.items[0] is second.items[0]
    began = datetime.fromtimestamp(BEGAN / 1000, UTC)
    assert [began + timedelta(seconds=1), began + timedelta(seconds=2)] == [
        first.when,
        second.when,
    ]
    assert "llama-9" == first.model
    assert Usage(prompt=100, cached=0, written=0, completion=7, reasoning=0) == first.usage
    assert first.key != second.key


def test_each_step_of_an_answer_is_a_request_with_its_own_usage(tmp_path: Path) -> None:
    def finish(prompt: int, read: int) -> dict[str, object]:
        cache = {"read": read, "write": 5}
        tokens = {"input": prompt, "output": 9, "reasoning": 4, "cache": cache, "total": 0}
        return {"type": "step-finish", "tokens": tokens}

    made, start = MadeSession(), {"type": "step-start"}
    made.say("Mend it.")
    ran = run("ls", "a.py", time={"end": BEGAN + 9000})
    made.answer(start, ran, finish(10, 20), start, "Done.", finish(30, 40))
    write_database(tmp_path / "opencode.db", made)
    first, second = read_one(tmp_path)
    assert 1 == len(first.items)
    assert ("assistant", "tool") == tuple(item["role"] for item in second.items[1:])
    assert datetime.fromtimestamp(BEGAN / 1000 + 9, UTC) == second.when
    assert Usage(prompt=35, cached=20, written=5, completion=13, reasoning=4) == first.usage
    assert second.usage is not None
    assert 75 == second.usage.prompt


def test_a_pruned_result_is_cleared_from_then_on(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer(run("ls", "a.py", time={"compacted": BEGAN + 2500}), run("pwd", "/app"))
    made.answer(run("cat", "text"))
    made.answer("Done.")
    write_database(tmp_path / "opencode.db", made)
    _, before, after = read_one(tmp_path)
    assert result("ls", "a.py") == before.items[2]
    assert result("ls", CLEARED) == after.items[2]
    assert result("pwd", "/app") == after.items[3]
    assert before.items[0] is after.items[0]


@pytest.mark.parametrize("keeps_tail", [False, True])
def test_a_compaction_sends_its_summary_and_what_it_kept(keeps_tail: bool, tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer(run("ls", "a.py"))
    tail = made.say("And test it.")
    made.answer("It is tested.")
    part: dict[str, object] = {"type": "compaction", "auto": True}
    asks = made.say(part | ({"tail_start_id": tail} if keeps_tail else {}))
    made.answer("It was mended.", summary=True, parentID=asks, prompt=900)
    made.say("Go on.")
    made.answer("Done.")
    write_database(tmp_path / "opencode.db", made)
    main, summary = read(tmp_path)
    *_, last = main.requests()
    texts = [item["content"] for item in last.items]
    kept = ["And test it.", "It is tested."] if keeps_tail else []
    assert ["What did we do so far?", "It was mended.", *kept, "Go on."] == texts
    (request,) = summary.requests()
    assert ((), True) == (request.items, summary.is_side)
    assert request.usage is not None
    assert 900 == request.usage.prompt


def test_in_early_versions_the_summary_stands_alone(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("I did.")
    made.answer("It was mended.", summary=True)
    made.say("Go on.")
    made.answer("Done.")
    write_files(tmp_path, made)
    *_, last = read(tmp_path)[0].requests()
    assert ["It was mended.", "Go on."] == [item["content"] for item in last.items]


def test_a_session_is_a_conversation_for_each_provider(tmp_path: Path) -> None:
    signed = {"type": "reasoning", "text": "Hm.", "metadata": {"anthropic": {"signature": "sig"}}}
    made = MadeSession()
    made.say("Mend it.")
    made.answer(signed, run("ls", "a.py"), providerID="anthropic", modelID="claude-9")
    made.answer("Well.", providerID="anthropic", modelID="claude-9")
    made.answer("Done.", providerID="openai", modelID="gpt-9")
    made.answer("Done.", providerID="opencode", modelID="gemini-9")
    made.answer("Done.", providerID="lmstudio", modelID="local")
    write_database(tmp_path / "opencode.db", made)
    found = {each.wire: each for each in read(tmp_path)}
    hosts = "api.anthropic.com", "api.openai.com", "opencode.ai", None
    assert dict(zip((MESSAGES, RESPONSES, GEMINI, CHAT), hosts, strict=True)) == {
        wire: each.host for wire, each in found.items()
    }
    assert [2, 1, 1, 1] == [len(list(each.requests())) for each in found.values()]
    *_, last = found[MESSAGES].requests()
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
    used = {"type": "tool_use", "id": "call_ls", "name": "bash", "input": {"command": "ls"}}
    told = {"type": "tool_result", "tool_use_id": "call_ls", "content": "a.py"}
    assert (
        {"role": "user", "content": [{"type": "text", "text": "Mend it."}]},
        {"role": "assistant", "content": [thought, used]},
        {"role": "user", "content": [told]},
    ) == last.items
    (request,) = found[RESPONSES].requests()
    assert {"type": "function_call_output", "call_id": "call_ls", "output": "a.py"} in request.items
    assert "sig" not in str(request.items), "another model gets no signature"


def test_what_was_refused_or_never_asked_is_no_request(tmp_path: Path) -> None:
    none = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    made = MadeSession()
    made.say("Mend it.")
    refused: dict[str, Any] = {"tokens": none, "error": {"name": "APIError"}}
    made.answer({"type": "step-start"}, **refused)
    made.messages[-1]["parts"] = []
    made.say({"type": "subtask", "prompt": "Count"})
    made.answer(run("count", "7"), tokens=none)
    made.messages[-1]["parts"].pop(0)
    made.answer("Done.")
    write_database(tmp_path / "opencode.db", made)
    (request,) = read_one(tmp_path)
    roles = [item["role"] for item in request.items]
    assert ["user", "user", "assistant", "tool"] == roles


def test_a_call_without_an_end_is_sent_as_interrupted(tmp_path: Path) -> None:
    partly: dict[str, Any] = {
        "status": "error",
        "error": "x",
        "metadata": {"interrupted": True, "output": "half"},
    }
    made = MadeSession()
    made.say("Mend it.")
    made.answer(run("ls", status="running"), run("cat", **partly))
    made.answer("Done.")
    write_database(tmp_path / "opencode.db", made)
    _, request = read_one(tmp_path)
    assert [result("ls", "[Tool execution was interrupted]"), result("cat", "half")] == [
        *request.items[2:]
    ]


def test_a_fork_counts_what_it_adds(tmp_path: Path) -> None:
    made, fork = MadeSession(), MadeSession("ses_2", title="Mend the parser (fork #1)")
    for each in (made, fork):
        each.say("Mend it.")
        each.answer(run("ls", "a.py"))
        each.answer("Done.")
    fork.about["time"] = {"created": BEGAN + 5000, "updated": BEGAN + 9000}
    fork.say("Or else?")
    fork.answer("Yes.")
    write_database(tmp_path / "opencode.db", made, fork)
    counts = {each.session: len(list(OPENCODE.read(each))) for each in OPENCODE.find(tmp_path)}
    assert ["ses_2", "ses_1"] == [*counts], "the newest first"
    requests = [len(list(each.requests())) for each in read(tmp_path)]
    assert [1, 2] == requests


def test_sub_agents_stand_aside(tmp_path: Path) -> None:
    made = MadeSession("ses_2", parentID="ses_1")
    made.say("Mend it.")
    made.answer("Done.")
    write_database(tmp_path / "opencode.db", made)
    assert [True] == [each.is_side for each in read(tmp_path)]


def test_what_is_broken_or_unknown_is_skipped_and_named(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Done.", {"type": "hologram"})
    made.messages[-1]["parts"].append('{"type": "te')
    write_database(tmp_path / "opencode.db", made)
    (conversation,) = read(tmp_path)
    assert {"broken entry", "part hologram"} == conversation.unread
    assert 1 == len(list(conversation.requests()))


def test_the_database_goes_before_the_files_that_it_took_in(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Done.")
    database = write_database(tmp_path / "opencode.db", made)
    write_files(tmp_path, made)
    write_files(tmp_path, MadeSession("ses_empty"))
    assert [database] == [log.path for log in OPENCODE.find(tmp_path)]


def test_it_is_read_while_opencode_writes(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Done.")
    path = write_database(tmp_path / "opencode.db", made)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE session SET title = 'Newer'")
    writer.commit()
    try:
        assert ["Newer"] == [each.name for each in read(tmp_path)]
    finally:
        writer.close()


def test_other_files_are_none_of_its_logs(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE session (id TEXT)")
    database.close()
    (tmp_path / "package.json").write_text('{"info": {"name": "x"}}')
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0 and then nothing")
    assert [] == list(OPENCODE.find(tmp_path))


def test_a_database_that_breaks_is_an_error_with_its_name(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Done.")
    path = write_database(tmp_path / "opencode.db", made)
    (log,) = OPENCODE.find(tmp_path)
    path.write_bytes(b"SQLite format 3\0 and then nothing")
    with pytest.raises(ValueError, match=r"opencode\.db: session ses_1: "):
        list(OPENCODE.read(log))


def test_it_looks_where_opencode_keeps_its_data(tmp_path: Path) -> None:
    assert (tmp_path / ".local/share/opencode",) == OPENCODE.homes(tmp_path, {})
    environment = {"XDG_DATA_HOME": "/data"}
    assert (Path("/data/opencode"),) == OPENCODE.homes(tmp_path, environment)


def test_no_link_that_leads_out_of_the_storage_is_followed(tmp_path: Path) -> None:
    made = MadeSession()
    made.say("Mend it.")
    made.answer("Done.", run("ls", "a.py"))
    write_files(tmp_path / "given", made)
    storage = tmp_path / "given" / "storage"
    (part, *_) = sorted((storage / "part").rglob("prt_*.json"))
    part.unlink()
    part.symlink_to("/dev/zero")
    (log,) = OPENCODE.find(tmp_path / "given")
    assert 1 == sum(len([*each.requests()]) for each in OPENCODE.read(log))
    (storage / "message").rename(tmp_path / "away")
    (storage / "message").symlink_to(tmp_path / "away")
    assert [] == [each for found in OPENCODE.read(log) for each in found.requests()]
