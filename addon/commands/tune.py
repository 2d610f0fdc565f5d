"""`obsmask tune`: which settings pay on one's own recordings."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from addon.commands.log_answer import COST_ONLY, choose_account
from addon.commands.options import (
    PolicyCommand,
    choose_logs,
    log_options,
    paths_argument,
    read_replay_settings,
    replay_options,
    work_options,
)
from addon.commands.replay import describe_assumed
from addon.commands.terminal import fits, open_console, print_text
from addon.commands.work import SessionWork, log_of, open_work
from addon.config import advise, locate_config
from addon.config_commands import Advice
from addon.counts import pluralize
from addon.records.words import Currency
from addon.replay.logs.session import Account
from addon.replay.replay import Pause, RecordedRequest, ReplaySettings, Session
from addon.replay.totals import UNITS, AssumedPrice
from addon.replay.tune.recommend import (
    LEAST_WINDOW,
    Grid,
    Outcome,
    Sweep,
    Tuning,
    add_outcomes,
    list_tunings,
    pareto_front,
    recommend,
    split_into_batches,
    switch_arrival,
    try_tunings,
    tuning_of,
)
from masking.prices import PriceSettings, find_pricing


@click.command("tune", cls=PolicyCommand)
@paths_argument
@log_options
@work_options
@replay_options
def command(
    paths: tuple[Path, ...],
    since: datetime | None,
    project: str | None,
    account: Account | None,
    processes: int | None,
    scheduler: str | None,
    pause: Pause | None,
    **given: object,
) -> None:
    """Find the best settings for your sessions, by trying several hundred.

    Without a PATH, reads the last 30 days of the logs that agents keep anyway: Claude Code, codex,
    and others. PATH is a log, a recording (.flow), a file of conversations (.json, .jsonl), or a
    folder of these, compressed or not. Options override the configuration.
    """
    advice = advise(locate_config(str(given["config"])).path)
    settings_list = read_replay_settings(given)
    if len(settings_list) > 1:
        raise ValueError("tune takes one --prices")
    settings = replace(settings_list[0], rules=())  # the search is for a single policy
    with open_work(
        paths,
        processes=processes,
        scheduler=scheduler,
        pause=pause,
        choice=choose_logs(paths, since, project),
        starts_for_few=True,
    ) as work:
        account, learned = choose_account(account)
        if work.found.logs and learned:
            print(learned, file=sys.stderr)
        run_tune(work, settings, open_console(), advice, account=account)


def run_tune(
    work: SessionWork,
    present: ReplaySettings,
    console: Console,
    advice: Advice,
    *,
    grid: Grid | None = None,
    account: Account | None = None,
) -> Sweep:
    """Try a grid of settings on all sessions; print those worth a look, and those to use.

    If there are fewer sessions than workers, each is tried in several tasks. Raises ValueError if
    there is no request, and what reading a session raises.
    """
    tunings = list_tunings(tuning_of(present), grid or Grid())
    sessions = sum(1 for _ in islice(work.read(), work.workers.width))
    # A log may have several sessions, and then the order would be another one.
    tasks = 1 if work.found.logs else -(-work.workers.width // max(1, sessions))
    batches = split_into_batches(tunings, max(1, tasks))
    found = work.run("tune", try_on_session, [(present, batch, account) for batch in batches])
    outcomes = add_outcomes(tunings, batches, found)
    sweep = Sweep(outcomes=outcomes, present=tuning_of(present), promise=present.policy.max_loss)
    if not outcomes[sweep.off].tokens:
        raise ValueError(_explain_nothing(work))
    arrival = _switch_arrival(work, present, sweep, account)
    if count := outcomes[sweep.off].assumed:
        print_text(console, _render_assumed_count(count, present))
    console.print(render_sweep(sweep))
    print_text(console, "\n".join(_explain_sweep(sweep, arrival)))
    settings = find_settings(recommend(sweep), present.price_settings)
    print_text(console, advice.set(settings))
    return sweep


def _explain_nothing(work: SessionWork) -> str:
    """Return why there is no request to try settings on, and what to do."""
    nothing = "no request to try settings on"
    sessions = (session for source in work.read() for session, _ in source.open() if session)
    reasons = Counter(log.cost_only for session in sessions if (log := log_of(session)))
    known = [f"{reasons[why]:,} {text}" for why, text in COST_ONLY.items() if reasons[why]]
    if not known:
        return nothing
    return (
        f"{nothing}: of {pluralize(reasons.total(), 'session')}, {', '.join(known)}, which tells "
        "nothing of other settings. obsmask run --observe -- AGENT sends a session whole, to be "
        "tried afterwards; without a path, --since 1y reads older ones"
    )


def _switch_arrival(
    work: SessionWork,
    present: ReplaySettings,
    sweep: Sweep,
    account: Account | None,
) -> str:
    """Return what shortening at arrival does with the settings to use.

    Whether to switch it on is left to the user: the sweep is of the window alone. Nothing is
    shortened where masking is off, so it is then tried with the present window.
    """
    best, is_on = recommend(sweep), present.strategies.arrival.enabled
    tuning = best if best.enabled else sweep.present._replace(enabled=True)
    found = {is_on: sweep.outcomes.get(tuning)}
    for enabled in (True, False):
        if found.get(enabled) is None:
            settings = switch_arrival(present, enabled=enabled)
            tried = work.run("tune", try_on_session, [(settings, (tuning,), account)])
            found[enabled] = add_outcomes((tuning,), [(tuning,)], tried)[tuning]
    on, off = found[True] or Outcome(), found[False] or Outcome()
    window = "these settings" if tuning == best else "masking on, and the present window,"
    return describe_arrival(on, off, sweep.outcomes[sweep.off], window, is_on=is_on)


def describe_arrival(
    on: Outcome, off: Outcome, plain: Outcome, window: str = "these settings", *, is_on: bool
) -> str:
    """Return what shortening long results when they arrive does.

    on, off: what some settings yield with it and without it; `plain` is what sending everything
        does. `window` names these settings.
    is_on: whether it is on at present.
    """
    state = "is on" if is_on else "is off, and stays so"
    start = f"Shortening long results when they arrive (arrival.enabled) {state}."
    if not on.shortened:
        return f"{start} With {window} it would shorten none of the results."
    in_dollars = None not in (on.dollars, off.dollars, plain.dollars)
    costs = [(each.dollars or 0.0) if in_dollars else each.cost for each in (on, off, plain)]
    saved, whole = costs[1] - costs[0], costs[2]
    verb = "save another" if saved >= 0 else "cost another"
    part = f", {abs(saved) / whole:.1%} of the bill of sending everything" if whole else ""
    calls = max(1, on.left_out.calls)
    return (
        f"{start} With {window} it would shorten {pluralize(on.shortened, 'result')} by "
        f"{pluralize(on.left_out_chars, 'character')} in all, and {verb} "
        f"{Currency(is_dollars=in_dollars).render(abs(saved))}{part}. Of "
        f"{pluralize(on.left_out.calls, 'call')}, {on.left_out.either / calls:.1%} repeat or name "
        f"what it leaves out, and {on.left_out.quoted / calls:.1%} quote it: the least to expect, "
        "because these agents had seen the results whole. obsmask replay --set "
        "arrival.enabled=true shows it by conversation."
    )


def try_on_session(
    session: Session, present: ReplaySettings, tunings: Sequence[Tuning], account: Account | None
) -> list[Outcome]:
    """Return what each tuning yields on a session.

    A session of a log that says nothing of what masking saves counts as one without requests.
    """
    log = log_of(session)
    if log is not None:
        log.account = account
        if log.cost_only is not None:
            return try_tunings(_NO_SESSION, present, tunings)
    return try_tunings(session, present, tunings)


class _NoSession:
    name = ""

    def requests(self) -> Iterator[RecordedRequest]:
        return iter(())


_NO_SESSION = _NoSession()


def find_settings(tuning: Tuning, price_settings: PriceSettings) -> dict[str, object]:
    """Return the settings by their names in a configuration, under these prices."""
    slides, given = tuning.max_loss is None, price_settings.cache_pricing
    settings = tuning._asdict() | {
        "cache_pricing": "none" if slides else "auto" if given == "none" else given,
        "assumed_prices": None
        if price_settings.assumed == PriceSettings().assumed
        else price_settings.assumed,
    }
    return {f"schema1.{name}": value for name, value in settings.items() if value is not None}


# The table

_TUNING = ("window", "latest", "errors", "last\nK", "min\nchars", "max\nloss")
_COSTS = ("cost", "saved")
_LOSSES = ("tokens\nsaved", "re-\nreads", "quotes", "worst")

_NAMED = ("row", "", *_TUNING)
"""The columns that are words, or name a row: the second is its name."""


@dataclass(frozen=True, slots=True)
class SweepTable:
    """A table that rich can print: as two with numbered rows where the screen is narrow.

    `rows` have their cells by column, and a style.
    """

    title: str
    rows: Sequence[tuple[Mapping[str, str], str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what is printed."""
        whole = self._render(self.title, "", *_TUNING, *_COSTS, *_LOSSES)
        if fits(whole, console, options):
            yield whole
        else:
            yield self.title
            yield self._render(None, "row", "", *_TUNING, *_COSTS)
            yield self._render(None, "row", "", *_LOSSES)

    def _render(self, title: str | None, *columns: str) -> Table:
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
        for name in columns:
            table.add_column(name, justify="left" if name in _NAMED else "right", no_wrap=True)
        for number, (cells, style) in enumerate(self.rows, 1):
            found = {"row": str(number), **cells}
            table.add_row(*(found[column] for column in columns), style=style)
        return table


