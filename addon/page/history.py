"""The history in words and numbers, as JSON: the sessions that a reader wants, what they came to,
and one of them from its records. The page shows these words as they are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path
from time import time
from typing import NamedTuple

from addon.counts import pluralize
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
from addon.records.words import (
    DOLLARS,
    INPUT_TOKENS,
    count_requests,
    find_currency,
    list_answers,
    list_costs,
    render_bill,
    render_left,
    render_range,
    render_uncertain,
)
from masking.accounting import NO_BILL, Bill

_MOST_REQUESTS = 6_000
"""Of a session, the latest that are shown."""

_MOST_DAYS = 36_500

_SHORT = ("a short session", "short sessions")
"""How a reason ends that a row has no room for."""


class Wanted(NamedTuple):
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
            and self.day_of(each) >= oldest
            and all(word in _list_names(each) for word in words)
        ]

    def day_of(self, session: Session) -> date:
        """Return the day of a session's last request; the first of all days if that is unknown."""
        try:
            return datetime.fromisoformat(session.last).astimezone(self.zone).date()
        except (ValueError, OverflowError):
            return date.min


EVERYTHING = Wanted()


def read_wanted(ask: Callable[[str], str]) -> Wanted:
    """Return what a reader asks for by these names; what makes no sense is as if left out.

    `zone` is by how many minutes his clock is behind UTC, as JavaScript has it.
    """
    zone, days = UTC, 0
    with suppress(ValueError, OverflowError):
        zone = timezone(timedelta(minutes=-float(ask("zone") or 0)))
    with suppress(ValueError):
        days = min(max(0, int(ask("days") or 0)), _MOST_DAYS)
    return Wanted(ask("search"), ask("agent"), ask("model"), days, zone)


class HistoryRow(NamedTuple):
    """A session as the page lists it; None is what is not known.

    key: names it in an address.
    state: "running", or "ended".
    page: where the page of the proxy is that it runs through.
    name, about, place: what it is called, its models, and its folder or tag.
    why: why nothing was masked, or why masking lost.
    cached: the share of the reported prompt tokens that came from the cache.
    before, after, saved: its bill, in words; with what belongs below, in short.
    worth: these three as numbers to sort by, in which any dollar is more than all tokens.
    """

    key: str
    state: str
    page: str | None
    began: str
    last: str
    name: str
    about: str
    place: str
    why: str
    requests: int
    failed: int
    cached: float | None
    wait: float | None
    before: str
    after: tuple[str, ...]
    saved: tuple[str, ...]
    is_loss: bool
    worth: tuple[float, float, float]


