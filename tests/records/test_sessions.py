"""The history of sessions: their rows, who adds what, and which proxies run."""

import json
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.places import take_lock
from addon.records import sessions
from addon.records.sessions import (
    FILE,
    IDLE,
    MAX_SESSIONS,
    RunFile,
    Running,
    Session,
    SessionLog,
    find_folder,
    is_running,
    list_running,
    open_history,
)
from masking.accounting.bill import Bill, Margin, Money
from masking.rewrite import read_request
from masking.wire import CHAT, MESSAGES, RESPONSES, WireFormat
from tests.support.histories import read_history, write_sessions
from tests.support.made_up_records import bill, record, tally, write_records
from tests.support.marks import as_one_test


def say_nothing(level: int, line: str) -> None:
    raise AssertionError(line)


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00.000+00:00"


def write(folder: Path, *requests: Mapping[str, object], writer: str = "w") -> None:
    """Write what a process sees of some sessions."""
    log = SessionLog(lambda: folder, say_nothing, writer=writer)
    for fields in requests:
        log.add(record(**fields))
    log.close()


def write_now(log: SessionLog) -> None:
    """Write what waits, sooner than it would be."""
    log._rows._hurry.set()
    log._rows._worker.submit(lambda: None).result()


A, B = {"session": "a", "client": "pi"}, {"conversation_id": "b"}


def test_a_row_sums_up_what_a_client_sends_under_one_id(tmp_path: Path) -> None:
    write(
        tmp_path,
        {**A, **bill(4, 3, 0.5), "time": at(1), "model": "m", "tool_turns": 3, "masked": 2},
        {**A, "time": at(3), "model": "n", "status": 500, "conversation_id": "sub-agent"},
        {**A, **bill(2, 2), "time": at(2), "folder": "api", "first_chunk_seconds": 2.0}
        | {"prompt_tokens": 10, "cached_tokens": 8, "tool_results": 5},
    )
    (found,) = read_history(tmp_path)
    assert ("a", "pi", ("m", "n"), "api") == (
        found.session, found.agent, found.models, found.folder,
    )  # fmt: skip
    assert (at(1), at(3), 3, 1) == (found.began, found.last, found.requests, found.failed)
    assert (3, 5, 2, 10, 8, 2.0) == (
        found.turns, found.results, found.masked, found.prompt, found.cached, found.wait,
    )  # fmt: skip
    assert Money(2, 6, 5, Margin(0.5)) == found.bill.dollars
    assert (6, 5) == (found.bill.tokens.before, found.bill.tokens.after)


def test_where_a_client_names_no_id_a_conversation_is_a_session(tmp_path: Path) -> None:
    write(tmp_path, B, B, {"conversation_id": "c"}, {"host": "names neither"})
    assert [("b", 2), ("c", 1)] == [
        (each.session, each.requests) for each in read_history(tmp_path)
    ]


def test_a_replayed_request_is_no_part_of_the_history(tmp_path: Path) -> None:
    write(tmp_path, {**A, "replay": True})
    assert not (tmp_path / FILE).exists()


def test_what_several_processes_see_of_a_session_is_added(tmp_path: Path) -> None:
    for number in range(3):
        fields = {**A, **bill(4, 3), "time": at(number), "tool_turns": number, "model": f"{number}"}
        write(tmp_path, fields, writer=f"w{number}")
    (found,) = read_history(tmp_path)
    assert (3, 2, ("0", "1", "2")) == (found.requests, found.turns, found.models)
    assert Money(3, 12, 9) == found.bill.dollars
    assert "w2.1" == found.writer


def test_a_row_that_grows_takes_the_place_of_its_earlier_state(tmp_path: Path) -> None:
    log = SessionLog(lambda: tmp_path, say_nothing)
    for count in range(1, 4):
        log.add(record(**A))
        write_now(log)
        assert [count] == [each.requests for each in read_history(tmp_path)]
    log.close()
    with sqlite3.connect(tmp_path / FILE) as database:
        assert (1,) == database.execute("SELECT count(*) FROM sessions").fetchone()


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([{"masking": "observed"} | bill(4, 3)], (True, 4, 3), id="only observed"),
        pytest.param(
            [{"masking": "observed"} | bill(4, 3), bill(5, 4)], (False, 5, 4), id="one of two"
        ),
    ],
)
def test_what_was_observed_stands_apart_unless_all_was(
    tmp_path: Path, requests: list[dict[str, object]], expected: tuple[bool, float, float]
) -> None:
    write(tmp_path, *({**A, **each} for each in requests))
    (found,) = read_history(tmp_path)
    assert expected == (found.is_observed, found.bill.dollars.before, found.bill.dollars.after)
    assert tally(*requests).shown.masked_bill.dollars == found.bill.dollars


