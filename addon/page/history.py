"""The history in words and numbers, as JSON: the sessions that a reader wants, what they came to,
and one of them from its records. The page shows these words as they are.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from time import time
from typing import NamedTuple
from urllib.parse import quote

from addon.counts import pluralize
from addon.look.parts import (
    Cell,
    Column,
    Part,
    Series,
    cell,
    cells_of,
    chart,
    charts,
    legend,
    more,
    render_on_axis,
    text,
)
from addon.page.board import Board, Conversation, Described
from addon.page.conversation import name_conversation
from addon.page.describe import describe_in_full
from addon.records.file import read_records
from addon.records.sessions import (
    Running,
    Session,
    is_running,
    list_running,
    name_session,
    open_history,
    read_history,
)
from addon.records.words import (
    DOLLARS,
    count_requests,
    find_currency,
    list_answers,
    list_costs,
    list_parts,
    render_bill,
    render_headline,
    render_tally,
)
from masking.accounting import NO_BILL, Bill

_MOST_REQUESTS = 6_000
"""Of a session, the latest that are shown."""

_MOST_DAYS = 36_500

_SHORT = ("a short session", "short sessions")
"""How a reason ends that a row has no room for."""


class HistoryFilter(NamedTuple):
    """Which sessions a reader wants; all of them by default.

    search: words that are all in what names a session.
    agent, model: theirs; any if empty.
    days: how many days, today included; 0 for ever.
    zone: the reader's clock, by which days begin.
    """

    search: str = ""
    agent: str = ""
    model: str = ""
    days: int = 0
    zone: timezone = UTC

    def choose(self, sessions: Sequence[Session]) -> list[Session]:
        """Return those of the sessions that the reader wants."""
        words = self.search.lower().split()
        today = datetime.now(self.zone).date()
        oldest = today - timedelta(days=self.days - 1) if self.days else date.min
        return [
            each
            for each in sessions
            if (not self.agent or each.agent == self.agent)
            and (not self.model or self.model in each.models)
            and self.day_of(each.last) >= oldest
            and all(word in _list_names(each) for word in words)
        ]

    def day_of(self, recorded: str) -> date:
        """Return the day of a moment by the reader's clock; the first of all if that is unknown."""
        try:
            return datetime.fromisoformat(recorded).astimezone(self.zone).date()
        except (ValueError, OverflowError):
            return date.min


EVERYTHING = HistoryFilter()


def read_wanted(ask: Callable[[str], str]) -> HistoryFilter:
    """Return what a reader asks for by these names; what makes no sense is as if left out.

    `zone` is by how many minutes his clock is behind UTC, as JavaScript has it.
    """
    zone, days = UTC, 0
    with suppress(ValueError, OverflowError):
        zone = timezone(timedelta(minutes=-float(ask("zone") or 0)))
    with suppress(ValueError):
        days = min(max(0, int(ask("days") or 0)), _MOST_DAYS)
    return HistoryFilter(ask("search"), ask("agent"), ask("model"), days, zone)


