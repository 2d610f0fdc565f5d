"""`obsmask replay`: what recordings cost with and without masking.

A worker replays a session and gives back sums, and as text the rest that was asked for.
"""

import functools
import json
import shutil
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from addon.commands.log_answer import (
    RECORDING,
    choose_account,
    describe_answer,
    describe_found,
    describe_log,
    describe_recorded,
    describe_section,
    name_session,
    print_answer,
    render_so_far,
)
from addon.commands.options import (
    PolicyCommand,
    check_writable,
    choose_logs,
    log_options,
    paths_argument,
    read_replay_settings,
    replay_options,
    work_options,
)
from addon.commands.road_table import print_roads
from addon.commands.terminal import fits, make_table, open_console, print_text
from addon.commands.work import SessionWork, counter, log_of, open_work
from addon.counts import pluralize, pluralize_part
from addon.records.build import describe_entry, describe_pricing
from addon.records.words import (
    render_bill,
    render_range,
)
from addon.replay.logs import FoundLogs
from addon.replay.logs.answer import LogAnswer, LoggedSession
from addon.replay.logs.log import LogChoice
from addon.replay.logs.session import Account, CostOnly, LogSession, depends_on_account
from addon.replay.numbers import describe_arrival, dump_totals, explain_nothing, list_cells
from addon.replay.references import SessionReferences
from addon.replay.replay import Pause, ReplayedRequest, ReplaySettings, Session
from addon.replay.report.page import Origin, render_chart, render_report
from addon.replay.totals import (
    BilledPrice,
    ComparedRequest,
    ConversationSums,
    ConversationTotals,
    Totals,
    assumed_prices,
    compare_requests,
    name_conversations,
)
from addon.version import VERSION
from masking.errors import printable
from masking.wire import is_binding_assumed


@click.command("replay", cls=PolicyCommand)
@paths_argument
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.HTML",
    help="Also write an HTML report.",
)
@click.option("--total", is_flag=True, help="Show only the total.")
@click.option(
    "--memory/--no-memory",
    default=None,
    help="Remember the boundary between requests. Default: as configured.",
)
@log_options
@work_options
@replay_options
def command(
    paths: tuple[Path, ...],
    as_json: bool,
    report: Path | None,
    total: bool,
    since: datetime | None,
    project: str | None,
    account: Account | None,
    processes: int | None,
    scheduler: str | None,
    pause: Pause | None,
    **given: object,
) -> None:
    """Show what past sessions cost, and would have cost with masking.

    Without a PATH, reads the last 30 days of the logs that agents keep anyway: Claude Code, codex,
    and others. PATH is a log, a trajectory (ATIF), a recording (.flow), a file of conversations
    (.json, .jsonl), or a folder of these, compressed or not. Options override the configuration.
    """
    settings_list = read_replay_settings(given)
    is_one = len(settings_list) == 1
    if not is_one and (as_json or report):
        raise ValueError("--json and --report take one --prices")
    if report:
        check_writable(report)
    choice = choose_logs(paths, since, project)
    account, learned = choose_account(account)
    wanted = ReplayOutputs(
        rows=is_one and (report is not None or not total),
        requests=as_json and not total,
        chart=report is not None,
        roads=True,
        since=choice.since,
        account=account,
    )
    with ExitStack() as stack:
        replays = [stack.enter_context(open_result(settings)) for settings in settings_list]
        first, interrupted = replays[0], False
        try:
            with open_work(
                paths,
                processes=processes,
                scheduler=scheduler,
                pause=pause,
                choice=choice,
                starts_for_few=False,
            ) as work:
                first.found = work.found.logs
                if first.found and not as_json:
                    print(describe_found(first.found), file=sys.stderr)
                    if learned:
                        print(learned, file=sys.stderr)
                for replay in replays:
                    fill(replay, work, wanted)
        except KeyboardInterrupt:
            # What is known of logs so far is an answer, too.
            if not is_one or as_json or not first.found or not first.totals.requests:
                raise
            interrupted = True
        if not all(replay.totals.requests for replay in replays):
            raise ValueError(_describe_nothing(paths, choice))
        if first.masked_before and not first.found:
            print(_warn_of_masked(first.masked_before), file=sys.stderr)
        if as_json:
            write_json(first, sys.stdout)
        elif is_one and first.found:
            print_answer(
                open_console(),
                first.answer,
                first.found,
                since=choice.since,
                account=account,
                total=total,
                interrupted=interrupted,
            )
        else:
            _print_tables(replays, total=total)
        if report:
            _write_report(report, first, paths, pause, account)
            print(report, file=sys.stderr)
    if interrupted:
        raise click.exceptions.Exit(_INTERRUPTED)


