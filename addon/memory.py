"""What the proxy remembers of conversations: where the boundary of each one is, and its file.

There are two memories: of what was sent masked, and of what was only observed. The latter goes on
as if it had been sent, so that its figures are those of masking. But nothing of it was sent: once
such a conversation is masked, it is one that is met for the first time.

Each memory has a small private SQLite database in the user's state folder. It is read once, when it
is first needed, and written by a thread of its own after requests have left. Nothing is written to
it before it has been read, because what it holds would be lost. What was masked is written at once.
Where only the time and the place of the latest request are new, that waits up to a second for
others, because a transaction costs more than all else here.

Any failure is logged once, and never stops a request. A memory that is lost costs at most one
broken prefix for each conversation.
"""

import asyncio
import contextlib
import json
import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from addon.once import Once
from addon.places import make_folder, open_private
from masking.memory import (
    MAX_CONVERSATIONS,
    Anchor,
    BoundaryMemory,
    Branches,
    Memories,
    Move,
    Past,
    Remembered,
    ResultId,
    Shortened,
    ShortenedWords,
)
from masking.window import BoundaryPosition, Rendering, parse_marker, parse_template

logger = logging.getLogger("observation_masking")

SENT_FILE = "boundaries.sqlite3"
OBSERVED_FILE = "observed.sqlite3"
"""The file of those boundaries that were only observed: nothing of it was sent."""

VERSION = 1
"""The form of the file, in its `user_version`; before version 1, a result was a place.

Columns, tables, and fields of a conversation or a move may be added without a new version: versions
that do not know them preserve them. A file of a later version is read as far as it is understood,
and never written.
"""

PATIENCE = 5.0
"""Seconds to wait at the first reading for another process that has locked the file."""

_REQUEST_PATIENCE = 1.0
"""Seconds of these for which requests wait.

A request that does not wait longer breaks one prefix at most. Before bound reasoning that is a
refusal, so there it waits for as long as the file is tried for.
"""

_LOCKED_SECONDS = 0.5
"""How long one attempt waits for a lock, so that shutdown never waits longer for it."""

_WRITE_DELAY = 1.0
"""Seconds until a request is written that masked nothing new. A crash may lose that much of its
time, of which minutes decide something, and nothing of what was masked."""

_TABLE = """CREATE TABLE IF NOT EXISTS conversations
(opening BLOB PRIMARY KEY, branches TEXT NOT NULL, sent REAL NOT NULL, shortened TEXT)
WITHOUT ROWID"""
_COLUMNS = "SELECT name FROM pragma_table_info('conversations')"
_ADD_SHORTENED = "ALTER TABLE conversations ADD COLUMN shortened TEXT"
"""Files had no such column once."""

_READ = "SELECT opening, branches, shortened FROM conversations ORDER BY sent"
_READ_OLD = "SELECT opening, branches, NULL FROM conversations ORDER BY sent"
_WRITE = """INSERT INTO conversations (opening, branches, sent, shortened) VALUES (?, ?, ?, ?)
ON CONFLICT (opening) DO UPDATE
SET branches = excluded.branches, sent = excluded.sent, shortened = excluded.shortened"""
_FORGET = "DELETE FROM conversations WHERE opening = ?"
_TRIM = """DELETE FROM conversations WHERE sent <
(SELECT sent FROM conversations ORDER BY sent DESC LIMIT 1 OFFSET ?)"""

Conversations = list[tuple[bytes, Remembered]]
"""What is remembered of conversations, by their openings, the latest last."""


class _OpenMemory(NamedTuple):
    """A memory and its file; the first reading of the file, and when it began."""

    memory: BoundaryMemory
    file: "MemoryFile"
    reading: Future[None]
    since: float