class History:
    """Sessions of the state folder; `records` says where the records are that still exist."""

    def __init__(self, folder: Callable[[], Path], records: Callable[[], Path]) -> None:
        self._folder, self._records = folder, records

    def describe(self, known: str = "", wanted: HistoryFilter = EVERYTHING) -> Described:
        """Return the sessions that are wanted, the latest first, and the proxies that run now.

        known: the version that the reader has; if that is still so, it is told no more than that.
        Where there is no history yet, it is made from the records. Raises OSError, StoreError, and
        RuntimeError without a home.
        """
        with closing(open_history(self._folder, self._records)) as store:
            store.read(lambda _: None)  # which makes it
            file = store.path.stat()
        running = list_running(self._folder())
        # Within a minute a session that idles may end.
        now = (*(each.writer for each in running), int(time() / 60) if running else 0)
        version = "-".join(map(str, (file.st_mtime_ns, file.st_size, *now)))
        if version == known:
            return {"version": version}
        sessions = self._read()
        shown = wanted.choose(sessions)
        return {
            "version": version,
            "columns": [list(each) for each in COLUMNS],
            "sessions": [*_list_rows(shown, {each.writer: each for each in running}, wanted)],
            "all": len(sessions),
            "agents": sorted({each.agent for each in sessions if each.agent}),
            "models": sorted({model for each in sessions for model in each.models}),
            "texts": {**_sum_up(shown), "counted": _count(len(shown), len(sessions))}
            if sessions
            else {"net": "No session yet"},
            "days": [*_draw_days(shown, wanted)],
            "running": _describe_running(running),
        }

    def describe_session(self, key: str, wanted: HistoryFilter = EVERYTHING) -> Described:
        """Return what is known of a session, and its conversations whose records still exist.

        wanted: for the reader's clock. Raises OSError, StoreError, and
        RuntimeError without a home.
        """
        board = Board(max_requests=_MOST_REQUESTS)
        for record in read_records(self._records(), naming=key):
            if name_session(record) == key:
                board.add(record)
        with board.lock:
            found = board.look().conversations
        own = next((each for each in self._read() if each.session == key), None)
        if own is None:
            return {"key": key, "title": None, "last": None, "facts": [], "parts": []}
        place = f" in {own.folder}" if own.folder else f", {own.tag}" if own.tag else ""
        running = {each.writer: each for each in list_running(self._folder())}
        return {
            "key": key,
            "title": f"{own.agent or own.host}{place}, {_name_day(wanted.day_of(own.began))}",
            "last": own.last,
            "facts": [fact for fact in _list_facts(own, running, wanted) if any(fact[1:])],
            "parts": [*_draw_conversations(found)],
        }

    def _read(self) -> list[Session]:
        with closing(open_history(self._folder, self._records)) as store:
            return store.read(read_history)


def _list_names(session: Session) -> str:
    """Return all that names a session, in lower case."""
    names = (session.folder, session.tag, session.agent, session.host, session.session)
    return " ".join(filter(None, (*names, *session.models))).lower()


# A row

COLUMNS = (
    Column("Session"),
    Column("Folder or tag", "wide text"),
    Column("Requests", "roomy"),
    Column("Failed", "wide"),
    Column("From cache", "wide"),
    Column("Answer begins", "wide"),
    Column("Without masking", "wide"),
    Column("With masking"),
    Column("Saved"),
)


def _describe_row(session: Session, running: Mapping[str, Running], group: str) -> Described:
    """Return a session as the page lists it, under the title of a group.

    order: a number or a text for each cell, to sort by; any dollar is more than all tokens.
    """
    cells, order = zip(*_list_cells(session, running), strict=True)
    return {
        "key": session.session,
        "running": is_running(session, running),
        "last": session.last,
        "group": group,
        "cells": cells,
        "order": order,
    }


def _list_cells(
    session: Session, running: Mapping[str, Running]
) -> Iterator[tuple[Cell, float | str]]:
    """Yield each cell of a row, and what it is sorted by."""
    bill, money, wait = session.bill, session.bill.shown, session.wait
    is_live = is_running(session, running)
    about = [", ".join(session.models) or session.host]
    if session.group:
        about.append("held out")
    elif session.is_observed:
        about.append("only observed")
    place = session.folder or session.tag or ""
    why = _explain(session, is_live=is_live, is_short=True)
    below: list[Cell] = [", ".join(about)]
    below += [{"text": place, "kind": "narrow"}] * bool(place) + [why] * bool(why)
    name = session.agent or session.host
    link, pill = f"#{quote(session.session, safe='')}", "running" if is_live else ""
    yield cell(name, *below, href=link, time=session.last, pill=pill), session.last
    yield place, place
    yield f"{session.requests:,}", session.requests
    yield f"{session.failed:,}" if session.failed else "", session.failed
    cached = session.cached / session.prompt if session.prompt else None
    yield "" if cached is None else f"{cached:.0%}", -1 if cached is None else cached
    yield "" if wait is None else f"{wait:.1f} s", -1 if wait is None else wait
    scale, currency = 1.0 if bill.is_in_dollars else 1e-9, find_currency(bill)
    yield currency.render_bare(money.before) if money.before else "", money.before * scale
    cost, saved = cells_of(bill, money.after, is_observed=session.is_observed)
    yield cost, money.after * scale
    yield saved, money.saved * scale


