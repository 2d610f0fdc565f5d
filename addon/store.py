"""What is on disk between runs: small private SQLite databases in the state folder.

There are two: what requests depend on (`addon/memory.py`), and the history of sessions
(`addon/records/sessions.py`), so that nothing that happens to the history harms a request. Who uses
one has tables and queries. How a file is opened, shared, waited for and mended is here, alike for
both:

- Several processes may share a file. A transaction waits for another's lock for the form's
  `patience`, and then fails. A process has one connection to a file, and one transaction at a time.
- `Rows` writes from a thread of its own. No request waits for that.
- The form of a file is a number in it. Columns and tables may be added to a form without a new
  number: versions that do not know them leave them alone. A file of a later form is read as far as
  it is understood, and never written.
- A damaged file is renamed to NAME.damaged, and a new one is begun. Into that, or in place of a
  file that was deleted, this process writes again whatever it knows.
- Whatever fails is a `StoreError`, and one warning for each file. A full disk, a lock or a folder
  that cannot be written may pass: what could not be written is tried again with the next row, and
  at the end.

A power failure may damage a file, as nothing waits until the disk has it. A process that is killed
damages none.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from addon.once import Once
from addon.places import make_folder, open_private
from addon.threads import Log, Worker

logger = logging.getLogger("observation_masking")

Database = sqlite3.Connection

_Result = TypeVar("_Result")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_CLOSE_SECONDS = 5.0
"""How long the end of a process waits for its last rows: a disk may not answer."""

_TURN_SECONDS = 2.0
"""How long a thread waits for another's work on the same file."""

_PAUSE = 0.01

_VERSION = "PRAGMA user_version"


class StoreError(Exception):
    """A file cannot be read or written; the message names it.

    is_locked: whether only because another process holds its lock.
    """

    def __init__(self, message: str, *, is_locked: bool = False) -> None:
        super().__init__(message)
        self.is_locked = is_locked


class Earlier(NamedTuple):
    """Where rows of a new file are taken from, if there is no file yet: from one of before.

    `read` selects them there, and `write` inserts each.
    """

    name: str
    read: str
    write: str


class Form(NamedTuple):
    """A file: its name, the number of its form, and the statements that make its tables.

    problem: what it means that it cannot be used, for the warning.
    patience: seconds to wait for another's lock.
    """

    name: str
    version: int
    tables: tuple[str, ...]
    problem: str
    patience: float
    earlier: tuple[Earlier, ...] = ()


