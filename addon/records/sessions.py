"""The history: what each session came to, one row a session, however long its records are kept.

A session is what a user would call one: what an agent sends under one session id, sub-agents and
compactions included; where a client names no id, a conversation. Its row lies in a database of its
own (`addon/store.py`). The records, of 2.2 kB each, are rotated; the rows, of under 1 kB a session,
stay. Where there is no history yet, or where it was damaged, it is made from the records.

It is a database rather than lines of JSON because a row is replaced whenever its session goes on,
by several processes: so nothing has to be compacted. Each process writes rows of its own, and a
reader adds those of a session up. So several proxies, or one that is restarted, continue a session
without reading what another has written. A row is written a few seconds after a request at the
latest: that much a killed process loses.
"""

import contextlib
import logging
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from addon.agents import AGENTS
from addon.places import make_folder, open_private, release_lock, take_lock
from addon.records.file import read_records
from addon.records.record import RequestRecord
from addon.records.tally import Tally
from addon.records.words import explain_unmasked, why_lost
from addon.store import Database, Form, Rows, Store
from addon.threads import Log
from masking.accounting import NO_BILL, Bill
from masking.conversation import Conversation
from masking.errors import printable

logger = logging.getLogger("observation_masking")

FILE = "history.sqlite3"
RUNS = "runs"

MAX_SESSIONS = 20_000
"""Rows; with more, those that ended first are dropped. Some 18 MB."""

_MAX_OPEN = 500
"""Sessions of a process whose sums are in memory; one that is idle for longest begins a new row."""

_WRITE_SECONDS = 5.0
"""How long a row may wait for others to be written with it."""

_MAX_NAME = 64
_MAX_MODELS = 8
_MAX_WAITS = 20
"""The latest answers, of which a row has the time until they began."""

IDLE = timedelta(minutes=15)
"""A session without a request for longer has ended, though its proxy runs."""

_TABLE = """CREATE TABLE IF NOT EXISTS sessions (session TEXT NOT NULL, writer TEXT NOT NULL,
last TEXT NOT NULL, sums BLOB NOT NULL, PRIMARY KEY (session, writer)) WITHOUT ROWID"""
_READ = "SELECT sums FROM sessions ORDER BY last"
_WRITE = """INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT (session, writer)
DO UPDATE SET last = excluded.last, sums = excluded.sums"""
_TRIM = """DELETE FROM sessions WHERE last <
(SELECT last FROM sessions ORDER BY last DESC LIMIT 1 OFFSET ?)"""

_FORM = Form(
    name=FILE,
    version=1,
    tables=(_TABLE,),
    problem="the history of sessions is not written",
    patience=2.0,
)