_INTERRUPTED = 130


def _describe_nothing(paths: Sequence[Path], choice: LogChoice) -> str:
    places = f" in {', '.join(map(str, paths))}" if paths else ""
    project = "" if choice.project is None else f" of project {choice.project}"
    since = "" if choice.since is None else f" since {choice.since.astimezone():%Y-%m-%d}"
    return f"no request to replay{project}{since}{places}"


# The replay


class ReplayOutputs(NamedTuple):
    """What is wanted of each conversation, besides its part in the total.

    rows: its own sums.
    requests: what `--json` prints of its requests.
    chart: what the report draws of it.
    sliding: what it would have cost had the window slid, and whether it was masked already.
    roads: what it would have cost by other roads.
    since: of logs, requests before that are replayed and not counted.
    account: that of the sessions of logs; None if it is not known.
    """

    rows: bool = True
    requests: bool = False
    chart: bool = False
    sliding: bool = True
    roads: bool = False
    since: datetime | None = None
    account: Account | None = None


class ReplayedConversation(NamedTuple):
    """A conversation's sums, and what else was wanted: texts, empty if it was not."""

    totals: ConversationTotals
    requests: str = ""
    chart: str = ""


class ReplayedSession(NamedTuple):
    """A session's conversations; requests that were skipped are counted by reason.

    logged: what else the answer about logs has of it; None if no request counts.
    """

    conversations: tuple[ReplayedConversation, ...]
    passed_over: dict[str, int]
    logged: LoggedSession | None


@dataclass(slots=True, kw_only=True)
class ReplayResult:
    """Recordings under one policy.

    masked_before: the conversations whose results were masked when they were recorded.
    details: what `--json` prints of each conversation, on disk.
    found: the agents' own logs that are among the recordings.
    answer: the sums over sessions that are shown where there are such logs.
    """

    settings: ReplaySettings
    details: TextIO
    found: Sequence[FoundLogs] = ()
    answer: LogAnswer = field(default_factory=LogAnswer)
    totals: Totals = field(default_factory=Totals)
    passed_over: Counter[str] = field(default_factory=Counter)
    masked_before: list[str] = field(default_factory=list)
    conversations: list[ConversationTotals] = field(default_factory=list)
    charts: list[str] = field(default_factory=list)

    def add(self, session: ReplayedSession, wanted: ReplayOutputs) -> None:
        """Add the next session."""
        self.passed_over.update(session.passed_over)
        if session.logged is not None:
            self.answer.add(session.logged)
        for (name, totals), requests, chart in session.conversations:
            self.totals += totals
            if totals.masked_before:
                self.masked_before.append(name)
            if wanted.requests:
                self.details.write(f",\n{requests}" if self.details.tell() else requests)
            if self.found and session.logged is not None and session.logged.cost_only:
                continue  # its charts would show a saving
            if wanted.chart:
                self.charts.append(chart)
            if wanted.rows:
                self.conversations.append(ConversationTotals(name, totals))
        if self.found and len(self.conversations) > 2 * MOST_DRAWN:
            self.keep_most_expensive()

    def keep_most_expensive(self) -> None:
        """Forget what is to be drawn of all sessions but those that cost most."""
        costs = [each.totals.bill.tokens.before for each in self.conversations]
        order = sorted(range(len(costs)), key=costs.__getitem__, reverse=True)[:MOST_DRAWN]
        self.conversations = [self.conversations[at] for at in order]
        self.charts = [self.charts[at] for at in order] if self.charts else []


MOST_DRAWN = 40
"""The sessions of logs that a report draws: those of a year would make a page of many megabytes."""


