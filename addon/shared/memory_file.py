"""The file of remembered boundaries: a small private SQLite database in the user's state folder.

It is read once, when it is first needed, and written by a thread of its own after requests have
left. Nothing is written to it before it has been read, because what it holds would be lost. What
was masked is written at once. Where only the time and the place of the latest request are new, that
waits up to a second for others, because a transaction costs more than all else here.

Any failure is logged once, and never stops a request. A memory that is lost costs at most one
broken prefix for each conversation.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from addon.metrics.private_files import make_folder, open_private
from addon.shared.memory_record import decode, encode
from masking.memory import MAX_CONVERSATIONS, Branches

logger = logging.getLogger("observation_masking")

NAME = "boundaries.sqlite3"
OBSERVED = "observed.sqlite3"
"""The file of those boundaries that were only observed: nothing of it was sent."""

VERSION = 1
"""The form of the file, in its `user_version`; before the first, results were places.

Columns, tables, and fields of a conversation or a move may be added without a new version: versions
that do not know them preserve them. A file of a later version is read as far as it is understood,
and never written.
"""

PATIENCE = 5.0
"""Seconds to wait at the first reading for another process that has locked the file."""

_LOCKED_SECONDS = 0.5
"""How long one attempt waits for a lock, so that shutdown never waits longer for it."""

_WAIT = 1.0
"""Seconds until a request is written that masked nothing new. A crash may lose that much of its
time, of which minutes decide something, and nothing of what was masked."""

_TABLE = """CREATE TABLE IF NOT EXISTS conversations
(opening BLOB PRIMARY KEY, branches TEXT NOT NULL, sent REAL NOT NULL) WITHOUT ROWID"""
_READ = "SELECT opening, branches FROM conversations ORDER BY sent"
_WRITE = """INSERT INTO conversations (opening, branches, sent) VALUES (?, ?, ?)
ON CONFLICT (opening) DO UPDATE SET branches = excluded.branches, sent = excluded.sent"""
_FORGET = "DELETE FROM conversations WHERE opening = ?"
_TRIM = """DELETE FROM conversations WHERE sent <
(SELECT sent FROM conversations ORDER BY sent DESC LIMIT 1 OFFSET ?)"""

Conversations = list[tuple[bytes, Branches]]
"""Conversations by their openings, the latest last."""


class MemoryFile:
    """Remembered conversations on disk, in `folder`. Several processes may share the file.

    `load` takes what was in it, once that is read, in a thread of the file's own.
    """

    def __init__(
        self,
        folder: Callable[[], Path],
        name: str = NAME,
        load: Callable[[Conversations], object] = lambda _: None,
    ) -> None:
        self._folder, self._name, self._load = folder, name, load
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory")
        self._identity: tuple[int, int] | None = None
        """The device and the inode of the file that is open."""
        self._is_read = self._warned = False
        self._waiting: dict[bytes, Branches] = {}
        self._written: dict[bytes, Branches] = {}
        """What is in the file, as far as this process knows."""
        self._is_scheduled = False
        self._is_urgent, self._is_closing = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def begin_reading(self) -> Future[None]:
        """Read the file, in its own thread: asyncio's also resolve names.

        What cannot be read by then is read later, before anything is written.
        """
        return self._thread.submit(self._guard, self._read_patiently)

    def read(self) -> Conversations:
        """Return what is in the file now, without what cannot be read."""
        self._hurry()
        found: Conversations = []
        self._thread.submit(self._guard, lambda: found.extend(self._find_all())).result()
        return found

    def write(self, opening: bytes, branches: Branches) -> None:
        """Write a conversation soon, or remove it if it has no branches."""
        with self._lock:
            self._waiting[opening] = branches
            if len(self._waiting) > 2 * MAX_CONVERSATIONS:  # the file takes nothing
                self._waiting = {opening: kept for opening, kept in self._waiting.items() if kept}
            if not _mask_alike(branches, self._written.get(opening, ())):
                self._is_urgent.set()
            is_scheduled, self._is_scheduled = self._is_scheduled, True
        if not is_scheduled:
            with contextlib.suppress(RuntimeError):  # closed: the proxy is ending
                self._thread.submit(self._guard, self._write)

    def close(self) -> None:
        """Write what is still waiting, and close the file."""
        self._is_closing.set()
        self._hurry()
        with contextlib.suppress(RuntimeError):  # closed already
            self._thread.submit(self._guard, self._finish)
        self._thread.shutdown(wait=True)
        if self._database is not None:
            self._database.close()

    def _hurry(self) -> None:
        """Have what is waiting written now."""
        with self._lock:
            if self._waiting:
                self._is_urgent.set()

    def _read_patiently(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._is_read:
            try:
                self._read_once()
            except sqlite3.OperationalError as error:  # locked, as a rule
                is_locked = error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not is_locked or self._is_closing.is_set() or time.monotonic() >= end:
                    raise

    def _read_once(self) -> None:
        """Read the file for the first time, and hand over what is in it."""
        found = self._find_all()
        self._written = dict(found)
        self._is_read = True
        self._load(found)

    def _find_all(self) -> Conversations:
        try:
            rows = self._open().execute(_READ).fetchall()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._begin_anew(error)
            rows = []
        return [(opening, branches) for opening, text in rows if (branches := decode(text))]

    def _write(self) -> None:
        """Write the latest of each conversation that is waiting, once that is urgent or due."""
        self._is_urgent.wait(_WAIT)
        try:
            if not self._is_read:
                self._read_once()
            database = self._open()
        finally:
            with self._lock:
                self._is_scheduled = False
                self._is_urgent.clear()
                waiting = {**self._waiting}
        try:
            with self._transaction(database) as version:
                if version > VERSION:
                    return
                if version < VERSION:
                    database.execute(f"PRAGMA user_version = {VERSION}")
                for opening, branches in waiting.items():
                    if branches:
                        sent = max(past.sent for past in branches)
                        database.execute(_WRITE, (opening, encode(branches), sent))
                    else:
                        database.execute(_FORGET, (opening,))
        except sqlite3.DatabaseError as error:  # locked, or the disk is full: perhaps not for good
            if _is_damage(error):
                self._begin_anew(error)
                with self._lock:
                    self._waiting = {**self._written, **self._waiting}
            raise
        with self._lock:
            for opening, branches in waiting.items():
                if self._waiting.get(opening) is branches:
                    del self._waiting[opening]
            if not self._waiting:  # who was in a hurry meanwhile has what it wanted
                self._is_urgent.clear()
            self._written |= waiting
            for opening in (opening for opening, branches in waiting.items() if not branches):
                del self._written[opening]

    def _finish(self) -> None:
        if self._waiting:
            self._is_urgent.set()
            self._write()
        if self._database is not None:
            with self._transaction(self._database) as version:
                if version <= VERSION:
                    self._database.execute(_TRIM, (MAX_CONVERSATIONS - 1,))

    @contextlib.contextmanager
    def _transaction(self, database: sqlite3.Connection) -> Iterator[int]:
        """Hold a transaction; give the file's version, as another process may have raised it."""
        with database:
            database.execute("BEGIN IMMEDIATE")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                self._warn(
                    f"{self._folder() / self._name} is of a later version, and is not written"
                )
            yield version

    def _open(self) -> sqlite3.Connection:
        path = self._folder() / self._name
        if self._database is not None and _identify(path) != self._identity:
            # It was deleted, or put aside by another process: writes to it would be lost.
            self._database.close()
            self._database = None
            with self._lock:  # nor is what was in it anywhere else
                self._waiting = {**self._written, **self._waiting}
        if self._database is None:
            make_folder(path.parent)
            _make_file(path)
            try:
                self._database = self._connect(path)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._database = self._begin_anew(error)
        return self._database

    def _begin_anew(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Put a damaged file aside, unless another process has, and return a new one."""
        path = self._folder() / self._name
        if self._database is not None:
            self._database.close()
        if _identify(path) == self._identity:
            aside = path.with_name(f"{self._name}.damaged")
            logger.warning(
                f"{path} is damaged ({error}): it is now {aside.name}, a new file is started"
            )
            path.replace(aside)
        _make_file(path)
        self._database = self._connect(path)
        return self._database

    def _connect(self, path: Path) -> sqlite3.Connection:
        self._identity = _identify(path)
        database = sqlite3.connect(path, timeout=_LOCKED_SECONDS, check_same_thread=False)
        database.text_factory = bytes  # what is not text costs its own row, not all of them
        try:
            # A lost memory is cheap, a slow disk is not.
            database.execute("PRAGMA synchronous = OFF")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version <= VERSION:
                with database:
                    database.execute(_TABLE)
            database.execute("SELECT count(*) FROM conversations").fetchone()
        except sqlite3.DatabaseError:
            database.close()
            raise
        return database

    def _guard(self, job: Callable[[], object]) -> None:
        try:
            job()
        except (OSError, RuntimeError, sqlite3.Error) as error:
            self._warn(str(error))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            logger.warning(f"boundaries are remembered in the process alone: {reason}")
        self._warned = True


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether a file is no database, or a torn one; else it is locked, full, or another's form."""
    return type(error) is sqlite3.DatabaseError


def _mask_alike(some: Branches, others: Branches) -> bool:
    """Whether conversations differ in their latest requests alone; without any, they do not."""
    if not some or len(some) != len(others):
        return False
    pairs = zip(some, others, strict=True)
    return all((one.met, one.moves) == (other.met, other.moves) for one, other in pairs)


def _identify(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _make_file(path: Path) -> None:
    """Make an empty file, where there is none, before SQLite makes one that others may read."""
    os.close(open_private(str(path), os.O_CREAT | os.O_RDWR))