class MemoryFiles:
    """The files of both memories, in `folder`; each is read when it is first needed."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._open: dict[str, _OpenMemory] = {}

    async def open(self, *, observes: bool, patiently: bool = False) -> Memories:
        """Return the memories; that of what is observed only if anything is.

        All requests wait for the same first reading of a file, until a second after it has begun;
        `patiently`, as long as it goes on.
        """
        names = (SENT_FILE, OBSERVED_FILE) if observes else (SENT_FILE,)
        opened = [self._open.get(name) or self._begin(name) for name in names]
        for _, _, reading, since in opened[:1] if patiently else opened:
            left = since + (PATIENCE if patiently else _REQUEST_PATIENCE) - time.monotonic()
            if not reading.done() and left > 0:
                await asyncio.wait([asyncio.wrap_future(reading)], timeout=left)
        sent, *observed = (memory for memory, *_ in opened)
        return Memories(sent, observed[0] if observed else None, not opened[0].reading.done())

    def close(self) -> None:
        """Write what is remembered."""
        for opened in self._open.values():
            opened.file.close()

    def _begin(self, name: str) -> _OpenMemory:
        memory = BoundaryMemory(lambda opening, remembered: file.write(opening, remembered))
        file = MemoryFile(self._folder, name, memory.load)
        self._open[name] = _OpenMemory(memory, file, file.begin_reading(), time.monotonic())
        return self._open[name]


# The file


class MemoryFile:
    """Remembered conversations on disk, in `folder`. Several processes may share the file.

    `load` takes what was in it, once that is read, in a thread of the file's own.
    """

    def __init__(
        self,
        folder: Callable[[], Path],
        name: str = SENT_FILE,
        load: Callable[[Conversations], object] = lambda _: None,
    ) -> None:
        self._folder, self._name, self._load = folder, name, load
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory")
        self._identity: tuple[int, int] | None = None
        """The device and the inode of the file that is open."""
        self._is_read, self._once = False, Once()
        self._waiting: dict[bytes, Remembered] = {}
        self._written: dict[bytes, Remembered] = {}
        """What is in the file, as far as this process knows."""
        self._is_scheduled = False
        self._is_urgent, self._is_closing = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def begin_reading(self) -> Future[None]:
        """Read the file in a thread of its own, as asyncio's threads also look up hosts.

        What cannot be read by then is read later, before anything is written.
        """
        return self._thread.submit(self._guard, self._read_patiently)

    def read(self) -> Conversations:
        """Return what is in the file now, without what cannot be read."""
        self._hurry()
        found: Conversations = []
        self._thread.submit(self._guard, lambda: found.extend(self._read_all())).result()
        return found

    def write(self, opening: bytes, remembered: Remembered) -> None:
        """Write what is remembered with an opening soon, or remove it if that is nothing."""
        with self._lock:
            self._waiting[opening] = remembered
            if len(self._waiting) > 2 * MAX_CONVERSATIONS:  # the file takes nothing
                waiting = self._waiting.items()
                self._waiting = {opening: kept for opening, kept in waiting if not kept.is_nothing}
            if not _change_alike(remembered, self._written.get(opening, Remembered())):
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

    def _write_all_again(self) -> None:
        """Let what the lost file held wait to be written into the next one."""
        with self._lock:
            self._waiting = {**self._written, **self._waiting}

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
        found = self._read_all()
        self._written = dict(found)
        self._is_read = True
        self._load(found)

    def _read_all(self) -> Conversations:
        try:
            rows = _read_rows(self._open())
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._begin_anew(error)
            rows = []
        found = (
            (opening, Remembered(decode_branches(branches), *decode_shortened(shortened)))
            for opening, branches, shortened in rows
        )
        return [each for each in found if not each[1].is_nothing]

    def _write(self) -> None:
        """Write the latest of each conversation that is waiting, once that is urgent or due."""
        # Unless something was masked, let more requests come: a transaction costs more than rows.
        self._is_urgent.wait(_WRITE_DELAY)
        try:
            if not self._is_read:
                self._read_once()
            database = self._open()
        finally:
            # Whatever comes from here on schedules a write of its own, even if this one fails.
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
                for opening, remembered in waiting.items():
                    if remembered.is_nothing:
                        database.execute(_FORGET, (opening,))
                        continue
                    branches = remembered.branches
                    sent = max((past.sent for past in branches), default=time.time())
                    texts = encode_branches(branches), encode_shortened(remembered)
                    database.execute(_WRITE, (opening, texts[0], sent, texts[1]))
        except sqlite3.DatabaseError as error:  # locked, or the disk is full: perhaps not for good
            if _is_damage(error):
                self._begin_anew(error)
                self._write_all_again()
            raise
        # What was replaced while this wrote goes on waiting.
        with self._lock:
            for opening, remembered in waiting.items():
                if self._waiting.get(opening) is remembered:
                    del self._waiting[opening]
                self._written[opening] = remembered
                if remembered.is_nothing:
                    del self._written[opening]
            if not self._waiting:  # all that became urgent meanwhile is written
                self._is_urgent.clear()

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
                path = self._folder() / self._name
                self._warn(f"{path} was written by a later version, and is left unchanged")
            yield version

    def _open(self) -> sqlite3.Connection:
        path = self._folder() / self._name
        if self._database is not None and _identify(path) != self._identity:
            # It was deleted, or put aside by another process: writes to it would be lost.
            self._database.close()
            self._database = None
            self._write_all_again()
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
                f"{path} is damaged ({error}): renamed to {aside.name}, a new file is started"
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
                    _add_column(database)
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
        if self._once.is_first():
            logger.warning(f"boundaries are kept in memory only: {reason}")


def _has_column(database: sqlite3.Connection) -> bool:
    """Whether a file has a place for what was shortened."""
    return (b"shortened",) in database.execute(_COLUMNS).fetchall()


def _add_column(database: sqlite3.Connection) -> None:
    """Add what an older file lacks; another process may be doing so just now."""
    if not _has_column(database):
        try:
            database.execute(_ADD_SHORTENED)
        except sqlite3.OperationalError:
            if not _has_column(database):
                raise


def _read_rows(database: sqlite3.Connection) -> list[tuple[bytes, bytes, bytes | None]]:
    """Return all rows; a file of a later version may lack a column of ours."""
    return database.execute(_READ if _has_column(database) else _READ_OLD).fetchall()


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether a file is no database, or a torn one; else it is locked, full, or another's form."""
    return type(error) is sqlite3.DatabaseError


