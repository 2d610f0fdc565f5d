"""The history in numbers, as JSON: a row for each session, and one session from its records."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from addon.page.board import Board, Described
from addon.page.describe import describe_conversation
from addon.records.file import read_records
from addon.records.sessions import (
    Session,
    fill_history,
    has_history,
    is_running,
    list_running,
    name_session,
    read_history,
)

_MOST_REQUESTS = 6_000
"""Of a session, the latest that are shown."""


class HistoryRow(NamedTuple):
    """A session as the page lists it; None is what is not known.

    key: names it in an address.
    state: "running", or "ended".
    cached: the share of the reported prompt tokens that came from the cache.
    unit: "usd", or "input_tokens" where the price of any of its requests is not known.
    before, after, error: its bill in that unit, unmasked and as it was paid, and how far off
        `before` may be.
    about: whose price that is where it is not the host's own.
    """

    key: str
    state: str
    began: str
    last: str
    agent: str | None
    models: tuple[str, ...]
    host: str
    folder: str | None
    tag: str | None
    group: str | None
    is_observed: bool
    is_plan: bool
    conversations: int
    requests: int
    failed: int
    turns: int
    results: int
    masked: int
    cached: float | None
    wait: float | None
    unit: str
    before: float
    after: float
    error: float
    about: str | None
    why: str | None


class History:
    """Sessions of the state folder; `records` says where the records are that still exist."""

    def __init__(self, folder: Callable[[], Path], records: Callable[[], Path]) -> None:
        self._folder, self._records = folder, records

    def describe(self) -> Described:
        """Return all sessions, the latest first, and the proxies that run now.

        Where there is no history yet, it is made from the records. Raises OSError, RuntimeError
        without a home, and sqlite3.Error.
        """
        folder = self._folder()
        if not has_history(folder):
            fill_history(folder, self._records())
        running = list_running(folder)
        writers = {each.writer for each in running}
        rows = [[*_describe_row(each, writers)] for each in reversed(read_history(folder))]
        return {
            "columns": HistoryRow._fields,
            "sessions": rows,
            "running": [
                {"run": each.run, "tag": each.tag, "began": each.began, "page": each.page}
                for each in running
            ],
        }

    def describe_session(self, key: str) -> Described:
        """Return the conversations of a session whose records still exist.

        Raises OSError, and RuntimeError without a home.
        """
        board = Board(max_requests=_MOST_REQUESTS)
        for record in read_records(self._records(), naming=key):
            if name_session(record) == key:
                board.add(record)
        with board.lock:
            found = board.look().conversations
        return {"key": key, "conversations": [describe_conversation(each) for each in found]}


def _describe_row(session: Session, writers: set[str]) -> HistoryRow:
    is_priced = session.dollars.requests and session.dollars.requests == session.tokens.requests
    bill = session.dollars if is_priced else session.tokens
    return HistoryRow(
        key=session.session,
        state="running" if is_running(session, writers) else "ended",
        began=session.began,
        last=session.last,
        agent=session.agent,
        models=session.models,
        host=session.host,
        folder=session.folder,
        tag=session.tag,
        group=session.group,
        is_observed=session.is_observed,
        is_plan=session.is_plan,
        conversations=session.conversations,
        requests=session.requests,
        failed=session.failed,
        turns=session.turns,
        results=session.results,
        masked=session.masked,
        cached=session.cached / session.prompt if session.prompt else None,
        wait=session.wait,
        unit="usd" if is_priced else "input_tokens",
        before=bill.before,
        after=bill.after,
        error=bill.error,
        about=", ".join(session.borrowed) or None if is_priced else None,
        why=session.why,
    )
