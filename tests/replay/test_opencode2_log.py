"""The database of opencode 2, read: its tables, its forks, and the tables of before beside them."""

import json
import sqlite3
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from addon.commands.main import main
from addon.replay.logs import find_logs
from addon.replay.logs.log import LoggedConversation
from addon.replay.logs.opencode import OPENCODE
from masking.wire import CHAT, Usage
from tests.replay.opencode_log import BEGAN, MadeSession, write_database

JsonDict = dict[str, Any]

TABLES = """
CREATE TABLE session_v2(id text PRIMARY KEY, parent_id text, fork_session_id text,
    fork_boundary text, directory text, title text, time_created integer, time_updated integer);
CREATE TABLE session_message(id text PRIMARY KEY, session_id text, type text, seq integer,
    time_created integer, time_updated integer, data text);
"""


class Row(NamedTuple):
    kind: str
    data: JsonDict


def say(text: str, kind: str = "user", **more: object) -> Row:
    return Row(kind, {"text": text, **more})


def answer(*content: JsonDict, prompt: int = 100, **more: object) -> Row:
    tokens = {"input": prompt, "output": 7, "reasoning": 2, "cache": {"read": 3, "write": 4}}
    model = {"id": "llama-9", "providerID": "groq"}
    return Row("assistant", {"model": model, "tokens": tokens, "content": [*content], **more})


def text(words: str) -> JsonDict:
    return {"type": "text", "text": words}


def run(name: str, output: str = "", **state: object) -> JsonDict:
    done = {"status": "completed", "input": {"command": name}, "content": [text(output)]}
    return {"type": "tool", "id": f"call_{name}", "name": "bash", "state": done | state}