def test_what_another_process_only_observed_of_a_session_is_not_in_its_bill(tmp_path: Path) -> None:
    write(tmp_path, {**A, **bill(5, 4)}, writer="masks")
    write(tmp_path, {**A, **bill(4, 3), "masking": "observed"}, writer="observes")
    write(tmp_path, {**A, **bill(2, 1), "masking": "observed"}, writer="observes again")
    (found,) = read_history(tmp_path)
    assert (False, Money(1, 5, 4)) == (found.is_observed, found.bill.dollars)


def test_it_says_why_nothing_was_masked(tmp_path: Path) -> None:
    write(tmp_path, {**A, "tool_results": 2, "kept": {"in_window": 2}}, {**B, "masked": 1})
    assert {"a": "no tool result is older than the window: a short session", "b": None} == {
        each.session: each.why for each in read_history(tmp_path)
    }


def test_the_first_row_brings_those_of_the_records_before(tmp_path: Path) -> None:
    records = tmp_path / "requests.jsonl"
    write_records(records, {**A, "run": "1"}, {**A, "run": "2"}, {**B, "run": "1"}, "torn")
    log = SessionLog(lambda: tmp_path / "state", say_nothing, lambda: records)
    log.add(record(session="c"))
    log.close()
    found = {each.session: each.requests for each in read_history(tmp_path / "state")}
    assert {"a": 2, "b": 1, "c": 1} == found


def test_what_a_process_writes_itself_is_not_taken_from_the_records(tmp_path: Path) -> None:
    """Neither for the one that makes the history, nor for another that runs."""
    records = tmp_path / "requests.jsonl"
    write_records(records, *({**A, "run": run} for run in ("before", "own", "5eed")))
    file = RunFile(tmp_path, RUNNING)
    log = SessionLog(lambda: tmp_path, say_nothing, lambda: records)
    log.add(record(**A, run="own"))
    log.close()
    write(tmp_path, {**A, "run": RUNNING.run}, writer=RUNNING.writer)
    file.close()
    assert [3] == [each.requests for each in read_history(tmp_path)]


def make_history(
    folder: Path, records: Path, log: Callable[[int, str], object] = say_nothing
) -> None:
    with closing(open_history(lambda: folder, lambda: records, log=log)) as store:
        store.read(sessions.read_history)


def test_a_damaged_file_is_put_aside_and_made_anew(tmp_path: Path) -> None:
    records = tmp_path / "requests.jsonl"
    write_records(records, {**A, "run": "1"})
    (tmp_path / FILE).write_bytes(b"no database" * 99)
    told: list[str] = []
    make_history(tmp_path, records, lambda _, line: told.append(line))
    assert ["a"] == [each.session for each in read_history(tmp_path)]
    assert (tmp_path / f"{FILE}.damaged").exists()
    assert told == [
        f"{tmp_path / FILE} is damaged (file is not a database): renamed to {FILE}.damaged, a new "
        "file is started"
    ]


def test_a_file_that_is_damaged_meanwhile_is_made_anew_by_the_next_row(tmp_path: Path) -> None:
    """With what this process has written before, and what the records hold of others."""
    records = tmp_path / "requests.jsonl"
    write_records(records, {"session": "before", "run": "1"}, {**A, "run": "own"})
    log = SessionLog(lambda: tmp_path, lambda *_: None, lambda: records)
    for session in ("a", "b", "c"):
        log.add(record(session=session, run="own"))
        write_now(log)
        if session == "a":
            (tmp_path / FILE).write_bytes(b"no database" * 99)
    log.close()
    found = {each.session: each.requests for each in read_history(tmp_path)}
    assert {"before": 1, "a": 1, "b": 1, "c": 1} == found