class Store:
    """A database of this form in `folder`; threads may share it.

    fill: reads what else a new file is to hold, and returns what writes that.
    """

    def __init__(
        self,
        folder: Callable[[], Path],
        form: Form,
        *,
        fill: Callable[[], Callable[[Database], object]] | None = None,
        log: Log = logger.log,
    ) -> None:
        self._folder, self._form, self._fill, self._log = folder, form, fill, log
        self._database: Database | None = None
        self._identity: tuple[int, int] | None = None
        """The device and the inode of the file that is used."""
        self.losses = 0
        """How often that file was gone or damaged, so that another took its place."""
        self._lock, self._once = threading.Lock(), Once()

    @property
    def path(self) -> Path:
        """The file. Raises RuntimeError if there is no home."""
        return self._folder() / self._form.name

    def read(self, work: Callable[[Database], _Result]) -> _Result:
        """Return what work on the database comes to; the file is made if there is none.

        Raises StoreError.
        """
        return self._try(work)

    def find(self, work: Callable[[Database], _Result]) -> _Result | None:
        """As `read`, but make no file: without one, return None."""
        with self._translate():
            if not self.path.exists():
                return None
        return self._try(work)

    def write(self, work: Callable[[Database], _Result]) -> _Result:
        """Return what work comes to, in one transaction. Raises StoreError.

        If the file turns out to be damaged, the work is done again, in a new one.
        """

        def transaction(database: Database) -> _Result:
            with _transaction(database):
                if _read_version(database) > self._form.version:
                    raise StoreError(f"{self.path} was written by a later version")
                return work(database)

        return self._try(transaction)

    def warn(self, error: StoreError) -> None:
        """Log what is wrong with the file, the first time."""
        if self._once.is_first():
            self._log(logging.WARNING, f"{self._form.problem}: {error}")

    def close(self) -> None:
        """Close the file, unless the disk does not answer."""
        if self._lock.acquire(timeout=self._form.patience):
            self._disconnect()
            self._lock.release()

    def _try(self, work: Callable[[Database], _Result]) -> _Result:
        with self._translate(), self._turn():
            try:
                return work(self._connect())
            except sqlite3.Error as error:
                if not _is_damage(error):
                    raise
                self._put_aside(error)
                return work(self._connect())

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the turn among the threads, unless the one that has it waits for a dead disk."""
        if not self._lock.acquire(timeout=_TURN_SECONDS):
            raise StoreError(f"{self.path}: the disk does not answer", is_locked=True)
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _translate(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}", is_locked=_is_locked(error)) from error
        except (OSError, RuntimeError) as error:
            raise StoreError(str(error)) from error

    def _connect(self) -> Database:
        """Return the connection to the file, which may be another one than the last time."""
        path = self.path
        if self._database is not None and _identify(path) != self._identity:
            self._lose()  # deleted, or put aside by another process
        if self._database is None:
            make_folder(path.parent)
            # SQLite would make one that others may read. One that is there is not opened: to close
            # it would take the locks of all other connections of this process.
            with contextlib.suppress(FileExistsError):
                os.close(open_private(str(path), os.O_CREAT | os.O_EXCL | os.O_RDWR))
            self._identity = _identify(path)
            database = sqlite3.connect(
                path,
                timeout=self._form.patience,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(database)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _lose(self) -> None:
        self._disconnect()
        self.losses += 1

    def _prepare(self, database: Database) -> None:
        """Give a new or an older file its form."""
        # What is not text costs its own row, not all of them.
        database.text_factory = lambda text: text.decode(errors="replace")
        database.execute("PRAGMA synchronous = OFF")
        if _read_version(database) >= self._form.version:
            return
        fill = self._fill() if self._fill and _is_new(database) else None
        taken: list[Path] = []
        with _transaction(database):
            is_new = _is_new(database)  # else another process has just made it
            for table in self._form.tables:
                database.execute(table)
            if is_new:
                taken = self._take_over(database)
                if fill:
                    fill(database)
            database.execute(f"{_VERSION} = {self._form.version}")
        for path in taken:
            with contextlib.suppress(OSError):
                path.unlink()

    def _take_over(self, database: Database) -> list[Path]:
        """Take rows over from files of before; return those that are needed no longer."""
        taken: dict[Path, None] = {}
        for name, read, write in self._form.earlier:
            path = self.path.with_name(name)
            if not path.exists():
                continue
            try:
                with closing(sqlite3.connect(path, timeout=self._form.patience)) as earlier:
                    rows = earlier.execute(read).fetchall()
            except sqlite3.Error as error:
                self._log(
                    logging.WARNING,
                    f"{path} is left behind, because it cannot be read ({error}): "
                    f"{self._form.name} begins without it",
                )
                continue
            database.executemany(write, rows)
            if path not in taken:
                line = f"{self._form.name} takes the place of {name}, and holds what it held"
                self._log(logging.INFO, line)
            taken[path] = None
        return [*taken]

    def _put_aside(self, error: sqlite3.Error) -> None:
        """Rename a damaged file, unless another process has, so that a new one is begun."""
        self._lose()
        path = self.path
        if _identify(path) == self._identity:
            aside = path.with_name(f"{path.name}.damaged")
            self._log(
                logging.WARNING,
                f"{path} is damaged ({error}): renamed to {aside.name}, a new file is started",
            )
            path.replace(aside)


def copy_database(path: Path, copy: Path, patience: float = 2.0) -> None:
    """Copy a database as it is between two transactions, whoever writes it. Raises StoreError."""
    try:
        os.close(open_private(str(copy), os.O_CREAT | os.O_EXCL))
        uri = f"{path.absolute().as_uri()}?mode=rw"  # so that what a killed process left is undone
        with closing(sqlite3.connect(uri, uri=True, timeout=patience)) as database:
            database.execute("VACUUM INTO ?", (str(copy),))
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path} cannot be copied to {copy}: {error}") from error


@contextlib.contextmanager
def _transaction(database: Database) -> Iterator[None]:
    """Hold a transaction that others wait for; what fails in it leaves no trace."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # some errors have ended it
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
        raise


def _read_version(database: Database) -> int:
    (version,) = database.execute(_VERSION).fetchone()
    return int(version)