def _explain(session: Session, *, is_live: bool, is_short: bool = False) -> str:
    """Return why nothing was masked, or why that lost: once a session is over, nothing pays off."""
    if session.why:
        if is_short and session.why.endswith(_SHORT):
            return "a short session: nothing masked"
        return f"nothing masked: {session.why}"
    money = session.bill.shown
    if not session.loss or not money.is_certain or money.saved > 0:
        return ""
    return session.loss if is_live else "it ended before its last move of the boundary had paid off"


# All rows


def _sum_up(sessions: Sequence[Session]) -> Described:
    """Return what sessions came to. Those that were only observed stand apart."""
    billed = [each for each in sessions if each.bill.tokens.requests]
    masked = [each for each in billed if not each.is_observed]
    observed = [each for each in billed if each.is_observed]
    bill = _add_up(masked)
    headline = render_headline(bill.shown, find_currency(bill)) if masked else "Nothing masked"
    line = "; ".join((*_tell(masked, bill), *list_answers(bill))) if masked else ""
    apart = "; ".join(_tell(observed, _add_up(observed), is_dry_run=True)) if observed else ""
    return {
        "net": headline,
        "line": f"{line}." if line else "",
        "unpriced": f"Only observed, and not in this: {apart}." if apart else "",
    }


def _add_up(sessions: Sequence[Session]) -> Bill:
    return sum((each.bill for each in sessions), start=NO_BILL)


def _tell(sessions: Sequence[Session], bill: Bill, *, is_dry_run: bool = False) -> Iterator[str]:
    requests = sum(each.requests for each in sessions)
    yield f"{pluralize(len(sessions), 'session')}, {count_requests(requests)}"
    yield from list_costs(bill, requests, is_dry_run=is_dry_run)


def _count(shown: int, count: int) -> str:
    some = "" if shown == count else f"{shown:,} of "
    return f"{some}{pluralize(count, 'session')}."


def _list_rows(
    sessions: Sequence[Session], running: Mapping[str, Running], wanted: HistoryFilter
) -> Iterator[Described]:
    """Yield a row for each session, the latest first; those that run, and each day, are a group."""

    def group_of(session: Session) -> date | None:
        return None if is_running(session, running) else wanted.day_of(session.last)

    groups = [*map(group_of, sessions)]
    counts = Counter(groups)
    for session, day in zip(reversed(sessions), reversed(groups), strict=True):
        name = "Running" if day is None else _name_day(day)
        group = f"{name}: {pluralize(counts[day], 'session')}"
        yield _describe_row(session, running, group)


def _name_day(day: date) -> str:
    return f"{day:%a, %b} {day.day}, {day.year}"


def _describe_running(running: Sequence[Running]) -> Described:
    """Return which proxies run, with links to their pages."""
    count = len(running)
    text = f"{count:,} {'proxy' if count == 1 else 'proxies'} running:" if running else ""
    pages = [cell(each.tag or each.run, href=each.page, time=each.began) for each in running]
    return {"text": text, "pages": pages}