def write(path: Path, name: str, *rows: Row, fork_of: str | None = None, when: int = 0) -> Path:
    """Add a session; its messages are a second apart, also in a fork, whose ids are its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        if "session_v2" not in tables:
            database.executescript(TABLES)
        database.execute(
            "INSERT INTO session_v2 VALUES (?, NULL, ?, NULL, '/home/me/app', ?, ?, ?)",
            (name, fork_of, f"Session {name}", BEGAN + when, BEGAN + when),
        )
        for seq, (kind, data) in enumerate(rows):
            created = BEGAN + 1000 * seq
            told = json.dumps({"time": {"created": created}, **data})
            database.execute(
                "INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)",
                (f"msg_{name}_{seq}", name, kind, seq, created, created, told),
            )
        database.commit()
    return path


def read(folder: Path) -> list[LoggedConversation]:
    (found,) = find_logs(folder)
    return [conversation for log in found.logs for conversation in OPENCODE.read(log)]


LOOKS = {
    "role": "assistant",
    "content": "Let me look.",
    "tool_calls": [
        {
            "id": "call_ls",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"command":"ls"}'},
        }
    ],
}
TALK = (
    say("Mend it."),
    Row("model-switched", {"model": {"id": "llama-9", "providerID": "groq"}}),
    answer(text("Let me look."), run("ls", "a.py")),
    answer(text("Done."), prompt=140),
)
SENT = (
    {"role": "user", "content": "Mend it."},
    LOOKS,
    {"role": "tool", "tool_call_id": "call_ls", "content": "a.py"},
)


def test_each_answer_is_a_request(tmp_path: Path) -> None:
    write(tmp_path / "opencode.db", "ses_1", *TALK)
    (conversation,) = read(tmp_path)
    assert ("Session ses_1", "app", "api.groq.com", CHAT, frozenset()) == (
        conversation.name,
        conversation.project,
        conversation.host,
        conversation.wire,
        conversation.unread,
    )
    first, second = conversation.requests()
    assert (SENT[:1], "llama-9") == (first.items, first.model)
    assert SENT == second.items
    assert Usage(prompt=147, cached=3, written=4, completion=9, reasoning=2) == second.usage


def test_a_compaction_leaves_a_checkpoint(tmp_path: Path) -> None:
    summary = {"status": "completed", "summary": "It went well.", "recent": "Done."}
    failed = {"status": "failed", "error": {"message": "too long"}}
    billed = {"model": {"id": "llama-9", "providerID": "groq"}, "tokens": {"input": 900}}
    write(
        tmp_path / "opencode.db",
        "ses_1",
        *TALK,
        Row("compaction", failed | billed),
        answer(text("Still here.")),
        Row("compaction", summary | billed),
        say("Go on."),
        answer(text("Well.")),
    )
    main_part, *summaries = read(tmp_path)
    *_, still, last = main_part.requests()
    assert [*SENT, {"role": "assistant", "content": "Done."}] == list(still.items)
    checkpoint, asked = (item["content"] for item in last.items)
    assert "<summary>\nIt went well.\n</summary>" in str(checkpoint)
    assert "Go on." == asked
    usages = [request.usage for each in summaries for request in each.requests()]
    assert [900, 900] == [usage and usage.prompt for usage in usages]


def test_what_else_is_sent_and_what_is_not_understood(tmp_path: Path) -> None:
    notes = {"mime": "text/plain", "name": "notes", "data": b64encode(b"Buy milk.").decode()}
    picture = {"mime": "image/png", "data": "aGk="}
    write(
        tmp_path / "opencode.db",
        "ses_1",
        say("Mend it.", files=[notes, picture]),
        say("Mind the gap.", "synthetic"),
        Row("shell", {"command": "ls", "output": {"output": "a.py"}}),
        answer(
            run("cat", status="error", error={"message": "no such file"}, content=[]),
            run("sleep", status="running"),
            {"type": "dream"},
        ),
        Row("riddle", {}),
        answer(text("Done.")),
    )
    (conversation,) = read(tmp_path)
    *_, last = conversation.requests()
    told = json.dumps(last.items)
    for part in (
        *("Attached file: notes", "Buy milk.", "data:image/png;base64,aGk=", "Mind the gap."),
        *("Shell command: ls\\n\\na.py", "no such file", "[Tool execution was interrupted]"),
    ):
        assert part in told
    assert {"part dream", "message riddle"} == conversation.unread


@pytest.mark.parametrize("parent_is_there", [True, False])
def test_a_fork_has_copies_under_other_ids(parent_is_there: bool, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    if parent_is_there:
        write(path, "ses_1", *TALK)
    own = say("Or else?"), answer(text("Yes."))
    write(path, "ses_2", *TALK, *own, fork_of="ses_1", when=9000)
    counted = [len(list(each.requests())) for each in read(tmp_path)]
    assert ([1, 2] if parent_is_there else [3]) == counted


def test_what_was_taken_over_is_read_once(tmp_path: Path) -> None:
    taken, old = MadeSession("ses_1"), MadeSession("ses_0")
    for each in (taken, old):
        each.say("Mend it.")
        each.answer("Done.")
    path = write_database(tmp_path / "opencode.db", taken, old)
    write(path, "ses_1", *TALK)
    write(path, "ses_9", say("Never answered."))
    counted = {each.name: len(list(each.requests())) for each in read(tmp_path)}
    assert {"Session ses_1": 2, "Mend the parser": 1} == counted


def _write_other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE talk (id TEXT)")


def _write_next(path: Path) -> None:
    write(path, "ses_1", *TALK)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE session_v3 (id TEXT)")


def _write_broken(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(90))


@pytest.mark.parametrize(
    ("spoil", "requests"), [(_write_other, 0), (_write_next, 2), (_write_broken, 0)]
)
def test_a_database_of_opencode_that_is_not_understood_is_named(
    spoil: Callable[[Path], None],
    requests: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    spoil(path)
    status = main(["replay", "--processes", "1", "--since", "2026-01-01"])
    out, told = capsys.readouterr()
    assert f"left out: {path}: a layout of opencode's database that is not known" in told
    assert (0 if requests else 1) == status
    assert (f"{requests} requests" in out) == bool(requests)


def test_other_databases_are_none_of_opencode(tmp_path: Path) -> None:
    _write_other(tmp_path / "cookies.db")
    assert [] == find_logs(tmp_path)