def _change_alike(some: Remembered, others: Remembered) -> bool:
    """Whether conversations differ in their latest requests alone; without any, they do not."""
    if some.is_nothing or others.is_nothing or len(some.branches) != len(others.branches):
        return False
    if some.shortened != others.shortened:
        return False
    pairs = zip(some.branches, others.branches, strict=True)
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


# A conversation in the file


_Json = Any
"""Whatever JSON may hold. What does not fit raises, and is then not a record."""


def encode_branches(branches: Branches) -> str:
    """Return conversations as one line of JSON: places, numbers, digests, no content.

    A later version may add fields to a conversation and to a move: they are carried along. Whatever
    an earlier version must not pass over needs another `VERSION`.
    """
    return json.dumps([_encode_past(past) for past in branches], separators=(",", ":"))


def decode_branches(text: str | bytes) -> Branches:
    """Return the conversations that `encode_branches` has written; none for any other text."""
    try:
        return tuple(_decode_past(dict(past)) for past in json.loads(text))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return ()


def encode_shortened(known: Remembered) -> str | None:
    """Return how results were shortened, and in which requests, as one line of JSON.

    None if there is nothing of that. The words stand once, and each result by its key, in
    hexadecimal digits, with their number.
    """
    shortened = known.shortened
    if not (shortened or known.requests):
        return None
    words = [*dict.fromkeys(shortened.values())]
    numbers = {each: number for number, each in enumerate(words)}
    results = {key.hex(): numbers[each] for key, each in shortened.items()}
    written: dict[str, object] = {
        "words": [each._asdict() for each in words],
        "results": results,
    }
    if known.requests:
        written["requests"] = [*map(_encode_anchor, known.requests)]
    return json.dumps(written, separators=(",", ":"))


def decode_shortened(text: str | bytes | None) -> tuple[Shortened, tuple[Anchor, ...]]:
    """Return the results and requests that `encode_shortened` has written.

    None for any other text.
    """
    if text is None:
        return {}, ()
    try:
        written = json.loads(text)
        words = [_decode_words(**each) for each in written["words"]]
        results = {bytes.fromhex(key): words[_count(n)] for key, n in written["results"].items()}
        return results, tuple(map(_decode_anchor, written.get("requests", ())))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}, ()