def _draw_days(sessions: Sequence[Session], wanted: HistoryFilter) -> Iterator[Part]:
    """Yield what was paid in dollars, day by day up to today, from the first day with any."""
    priced = [each for each in sessions if each.bill.is_in_dollars and not each.is_observed]
    found: defaultdict[date, list[Session]] = defaultdict(list)
    for session in priced:
        if (day := wanted.day_of(session.last)) > date.min:
            found[day].append(session)
    if not found:
        return
    today, first = max(datetime.now(wanted.zone).date(), max(found)), min(found)
    days = [first + timedelta(days=at) for at in range((today - first).days + 1)]
    money = [_add_up(found.get(day, [])).dollars for day in days]
    marks = (("everything", "without masking"), ("chosen", "with masking, as it was paid"))
    drawn = ([each.before for each in money], [each.after for each in money])
    texts = ([_describe_day(day, found.get(day, [])) for day in days], [""] * len(days))
    yield charts(
        chart(
            "",  # which is above it
            "What the sessions of each day cost, and what they would have cost without masking.",
            [
                Series("", mark, values, said, "days")
                for (mark, _), values, said in zip(marks, drawn, texts, strict=True)
            ],
            unit=DOLLARS.name,
            render=render_on_axis(DOLLARS),
            days=[f"{day:%b} {day.day}" for day in days],
        )
    )
    yield legend(marks)


def _describe_day(day: date, sessions: Sequence[Session]) -> str:
    bill = _add_up(sessions)
    cost = f", input {render_bill(bill.dollars, find_currency(bill))}" if sessions else ""
    return f"{_name_day(day)}: {pluralize(len(sessions), 'session')}{cost}"


# One session


def _draw_conversations(conversations: Sequence[Conversation]) -> Iterator[Part]:
    """Yield a session's longest conversation, and the others, as of its sub-agents."""
    if not conversations:
        yield text(
            "The records of its requests are gone: older ones are dropped at "
            "metrics.max_megabytes. Its totals stay here.",
            "note",
        )
        return
    longest, *others = sorted(conversations, key=lambda one: -one.tally.count)
    yield from describe_in_full(longest, has_sums=bool(others))
    for one in others:
        summary = f"{name_conversation(one)}: {render_tally(one.tally)}"
        yield more(summary, *describe_in_full(one, has_sums=False))


def _list_facts(
    session: Session, running: Mapping[str, Running], wanted: HistoryFilter
) -> Iterator[tuple[str, Cell]]:
    """Yield what a session's row says, by name; a text is empty where there is nothing to say."""
    for name, moment in (("Began", session.began), ("Last request", session.last)):
        yield name, cell(_name_day(wanted.day_of(moment)), time=moment)
    proxy = running.get(session.writer.partition(".")[0])
    is_live = is_running(session, running)
    page = proxy.page if proxy and is_live else None
    live = "running: see it live" if page else "running"
    yield "State", cell(live, href=page) if is_live else "ended"
    failed = f", {session.failed:,} failed" if session.failed else ""
    yield "Folder", session.folder or ""
    yield "Tag", session.tag or ""
    yield "Model", ", ".join(session.models)
    yield "Host", session.host
    yield "Requests", f"{session.requests:,}{failed}"
    yield "Conversations", f"{session.conversations:,}" if session.conversations > 1 else ""
    yield "Tool turns", f"{session.turns:,}"
    yield "Results masked", f"{session.masked:,} of {session.results:,}"
    yield "Results shortened", f"{session.shortened:,}" if session.shortened else ""
    yield "Shortened, and repeated", _count_calls(session.arrival_rereads)
    yield "Left out, and quoted", _count_calls(session.arrival_quotes)
    yield "From cache", f"{session.cached / session.prompt:.0%}" if session.prompt else ""
    wait = session.wait
    yield "Answer begins", f"{wait:.1f} s (p50)" if wait is not None else ""
    bill, is_observed = session.bill, session.is_observed
    costs = (*list_costs(bill, session.requests, is_dry_run=is_observed), *list_parts(bill))
    yield "Input", "; ".join(costs).removeprefix("input ")
    yield "Output", "; ".join(list_answers(bill)).removeprefix("output ")
    yield "Why", _explain(session, is_live=False)


def _count_calls(count: int) -> str:
    return pluralize(count, "call") if count else ""
