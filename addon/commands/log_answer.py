"""What agents' own logs cost and would have cost, on one screen.

Money is in dollars where a price is known; what has none stands apart, in input tokens that cost as
much.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime

from msgspec.structs import replace
from rich.console import Console

from addon.accounts import find_learned
from addon.agents import AGENTS
from addon.commands.road_table import print_roads
from addon.commands.terminal import make_table, print_text
from addon.counts import pluralize
from addon.look.parts import Column, table
from addon.memory import open_memory
from addon.places import abbreviate, state_folder
from addon.records.words import (
    BOUND,
    INPUT_TOKENS,
    count_requests,
    find_common_currency,
    find_currency,
    render_bill,
    render_dollars,
    render_error,
    render_headline,
    render_range,
)
from addon.replay.logs import FoundLogs
from addon.replay.logs.answer import LENGTHS, Group, LogAnswer, LoggedSession
from addon.replay.logs.session import MOST_DIFFERENCE, Account, CostOnly
from addon.replay.numbers import describe_arrival, dump_arrival, explain_nothing
from addon.replay.report.page import LogSection
from addon.store import StoreError
from masking.accounting import NO_BILL, Bill, Margin, is_about_nothing
from masking.errors import printable

RECORDING = "recording"
"""The agent of a session that no agent's log tells of."""

COST_ONLY: Mapping[CostOnly, str] = {
    "differs": f"over {MOST_DIFFERENCE:.0%} off what the provider counted",
    "shortened": "shortened on the way, as behind obsmask",
    "unnamed": "without a known model, which decides what may be masked (--model NAME)",
}
"""Why sessions of logs tell nothing of what masking saves, after their number."""

_ACCOUNTS: Mapping[Account, str] = {
    "old": "made before August 31, 2026",
    "new": "made since",
}

_DATE = re.compile(r"-20\d{6}$")
"""The day of a model's version, for which a narrow table has no room."""

_LEAST_SESSIONS = 3
"""Of fewer a part of many says nothing, not even how far it is off."""

_MOST_KINDS = 5
_MOST_MODELS = 4
"""Rows of the table by model: all that is said fits a screen of 24 lines."""


def describe_found(found: Sequence[FoundLogs]) -> str:
    """Return what was found where: `claude-code: 214 logs in ~/.claude/projects`."""
    return "; ".join(
        f"{each.agent}: {pluralize(len(each.logs), 'log')} in {abbreviate(each.place)}"
        for each in found
        if each.logs
    )


def render_so_far(answer: LogAnswer, logs: int) -> str:
    """Return what is known after some sessions; empty if that is too little.

    logs: how many logs there are in all.
    """
    if answer.sessions < min(logs, _LEAST_SESSIONS):
        return ""
    sessions = f"{answer.sessions:,} of about {pluralize(logs, 'session')}"
    return f"So far, {sessions}: {_describe(answer, logs)}"


def _describe(answer: LogAnswer, logs: int | None = None) -> str:
    """Return what the sessions cost, and what they would have cost, as a sentence or two.

    logs: how many there are in all, if only some sessions were replayed.
    """
    bill, money = answer.bill, answer.bill.shown
    if logs is not None:
        sampling = Margin(answer.sampling_error(logs) * money.before)
        money = replace(money, margin=money.margin + sampling, asked_again=0)
    text = f"input {render_bill(money, find_currency(bill), is_dry_run=True)}"
    if not bill.is_saving_known:
        return f"{text}; what masking would have saved isn't known."
    if not money.saved:
        return f"{text}; masking would have saved nothing."
    return f"{text}{render_range(money)}."


def choose_account(given: Account | None) -> tuple[Account | None, str]:
    """Return the kind of account to count with, and a line that says how it was found out.

    given: the one that the user names; else it is what the proxy has learned, if anything.
    """
    if given is not None:
        return given, ""
    try:
        with closing(open_memory(state_folder)) as store:
            known = find_learned(store)
    except StoreError:  # `obsmask doctor` says why
        return None, ""
    found = {"takes" if each.verdict == "takes" else "refuses" for each in known}
    if len(found) != 1:
        return None, ""
    (learned,) = found
    account: Account = "old" if learned == "takes" else "new"
    return account, (
        f"Counted for an Anthropic account {_ACCOUNTS[account]}, as the proxy has found out that "
        f"yours {learned} masked requests at models that bind their reasoning (--account)."
    )


