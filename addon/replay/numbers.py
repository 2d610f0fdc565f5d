"""Counts, percentages and amounts of money, as tables and the report show them."""

from collections.abc import Callable

from addon.counts import pluralize
from addon.replay.totals import ArrivalSummary
from masking.accounting import Bill, is_about_nothing

MINUS = "\N{MINUS SIGN}"


def render_count(value: float) -> str:
    """Return a whole number: `12,345`."""
    return f"{value:,.0f}".replace("-", MINUS)


def render_percent(part: float, digits: int = 1) -> str:
    """Return a part of 1 in percent: `12.3%`."""
    return f"{100 * part:.{digits}f}%".replace("-", MINUS)


def explain_nothing(bill: Bill, bound: int, held: int) -> str:
    """Return why masking saved nothing of a bill; empty if it saved or lost.

    bound, held: as in `Totals`.
    """
    if bill.tokens.saved or not bill.tokens.requests:
        return ""
    if bound:
        return "binds its reasoning"
    return "does not pay yet" if held else "too short"


def describe_arrival(arrival: ArrivalSummary, calls: int, render: Callable[[float], str]) -> str:
    """Return what shortening at arrival left out, what that saved, and which calls refer to it.

    calls: all of them.
    """
    by_arrival = _describe_saved(arrival.saved, arrival.saved_error, render)
    by_masking = _describe_saved(arrival.saved_by_masking, arrival.saved_by_masking_error, render)
    counted = max(1, calls)
    results = pluralize(arrival.results, "long result")
    return (
        f"At arrival {results} would have been shortened by "
        f"{pluralize(arrival.left_out_chars, 'character')} in all. That would have {by_arrival}; "
        f"masking would have {by_masking}. Of {pluralize(calls, 'call')}, "
        f"{arrival.rereads / counted:.1%} repeat or name what was left out, and "
        f"{arrival.quotes / counted:.1%} quote it: the least to expect, because these agents had "
        "seen the results whole and had no reason to ask again."
    )


def _describe_saved(saved: float, error: float, render: Callable[[float], str]) -> str:
    if not saved or is_about_nothing(saved, error):
        return "saved about nothing"
    return f"{'saved' if saved > 0 else 'lost'} {render(abs(saved))}"
