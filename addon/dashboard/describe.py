"""The board in the words and numbers of the page, as JSON: sums, rows, one conversation."""

from collections.abc import Iterator
from itertools import accumulate

from addon.dashboard.board import Conversation, Described, View
from addon.dashboard.moves import find_moves
from addon.dashboard.shown_request import ShownRequest
from addon.metrics.holdout import Holdout
from addon.metrics.holdout_words import NOTE, describe_groups
from addon.metrics.sums import BillSum
from addon.metrics.tally import Tally
from addon.metrics.tally_line import (
    find_form,
    find_why_untouched,
    list_rereads,
    render_resent,
    render_tally,
)

_SPARK = 60
"""The points of a sparkline: of the latest requests."""

_UNFIT = "without masking it would no longer fit its model, which takes {:,} tokens"


def describe_view(view: View) -> Described:
    """Return the sums of the run, and a row for each of the view's conversations."""
    return {
        "version": view.version,
        "is_whole": view.is_whole,
        "total": {**describe_sums(view.total), "conversations": len(view.total.conversations)},
        "holdout": _describe_holdout(view.holdout),
        "conversations": [describe_row(each) for each in view.conversations],
    }


def _describe_holdout(holdout: Holdout) -> Described | None:
    compared = describe_groups(holdout)
    if compared is None:
        return None
    return {"counts": compared.counts, "measures": [*map(list, compared.measures)], "note": NOTE}


def describe_row(conversation: Conversation) -> Described:
    """Return a conversation in short."""
    return {
        "key": conversation.key,
        "number": conversation.number,
        "names": conversation.names,
        "label": conversation.label,
        "unfit": conversation.unfit and _UNFIT.format(conversation.unfit),
        "changed": conversation.changed,
        "time": conversation.requests[-1].time if conversation.requests else None,
        "saved": _accumulate(conversation)[-_SPARK:],
        **describe_sums(conversation.tally),
    }


def describe_sums(tally: Tally) -> Described:
    """Return what some requests come to: numbers to sort by, and sentences to read.

    If all of them were observed only, the numbers are what masking would have come to.
    """
    line, notes = render_tally(tally), [*_list_notes(tally)]
    is_observed, tally = is_observed_only(tally), _find_told(tally)
    bill, unit = find_bill(tally)
    return {
        "is_observed": is_observed,
        "requests": tally.count,
        "failed": tally.failed,
        "sent": tally.tokens_before if is_observed else tally.tokens_after,
        "spared": tally.tokens_before - tally.tokens_after,
        "masked": tally.changed,
        "net": render_net(bill, unit),
        "is_loss": bill.is_telling and bill.saved < 0,
        "line": line,
        "notes": notes,
        "why": find_why_untouched(tally).explain() if tally.count and not tally.changed else None,
    }


def describe_conversation(conversation: Conversation) -> Described:
    """Return a conversation with its requests, and what its moves of the boundary came to."""
    _, unit = find_bill(_find_told(conversation.tally))
    return {
        **describe_row(conversation),
        "forgotten": conversation.forgotten,
        "unit": unit,
        "saved": _accumulate(conversation),
        "moves": _describe_moves(conversation, unit),
        "columns": ShownRequest._fields,
        "all": [list(request) for request in conversation.requests],
    }


def _list_notes(tally: Tally) -> Iterator[str]:
    if tally.resent:
        yield render_resent(tally)
    yield from list_rereads(tally)


def _describe_moves(conversation: Conversation, unit: str) -> list[Described]:
    moves = find_moves([*conversation.requests], _list_savings(conversation), unit)
    return [move._asdict() for move in moves]


def is_observed_only(tally: Tally) -> bool:
    """Whether all requests left as the agents wrote them, so that masking is reckoned only."""
    return tally.count > 0 and tally.requests["observed"] == tally.count


def find_bill(tally: Tally) -> tuple[BillSum, str]:
    """Return the bill to show, and its unit: in US dollars if every price is known."""
    if tally.dollars.requests and not tally.unpriced.requests:
        return tally.dollars, "usd"
    return tally.tokens, "input_tokens"


def render_net(bill: BillSum, unit: str) -> str:
    """Return what was saved, with its margin: `$0.0930 ±0.0100 (22%)`; `about 0` within it."""
    if not bill.requests or bill.before == bill.after:
        return "0"
    if not bill.is_telling:
        return "about 0"
    form = find_form(bill.before) if unit == "usd" else "{:,.0f}"
    sign = "-" if bill.saved < 0 else ""
    error = form.replace("$", "").format(bill.error)
    off = f" ±{error}" if float(error.replace(",", "")) else ""
    share = f" ({abs(bill.saved_share or 0.0):.0%})"
    end = "" if unit == "usd" else " input tokens"
    return f"{sign}{form.format(abs(bill.saved))}{off}{end}{share}"


def _find_told(tally: Tally) -> Tally:
    """Return the sums to tell: as if masked, where all was observed only."""
    return tally.observed if tally.observed and is_observed_only(tally) else tally


def _accumulate(conversation: Conversation) -> list[float]:
    """Return what was saved up to each request that is kept, in the conversation's unit."""
    bill, _ = find_bill(_find_told(conversation.tally))
    steps = _list_savings(conversation)
    before = bill.saved - sum(steps)  # what those saved that are not kept any more
    return [round(before + total, 6) for total in accumulate(steps)]


def _list_savings(conversation: Conversation) -> list[float]:
    """Return what each request that is kept saved."""
    is_observed = is_observed_only(conversation.tally)
    _, unit = find_bill(_find_told(conversation.tally))
    # What masking would have saved is no part of what was saved where some requests were masked.
    return [
        _save(request, unit) if is_observed or not request.observed else 0.0
        for request in conversation.requests
    ]


def _save(request: ShownRequest, unit: str) -> float:
    if unit == "usd":
        return (request.dollars_before or 0.0) - (request.dollars_after or 0.0)
    return (request.tokens_before or 0.0) - (request.tokens_after or 0.0)