def print_answer(
    console: Console,
    answer: LogAnswer,
    found: Sequence[FoundLogs],
    *,
    since: datetime | None,
    account: Account | None,
    total: bool = False,
    interrupted: bool = False,
) -> None:
    """Print the answer; with `total` without its tables, if `interrupted` as a part of it."""
    logs = sum(len(each.logs) for each in found)
    when = f" since {since.astimezone():%B %d, %Y}".replace(" 0", " ") if since else ""
    side = "Interrupted after " if interrupted else ""
    if not answer.sessions:
        print_text(console, f"{side}{_describe_masked(answer)}")
        return
    requests = pluralize(answer.bill.tokens.requests, "request")
    print_text(console, f"{side}{pluralize(answer.sessions, 'session')}{when}, {requests}:")
    described = _describe(answer, logs if interrupted else None)
    console.print(
        f"{described[0].upper()}{described[1:]}",
        style="bold",
        highlight=False,
        markup=False,
    )
    for line in _list_answers(answer):
        print_text(console, line)
    if not total:
        columns = [column.title for column in COLUMNS]
        console.print()
        console.print(make_table(columns, *_list_rows(answer)))
        console.print()
    for line in _explain(answer, account):
        console.print(line, highlight=False, markup=False)
    bill = answer.bill
    is_none_saved = bill.dollars.saved < 0 or answer.find_best_agent() is None
    if bill.tokens.requests and bill.is_saving_known and is_none_saved:
        if answer.bound:
            sessions = pluralize(answer.bound, "session")
            because = f"In {sessions}, {BOUND['refuses'].because}, so older results stay."
            console.print(because, highlight=False, markup=False)
        else:
            print_text(
                console, "Masking pays in long sessions: in short ones there is little to hide."
            )
    print_roads(
        console,
        [
            (f"{agent}, {_DATE.sub('', model or 'no model')}", group.bill)
            for agent, model, group in answer.list_models()
        ][:_MOST_MODELS],
    )
    best = answer.find_best_agent()  # a recording's, or a trajectory's, may be none that we know
    if (start := next((each.start for each in AGENTS if each.name == best), None)) is not None:
        console.print("Next: ", end="", highlight=False)
        console.print(start, style="bold", highlight=False, soft_wrap=True)


def _list_answers(answer: LogAnswer) -> Iterator[str]:
    """Yield what the model's answers cost, and what has no price."""
    bill = answer.bill
    if bill.answer_dollars:
        yield f"Output cost another {render_dollars(bill.answer_dollars)} either way."
    if bill.unpriced.requests and bill.is_in_dollars:
        requests = pluralize(bill.unpriced.requests, "request")
        worth = INPUT_TOKENS.render(bill.unpriced.before)
        yield f"Not in dollars, as no price is known: {requests} worth {worth}."


# The table


COLUMNS = (
    Column("agent and model"),
    Column("sessions", "roomy"),
    Column("requests", "roomy"),
    Column("cost"),
    Column("with masking", "roomy"),
    Column("saved"),
)