class History:
    """Sessions of the state folder; `records` says where the records are that still exist."""

    def __init__(self, folder: Callable[[], Path], records: Callable[[], Path]) -> None:
        self._folder, self._records = folder, records

    def describe(self, known: str = "", wanted: Wanted = EVERYTHING) -> Described:
        """Return the sessions that are wanted, the latest first, and the proxies that run now.

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
        sessions = read_history(folder)
        shown = wanted.choose(sessions)
        return {
            "version": version,
            "columns": HistoryRow._fields,
            "sessions": [[*_describe_row(each, pages)] for each in reversed(shown)],
            "all": len(sessions),
            "agents": sorted({each.agent for each in sessions if each.agent}),
            "models": sorted({model for each in sessions for model in each.models}),
            "sum": _sum_up(shown),
            "days": [*_list_days(shown, wanted)],
            "running": [
                {"run": each.run, "tag": each.tag, "began": each.began, "page": each.page}
                for each in running
            ],
        }

    def describe_session(self, key: str) -> Described:
        """Return what is known of a session, and its conversations whose records still exist.

        Raises OSError, RuntimeError without a home, and sqlite3.Error.
        """
        board = Board(max_requests=_MOST_REQUESTS)
        for record in read_records(self._records(), naming=key):
            if name_session(record) == key:
                board.add(record)
        with board.lock:
            found = board.look().conversations
        folder = self._folder()
        own = next((each for each in read_history(folder) if each.session == key), None)
        pages = {each.writer: each for each in list_running(folder)}
        return {
            "key": key,
            "columns": HistoryRow._fields,
            "row": None if own is None else [*_describe_row(own, pages)],
            "facts": [] if own is None else [fact for fact in _list_facts(own) if fact[1]],
            "conversations": [describe_conversation(each) for each in found],
        }


def _list_names(session: Session) -> str:
    """Return all that names a session, in lower case."""
    names = (session.folder, session.tag, session.agent, session.host, session.session)
    return " ".join(filter(None, (*names, *session.models))).lower()


# A row


def _describe_row(session: Session, running: Mapping[str, Running]) -> HistoryRow:
    bill, money = session.bill, session.bill.shown
    proxy = running.get(session.writer.partition(".")[0])
    is_live = is_running(session, running)
    about = [", ".join(session.models) or session.host]
    if session.group:
        about.append("held out")
    elif session.is_observed:
        about.append("only observed")
    scale = 1.0 if bill.is_in_dollars else 1e-9
    return HistoryRow(
        key=session.session,
        state="running" if is_live else "ended",
        page=proxy.page if proxy and is_live else None,
        began=session.began,
        last=session.last,
        name=session.agent or session.host,
        about=", ".join(about),
        place=session.folder or session.tag or "",
        why=_explain(session, is_live=is_live, is_short=True),
        requests=session.requests,
        failed=session.failed,
        cached=session.cached / session.prompt if session.prompt else None,
        wait=session.wait,
        before=find_currency(bill).render_bare(money.before) if money.before else "",
        after=tuple(_render_cost(bill)),
        saved=tuple(_render_saved(session)),
        is_loss=money.is_certain and money.saved < 0,
        worth=(money.before * scale, money.after * scale, money.saved * scale),
    )


def _render_cost(bill: Bill) -> Iterator[str]:
    """Yield what requests cost, masked, and what there is to know of that."""
    if not bill.shown.before:
        return
    currency = find_currency(bill)
    if currency.is_dollars:
        yield currency.render(bill.shown.after)
    else:
        yield currency.render_bare(bill.shown.after)
        yield "input tokens' worth"
    if currency.is_dollars and bill.unpriced.requests:
        yield f"and {count_requests(bill.unpriced.requests)} without a price"


def _render_saved(session: Session) -> Iterator[str]:
    """Yield what was saved of a session, and what there is to know of that."""
    money = session.bill.shown
    if not money.before:
        return
    if (uncertain := render_uncertain(money)) is not None:
        yield uncertain
        return
    share = money.saved_share or 0.0
    yield f"{find_currency(session.bill).render_bare(money.saved)} ({share:.0%})"
    if session.is_observed:
        yield "would be"
    if left := render_left(money):
        yield f"{left} if asked again"


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
    money, currency = bill.shown, find_currency(bill)
    if not masked:
        title = "Nothing masked"
    elif not money.is_certain:
        title = "About nothing saved"
    else:
        verb = "saved" if money.saved > 0 else "lost"
        amount, share = currency.render(abs(money.saved)), abs(money.saved_share or 0.0)
        left = render_left(money)
        title = f"{amount} ({share:.0%}) {verb}{f'; {left} if asked again' if left else ''}"
    line = "; ".join((*_tell(masked, bill), *list_answers(bill))) if masked else ""
    apart = "; ".join(_tell(observed, _add_up(observed), is_dry_run=True)) if observed else ""
    return {
        "title": f"{title[0].upper()}{title[1:]}",
        "line": f"{line}." if line else "",
        "apart": f"Only observed, and not in this: {apart}." if apart else "",
    }


def _add_up(sessions: Sequence[Session]) -> Bill:
    return sum((each.bill for each in sessions), start=NO_BILL)


def _tell(sessions: Sequence[Session], bill: Bill, *, is_dry_run: bool = False) -> Iterator[str]:
    requests = sum(each.requests for each in sessions)
    yield f"{pluralize(len(sessions), 'session')}, {count_requests(requests)}"
    yield from list_costs(bill, bill.tokens.requests, is_dry_run=is_dry_run)


def _list_days(sessions: Sequence[Session], wanted: Wanted) -> Iterator[Described]:
    """Yield what was paid in dollars, day by day up to today, from the first day with any."""
    priced = [each for each in sessions if each.bill.is_in_dollars and not each.is_observed]
    days = {
        day: [*group]
        for day, group in groupby(sorted(priced, key=wanted.day_of), key=wanted.day_of)
        if day > date.min
    }
    if not days:
        return
    today = max(datetime.now(wanted.zone).date(), max(days))
    first = min(days)
    for at in range((today - first).days + 1):
        day = first + timedelta(days=at)
        own = days.get(day, [])
        bill = _add_up(own)
        cost = f", input {render_bill(bill.dollars, find_currency(bill))}" if own else ""
        yield {
            "day": day.isoformat(),
            "before": bill.dollars.before,
            "after": bill.dollars.after,
            "text": f"{day:%a, %b} {day.day}, {day.year}: {pluralize(len(own), 'session')}{cost}",
        }


# One session


def _list_facts(session: Session) -> Iterator[tuple[str, str]]:
    """Yield what a session's row says, by name; a text is empty where there is nothing to say."""
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
    bill = session.bill
    for name, money, currency in (
        ("Input", bill.dollars, find_currency(bill)),
        ("Input without a price", bill.unpriced, INPUT_TOKENS),
    ):
        if money.requests:
            told = render_bill(money, currency, is_dry_run=session.is_observed)
            yield name, f"{told}{render_range(money)}"
        if money.at_arrival:
            at_arrival, by_masking = map(currency.render_bare, (money.at_arrival, money.by_masking))
            yield "Of that", f"at arrival {at_arrival}, by masking {by_masking}"
    yield "Output", f"{DOLLARS.render(bill.answer_dollars)} either way" if bill.answers else ""
    yield "Why", _explain(session, is_live=False)


def _count_calls(count: int) -> str:
    return pluralize(count, "call") if count else ""