def _is_new(database: Database) -> bool:
    return database.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether a file is no database, or a torn one; else it is locked, full, or another's form."""
    return _primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_locked(error: sqlite3.Error) -> bool:
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's code of an error without what extends it; -1 if the error is Python's."""
    code = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def _identify(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class Rows(Generic[_Key, _Value]):
    """Rows of one kind, which a thread of their own writes; of each key, the latest.

    write: writes some rows, in a transaction.
    read: returns the rows of the file, once and before anything is written, as they may say what is
        to be written; `load` is then given them.
    is_urgent: whether a row is written at once, by what the file has of its key. Others wait for
        `delay` seconds at most, because a transaction costs more than rows.
    most: how many wait if the file takes nothing, and how many are known to be in it.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        write: Callable[[Database, Mapping[_Key, _Value]], object],
        *,
        read: Callable[[Database], Mapping[_Key, _Value]] = lambda _: {},
        load: Callable[[Mapping[_Key, _Value]], object] = lambda _: None,
        is_urgent: Callable[[_Value, _Value | None], bool] = lambda _new, _old: True,
        delay: float = 0.0,
        most: int,
    ) -> None:
        self._store, self._write_rows, self._read_rows, self._load = store, write, read, load
        self._is_urgent, self._delay, self._most = is_urgent, delay, most
        self._waiting: dict[_Key, _Value] = {}
        self._written: dict[_Key, _Value] = {}
        """What is in the file, as far as this process knows."""
        self._is_read = self._is_scheduled = False
        self._losses = 0
        """Of the store, when that was in the file."""
        self._hurry, self._is_closing = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._worker = Worker(name, problem="what was to be kept is not written")

    def begin_reading(self, patience: float) -> "Future[None]":
        """Read the file, in this thread of its own; while it is locked, for so many seconds."""

        def job() -> None:
            end = time.monotonic() + patience
            while not self._is_read:
                try:
                    self._store.read(self._read_once)
                except StoreError as error:
                    # Let others have their turn at the file before the next attempt.
                    is_last = self._is_closing.wait(_PAUSE) or time.monotonic() >= end
                    if is_last or not error.is_locked:
                        self._store.warn(error)
                        return

        return self._worker.submit(job, can_be_cancelled=False)

    def put(self, key: _Key, value: _Value) -> None:
        """Write a row soon, in place of the one of that key."""
        with self._lock:
            _add(self._waiting, {key: value}, self._most)
            if self._is_urgent(value, self._written.get(key)):
                self._hurry.set()
            is_scheduled, self._is_scheduled = self._is_scheduled, True
        if not is_scheduled:
            self._worker.submit(self._write, can_be_cancelled=False)

    def close(self) -> None:
        """Write what is still waiting, unless the disk does not answer."""
        self._is_closing.set()
        self._hurry.set()
        if self._waiting:
            self._worker.submit(self._write, can_be_cancelled=False)
        self._worker.close(_CLOSE_SECONDS)

    def _read_once(self, database: Database) -> None:
        if not self._is_read:
            found = self._read_rows(database)
            with self._lock:
                _add(self._written, found, self._most)
            self._is_read = True
            self._load(found)

    def _write(self) -> None:
        if not self._is_closing.is_set():
            self._hurry.wait(self._delay)
        with self._lock:
            # Whatever comes from here on schedules a write of its own, even if this one fails.
            self._is_scheduled = False
            self._hurry.clear()
            if not self._waiting:
                return
        try:
            written = self._store.write(self._write_waiting)
        except StoreError as error:
            self._store.warn(error)
            return
        # What was replaced while this wrote goes on waiting.
        with self._lock:
            for key, value in written.items():
                if self._waiting.get(key) is value:
                    del self._waiting[key]
            _add(self._written, written, self._most)
            if not self._waiting:  # all that became urgent meanwhile is written
                self._hurry.clear()

    def _write_waiting(self, database: Database) -> dict[_Key, _Value]:
        self._read_once(database)
        with self._lock:
            if self._losses != self._store.losses:
                self._waiting = {**self._written, **self._waiting}
                self._losses = self._store.losses
            waiting = {**self._waiting}
        self._write_rows(database, waiting)
        return waiting


def _add(rows: dict[_Key, _Value], more: Mapping[_Key, _Value], most: int) -> None:
    """Add rows as the latest; of too many, the earliest are dropped."""
    for key, value in more.items():
        rows.pop(key, None)
        rows[key] = value
    while len(rows) > most:
        del rows[next(iter(rows))]
