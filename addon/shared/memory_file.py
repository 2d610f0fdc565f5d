"""The file of remembered boundaries: a small private SQLite database in the user's state folder.

It is read once, when it is first needed, and written by a thread of its own after requests have
left. What was masked is written at once. Where only the time and the place of the latest request
are new, that waits up to a second for others, because a transaction costs more than all else here.

Whatever goes wrong with it is one warning. A memory that is lost costs at most one broken prefix
for each conversation.
"""

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from addon.metrics.private_files import make_folder, open_private
from addon.shared.memory_record import decode, encode
from masking.memory.boundary_memory import MAX_CONVERSATIONS, Branches

logger = logging.getLogger("observation_masking")

NAME = "boundaries.sqlite3"
OBSERVED = "observed.sqlite3"
"""The file of those boundaries that were only observed: nothing of it was sent."""

PATIENCE = 5.0
"""Seconds to wait for another process that is writing."""

_WAIT = 1.0
"""Seconds until a request is written that masked nothing new. A crash may lose that much of its
time, of which minutes decide something, and nothing of what was masked."""

_TABLE = """CREATE TABLE IF NOT EXISTS conversations
(opening BLOB PRIMARY KEY, branches TEXT NOT NULL, sent REAL NOT NULL) WITHOUT ROWID"""
_READ = "SELECT opening, branches FROM conversations ORDER BY sent"
_WRITE = "INSERT OR REPLACE INTO conversations VALUES (?, ?, ?)"
_FORGET = "DELETE FROM conversations WHERE opening = ?"
_TRIM = """DELETE FROM conversations WHERE sent <
(SELECT sent FROM conversations ORDER BY sent DESC LIMIT 1 OFFSET ?)"""


class MemoryFile:
    """Remembered conversations on disk, in `folder`. Several processes may share the file."""

    def __init__(self, folder: Callable[[], Path], name: str = NAME) -> None:
        self._folder, self._name = folder, name
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory")
        self._waiting: dict[bytes, Branches] = {}
        self._written: dict[bytes, Branches] = {}
        self._is_urgent = threading.Event()
        self._lock = threading.Lock()
        self._warned = False

    def read(self) -> list[tuple[bytes, Branches]]:
        """Return all conversations, the latest last, without those that cannot be read."""
        return self.begin_reading().result()

    def begin_reading(self) -> Future[list[tuple[bytes, Branches]]]:
        """Read as `read` does, in the file's own thread: asyncio's also resolve names."""
        self._hurry()
        return self._thread.submit(self._read_all)

    def write(self, opening: bytes, branches: Branches) -> None:
        """Write a conversation soon, or remove it if it has no branches."""
        with self._lock:
            is_under_way = bool(self._waiting)
            self._waiting[opening] = branches
            if not _mask_alike(branches, self._written.get(opening, ())):
                self._is_urgent.set()
        if not is_under_way:
            with contextlib.suppress(RuntimeError):  # closed: the proxy is ending
                self._thread.submit(self._guard, self._write)

    def close(self) -> None:
        """Write what is still waiting, and close the file."""
        self._hurry()
        with contextlib.suppress(RuntimeError):  # closed already
            self._thread.submit(self._guard, self._trim)
        self._thread.shutdown(wait=True)
        if self._database is not None:
            self._database.close()

    def _hurry(self) -> None:
        """Have what is waiting written now."""
        with self._lock:
            if self._waiting:
                self._is_urgent.set()

    def _read_all(self) -> list[tuple[bytes, Branches]]:
        rows = self._guard(self._read)
        return [(opening, branches) for opening, text in rows if (branches := decode(text))]

    def _read(self) -> list[tuple[bytes, bytes]]:
        return list(self._open().execute(_READ))

    def _write(self) -> None:
        """Write the latest of each conversation that is waiting, once that is urgent or due."""
        self._is_urgent.wait(_WAIT)
        with self._lock:
            self._is_urgent.clear()
            waiting, self._waiting = self._waiting, {}
        with self._open() as database:
            for opening, branches in waiting.items():
                if branches:
                    sent = max(past.sent for past in branches)
                    database.execute(_WRITE, (opening, encode(branches), sent))
                else:
                    database.execute(_FORGET, (opening,))
        with self._lock:
            self._written |= waiting
            for opening in (opening for opening, branches in waiting.items() if not branches):
                del self._written[opening]

    def _trim(self) -> None:
        if self._database is not None:
            with self._open() as database:
                database.execute(_TRIM, (MAX_CONVERSATIONS - 1,))

    def _open(self) -> sqlite3.Connection:
        path = self._folder() / self._name
        if self._database is not None and not path.exists():  # it takes nothing any more
            self._database.close()
            self._database = None
        if self._database is None:
            make_folder(path.parent)
            _make_file(path)
            try:
                self._database = _connect(path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # locked, or not to be written
                    raise
                logger.warning(f"{path} is damaged ({error}): a new file is started")
                path.unlink()
                _make_file(path)
                self._database = _connect(path)
        return self._database

    def _guard(
        self, job: Callable[[], list[tuple[bytes, bytes]] | None]
    ) -> list[tuple[bytes, bytes]]:
        try:
            return job() or []
        except (OSError, RuntimeError, sqlite3.Error) as error:
            if not self._warned:
                logger.warning(f"boundaries are remembered in the process alone: {error}")
            self._warned = True
            return []


def _mask_alike(some: Branches, others: Branches) -> bool:
    """Whether conversations differ in their latest requests alone; without any, they do not."""
    if not some or len(some) != len(others):
        return False
    pairs = zip(some, others, strict=True)
    return all((one.met, one.moves) == (other.met, other.moves) for one, other in pairs)


def _make_file(path: Path) -> None:
    """Make an empty file, where there is none, before SQLite makes one that others may read."""
    os.close(open_private(str(path), os.O_CREAT | os.O_RDWR))


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False)
    database.execute("PRAGMA synchronous = OFF")  # a lost memory is cheap, a slow disk is not
    database.text_factory = bytes  # what is not text costs its own row, not all of them
    with database:
        database.execute(_TABLE)
        database.execute("SELECT count(*) FROM conversations").fetchone()
    return database