def _decode_words(**fields: _Json) -> ShortenedWords:
    words = ShortenedWords(**fields)
    parse_marker(words.marker_template, _count(words.arguments_chars))
    for length in words[:3]:
        _count(length)
    return words


def _encode_past(past: Past) -> dict[str, object]:
    moves = [*map(_encode_move, past.moves)]
    return {
        "met": _encode_anchor(past.met),
        "moves": [] if past.cleared else moves,
        "last": _encode_anchor(past.last),
        "sent": past.sent,
        **_encode_read(past.last),
        # Versions that do not know this carry it along, and mask nothing of it.
        **({"cleared": moves} if past.cleared else {}),
        **({"drops_reasoning": True} if past.drops_reasoning else {}),
        **past.unknown,
    }


def _decode_past(past: dict[str, _Json]) -> Past:
    moves, cleared = past.pop("moves"), past.pop("cleared", [])
    return Past(
        met=_decode_anchor(past.pop("met")),
        moves=tuple(map(_decode_move, [*moves, *cleared])),
        last=_decode_anchor(past.pop("last"), past.pop("read", None)),
        sent=_time(past.pop("sent")),
        cleared=bool(cleared),
        drops_reasoning=past.pop("drops_reasoning", False) is True,
        unknown=past,
    )


def _encode_move(move: Move) -> dict[str, object]:
    return {
        "at": _encode_anchor(move.anchor),
        "boundary": move.boundary,
        "results": [_encode_result(result) for result in move.results],
        "rendering": move.rendering._asdict(),
        **_encode_read(move.anchor),
        **move.unknown,
    }


def _decode_move(move: _Json) -> Move:
    if isinstance(move, list):
        return _decode_places(*move)
    move = dict(move)
    return Move(
        _decode_anchor(move.pop("at"), move.pop("read", None)),
        BoundaryPosition(*map(_count, move.pop("boundary"))),
        tuple(_decode_result(*result) for result in move.pop("results")),
        _decode_rendering(**move.pop("rendering")),
        move,
    )


def _decode_places(anchor: _Json, boundary: _Json, places: _Json, rendering: _Json) -> Move:
    """Return a move of the first form, in which a result was a place."""
    return Move(
        _decode_anchor(anchor),
        BoundaryPosition(*map(_count, boundary)),
        tuple(ResultId(_count(place), None, None) for place in places),
        _decode_rendering(*rendering),  # the earliest have fewer fields
    )


def _encode_result(result: ResultId) -> tuple[int, int | None, str | None]:
    digest = None if result.digest is None else result.digest.hex()
    return result.place, result.turn, digest


def _decode_result(place: _Json, turn: _Json, digest: _Json) -> ResultId:
    if digest is None:
        return ResultId(_count(place), None, None)
    return ResultId(_count(place), _count(turn), bytes.fromhex(digest))


def _decode_rendering(
    template: _Json, must_shrink: _Json, *others: _Json, **named: _Json
) -> Rendering:
    parse_template(template)
    rendering = Rendering(template, must_shrink, *others, **named)
    _count(rendering.arguments_chars)
    _count(rendering.min_chars)
    return rendering._replace(
        must_shrink=bool(must_shrink),
        in_lists=bool(rendering.in_lists),
        images=bool(rendering.images),
    )


def _encode_anchor(anchor: Anchor) -> list[object]:
    return [anchor.answers, anchor.digest.hex()]


def _encode_read(anchor: Anchor) -> dict[str, object]:
    """Return the field beside a place that earlier versions do not know."""
    return {} if anchor.read is None else {"read": anchor.read.hex()}


def _decode_anchor(anchor: _Json, read: _Json = None) -> Anchor:
    answers, digest = anchor
    return Anchor(
        _count(answers), bytes.fromhex(digest), None if read is None else bytes.fromhex(read)
    )


def _count(value: _Json) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("expected a count")
    return value


def _time(value: _Json) -> float:
    if not math.isfinite(time := float(value)):
        raise ValueError("expected a time")
    return time