class Session(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a session came to, or a part of it that one process saw.

    session: its client's id for it, else that of its conversation.
    writer: who wrote it, see `SessionLog`.
    began, last: when its first and its latest request arrived, in UTC (ISO 8601).
    agent: the client; None if it does not say.
    folder: the last part of the name of the folder that it works in; None if no request shows it.
    is_observed: whether it was only observed, so that its bill says what masking would have done.
    group: as in a record.
    turns, results, masked: the most tool turns, tool results and masked results of any request.
    prompt, cached: tokens as the provider reported them, where it reported both.
    waits: seconds until the latest streamed answers began.
    bill: what its requests cost, and would have cost without us; without those that were observed,
        unless all were.
    why: why nothing was masked; None if something was.
    loss: why masking cost more than it saved, and when that turns; None if it did not.
    shortened: the most results of any request that were sent shortened.
    arrival_rereads, arrival_quotes: calls that repeat one whose result was shortened, or quote what
        was left out.
    """

    session: str
    writer: str
    began: str
    last: str
    run: str | None = None
    tag: str | None = None
    agent: str | None = None
    models: tuple[str, ...] = ()
    host: str = ""
    folder: str | None = None
    conversations: int = 0
    is_observed: bool = False
    group: str | None = None
    requests: int = 0
    failed: int = 0
    turns: int = 0
    results: int = 0
    masked: int = 0
    prompt: int = 0
    cached: int = 0
    waits: tuple[float, ...] = ()
    bill: Bill = NO_BILL
    why: str | None = None
    loss: str | None = None
    shortened: int = 0
    arrival_rereads: int = 0
    arrival_quotes: int = 0

    @property
    def wait(self) -> float | None:
        """The median of the times until its latest answers began; None without a stream."""
        from statistics import median  # a proxy starts without it: it loads a good deal

        return median(self.waits) if self.waits else None

    def __add__(self, later: "Session") -> "Session":
        """Return both parts of a session together; what is no sum is that of the later one."""
        first, last = (self, later) if self.last <= later.last else (later, self)
        is_observed = self.is_observed and later.is_observed
        # What was observed of a session that was masked, too, is in no bill.
        bills = [each.bill for each in (self, later) if each.is_observed == is_observed]
        return replace(
            last,
            began=min(self.began, later.began),
            tag=last.tag or first.tag,
            agent=last.agent or first.agent,
            models=_join(first.models, last.models),
            folder=last.folder or first.folder,
            conversations=max(self.conversations, later.conversations),
            is_observed=is_observed,
            requests=self.requests + later.requests,
            failed=self.failed + later.failed,
            turns=max(self.turns, later.turns),
            results=max(self.results, later.results),
            masked=max(self.masked, later.masked),
            prompt=self.prompt + later.prompt,
            cached=self.cached + later.cached,
            waits=(*first.waits, *last.waits)[-_MAX_WAITS:],
            bill=sum(bills, start=NO_BILL),
            why=last.why if self.why and later.why else None,
            loss=last.loss,
            shortened=max(self.shortened, later.shortened),
            arrival_rereads=self.arrival_rereads + later.arrival_rereads,
            arrival_quotes=self.arrival_quotes + later.arrival_quotes,
        )


def _join(first: tuple[str, ...], last: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *last)))[-_MAX_MODELS:]


# Writing


class _Open:
    """A session as it grows in this process."""

    def __init__(self, session: str, writer: str, record: RequestRecord) -> None:
        self._session, self.writer = session, writer
        self._first = self._latest = record
        self._tally = Tally()
        self._models: tuple[str, ...] = ()
        self._waits: tuple[float, ...] = ()
        self._folder: str | None = None
        self._turns = self._results = self._masked = self._shortened = 0

    def add(self, record: RequestRecord) -> None:
        self._tally.add(record)
        self._latest = max(self._latest, record, key=lambda each: each.time)
        self._first = min(self._first, record, key=lambda each: each.time)
        if record.model:
            self._models = _join(self._models, (record.model[:_MAX_NAME],))
        if record.first_chunk_seconds is not None:
            self._waits = (*self._waits, record.first_chunk_seconds)[-_MAX_WAITS:]
        self._folder = record.folder or self._folder
        self._turns = max(self._turns, record.tool_turns or 0)
        self._results = max(self._results, record.tool_results or 0)
        self._masked = max(self._masked, record.replaced)
        self._shortened = max(self._shortened, record.shortened)

    def summarize(self) -> Session:
        """Return what it came to so far."""
        tally, latest = self._tally, self._latest
        shown = tally.shown
        return Session(
            session=self._session,
            writer=self.writer,
            began=self._first.time,
            last=latest.time,
            run=latest.run,
            tag=latest.tag,
            agent=latest.client,
            models=self._models,
            host=latest.host,
            folder=self._folder,
            conversations=len(tally.conversations),
            is_observed=tally.is_observed_only,
            group=latest.group,
            requests=tally.count,
            failed=tally.failed,
            turns=self._turns,
            results=self._results,
            masked=self._masked,
            prompt=tally.prompt_tokens,
            cached=tally.cached_tokens,
            waits=tuple(round(each, 3) for each in self._waits),
            bill=replace(shown.masked_bill, roads={}),  # nobody reads those here, and rows are many
            why=None if shown.changed else explain_unmasked(tally),
            loss=why_lost(shown),
            shortened=self._shortened,
            arrival_rereads=shown.arrival.rereads,
            arrival_quotes=shown.arrival.quotes,
        )


def name_session(record: RequestRecord) -> str | None:
    """Return the id of the session that a request belongs to; None if nothing tells."""
    return record.session or record.conversation_id


def open_history(
    folder: Callable[[], Path],
    records: Callable[[], Path] | None = None,
    own: Iterable[str | None] = (),
    log: Log = logger.log,
) -> Store:
    """Return the history in `folder`.

    records: where the records are, from which it is made if there is none yet.
    own: runs of the caller, who writes their rows himself, as do the proxies that are running then.
    """

    def fill() -> Callable[[Database], object]:
        left_out = {*own, *(each.run for each in list_running(folder()))}
        found: dict[tuple[str, str | None], _Open] = {}
        try:
            for record in read_records(records()) if records is not None else ():
                session = name_session(record)
                if record.replay or session is None or record.run in left_out:
                    continue
                key = session, record.run
                if key not in found:
                    found[key] = _Open(session, f"{record.run}.0", record)
                found[key].add(record)
        except OSError as error:  # they may never be readable: the history begins without them
            line = f"the history of sessions lacks what the records hold: {error}"
            log(logging.WARNING, line)
        rows = [each.summarize() for each in found.values()]
        return lambda database: write_sessions(database, rows)

    return Store(folder, _FORM, fill=fill, log=log)


def write_sessions(database: Database, rows: Iterable[Session]) -> None:
    """Write rows, each in place of an earlier one."""
    encoded = [(each.session, each.writer, each.last, msgspec.json.encode(each)) for each in rows]
    database.executemany(_WRITE, encoded)
    database.execute(_TRIM, (MAX_SESSIONS - 1,))


class SessionLog:
    """Takes records in one thread, and writes the rows of their sessions from another, in time.

    folder: of the state. What is replayed leaves no history.
    records: where the records are, from which the history is made when there is none yet.
    """

    def __init__(
        self,
        folder: Callable[[], Path],
        log: Log,
        records: Callable[[], Path] | None = None,
        writer: str | None = None,
    ) -> None:
        self.writer = writer or secrets.token_hex(4)
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._parts = 0
        self._runs: set[str | None] = set()
        self._lock = threading.Lock()
        self._store = open_history(folder, records, self._runs, log)
        self._rows: Rows[str, Callable[[], Session]] = Rows(
            self._store,
            "sessions",
            self._write,
            is_urgent=lambda _new, _old: False,
            delay=_WRITE_SECONDS,
            most=2 * _MAX_OPEN,
        )

    def add(self, record: RequestRecord) -> None:
        """Take in a request that has ended; its session's row is written soon."""
        session = name_session(record)
        if record.replay or session is None:
            return
        with self._lock:
            self._runs.add(record.run)
            found = self._open.get(session)
            if found is None:
                self._parts += 1
                found = _Open(session, f"{self.writer}.{self._parts}", record)
                self._open[session] = found
            self._open.move_to_end(session)
            found.add(record)
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        # Each time another one: what comes in while a row is written is written with the next.
        self._rows.put(found.writer, found.summarize)

    def close(self) -> None:
        """Write what is still waiting, unless the disk does not answer."""
        self._rows.close()
        self._store.close()

    def _write(self, database: Database, rows: Mapping[str, Callable[[], Session]]) -> None:
        with self._lock:
            found = [summarize() for summarize in rows.values()]
        write_sessions(database, found)


# Reading


def read_history(database: Database) -> list[Session]:
    """Return all sessions, the latest last; rows that cannot be read are passed over."""
    found: dict[str, Session] = {}
    decoder = msgspec.json.Decoder(Session)
    for (sums,) in database.execute(_READ):
        with contextlib.suppress(msgspec.MsgspecError, TypeError, UnicodeDecodeError):
            part = decoder.decode(sums)
            known = found.pop(part.session, None)
            found[part.session] = part if known is None else known + part
    return sorted(found.values(), key=lambda each: each.last)


# The folder that an agent works in, of which only the last part is ever kept

_FOLDER = re.compile(
    f"(?:{'|'.join(dict.fromkeys(agent.folder for agent in AGENTS if agent.folder))})"
    r"(?P<path>(?:/|~/|[A-Za-z]:\\)[^\n\r<>\"')]{0,400})"
)

_FIRST = 4
"""The elements, from the first, that are searched beside the system prompt."""


def find_folder(conversation: Conversation) -> str | None:
    """Return the last part of the name of the folder that an agent says it works in."""
    texts = [*conversation.wire.find_head_texts(conversation.body)]
    for element in conversation.elements[:_FIRST]:
        texts += element.texts
    # These stay the same for as long as a conversation goes on, and a system prompt is long.
    for path in conversation.history.map_each(_find_path, texts):
        if path is not None:
            parts = [part for part in re.split(r"[/\\]", path.strip()) if part]
            return printable(parts[-1][:_MAX_NAME]) if parts else None
    return None


def _find_path(text: str) -> str | None:
    found = _FOLDER.search(text)
    return found["path"] if found else None


# The proxies that run


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that masks: its run, when it began, whose rows are its own, where its page is."""

    run: str
    began: str
    writer: str
    page: str | None = None
    tag: str | None = None


class RunFile:
    """Tells others, for as long as this process lives, that it runs, and where its page is."""

    def __init__(self, folder: Path, running: Running) -> None:
        """Write the file, and hold its lock. Raises OSError."""
        make_folder(folder / RUNS)
        self._path = folder / RUNS / f"{running.writer}.json"
        self._lock = take_lock(f"{self._path}.lock", 0.0)
        if isinstance(self._lock, str):
            raise OSError(0, self._lock, str(self._path))
        try:
            with open(self._path, "wb", opener=open_private) as file:
                file.write(msgspec.json.encode(running))
        except OSError as error:
            self.close()
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def close(self) -> None:
        """Remove the file, and its lock even if another has removed the file."""
        for left in (self._path, Path(f"{self._path}.lock")):
            with contextlib.suppress(OSError):
                left.unlink()
        if isinstance(self._lock, int):
            release_lock(self._lock)


def list_running(folder: Path) -> list[Running]:
    """Return the processes that run now, the latest first; files that others left are removed."""
    found = []
    for path in (folder / RUNS).glob("*.json"):
        lock_path = Path(f"{path}.lock")
        lock = take_lock(str(lock_path), 0.0)
        if isinstance(lock, int):  # whoever held it is gone, and may have removed the first
            for left in (path, lock_path):
                with contextlib.suppress(OSError):
                    left.unlink()
            release_lock(lock)
            continue
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Running))
    return sorted(found, key=lambda each: each.began, reverse=True)


def is_running(session: Session, writers: Iterable[str], now: datetime | None = None) -> bool:
    """Whether a session's proxy runs, and a request of it is not long ago."""
    writer = session.writer.partition(".")[0]
    try:
        age = (now or datetime.now(UTC)) - datetime.fromisoformat(session.last)
    except (ValueError, TypeError):
        return False
    return writer in writers and age < IDLE