def render_sweep(sweep: Sweep) -> SweepTable:
    """Return a row for each of the settings worth a look, the cheapest first."""
    plain, best = sweep.outcomes[sweep.off], recommend(sweep)
    unit = UNITS["usd" if sweep.in_dollars else "input_tokens"]
    title = (
        f"{len(sweep.outcomes):,} settings on {pluralize(plain.requests, 'request')} of "
        f"{plain.tokens:,} tokens; costs in {unit}"
    )
    rows = []
    shown = {*pareto_front(sweep), best, sweep.present, sweep.off}
    for tuning in sorted(shown, key=sweep.costs.__getitem__):
        names = ("", *_TUNING, *_COSTS, *_LOSSES)
        described = (*_describe_tuning(tuning), *_describe_outcome(tuning, sweep))
        cells = (_name(tuning, best, sweep), *described)
        rows.append((dict(zip(names, cells, strict=True)), "bold" if tuning == best else ""))
    return SweepTable(title, rows)


def _name(tuning: Tuning, best: Tuning, sweep: Sweep) -> str:
    if tuning == best:
        return "keep" if best == sweep.present else "use"
    return {sweep.present: "present", sweep.off: "all sent"}.get(tuning, "")


def _describe_tuning(tuning: Tuning) -> tuple[str, ...]:
    if not tuning.enabled:
        return ("off", "", "", "", "", "")
    return (
        str(tuning.window_turns),
        str(tuning.keep_latest_turns),
        "kept" if tuning.keep_errors else "masked",
        str(tuning.keep_last_k_per_tool),
        str(tuning.min_chars),
        "slides" if tuning.max_loss is None else f"{tuning.max_loss:.0%}",
    )