def test_a_folder_of_the_older_records_name_changes_nothing(tmp_path: Path) -> None:
    write_records(tmp_path / "requests.jsonl", {**A, "run": "before"})
    (tmp_path / "requests.jsonl.1").mkdir()
    log = SessionLog(lambda: tmp_path, say_nothing, lambda: tmp_path / "requests.jsonl")
    log.add(record(**B))
    log.close()
    assert {"a", "b"} == {each.session for each in read_history(tmp_path)}


def test_records_that_cannot_be_read_do_not_stop_the_history(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").mkdir()
    told: list[str] = []
    log = SessionLog(
        lambda: tmp_path,
        lambda _, line: told.append(line),
        lambda: tmp_path / "requests.jsonl",
    )
    log.add(record(**A))
    log.close()
    assert ["a"] == [each.session for each in read_history(tmp_path)]
    (line,) = told
    assert line.startswith("the history of sessions lacks what the records hold: ")


def test_an_empty_file_is_no_history(tmp_path: Path) -> None:
    """One that was made, and whose process was killed before it wrote."""
    (tmp_path / FILE).touch()
    write_records(tmp_path / "requests.jsonl", A)
    make_history(tmp_path, tmp_path / "requests.jsonl")
    assert ["a"] == [each.session for each in read_history(tmp_path)]


def test_what_could_not_be_written_is_written_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.touch()
    log = SessionLog(lambda: folder, lambda *_: None)
    log.add(record(**A))
    write_now(log)
    folder.unlink()
    log.add(record(**B))
    log.close()
    assert {"a", "b"} == {each.session for each in read_history(folder)}


def test_the_file_is_private(tmp_path: Path) -> None:
    write(tmp_path / "state", A)
    assert 0o600 == stat.S_IMODE((tmp_path / "state" / FILE).stat().st_mode)


def test_what_cannot_be_written_is_said_once_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    log = SessionLog(lambda: tmp_path / "file", lambda _, line: said.append(line))
    for _ in range(2):
        log.add(record(**A))
        write_now(log)
    log.close()
    (line,) = said
    assert line.startswith("the history of sessions is not written: ")


@pytest.mark.parametrize("row", [b"{", b"\xff", b'{"session": 5}', b"null"])
def test_a_row_that_is_none_is_passed_over(tmp_path: Path, row: bytes) -> None:
    write(tmp_path, A)
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("INSERT INTO sessions VALUES ('x', 'w', '2', ?)", (row,))
    assert ["a"] == [each.session for each in read_history(tmp_path)]


def test_there_may_be_no_history(tmp_path: Path) -> None:
    assert [] == read_history(tmp_path)
    assert [] == list_running(tmp_path)


def test_the_oldest_rows_are_dropped_in_the_end(tmp_path: Path) -> None:
    old = [
        Session(session=f"{n}", writer="w", began=at(0), last=f"2025-{n:06}")
        for n in range(MAX_SESSIONS + 5)
    ]
    write_sessions(tmp_path, old)
    found = read_history(tmp_path)
    assert (MAX_SESSIONS, "5") == (len(found), found[0].session)


parts = st.builds(
    Session,
    session=st.just("a"),
    writer=st.sampled_from(["v", "w"]),
    began=st.integers(0, 59).map(at),
    last=st.integers(0, 59).map(at),
    models=st.lists(st.sampled_from("mno"), unique=True).map(tuple),
    requests=st.integers(0, 9),
    bill=st.builds(Bill, dollars=st.builds(Money, *[st.integers(0, 9)] * 3)),
    why=st.sampled_from([None, "because"]),
    is_observed=st.booleans(),
)


@given(parts, parts)
def test_both_parts_of_a_session_come_to_the_same_in_either_order(
    one: Session, other: Session
) -> None:
    sums = [
        (each.began, each.last, each.requests, each.bill, set(each.models), each.why)
        for each in (one + other, other + one)
    ]
    assert sums[0] == sums[1]


# The folder

HOME = "/home/someone/secret-client"


@as_one_test
@pytest.mark.parametrize(
    ("body", "wire", "expected"),
    [
        pytest.param(
            {"system": f"<env>\nWorking directory: {HOME}/api\nIs a git repo: yes", "messages": []},
            MESSAGES, "api", id="claude-code",
        ),
        pytest.param(
            {"input": [{"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": f"<cwd>{HOME}/web app</cwd>\n<shell>sh</shell>"}]}]},
            RESPONSES, "web app", id="codex",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content":
                f"I'm currently working in the directory: {HOME}/a\nHere"}]},
            CHAT, "a", id="qwen-code",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content":
                r"Current Working Directory (C:\work\b) Files"}]},
            CHAT, "b", id="cline",
        ),
        pytest.param({"messages": [{"role": "user", "content": "working directory"}]}, CHAT, None,
            id="a text that names none"),
        pytest.param({"messages": [{"role": "user", "content": "Working directory: /"}]},
            CHAT, None, id="the root"),
    ],
)  # fmt: skip
def test_of_a_folder_only_the_last_part_is_kept(
    body: object, wire: WireFormat, expected: str | None
) -> None:
    found = find_folder(read_request(json.dumps(body).encode(), wire))
    assert expected == found


