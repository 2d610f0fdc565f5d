"""The databases on disk, whatever befalls them: a full disk, a lock, damage, another process."""

import asyncio
import logging
import signal
import sqlite3
import stat
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock

import pytest

from addon.accounts import Accounts
from addon.memory import FORM, open_memory
from addon.records.sessions import SessionLog
from addon.store import Database, Earlier, Form, Rows, Store, StoreError
from masking.memory import Anchor, Remembered
from tests.support.histories import read_history
from tests.support.made_up_records import record
from tests.support.namespaces import NAMESPACE, has_namespaces
from tests.support.remembered import Remembering

THINGS = Form(
    name="things.sqlite3",
    version=2,
    tables=("CREATE TABLE IF NOT EXISTS things (key TEXT PRIMARY KEY, value BLOB)",),
    problem="things are not kept",
    patience=0.2,
    earlier=(
        Earlier("old.sqlite3", "SELECT key, value FROM old", "INSERT INTO things VALUES (?, ?)"),
        Earlier("old.sqlite3", "SELECT key, 'twice' FROM more", "INSERT INTO things VALUES (?, ?)"),
    ),
)


def open_things(folder: Path, said: list[str] | None = None) -> Store:
    return Store(
        lambda: folder, THINGS, log=lambda _, line: None if said is None else said.append(line)
    )


def write_things(database: Database, things: Mapping[str, object]) -> None:
    database.executemany("INSERT OR REPLACE INTO things VALUES (?, ?)", things.items())


def read_things(database: Database) -> dict[str, object]:
    return dict(database.execute("SELECT key, value FROM things ORDER BY key"))


def open_rows(store: Store) -> Rows[str, object]:
    return Rows(store, "things", write_things, most=4)


def test_what_work_fails_with_leaves_no_trace_in_the_file(tmp_path: Path) -> None:
    def fail(database: Database) -> None:
        write_things(database, {"b": 2})
        database.execute("no statement")

    with closing(open_things(tmp_path)) as store:
        store.write(lambda database: write_things(database, {"a": 1}))
        with pytest.raises(StoreError, match=r"things\.sqlite3: near \"no\": syntax error"):
            store.write(fail)
        assert {"a": 1} == store.read(read_things)


def test_only_who_may_make_a_file_makes_one(tmp_path: Path) -> None:
    with closing(open_things(tmp_path / "state")) as store:
        assert None is store.find(read_things)
        assert not (tmp_path / "state").exists()
        assert {} == store.read(read_things)
        assert {} == store.find(read_things)
    modes = [each.stat().st_mode for each in (tmp_path / "state", tmp_path / "state" / THINGS.name)]
    assert [0o700, 0o600] == [*map(stat.S_IMODE, modes)]


def test_a_home_that_is_none_is_an_error_of_the_same_kind() -> None:
    def find_none() -> Path:
        raise RuntimeError("no home")

    store = Store(find_none, THINGS)
    for ask in (store.find, store.read, store.write):
        with pytest.raises(StoreError, match="no home"):
            ask(read_things)


# Locks


def test_a_lock_is_waited_for_and_then_told(tmp_path: Path) -> None:
    with closing(open_things(tmp_path)) as store:
        store.read(read_things)
        with closing(sqlite3.connect(tmp_path / THINGS.name)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="is locked") as told:
                store.write(read_things)
            assert told.value.is_locked
            assert {} == store.read(read_things)
        store.write(read_things)


