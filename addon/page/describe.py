"""The board in the words of the page, as JSON: sentences, rows, and one conversation in full."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from addon.counts import pluralize
from addon.look.parts import Cell, Column, Part, cell, cells_of, table, text, title
from addon.page.board import Conversation, Described, View
from addon.page.conversation import (
    accumulate_savings,
    list_parts,
    name_conversation,
)
from addon.records.harm import judge
from addon.records.harm_words import NOTE, describe_measures, render_left_out, render_verdict
from addon.records.holdout import Holdout
from addon.records.tally import Tally
from addon.records.words import (
    explain_unmasked,
    find_currency,
    list_clearings,
    list_drops,
    list_rereads,
    list_resent,
    list_unmaskable,
    render_headline,
    render_outgrown,
    render_tally,
    tell_quota,
    tell_roads,
)

_SPARK = 60
"""The points of a sparkline: of the latest requests."""

_UNFIT = "without masking it would no longer fit its model, which takes {:,} tokens"

COLUMNS = (
    Column("Conversation"),
    Column("Requests", "roomy"),
    Column("Smaller by", "wide"),
    Column("From cache", "wide"),
    Column("Answer begins", "wide"),
    Column("Saved so far", "wide spark"),
    Column("Cost"),
    Column("Saved"),
)


def describe_view(view: View, run: Described) -> Described:
    """Return the sums of the run, and a row for each of the view's conversations."""
    return {
        "version": view.version,
        "is_whole": view.is_whole,
        "texts": {**_describe_run(run), **(_describe_total(view) if view.total.count else {})},
        "columns": [list(each) for each in COLUMNS],
        "plan": [*_describe_quota(view.total)],
        "harm": [*_describe_harm(view.holdout)],
        "conversations": [describe_row(each) for each in view.conversations],
    }


def _describe_run(run: Described) -> Mapping[str, str]:
    """Return how the proxy is, what passes it unmasked, and how to send an agent through it."""
    passed = [*list_unmaskable(run.get("unopened", {}), run.get("unserved", 0))]
    if run.get("unopened"):
        passed.append("see obsmask doctor")
    tag = f", tagged {run['tag']}" if run.get("tag") else ""
    state = f"{run['state']}. This run is {run['name']}{tag}." if run.get("name") else ""
    command = f"obsmask run --proxy {run['proxy']} -- claude" if run.get("proxy") else ""
    return {"state": state, "warning": " ".join(map(_as_sentence, passed)), "command": command}


def _describe_total(view: View) -> Mapping[str, str]:
    total, sums = view.total, view.total.shown
    money, currency = sums.masked_bill.shown, find_currency(sums.masked_bill)
    is_observed = total.is_observed_only
    headline = render_headline(money, currency, is_observed=is_observed, is_over=False)
    shown, count = view.kept, len(total.conversations)
    kept = f"The last {shown:,} of {count:,} conversations" if shown < count else (
        pluralize(shown, "conversation")
    )  # fmt: skip
    return {
        "net": headline if sums.changed else "Nothing masked yet",
        "line": f"{render_tally(total)}.",
        "notes": " ".join(f"{note}." for note in _list_notes(total)),
        "unfit": f"{render_outgrown(total)}." if total.outgrown else "",
        "counted": f"{kept}, the newest first.",
    }


def _describe_quota(total: Tally) -> Iterator[Part]:
    """Yield how much of each window of a plan's quota is used."""
    if rows := [*tell_quota(total, datetime.now(UTC))]:
        headings = ("Limit", "Used", "Resets", "At this pace", "Masking")
        filled = [at for at in range(len(headings)) if any(row[at] for row in rows)]
        cells = [[row[at] for at in filled] for row in rows]
        yield table("Used of the plan's quota", [Column(headings[at]) for at in filled], cells)