def _list_rows(answer: LogAnswer) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return a row for each agent and model, and one for each length of session."""
    rows = answer.list_models()
    count = _MOST_MODELS if len(rows) <= _MOST_MODELS else _MOST_MODELS - 1
    shown, others = rows[:count], rows[count:]
    by_model = [
        (
            f"{agent}, {_DATE.sub('', model or 'no model')}{_render_why(group)}",
            *_render_cells(group),
        )
        for agent, model, group in shown
    ]
    if others:
        rest = Group()
        for _, _, group in others:
            rest.sessions += group.sessions
            rest.bill += group.bill
            rest.bound, rest.held = rest.bound + group.bound, rest.held + group.held
        by_model.append((f"{len(others)} more", *_render_cells(rest)))
    by_length = [
        (_name_length(length), *_render_cells(group))
        for length, group in sorted(answer.by_length.items())
    ]
    return by_model, by_length


def _render_why(group: Group) -> str:
    why = explain_nothing(group.bill, group.bound, group.held) if group.bill.is_saving_known else ""
    return f" ({why})" if why else ""


def _name_length(length: int) -> str:
    if length == 0:
        return f"up to {LENGTHS[0]} tool turns"
    if length == len(LENGTHS):
        return f"more than {LENGTHS[-1]} tool turns"
    return f"{LENGTHS[length - 1] + 1} to {LENGTHS[length]} tool turns"


def _render_cells(group: Group) -> tuple[str, ...]:
    bill, money = group.bill, group.bill.shown
    before, saved = money.before, money.saved
    is_known, render = bill.is_saving_known, find_currency(bill).render_short
    return (
        f"{group.sessions:,}",
        f"{bill.tokens.requests:,}",
        render(before),
        render(before - saved) if is_known else "not known",
        _render_saved(before, saved, money.error) if is_known else "",
    )


def _render_saved(before: float, saved: float, width: float) -> str:
    if not before or not saved:
        return "0%"
    if is_about_nothing(saved, width):
        return "about 0"
    return f"{100 * saved / before + 0.0:.0f}%{render_error(width / before, '{:.0f}')}"


# What else there is to say


def _explain(answer: LogAnswer, account: Account | None) -> Iterator[str]:
    hidden = answer.hidden
    if hidden.tool_results:
        rereads = hidden.chosen_rereads
        part = hidden.masked_tool_results / hidden.tool_results
        line = f"On an average request masking would have hidden {part:.0%} of the tool results."
        if calls := rereads.calls:
            line += (
                f" Of {pluralize(calls, 'call')} after that, {rereads.either / calls:.1%} repeat "
                f"or name what was hidden, {rereads.quoted / calls:.1%} quote it."
            )
        yield line
    money, currency = answer.bill.shown, find_currency(answer.bill)
    calls = hidden.chosen_rereads.calls
    if told := describe_arrival(hidden.arrival, calls, money, currency):
        yield told
    if hidden.recorded.tokens.requests:
        yield describe_recorded(hidden.recorded, answer.bill.tokens.requests)
    if others := {why: each for why, each in answer.cost_only.items() if why != "shortened"}:
        reasons = [
            f"{others[why].sessions:,} {text}" for why, text in COST_ONLY.items() if why in others
        ]
        sessions = _count_sessions(others.values())
        yield f"{sessions} counted for the cost alone: {', '.join(reasons)}."
    if "shortened" in answer.cost_only:
        yield _describe_masked(answer)
    if answer.uncounted:
        yield (
            f"{pluralize(answer.uncounted, 'session')} without a provider's counts: these amounts "
            "are estimated from the texts."
        )
    if account is None and answer.accounts:
        old, new = (answer.accounts.get(kind, Group()).bill for kind in ("old", "new"))
        gain = old.shown.saved - new.shown.saved
        if gain > old.shown.error:
            more = find_currency(old).render_short(gain)
            yield (
                f"Another {more} would have been saved on an Anthropic account {_ACCOUNTS['old']}, "
                "which takes more changes (--account old or new)."
            )


def describe_recorded(bill: Bill, requests: int) -> str:
    """Return what was really paid for what was masked when it was recorded, as status says it.

    requests: of how many the reader thinks.
    """
    money, currency = bill.of_all, find_common_currency(bill)
    some = "" if money.requests == requests else f" of {count_requests(money.requests)}"
    return f"Masked already when it was recorded: input{some} {render_bill(money, currency)}."


def _describe_masked(answer: LogAnswer) -> str:
    """Return how many sessions were masked or shortened already, and who knows what that saved."""
    group = answer.cost_only["shortened"]
    was = "was" if group.sessions == 1 else "were"
    return (
        f"{_count_sessions([group])} {was} {COST_ONLY['shortened']}. What that saved, "
        "obsmask status says; it is in no other figure here."
    )


def _count_sessions(groups: Collection[Group]) -> str:
    """Return how many sessions are in some groups, and what they cost: `2 sessions ($1.51)`."""
    bill = sum((each.bill for each in groups), start=NO_BILL)
    amount = find_currency(bill).render_short(bill.shown.before)
    return f"{pluralize(sum(each.sessions for each in groups), 'session')} ({amount})"


def _list_unread(answer: LogAnswer) -> Iterator[str]:
    if answer.unread:
        kinds = [printable(kind) for kind, _ in answer.unread.most_common()]
        more = f", and {len(kinds) - _MOST_KINDS} more" if len(kinds) > _MOST_KINDS else ""
        yield f"Entries of these kinds were passed over: {', '.join(kinds[:_MOST_KINDS])}{more}."


# As a part of the report


def name_session(session: LoggedSession) -> str:
    """Return what a reader knows a session by: `codex in garden, May 4, 2026, 10:00`."""
    began = session.began.astimezone()
    place = f" in {session.project}" if session.project else ""
    side = ", a sub-agent" if session.is_side else ""
    return f"{session.agent}{place}, {began:%B} {began.day}, {began:%Y, %H:%M}{side}"


def describe_section(answer: LogAnswer, account: Account | None) -> LogSection:
    """Return what a report says of all sessions."""
    bill = answer.bill
    title = "What you would have saved isn't known"
    if bill.is_saving_known:
        title = render_headline(bill.shown, find_currency(bill), is_observed=True)
    sessions, (_, *others) = pluralize(answer.sessions, "session"), COLUMNS
    return LogSection(
        title=title,
        sentence=f"{sessions}, {pluralize(bill.tokens.requests, 'request')}: {_describe(answer)}",
        tables=[
            table(
                f"Sessions by {name}",
                [each._replace(title=each.title.capitalize()) for each in (Column(name), *others)],
                rows,
            )
            for name, rows in zip(("agent and model", "length"), _list_rows(answer), strict=True)
        ],
        notes=[*_list_answers(answer), *_explain(answer, account), *_list_unread(answer)],
    )


# As JSON


def describe_log(session: LoggedSession) -> dict[str, object]:
    """Return what `--json` has of a session beside its figures."""
    return {
        "agent": session.agent,
        "project": session.project,
        "began": session.began.isoformat(),
        "tool_turns": session.turns,
        "is_side": session.is_side,
        "models": list(session.models),
        "cost_only": session.cost_only,
        "difference": session.difference,
    }


def describe_answer(answer: LogAnswer, found: Sequence[FoundLogs]) -> dict[str, object]:
    """Return what `--json` has of all sessions of logs together."""
    arrival = dump_arrival(answer.hidden.arrival, answer.bill.shown)
    return {
        "found": [
            {"agent": each.agent, "place": str(each.place), "logs": len(each.logs)}
            for each in found
        ],
        "sessions": answer.sessions,
        **_describe_bill(answer.bill),
        "by_model": [
            {
                "agent": agent,
                "model": model,
                **_describe_group(group),
                **_describe_roads(group.bill),
            }
            for agent, model, group in answer.list_models()
        ],
        "by_tool_turns": [
            {
                "more_than": LENGTHS[length - 1] if length else 0,
                "up_to": LENGTHS[length] if length < len(LENGTHS) else None,
                **_describe_group(group),
            }
            for length, group in sorted(answer.by_length.items())
        ],
        "cost_only": {why: _describe_group(group) for why, group in answer.cost_only.items()},
        "accounts": {kind: _describe_group(group) for kind, group in answer.accounts.items()},
        **({"arrival": arrival} if arrival else {}),
        "borrowed_prices": dict(answer.bill.borrowed),
        "standard_prices": dict(answer.bill.standard),
        "uncounted_sessions": answer.uncounted,
        "unread": dict(answer.unread),
    }


def _describe_group(group: Group) -> dict[str, object]:
    return {"sessions": group.sessions, **_describe_bill(group.bill)}


def _describe_roads(bill: Bill) -> dict[str, object]:
    """Return what requests would have cost by other roads, and how far that may be off."""
    roads = {
        name: {
            "dollars": beside.dollars.after,
            "dollars_error": beside.dollars.error,
            "input_tokens": beside.tokens.after,
            "input_tokens_error": beside.tokens.error,
        }
        for name, beside in bill.roads.items()
    }
    return {"roads": roads} if roads else {}


def _describe_bill(bill: Bill) -> dict[str, object]:
    dollars, unpriced = bill.dollars, bill.unpriced
    figures: dict[str, object] = {
        "requests": bill.tokens.requests,
        "dollars_before": dollars.before,
        "dollars_after": dollars.after,
        "dollars_saved": dollars.saved,
        "dollars_error": dollars.error,
        "answer_dollars": bill.answer_dollars,
        "unpriced_requests": unpriced.requests,
        "unpriced_input_tokens": unpriced.before,
        "unpriced_input_tokens_saved": unpriced.saved,
    }
    if bill.tokens.at_arrival:
        figures |= {
            "dollars_saved_at_arrival": dollars.at_arrival,
            "dollars_saved_at_arrival_error": dollars.arrival_margin.width,
            "unpriced_input_tokens_saved_at_arrival": unpriced.at_arrival,
        }
    return figures