def test_what_a_reader_does_not_let_be_written_waits(tmp_path: Path) -> None:
    """The transaction fails at its very end, and is over all the same."""
    said: list[str] = []
    with closing(open_things(tmp_path, said)) as store, closing(open_rows(store)) as rows:
        store.write(lambda database: write_things(database, {"a": 1}))
        with closing(sqlite3.connect(tmp_path / THINGS.name)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM things").fetchall()
            rows.put("b", 2)
            rows._worker.submit(lambda: None).result()
        assert [f"things are not kept: {tmp_path / THINGS.name}: database is locked"] == said
        rows.put("c", 3)
        rows.close()
        assert {"a": 1, "b": 2, "c": 3} == store.read(read_things)


_TRY_TO_LOCK = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_who_opens_a_file_leaves_it_to_the_thread_that_has_locked_it(tmp_path: Path) -> None:
    """The system takes all locks of a process on a file that it closes, however it was opened."""
    with closing(open_things(tmp_path)) as one, closing(open_things(tmp_path)) as other:

        def look_around(_: Database) -> str:
            other.read(read_things)
            program = [sys.executable, "-c", _TRY_TO_LOCK, str(tmp_path / THINGS.name)]
            return subprocess.run(program, capture_output=True, text=True, check=True).stdout

        assert "database is locked\n" == one.write(look_around)


_WRITE_MANY = """
import sys
from contextlib import closing
from pathlib import Path
from tests.addon.test_store import open_things, write_things
with closing(open_things(Path(sys.argv[1]))) as store:
    for number in range(40):
        key = f"{sys.argv[2]} {number}"
        store.write(lambda database: write_things(database, {key: number}))
"""


def test_a_disk_that_does_not_answer_holds_up_no_request_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is asked of the file waits for its turn, for a while; what is to be kept does not."""
    for name in ("_TURN_SECONDS", "_CLOSE_SECONDS"):
        monkeypatch.setattr(f"addon.store.{name}", 0.0)
    monkeypatch.setattr("addon.memory._REQUEST_PATIENCE", 0.0)
    history = SessionLog(lambda: tmp_path, logging.getLogger("observation_masking").log)
    process = Remembering(lambda: tmp_path)
    accounts = Accounts(process.store)
    with history._store._lock, process.store._lock:
        history.add(record(session="a"))
        process.write(b"opening", Remembered(requests=(Anchor(3, b"\3" * 16),)))
        account = accounts.identify("host", "model", b"key", None)
        assert accounts.begin_try(account)
        accounts.learn(account, "takes")
        assert asyncio.run(process.memory.open(observes=False)).observed is None
        assert "takes" == accounts.find_verdict(account)
        for each in (history, process, accounts):
            each.close()
    assert {"the disk does not answer"} == {line.split(": ")[-1] for line in caplog.messages}


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """They also make the file at once."""
    programs = [
        subprocess.Popen([sys.executable, "-c", _WRITE_MANY, str(tmp_path), name])
        for name in ("one", "other")
    ]
    assert [0, 0] == [each.wait() for each in programs]
    with closing(open_things(tmp_path)) as store:
        assert 80 == len(store.read(read_things))


_DIE_AMID_A_WRITE = """
import os, signal, sys
from contextlib import closing
from pathlib import Path
from tests.addon.test_store import open_things, write_things
def work(database):
    database.execute("PRAGMA cache_spill = 1")
    many = {str(n): bytes(10_000) for n in range(1_000)}  # more than stays in memory
    write_things(database, many)
    os.kill(os.getpid(), signal.SIGKILL)
with closing(open_things(Path(sys.argv[1]))) as store:
    store.write(lambda database: write_things(database, {"a": 1}))
    store.write(work)
"""


def test_a_process_that_is_killed_amid_a_write_leaves_what_was_there(tmp_path: Path) -> None:
    program = [sys.executable, "-c", _DIE_AMID_A_WRITE, str(tmp_path)]
    assert -signal.SIGKILL == subprocess.run(program, check=False).returncode
    assert (tmp_path / f"{THINGS.name}-journal").stat().st_size
    assert (tmp_path / THINGS.name).stat().st_size > 1_000_000
    with closing(open_things(tmp_path)) as store:
        assert {"a": 1} == store.read(read_things)


# Rows


def test_a_full_disk_is_said_once_and_what_waits_is_written_once_there_is_room(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    def limit(pages: int) -> None:
        store.read(lambda database: database.execute(f"PRAGMA max_page_count = {pages}").fetchall())

    with closing(open_things(tmp_path, said)) as store, closing(open_rows(store)) as rows:
        limit(3)
        for key in "abc":
            rows.put(key, bytes(20_000))
            rows._worker.submit(lambda: None).result()
        assert [f"things are not kept: {tmp_path / THINGS.name}: database or disk is full"] == said
        assert {} == store.read(read_things)
        limit(1_000)
        rows.put("d", b"")
        rows.close()
        assert [*"abcd"] == [*store.read(read_things)]


def test_of_too_many_that_wait_the_latest_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    rows = open_rows(open_things(tmp_path / "file"))
    for key in "abcadef":
        rows.put(key, key)
    rows.close()
    assert [*"adef"] == [*rows._waiting]


def test_what_is_closed_takes_nothing_more(tmp_path: Path) -> None:
    with closing(open_things(tmp_path)) as store:
        rows = open_rows(store)
        rows.close()
        rows.put("a", 1)
        rows.close()
        assert {} == store.read(read_things)


class _Written(UserDict[str, object]):
    """What is in a file; tells whether others that write wait while it is looked through."""

    waits: bool | None = None

    def __init__(self, lock: Lock) -> None:
        super().__init__(a=1)
        self._lock = lock

    def __iter__(self) -> Iterator[str]:
        self.waits = self._lock.locked()
        return super().__iter__()


def test_nobody_writes_while_what_the_file_held_is_made_to_wait_again(tmp_path: Path) -> None:
    """What came between the two would be lost."""
    with closing(open_things(tmp_path)) as store, closing(open_rows(store)) as rows:
        rows._written = written = _Written(rows._lock)  # type: ignore[assignment]
        store.losses += 1
        assert {"a": 1} == store.write(rows._write_waiting)
        assert written.waits


# Damage


@pytest.mark.parametrize("journal", [None, b"", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"x" * 600])
def test_a_damaged_file_is_put_aside_and_what_this_process_wrote_is_written_again(
    tmp_path: Path, journal: bytes | None
) -> None:
    said: list[str] = []
    path = tmp_path / THINGS.name
    with closing(open_things(tmp_path, said)) as store, closing(open_rows(store)) as rows:
        rows.put("a", 1)
        rows._worker.submit(lambda: None).result()
        path.write_bytes(b"no database" * 1_000)
        if journal is not None:
            path.with_name(f"{path.name}-journal").write_bytes(journal)
        rows.put("b", 2)
        rows.close()
        assert {"a": 1, "b": 2} == store.read(read_things)
    aside = path.with_name(f"{path.name}.damaged")
    assert b"no database" * 1_000 == aside.read_bytes()
    assert said == [
        f"{path} is damaged (file is not a database): renamed to {aside.name}, a new file is "
        "started"
    ]


def test_a_history_that_is_damaged_or_locked_leaves_the_memory_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = tmp_path / "history.sqlite3"
    history.write_bytes(b"no database" * 1_000)
    log = SessionLog(lambda: tmp_path, logging.getLogger("observation_masking").log)
    log.add(record(session="a"))
    log.close()
    assert ["a"] == [each.session for each in read_history(tmp_path)]
    with closing(sqlite3.connect(history)) as holder, closing(open_memory(lambda: tmp_path)) as own:
        holder.execute("BEGIN EXCLUSIVE")
        assert 0 == own.write(lambda database: len([*database.execute("SELECT * FROM accounts")]))
    assert 1 == len(caplog.records)


def test_a_memory_that_is_damaged_leaves_the_history_alone(tmp_path: Path) -> None:
    log = SessionLog(lambda: tmp_path, lambda *_: None)
    log.add(record(session="a"))
    log.close()
    (tmp_path / FORM.name).write_bytes(b"no database" * 1_000)
    process = Remembering(lambda: tmp_path)
    assert [] == process.read()
    process.close()
    assert ["a"] == [each.session for each in read_history(tmp_path)]
    assert {"history.sqlite3", FORM.name, f"{FORM.name}.damaged"} == {
        each.name for each in tmp_path.iterdir()
    }


# Forms


def make_old(folder: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(folder / "old.sqlite3")) as database, database:
        for statement in statements:
            database.execute(statement)
    return folder / "old.sqlite3"


OLD = ("CREATE TABLE old (key, value)", "INSERT INTO old VALUES ('a', 1)")
MORE = ("CREATE TABLE more (key)", "INSERT INTO more VALUES ('b')")


def test_a_new_file_takes_over_what_one_of_before_holds(tmp_path: Path) -> None:
    old, said = make_old(tmp_path, *OLD, *MORE), list[str]()
    with closing(open_things(tmp_path, said)) as store:
        assert {"a": 1, "b": "twice"} == store.read(read_things)
    assert not old.exists()
    assert ["things.sqlite3 takes the place of old.sqlite3, and holds what it held"] == said
    make_old(tmp_path, *OLD)  # by a process of an earlier version that still runs
    with closing(open_things(tmp_path, said)) as store:
        assert 2 == len(store.read(read_things))


@pytest.mark.parametrize("content", [b"no database" * 99, b""], ids=["damaged", "another form"])
def test_one_that_cannot_be_read_is_left_behind(tmp_path: Path, content: bytes) -> None:
    said: list[str] = []
    (tmp_path / "old.sqlite3").write_bytes(content)
    with closing(open_things(tmp_path, said)) as store:
        assert {} == store.read(read_things)
    assert content == (tmp_path / "old.sqlite3").read_bytes()
    assert [True, True] == ["is left behind, because it cannot be read" in line for line in said]


def test_what_cannot_be_taken_over_now_stays_where_it_is(tmp_path: Path) -> None:
    old = make_old(tmp_path, *OLD, "INSERT INTO old VALUES ('a', 'again')")
    before = old.read_bytes()
    with closing(open_things(tmp_path)) as store, pytest.raises(StoreError, match="UNIQUE"):
        store.read(read_things)
    assert before == old.read_bytes()


def test_a_file_of_a_later_form_is_read_and_not_written(tmp_path: Path) -> None:
    with closing(open_things(tmp_path)) as store:
        store.write(lambda database: write_things(database, {"a": 1}))
        store.read(lambda database: database.execute("PRAGMA user_version = 3"))
        before = store.path.read_bytes()
        with pytest.raises(StoreError, match="was written by a later version"):
            store.write(lambda database: write_things(database, {"a": 2}))
        assert {"a": 1} == store.read(read_things)
        assert before == store.path.read_bytes()


_READ_ONLY = """
mount -t tmpfs none "$1"
"$2" -c "$3" "$1"
mount -o remount,ro "$1"
"$2" -c "$4" "$1"
"""
_OPEN = """
import sys
from contextlib import closing
from pathlib import Path
from tests.addon.test_store import *
store = open_things(Path(sys.argv[1]))
"""
_FILL = _OPEN + "store.write(lambda database: write_things(database, {'a': 1})); store.close()"
_LOOK = (
    _OPEN
    + """
print(store.read(read_things))
try:
    store.write(lambda database: write_things(database, {"b": 2}))
except StoreError as error:
    print(error)
store.close()
"""
)


@pytest.mark.skipif(not has_namespaces(), reason="NO USER NAMESPACES: a read-only disk isn't tried")
def test_what_is_on_a_read_only_disk_is_read(tmp_path: Path) -> None:
    arguments = ("sh", str(tmp_path), sys.executable, _FILL, _LOOK)
    said = subprocess.run(
        [*NAMESPACE, "sh", "-euc", _READ_ONLY, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    problem = f"{tmp_path / THINGS.name}: attempt to write a readonly database"
    assert (f"{{'a': 1}}\n{problem}\n", "") == (said.stdout, said.stderr)
