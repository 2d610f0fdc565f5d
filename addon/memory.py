"""What the proxy remembers of conversations: where the boundary of each one is, and their rows.

There are two memories: of what was sent masked, and of what was only observed. The latter goes on
as if it had been sent, so that its figures are those of masking. But nothing of it was sent: once
such a conversation is masked, it is one that is met for the first time.

Both are in the database of what requests depend on (`addon/store.py`), which has what was learned
of accounts, too. They are read once, when they are first needed. What was masked is written at
once; where only the time and the place of the latest request are new, that waits up to a second for
others. A memory that is lost costs at most one broken prefix for each conversation.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from addon import accounts
from addon.places import MEMORY_FILE
from addon.store import Database, Earlier, Form, Rows, Store
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

PATIENCE = 5.0
"""Seconds to wait at the first reading for another process that has locked the file."""

_REQUEST_PATIENCE = 1.0
"""Seconds of these for which requests wait.

A request that does not wait longer breaks one prefix at most. Before bound reasoning that is a
refusal, so there it waits for as long as the file is tried for.
"""

_WRITE_DELAY = 1.0
"""Seconds until a request is written that masked nothing new. A crash may lose that much of its
time, of which minutes decide something, and nothing of what was masked."""

_TABLE = """CREATE TABLE IF NOT EXISTS conversations (observed INTEGER NOT NULL,
opening BLOB NOT NULL, branches TEXT NOT NULL, shortened TEXT, sent REAL NOT NULL,
PRIMARY KEY (observed, opening)) WITHOUT ROWID"""

_READ = "SELECT observed, opening, branches, shortened FROM conversations ORDER BY sent"
_WRITE = """INSERT INTO conversations (observed, opening, branches, shortened, sent)
VALUES (?, ?, ?, ?, ?) ON CONFLICT (observed, opening) DO UPDATE
SET branches = excluded.branches, shortened = excluded.shortened, sent = excluded.sent"""
_FORGET = "DELETE FROM conversations WHERE observed = ? AND opening = ?"
_TRIM = """DELETE FROM conversations WHERE observed = ?1 AND sent <
(SELECT sent FROM conversations WHERE observed = ?1 ORDER BY sent DESC LIMIT 1 OFFSET ?2)"""

_WRITE_EARLIER = "INSERT OR IGNORE INTO conversations VALUES (?, ?, ?, ?, ?)"

FORM = Form(
    name=MEMORY_FILE,
    version=1,
    tables=(_TABLE, *accounts.TABLES),
    problem="what is known of conversations and accounts is kept in memory only",
    patience=0.5,  # it is also waited for at the end, and by the first request of an account
    earlier=(
        Earlier(
            "boundaries.sqlite3",
            "SELECT 0, opening, branches, shortened, sent FROM conversations",
            _WRITE_EARLIER,
        ),
        Earlier(
            "observed.sqlite3",
            "SELECT 1, opening, branches, shortened, sent FROM conversations",
            _WRITE_EARLIER,
        ),
        *accounts.EARLIER,
    ),
)
"""What requests depend on. A field that is added to a conversation needs another version: this one
would lose it."""

Key = tuple[bool, bytes]
"""Whether a conversation was only observed, and its opening."""

Conversations = dict[Key, Remembered]
"""What is remembered of conversations, the latest last."""


def open_memory(folder: Callable[[], Path]) -> Store:
    """Return the database in `folder` of what requests depend on."""
    return Store(folder, FORM)


class MemoryRows:
    """Both memories, and their rows; these are read when a memory is first needed."""

    def __init__(self, store: Store) -> None:
        self._sent = BoundaryMemory(lambda *changed: self._put(False, *changed))
        self._observed = BoundaryMemory(lambda *changed: self._put(True, *changed))
        self._rows: Rows[Key, Remembered] = Rows(
            store,
            "memory",
            self._write,
            read=read_conversations,
            load=self._load,
            is_urgent=lambda new, old: not _change_alike(new, old or Remembered()),
            delay=_WRITE_DELAY,
            most=4 * MAX_CONVERSATIONS,
        )
        self._reading: Future[None] | None = None
        self._since = 0.0
        self._is_trimmed = False

    async def open(self, *, observes: bool, patiently: bool = False) -> Memories:
        """Return the memories; that of what is observed only if anything is.

        All requests wait for the same first reading, until a second after it has begun;
        `patiently`, as long as it goes on.
        """
        if self._reading is None:
            self._reading, self._since = self._rows.begin_reading(PATIENCE), time.monotonic()
        left = self._since + (PATIENCE if patiently else _REQUEST_PATIENCE) - time.monotonic()
        if not self._reading.done() and left > 0:
            await asyncio.wait([asyncio.wrap_future(self._reading)], timeout=left)
        observed = self._observed if observes else None
        return Memories(self._sent, observed, not self._reading.done())

    def close(self) -> None:
        """Write what is remembered."""
        self._rows.close()

    def _put(self, observed: bool, opening: bytes, remembered: Remembered) -> None:
        self._rows.put((observed, opening), remembered)

    def _load(self, found: Mapping[Key, Remembered]) -> None:
        for memory, observed in ((self._sent, False), (self._observed, True)):
            memory.load((key[1], known) for key, known in found.items() if key[0] is observed)

    def _write(self, database: Database, rows: Mapping[Key, Remembered]) -> None:
        if not self._is_trimmed:  # once a process, as this looks at all rows
            for observed in (False, True):
                database.execute(_TRIM, (observed, MAX_CONVERSATIONS - 1))
            self._is_trimmed = True
        for key, remembered in rows.items():
            if remembered.is_nothing:
                database.execute(_FORGET, key)
                continue
            branches = remembered.branches
            sent = max((past.sent for past in branches), default=time.time())
            texts = encode_branches(branches), encode_shortened(remembered)
            database.execute(_WRITE, (*key, *texts, sent))


def read_conversations(database: Database) -> Conversations:
    """Return what is remembered; rows that make no sense are passed over."""
    found = {
        (bool(observed), opening): Remembered(
            decode_branches(branches), *decode_shortened(shortened)
        )
        for observed, opening, branches, shortened in database.execute(_READ)
        if isinstance(opening, bytes)
    }
    return {key: known for key, known in found.items() if not known.is_nothing}


def _change_alike(some: Remembered, others: Remembered) -> bool:
    """Whether conversations differ in their latest requests alone; without any, they do not."""
    if some.is_nothing or others.is_nothing or len(some.branches) != len(others.branches):
        return False
    if some.shortened != others.shortened:
        return False
    pairs = zip(some.branches, others.branches, strict=True)
    return all((one.met, one.moves) == (other.met, other.moves) for one, other in pairs)


# A conversation in the file


_Json = Any
"""Whatever JSON may hold. What does not fit raises, and is then not a record."""


def encode_branches(branches: Branches) -> str:
    """Return conversations as one line of JSON: places, numbers, digests, no content."""
    return json.dumps([_encode_past(past) for past in branches], separators=(",", ":"))


def decode_branches(text: str | bytes) -> Branches:
    """Return the conversations that `encode_branches` has written; none for any other text."""
    try:
        return tuple(_decode_past(past) for past in json.loads(text))
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
        **({"cleared": moves} if past.cleared else {}),
        **({"drops_reasoning": True} if past.drops_reasoning else {}),
    }


def _decode_past(past: _Json) -> Past:
    cleared = past.get("cleared", [])
    return Past(
        met=_decode_anchor(past["met"]),
        moves=tuple(map(_decode_move, [*past["moves"], *cleared])),
        last=_decode_anchor(past["last"], past.get("read")),
        sent=_time(past["sent"]),
        cleared=bool(cleared),
        drops_reasoning=past.get("drops_reasoning") is True,
    )


def _encode_move(move: Move) -> dict[str, object]:
    return {
        "at": _encode_anchor(move.anchor),
        "boundary": move.boundary,
        "results": [_encode_result(result) for result in move.results],
        "rendering": move.rendering._asdict(),
        **_encode_read(move.anchor),
    }


def _decode_move(move: _Json) -> Move:
    return Move(
        _decode_anchor(move["at"], move.get("read")),
        BoundaryPosition(*map(_count, move["boundary"])),
        tuple(_decode_result(*result) for result in move["results"]),
        _decode_rendering(**move["rendering"]),
    )


def _encode_result(result: ResultId) -> tuple[int, int | None, str]:
    return result.place, result.turn, result.digest.hex()


def _decode_result(place: _Json, turn: _Json, digest: _Json) -> ResultId:
    return ResultId(_count(place), _count(turn), bytes.fromhex(digest))


def _decode_rendering(**fields: _Json) -> Rendering:
    rendering = Rendering(**fields)
    parse_template(rendering.template)
    _count(rendering.arguments_chars)
    _count(rendering.min_chars)
    return rendering._replace(
        must_shrink=bool(rendering.must_shrink),
        in_lists=bool(rendering.in_lists),
        images=bool(rendering.images),
    )


def _encode_anchor(anchor: Anchor) -> list[object]:
    return [anchor.answers, anchor.digest.hex()]


def _encode_read(anchor: Anchor) -> dict[str, object]:
    """Return the field beside a place, which 0.2.0 did not write."""
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
