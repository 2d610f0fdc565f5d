"""The history in numbers, as JSON: a row for each session, and one session from its records."""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import time
from typing import NamedTuple

from addon.page.board import Board, Described
from addon.page.describe import describe_conversation
from addon.records.file import read_records
from addon.records.sessions import (
    FILE,
    Running,
    Session,
    is_running,
    list_running,
    name_session,
    prepare_history,
    read_history,
)
from addon.records.words import find_currency

_MOST_REQUESTS = 6_000
"""Of a session, the latest that are shown."""


class HistoryRow(NamedTuple):
    """A session as the page lists it; None is what is not known.

    key: names it in an address.
    state: "running", or "ended".
    page: where the page of the proxy is that it runs through.
    cached: the share of the reported prompt tokens that came from the cache.
    unit: "usd", or "input_tokens" where no price of its requests is known.
    before, after: its bill in that unit, unmasked and as it was paid.
    steady, chance: how far off `before` may be; chances of several add up as their squares.
    unpriced: requests that are not in this bill, as no price of theirs is known.
    answers: what its answers cost, in US dollars.
    sellers: whose prices these are where they are not the host's own.
    why: why nothing was masked.
    loss: why masking cost more than it saved, and when that turns.
    shortened: the most results of a request that were sent shortened.
    arrival: what that saved of the bill.
    arrival_rereads, arrival_quotes: calls that repeat one whose result was shortened, or quote what
        was left out.
    """

    key: str
    state: str
    page: str | None
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
    steady: float
    chance: float
    unpriced: int
    answers: float
    sellers: tuple[str, ...]
    why: str | None
    loss: str | None
    shortened: int
    arrival: float
    arrival_rereads: int
    arrival_quotes: int


class History:
    """Sessions of the state folder; `records` says where the records are that still exist."""

    def __init__(self, folder: Callable[[], Path], records: Callable[[], Path]) -> None:
        self._folder, self._records = folder, records

    def describe(self, known: str = "") -> Described:
        """Return all sessions, the latest first, and the proxies that run now.

        known: the version that the reader has; if that is still so, it is told no more than that.
        Where there is no history yet, it is made from the records. Raises OSError, RuntimeError
        without a home, and sqlite3.Error.
        """
        folder = self._folder()
        prepare_history(folder, self._records())
        running = list_running(folder)
        file = (folder / FILE).stat()
        # Within a minute a session that idles may end.
        now = (*(each.writer for each in running), int(time() / 60) if running else 0)
        version = "-".join(map(str, (file.st_mtime_ns, file.st_size, *now)))
        if version == known:
            return {"version": version}
        pages = {each.writer: each for each in running}
        rows = [[*_describe_row(each, pages)] for each in reversed(read_history(folder))]
        return {
            "version": version,
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


def _describe_row(session: Session, running: Mapping[str, Running]) -> HistoryRow:
    bill, money = session.bill, session.bill.shown
    proxy = running.get(session.writer.partition(".")[0])
    is_live = is_running(session, running)
    return HistoryRow(
        key=session.session,
        state="running" if is_live else "ended",
        page=proxy.page if proxy and is_live else None,
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
        unit="usd" if bill.is_in_dollars else "input_tokens",
        before=money.before,
        after=money.after,
        steady=money.margin.steady,
        chance=money.margin.chance,
        unpriced=bill.unpriced.requests if bill.is_in_dollars else 0,
        answers=bill.answer_dollars,
        sellers=find_currency(bill).borrowed_from,
        why=session.why,
        loss=session.loss,
        shortened=session.shortened,
        arrival=money.at_arrival,
        arrival_rereads=session.arrival_rereads,
        arrival_quotes=session.arrival_quotes,
    )