def _describe_outcome(tuning: Tuning, sweep: Sweep) -> tuple[str, ...]:
    outcome, cost = sweep.outcomes[tuning], sweep.costs[tuning]
    return (
        Currency(is_dollars=sweep.in_dollars).render_bare(cost),
        _render_saved(cost, sweep),
        f"{1 - outcome.tokens / sweep.outcomes[sweep.off].tokens:.1%}",
        _render_share(outcome.rereads.either, outcome),
        _render_share(outcome.rereads.quoted, outcome),
        f"{outcome.worst - 1:+.1%}",
    )


def _render_share(count: int, outcome: Outcome) -> str:
    return f"{count / max(1, outcome.rereads.calls):.1%}"


def _render_saved(cost: float, sweep: Sweep) -> str:
    everything = sweep.costs[sweep.off]
    return f"{1 - cost / everything:.1%}" if everything else ""


# What is said about it

CAVEAT = (
    "A replay prices tokens. It cannot show what an agent would have done without what was masked. "
    "The only signs of that are re-reads and quotes: later calls that repeat one whose result was "
    "masked, or name what only masked results showed, or have a line that only these showed."
)


def _render_assumed_count(count: int, settings: ReplaySettings) -> str:
    """Return for how many requests prices were assumed, and which, if a model was given."""
    reason = ""
    if settings.model is not None:
        pricing = find_pricing(settings.price_settings, None, settings.model)
        maker = None if pricing.entry is None else str(pricing.entry)
        assumed = AssumedPrice(settings.model, pricing.read, pricing.write, maker, count)
        reason = f": {describe_assumed(assumed)}"
    return (
        f"Prices are assumed for {pluralize(count, 'request')}{reason}.\n"
        "Set them with --model or --prices; for good, as obsmask prices HOST MODEL says."
    )


def _explain_sweep(sweep: Sweep, arrival: str) -> Iterator[str]:
    """Yield what a reader of the table must know, what arrival does, and what is recommended."""
    plain, refused = sweep.outcomes[sweep.off], len(sweep.outcomes) - len(sweep.kept)
    yield CAVEAT
    yield (
        f"Re-reads and quotes are parts of {pluralize(plain.rereads.calls, 'call')}. Worst is the "
        "most by which a conversation's bill exceeded that of sending everything, at any of its "
        "requests. The cache is simulated, and costs do not include output."
    )
    if refused:
        yield (
            f"Left out: {pluralize(refused, 'setting')} with which a conversation's bill exceeded "
            f"the {sweep.promise:.0%} that max_loss allows by more than 2 points, the margin of "
            "the rule's estimates."
        )
    yield (
        f"No window under {LEAST_WINDOW} turns is recommended: recordings made without masking "
        "cannot show what an agent would have missed."
    )
    yield arrival
    yield ""
    yield _recommend(sweep)


def _recommend(sweep: Sweep) -> str:
    """Return the line before the command that sets the best settings."""
    best = recommend(sweep)
    if best == sweep.present:
        return "Nothing tried is 1% cheaper, counting each affected call as one more request. Keep:"
    saved = [
        _render_saved(sweep.costs_with_rereads[tuning], sweep) for tuning in (best, sweep.present)
    ]
    compared = (
        "If each affected call took one more request, which the table leaves out, these settings "
        f"would save {saved[0]} of the bill of sending everything, and the present ones {saved[1]}"
    )

    # The present settings may save more and yet not be worth keeping.
    worst = sweep.outcomes[sweep.present].worst - 1
    if not sweep.keeps_promise(sweep.present):
        return (
            f"{compared}. But these break the promise of max_loss = {sweep.promise:g} on these "
            f"recordings: at its worst request a conversation's bill was {worst:.1%} above that of "
            f"sending everything, {worst - sweep.promise:.1%} more than is allowed. Use:"
        )
    if not sweep.present.is_window_long_enough:
        return f"{compared}. But their window is under {LEAST_WINDOW} turns. Use:"
    return f"{compared}:"
