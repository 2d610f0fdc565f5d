"""`obsmask tune`: which settings pay on one's own recordings.

It is `obsmask replay` under a handful of settings: each row of its table says what a replay under
these says, from the same sums.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import islice
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from addon.commands.log_answer import COST_ONLY, choose_account
from addon.commands.options import (
    PolicyCommand,
    choose_logs,
    log_options,
    paths_argument,
    read_overrides,
    read_replay_settings,
    replay_options,
    work_options,
)
from addon.commands.replay import (
    ReplayedSession,
    ReplayOutputs,
    ReplayResult,
    open_result,
    render_assumed,
    replay_session,
)
from addon.commands.terminal import open_console, print_text
from addon.commands.tuning import (
    ARRIVAL,
    LEAST_WINDOW,
    Changes,
    Choice,
    Outcome,
    list_choices,
    recommend,
    switch_off,
)
from addon.commands.work import SessionWork, open_work
from addon.config import advise, locate_config
from addon.config_commands import Advice, render_toml
from addon.counts import pluralize
from addon.records.words import (
    Currency,
    find_currency,
    render_left,
    render_range,
    render_saved_percent,
)
from addon.replay.logs.session import Account
from addon.replay.numbers import render_share
from addon.replay.references import SessionReferences
from addon.replay.replay import Pause, ReplaySettings, Session
from addon.replay.totals import Totals
from masking.accounting import Money
from masking.config import CLIENT_WINDOWS, read_override
from masking.window import MaskPolicy


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
    """Find better settings for your sessions.

    Replays them under a dozen settings. Without a PATH, reads the last 30 days of the logs that
    agents keep anyway: Claude Code, codex, and others. PATH is a log, a recording (.flow), a
    file of conversations (.json, .jsonl), or a folder of these, compressed or not. Options
    override the configuration.
    """
    advice = advise(locate_config(str(given["config"])).path)
    if len(read_replay_settings(given)) > 1:
        raise ValueError("tune takes one --prices")

    def read(changes: Changes) -> ReplaySettings:
        more = [f"{name}={render_toml(value)}" for name, value in changes.items()]
        return read_replay_settings(given, more)[0]

    overridden = {
        ".".join(override.keys): override.value
        for override in map(read_override, read_overrides(given))
    }
    choices, choice = list_choices(read), choose_logs(paths, since, project)
    with open_work(
        paths,
        processes=processes,
        scheduler=scheduler,
        pause=pause,
        choice=choice,
        starts_for_few=True,
    ) as work:
        account, learned = choose_account(account)
        if work.found.logs and learned:
            print(learned, file=sys.stderr)
        wanted = ReplayOutputs(
            rows=False, sliding=False, since=choice.since, account=account or "new"
        )
        run_tune(work, choices, wanted, open_console(), advice, overridden)


def run_tune(
    work: SessionWork,
    choices: Sequence[Choice],
    wanted: ReplayOutputs,
    console: Console,
    advice: Advice,
    overridden: Changes | None = None,
) -> Outcome:
    """Try settings on all sessions; print what they come to, and return those to use.

    choices: as `list_choices` returns them.
    overridden: settings that the present ones have by the command's options, and no file has.

    Raises ValueError if there is no request, and what reading a session raises.
    """
    with ExitStack() as stack:
        results = [stack.enter_context(open_result(each.settings)) for each in choices]
        _fill(results, work, wanted)
    present, policy = results[0], choices[0].settings.policy
    if not _find_totals(present).requests:
        raise ValueError(_explain_nothing(present))

    outcomes = [
        _measure(choice, result)
        for choice, result in zip(choices, results, strict=True)
        if ARRIVAL not in choice.changes or _shortens(result) != _shortens(present)
    ]
    off = _send_all(outcomes[0], switch_off(policy))
    if off.changes:
        outcomes.append(off)
    else:
        outcomes[0] = off
    agents = {agent for agent, _ in present.answer.by_model}
    own_windows = [turns for client, turns in CLIENT_WINDOWS.items() if client in agents]
    best = recommend(outcomes, policy.max_loss, max(own_windows, default=0))
    if assumed := render_assumed(present.totals):
        print_text(console, assumed)
    currency = _find_currency(present)
    console.print(_render_table(outcomes, best, off, policy, currency))
    print_text(console, "\n".join(_explain(outcomes, best, policy)))
    if settings := {**(overridden or {}), **best.changes}:
        print_text(console, advice.change(settings))
    return best


def _fill(results: Sequence[ReplayResult], work: SessionWork, wanted: ReplayOutputs) -> None:
    """Replay all sessions for each of these results, and add what they come to.

    If there are fewer sessions than workers, each is replayed in several tasks.
    """
    for result in results:
        result.found = work.found.logs
    sessions = sum(1 for _ in islice(work.read(), work.workers.width))
    tasks = max(1, -(-work.workers.width // max(1, sessions)))
    numbered = [(number, result.settings) for number, result in enumerate(results)]
    arguments = [(part, wanted) for at in range(tasks) if (part := numbered[at::tasks])]
    for replayed in work.run("tune", _try_on_session, arguments):
        for number, session in replayed:
            results[number].add(session, wanted)


def _try_on_session(
    session: Session, numbered: Sequence[tuple[int, ReplaySettings]], wanted: ReplayOutputs
) -> list[tuple[int, ReplayedSession]]:
    """Replay a session under each of these settings."""
    references = SessionReferences(session)
    return [
        (number, replay_session(session, settings, wanted, references))
        for number, settings in numbered
    ]


def _explain_nothing(result: ReplayResult) -> str:
    """Return why there is no request to try settings on, and what to do."""
    nothing = "no request to try settings on"
    counts = Counter({why: group.sessions for why, group in result.answer.cost_only.items()})
    known = [f"{counts[why]:,} {text}" for why, text in COST_ONLY.items() if counts[why]]
    if not known:
        return nothing
    return (
        f"{nothing}: of {pluralize(counts.total(), 'session')}, {', '.join(known)}, which tells "
        "nothing of other settings. obsmask run --observe -- AGENT sends a session whole, to be "
        "tried afterwards; without a path, --since 1y reads older ones"
    )


def _shortens(result: ReplayResult) -> bool:
    return bool(result.totals.arrival.results)


# What a replay says, as an outcome


def _measure(choice: Choice, result: ReplayResult) -> Outcome:
    """Return what a replay says of its bill and of the calls that asked again."""
    totals = _find_totals(result)
    rereads = totals.chosen_rereads
    return Outcome(
        changes=choice.changes,
        money=result.answer.bill.shown if result.found else result.totals.bill.of_all,
        calls=rereads.calls,
        rereads=rereads.either,
        quotes=rereads.quoted,
        worst=totals.worst.part if totals.worst else 1.0,
        window_turns=choice.settings.policy.window_turns,
    )


def _find_totals(result: ReplayResult) -> Totals:
    """Return the sums over the sessions that say what masking saves."""
    return result.answer.hidden if result.found else result.totals


def _send_all(outcome: Outcome, changes: Changes) -> Outcome:
    """Return what sending everything yields, which each replay says besides."""
    money = outcome.money
    unmasked = Money(money.requests, money.before, money.before)
    return Outcome(changes=changes, money=unmasked, calls=outcome.calls)


def _find_currency(result: ReplayResult) -> Currency:
    return find_currency(result.answer.bill) if result.found else result.totals.currency


# The table

_SETTINGS: Mapping[str, str] = {
    "window": "window_turns",
    "latest": "keep_latest_turns",
    "min\nchars": "min_chars",
}
"""The columns that are settings of the window."""


def _render_table(
    outcomes: Sequence[Outcome],
    best: Outcome,
    off: Outcome,
    policy: MaskPolicy,
    currency: Currency,
) -> Table:
    """Return a row for each of the settings, the cheapest first."""
    requests = pluralize(off.money.requests, "request")
    table = Table(
        title=f"{pluralize(len(outcomes), 'setting')} on {requests}; costs in {currency.full_name}",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("", no_wrap=True)
    for name in (*_SETTINGS, "cost", "saved", "if asked\nagain", "re-\nreads", "quotes"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in sorted(outcomes, key=lambda one: one.money.after):
        is_present, is_best = each is outcomes[0], each is best
        names = [
            "keep" if is_best and is_present else "use" if is_best else "",
            "present" if is_present and not is_best else "",
            "all sent" if each is off else "",
            f"arrival {'on' if each.changes[ARRIVAL] else 'off'}" if each.switches_arrival else "",
        ]
        settings = (
            "" if each is off else str(each.changes.get(f"schema1.{key}", getattr(policy, key)))
            for key in _SETTINGS.values()
        )
        cells = _render_outcome(each, currency)
        table.add_row(" ".join(filter(None, names)), *settings, *cells, style="bold" * is_best)
    return table


def _render_outcome(outcome: Outcome, currency: Currency) -> tuple[str, ...]:
    money, calls = outcome.money, outcome.calls
    signs = (render_share(count, calls) for count in (outcome.rereads, outcome.quotes))
    return (
        currency.render_bare(money.after),
        render_saved_percent(money.before, money.saved, money.error) if money.saved else "",
        render_left(money),
        *signs,
    )


# What is said about it

CAVEAT = (
    "A replay prices tokens. It cannot show what an agent would have done without what was masked. "
    "The only signs of that are re-reads and quotes: later calls that repeat one whose result was "
    "masked, or name what only masked results showed, or have a line that only these showed."
)

_ARRIVAL_CAVEAT = (
    "Shortening long results when they arrive (arrival.enabled) is left as it is: the agents had "
    "seen them whole, so its signs are the least to expect."
)


def _explain(outcomes: Sequence[Outcome], best: Outcome, policy: MaskPolicy) -> Iterator[str]:
    """Yield what a reader of the table must know, and what is recommended."""
    present, promise = outcomes[0], policy.max_loss
    yield CAVEAT
    if any(each.switches_arrival for each in outcomes):
        yield _ARRIVAL_CAVEAT
    if refused := sum(not each.keeps(promise) for each in outcomes):
        yield (
            f"{pluralize(refused, 'setting')} with which a conversation's bill exceeded that of "
            f"sending everything by more than the {promise:.0%} of max_loss is not recommended."
        )
    yield ""
    if best is present:
        yield "Nothing tried is better by a hundredth of the bill. Keep your settings:"
        yield _tell("keep", best)
        return
    yield _tell("present", present)
    if not present.keeps(promise):
        yield (
            f"These break the promise of max_loss = {promise:g} here: at its worst request, a "
            f"conversation's bill was {present.worst - 1:.1%} above that of sending everything."
        )
    if not present.is_window_long_enough:
        yield (
            f"Their window is under {LEAST_WINDOW} turns: recordings made without masking cannot "
            "show what an agent would have missed."
        )
    yield _tell("use", best)
    parts = [
        f"without {name}={render_toml(value)}, {without.left:.0%}"
        for name, value in best.changes.items()
        for without in outcomes
        if {**without.changes, name: value} == best.changes and name not in without.changes
    ]
    if len(best.changes) > 1 and parts:
        yield f"Left if asked again: {'; '.join([f'{best.left:.0%}', *parts])}."


def _tell(name: str, outcome: Outcome) -> str:
    """Return what settings save, and what is left of it if calls that asked again cost one more."""
    money = outcome.money
    if not money.saved:
        return f"{name}: saved nothing."
    saved = render_saved_percent(money.before, money.saved, money.error)
    return f"{name}: saved {saved}{render_range(money)}."