@contextmanager
def open_result(settings: ReplaySettings) -> Iterator[ReplayResult]:
    """Yield a result to which sessions are added."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as details:
        yield ReplayResult(settings=settings, details=details)


def fill(result: ReplayResult, work: SessionWork, wanted: ReplayOutputs) -> None:
    """Replay sessions, and add them to a result as they come, with what shows the progress.

    Raises OSError and ValueError, with the file's name.
    """
    logs = sum(len(found.logs) for found in work.found.logs)
    headline = functools.partial(render_so_far, result.answer, logs) if logs else None
    arguments = [(result.settings, wanted)]
    for session in work.run("replay", replay_session, arguments, headline):
        result.add(session, wanted)


def replay_session(
    session: Session,
    settings: ReplaySettings,
    wanted: ReplayOutputs,
    references: SessionReferences | None = None,
) -> ReplayedSession:
    """Replay a session. No request is kept, unless a chart is wanted.

    `references` are the session's own, where it is replayed more than once.
    """
    log = log_of(session)
    passed_over: Counter[str] = Counter()
    found: dict[int, _Conversation] = {}
    facts = _Facts(settings)
    if log is not None:
        log.account = wanted.account
    slides = wanted.sliding and (log is None or wanted.requests or wanted.chart)
    compared_requests = compare_requests(
        session,
        settings,
        counter(),
        passed_over,
        with_sliding=slides,
        with_roads=wanted.roads,
        references=references,
    )
    for compared in compared_requests:
        if log is not None and wanted.since is not None and compared.chosen.when < wanted.since:
            continue
        # A log tells what one session is; else the requests do.
        number = compared.conversation if log is None else 0
        if number not in found:
            found[number] = _Conversation(settings, wanted)
        facts.add(compared.chosen, found[number].add(compared))
    names = name_conversations(session.name, found)
    accounts: dict[Account, Totals] = {}
    depends = log is not None and (
        depends_on_account(settings.model) if settings.model else log.depends_on_account
    )
    if log is not None and wanted.account is None and depends:
        accounts["new"] = facts.add_up()
        log.account = "old"
        older, sums = _Facts(settings), ConversationSums(settings.policy.window_turns)
        for compared in compare_requests(session, settings, counter(), with_sliding=False):
            if wanted.since is None or compared.chosen.when >= wanted.since:
                older.add(compared.chosen, sums.add(compared))
        accounts["old"] = older.add_up()
    logged = facts.describe(log, accounts) if found else None
    conversations = tuple(
        each.finish(names[number], None if log is None else logged)
        for number, each in found.items()
    )
    return ReplayedSession(conversations, dict(passed_over), logged)


class _Facts:
    """What the answer about logs has of a session, as it grows."""

    def __init__(self, settings: ReplaySettings) -> None:
        self._window_turns = settings.policy.window_turns
        self._models: dict[str | None, Totals] = {}
        self._began: datetime | None = None
        self._turns = 0

    def add(self, request: ReplayedRequest, totals: Totals) -> None:
        model = request.model
        if model not in self._models:
            self._models[model] = Totals(window_turns=self._window_turns)
        self._models[model] += totals
        self._began = self._began or request.when
        self._turns = max(self._turns, request.sizes.tool_turns)

    def add_up(self) -> Totals:
        return sum(self._models.values(), start=Totals())

    def describe(self, log: LogSession | None, accounts: Mapping[Account, Totals]) -> LoggedSession:
        about = None if log is None else log.conversation
        is_unnamed = any(
            each.bound and is_binding_assumed(model) for model, each in self._models.items()
        )
        unnamed: CostOnly | None = "unnamed" if is_unnamed else None
        return LoggedSession(
            agent=RECORDING if about is None else about.agent,
            project=None if about is None else about.project,
            began=self._began or datetime.now(UTC),
            turns=self._turns,
            is_side=about is not None and about.is_side,
            models=self._models,
            cost_only=None if log is None else log.cost_only or unnamed,
            is_counted=log is None or log.difference is not None,
            difference=None if log is None else log.difference,
            accounts=accounts,
            unread=frozenset() if about is None else about.unread,
        )


class _Conversation:
    """A conversation as it grows, with what is wanted of its requests."""

    def __init__(self, settings: ReplaySettings, wanted: ReplayOutputs) -> None:
        self._settings, self._wanted = settings, wanted
        self._sums = ConversationSums(settings.policy.window_turns)
        self._described: list[dict[str, object]] = []
        self._compared: list[ComparedRequest] = []

    def add(self, compared: ComparedRequest) -> Totals:
        if self._wanted.requests:
            self._described.append(_describe_request(compared.chosen))
        if self._wanted.chart:
            self._compared.append(compared)
        return self._sums.add(compared)

    def finish(self, name: str, logged: LoggedSession | None) -> ReplayedConversation:
        totals, requests, chart = self._sums.totals, "", ""
        if self._wanted.requests:
            document = {"name": name, **dump_totals(totals), "per_request": self._described}
            if logged is not None:
                document = {**describe_log(logged), **document}
            requests = textwrap.indent(json.dumps(document, indent=1), "  ")
        if logged is not None:
            name = name_session(logged)
        if self._wanted.chart:
            chart = render_chart(name, self._settings.policy.window_turns, self._compared)
        return ReplayedConversation(ConversationTotals(name, totals), requests, chart)


def _describe_request(request: ReplayedRequest) -> dict[str, object]:
    return {
        "model": request.model,
        **describe_pricing(request.pricing),
        **asdict(request.sizes),
        **describe_entry(request.entry),
    }


# Its output


def write_json(replay: ReplayResult, out: TextIO) -> None:
    """Write every figure: in total, by conversation, and by request."""
    head: dict[str, object] = {
        "assumed_prices": [
            {
                "model": price.model,
                "read": price.read,
                "write": price.write,
                "maker": price.entry,
                "requests": requests,
            }
            for price, requests in assumed_prices(replay.totals)
        ],
        "total": dump_totals(replay.totals),
        "passed_over": replay.passed_over,
    }
    if replay.found:
        head["logs"] = describe_answer(replay.answer, replay.found)
    out.write(json.dumps(head, indent=1).removesuffix("\n}"))
    if replay.details.tell():
        out.write(',\n "conversations": [\n')
        replay.details.seek(0)
        shutil.copyfileobj(replay.details, out)
        out.write("\n ]")
    out.write("\n}\n")


def _write_report(
    path: Path,
    replay: ReplayResult,
    sources: Sequence[Path],
    pause: Pause | None,
    account: Account | None,
) -> None:
    """Write the report of a replay of these files and folders. Raises OSError."""
    origin = Origin(
        created=datetime.now().astimezone(),
        version=VERSION,
        sources=tuple(map(str, sources or [found.place for found in replay.found])),
        settings=replay.settings,
        pause=pause,
    )
    logs = None
    if replay.found:
        if not replay.conversations:
            raise ValueError(f"{path}: nothing to draw: no session says what masking would save")
        replay.keep_most_expensive()
        logs = describe_section(replay.answer, account)
    page = render_report(replay.conversations, replay.charts, origin, logs)
    path.write_text(page, encoding="utf-8")


def _print_tables(replays: Sequence[ReplayResult], *, total: bool) -> None:
    console, first = open_console(), replays[0]
    if assumed := render_assumed(first.totals):
        print_text(console, assumed)
    if len(replays) == 1:
        console.print(render_conversations(first, total=total))
        print_roads(console, [("all", first.totals.bill)])
    else:
        console.print(_render_by_prices(replays))
    if first.passed_over:
        reasons = "; ".join(f"{count} {why}" for why, count in first.passed_over.most_common())
        console.print(f"Requests skipped: {reasons}.", highlight=False, markup=False)


_MOST_NAMES = 3


def _warn_of_masked(names: Sequence[str]) -> str:
    """Return a warning that these conversations were recorded with their results masked."""
    shown = ", ".join(map(printable, names[:_MOST_NAMES]))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (
        f"obsmask: {shown}{more}: old results were masked before this was recorded, so these "
        "figures cannot show what masking saves and costs there."
    )


_MOST_MODELS = 3


def render_assumed(totals: Totals) -> str | None:
    """Return which prices were assumed, and for how many requests; None if all are known."""
    found = assumed_prices(totals)
    if not found:
        return None
    count = sum(requests for _, requests in found)
    described = [_describe_assumed(price) for price, _ in found[:_MOST_MODELS]]
    more = len(found) - len(described)
    requests = pluralize_part(count, totals.requests, "request")
    models = "; ".join([*described, *([f"and {pluralize(more, 'more model')}"] if more else [])])
    return (
        f"Prices are assumed for {requests}: {models}.\n"
        "Set them with --model or --prices; for good, as obsmask prices HOST MODEL says."
    )


def _describe_assumed(price: BilledPrice) -> str:
    """Return which prices were assumed for a model, and why."""
    model = printable(price.model or "a model without a name")
    known = "is not known" if price.entry is None else f"as {price.entry}"
    return f"{model} {known} (cached at {price.read:g}, written at {price.write:g})"


# Its table

_TOKENS = ("tokens before", "tokens after")
_COSTS = ("all sent", "sliding", "chosen", "saved")
_PARTS = ("arrival", "masking")
_CALLS = ("re-reads", "quotes")

_LEAST_NAME = 20
"""Columns that a name has at least; a longer one is folded before a table is split."""

_EXPLANATION = """
all sent: nothing is masked; sliding: the window moves at every turn;
chosen: your settings; re-reads: calls that repeat or name what was masked;
quotes: calls that hold a line of it; asked again: calls that do any of these;
no cost includes output."""


_EXPLANATION_OF_PARTS = "arrival, masking: the part of saved that is by each of them."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTable:
    """A table that rich can print: as two, one below the other, where the screen is narrow.

    first: the columns that name the rows.
    rows, totals: a name and the sums of each row.
    whole: what the sentences around the table are about.
    """

    first: tuple[str, ...]
    rows: Sequence[tuple[str, Totals]]
    whole: Totals
    totals: Sequence[tuple[str, Totals]] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what is printed."""
        rows, whole = [*self.totals, *self.rows], self.whole
        currency = whole.currency
        requests = pluralize(whole.requests, "request")
        yield f"The prompts of {requests}; costs in {currency.full_name}\n"
        costs = (*_COSTS, *(_PARTS if any(each.arrival.results for _, each in rows) else ()))
        table = self._render((*self.first, *_TOKENS, *costs, *_CALLS))
        if fits(table, console, options, [printable(name) for name, _ in rows], _LEAST_NAME):
            yield table
        else:
            yield self._render((*self.first, *costs))
            yield ""
            yield self._render((self.first[0], *_TOKENS, *_CALLS))
        yield _EXPLANATION
        if costs != _COSTS:
            yield _EXPLANATION_OF_PARTS
        money = currency.choose(whole.bill)
        if told := describe_arrival(whole.arrival, whole.chosen_rereads.calls, money, currency):
            yield f"\n{told}"
        if money.before and (self.totals or len(self.rows) == 1):  # else it differs from row to row
            yield f"\nInput {render_bill(money, currency)}{render_range(money)}."
        if whole.recorded.tokens.requests:
            yield f"\n{describe_recorded(whole.recorded, whole.requests)}"

    def _render(self, columns: Sequence[str]) -> Table:
        sections = (
            [
                (name, *(list_cells(totals, self.whole.currency)[column] for column in columns[1:]))
                for name, totals in section
            ]
            for section in (self.rows, self.totals)
        )
        return make_table(columns, *sections, gap=0)


def render_conversations(replay: ReplayResult, *, total: bool = False) -> ReplayTable:
    """Return a row for each conversation, unless only the `total` is wanted, and one for all."""
    found = [] if total else replay.conversations
    return ReplayTable(
        first=("conversation", "requests"),
        rows=[(_name(name, totals), totals) for name, totals in found],
        totals=[] if len(found) == 1 else [("all", replay.totals)],
        whole=replay.totals,
    )


def _name(name: str, totals: Totals) -> str:
    why = explain_nothing(totals.bill, totals.bound, totals.held)
    return f"{name} ({why})" if why else name


def _render_by_prices(replays: Sequence[ReplayResult]) -> ReplayTable:
    """Return a row for each price of a cached token."""
    return ReplayTable(
        first=("cached, written token",),
        rows=[(_render_prices(each.settings), each.totals) for each in replays],
        whole=replays[0].totals,
    )


def _render_prices(settings: ReplaySettings) -> str:
    pricing = settings.price_settings.cache_pricing
    if isinstance(pricing, str):
        return "as listed"
    read, write = pricing
    return f"{read:g}, {write:g}" + (" (no cache)" if read >= write else "")