def _describe_harm(holdout: Holdout) -> Iterator[Part]:
    verdict = judge(holdout, datetime.now(UTC))
    if verdict is None:
        return
    yield text(_as_sentence(render_verdict(verdict)), "warning" if verdict.kind == "harm" else "")
    if verdict.can_compare:
        columns = map(Column, ("In a conversation", "Masked", "Held out", "Difference"))
        yield table("Both groups, in numbers", [*columns], describe_measures(verdict))
    notes = [NOTE if verdict.can_compare else "", render_left_out(verdict.left_out)]
    yield text(" ".join(_as_sentence(note) for note in notes if note), "note")


def _as_sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def describe_row(conversation: Conversation) -> Described:
    """Return a conversation in short."""
    return {
        "key": conversation.key,
        "number": conversation.number,
        "changed": conversation.changed,
        "cells": [*_list_cells(conversation)],
    }


def _list_cells(conversation: Conversation) -> Iterator[Cell]:
    tally = conversation.tally.shown
    money, is_observed = tally.masked_bill.shown, conversation.tally.is_observed_only
    client, *others = conversation.names
    yield cell(
        f"{conversation.number:,}: {client}",
        *_list_facts(conversation, others),
        href=f"#{quote(conversation.key, safe='')}",
    )
    yield f"{tally.count:,}" + (f", {tally.failed:,} failed" if tally.failed else "")
    smaller = 1 - tally.tokens_after / tally.tokens_before if tally.tokens_before else None
    yield "" if smaller is None else f"{smaller:.0%}"
    yield f"{tally.cached_tokens / tally.prompt_tokens:.0%}" if tally.prompt_tokens else ""
    wait = tally.waits.percentile(50)
    yield "" if wait is None else f"{wait:.1f} s"
    yield cell("", spark=accumulate_savings(conversation)[-_SPARK:])
    paid = money.before if is_observed else money.after
    yield from cells_of(tally.masked_bill, paid, is_observed=is_observed)


def _list_facts(conversation: Conversation, names: Sequence[str]) -> Iterator[Cell]:
    """Yield what a row says below its name."""
    last = conversation.requests[-1].time if conversation.requests else conversation.began
    about = ", ".join(filter(None, (conversation.folder, *names)))
    yield {"text": f"{about}{', ' if about else ''}", "times": [conversation.began, last]}
    if conversation.label:
        yield f"label: {conversation.label}"
    if conversation.tally.is_observed_only:
        yield "observed only: what masking would do"
    yield from list_notes(conversation)
    tally = conversation.tally.shown
    if tally.count and not tally.changed:
        yield f"nothing masked: {explain_unmasked(tally)}"


_UNUSUAL = 5
"""Agents repeat calls now and then without masking, too: about one in a hundred is of a result that
would have been masked (docs/measured/savings.md). So in 20 requests so many are hardly chance."""


def list_notes(conversation: Conversation) -> Iterator[str]:
    """Yield what is unusual of a conversation."""
    if conversation.unfit:
        yield _UNFIT.format(conversation.unfit)
    asked = sum(conversation.rereads)
    if asked >= _UNUSUAL:  # a hint that the window is too small; nothing depends on it
        yield (
            f"in its last {len(conversation.rereads)} requests, it asked {asked} times for what "
            "was masked: a larger window (schema1.window_turns) may be cheaper"
        )
    yield from _list_notes(conversation.tally)


def _list_notes(tally: Tally) -> Iterator[str]:
    yield from list_resent(tally)
    yield from list_clearings(tally)
    yield from list_drops(tally)
    yield from list_rereads(tally)
    if roads := tell_roads(tally):
        yield roads


def describe_conversation(conversation: Conversation) -> Described:
    """Return a conversation in full: what its page is titled, and shows."""
    return {
        "key": conversation.key,
        "changed": conversation.changed,
        "title": f"Conversation {conversation.number:,}",
        "parts": [*describe_in_full(conversation)],
    }


def describe_in_full(conversation: Conversation, *, has_sums: bool = True) -> Iterator[Part]:
    """Yield all there is to know of a conversation.

    has_sums: whether to say what it came to, which a page of one conversation has above.
    """
    yield title(name_conversation(conversation))
    if has_sums:
        yield text(f"{render_tally(conversation.tally)}.")
    yield from (text(_as_sentence(note)) for note in list_notes(conversation))
    yield from list_parts(conversation)