# The proxies that run

RUNNING = Running("5eed", at(0), "w", "http://127.0.0.1:1/")


def test_a_process_is_listed_while_it_runs(tmp_path: Path) -> None:
    file = RunFile(tmp_path, RUNNING)
    assert [RUNNING] == list_running(tmp_path)
    file.close()
    assert [] == list_running(tmp_path)
    assert [] == [*(tmp_path / "runs").iterdir()]


def test_no_lock_is_left_of_a_process_that_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RunFile(tmp_path, RUNNING)

    def end_first(name: str, patience: float) -> int | str:
        file.close()
        return take_lock(name, patience)

    monkeypatch.setattr("addon.records.sessions.take_lock", end_first)
    assert [] == list_running(tmp_path)
    assert [] == [*(tmp_path / "runs").iterdir()]


KILLED = """
import os, signal, sys
from pathlib import Path
from addon.records.sessions import RunFile, Running
RunFile(Path(sys.argv[1]), Running("dead", "2026", "dead"))
os.kill(os.getpid(), signal.SIGKILL)
"""


_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from addon.records.sessions import RunFile, Running
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    RunFile(Path(sys.argv[1]), Running("5eed", "2026-01-01T00:00:00+00:00", "w"))
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_process_that_cannot_be_listed_leaves_nothing(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _WITHOUT_ROOM, str(tmp_path)]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert f"[Errno 27] File too large: '{tmp_path}/runs/w.json'\n" == said
    assert [] == [*(tmp_path / "runs").iterdir()]


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=60)
    assert (tmp_path / "runs" / "dead.json").exists()
    file = RunFile(tmp_path, RUNNING)
    assert [RUNNING] == list_running(tmp_path)
    assert {"w.json", "w.json.lock"} == {each.name for each in (tmp_path / "runs").iterdir()}
    file.close()


def test_a_session_runs_while_its_proxy_does_and_it_is_not_idle() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    session = Session(session="a", writer="w.3", began=at(0), last=now.isoformat())
    assert is_running(session, {"w"}, now + IDLE - timedelta(seconds=1))
    assert not is_running(session, {"w"}, now + IDLE)
    assert not is_running(session, {"v"}, now)
    assert not is_running(Session(session="a", writer="w.1", began="", last="?"), {"w"}, now)


def test_a_row_says_what_was_saved_at_arrival(tmp_path: Path) -> None:
    saved = {"arrival_saved_tokens": 3.0, "arrival_saved_dollars": 0.5}
    rereads = {"arrival_rereads": 2, "arrival_quotes": 1}
    for number in range(2):
        fields = {**A, **bill(9, 5), **saved, **rereads, "time": at(number)}
        write(tmp_path, fields | {"shortened": number + 1}, writer=f"w{number}")
    (found,) = read_history(tmp_path)
    money = found.bill.dollars
    assert (2, 6, 1.0) == (found.shortened, found.bill.tokens.at_arrival, money.at_arrival)
    assert (4, 2) == (found.arrival_rereads, found.arrival_quotes)
    assert found.why is None
