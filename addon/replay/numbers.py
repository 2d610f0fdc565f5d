"""Counts, percentages and amounts of money, as tables and the report show them."""

import math
from collections.abc import Callable

from addon.counts import pluralize
from addon.replay.totals import ArrivalSummary, CostUnit
from masking.accounting import is_about_nothing

MINUS = "\N{MINUS SIGN}"


def render_count(value: float) -> str:
    """Return a whole number: `12,345`."""
    return f"{value:,.0f}".replace("-", MINUS)


def render_percent(part: float, digits: int = 1) -> str:
    """Return a part of 1 in percent: `12.3%`."""
    return f"{100 * part:.{digits}f}%".replace("-", MINUS)


def choose_money_format(unit: CostUnit, most: float) -> Callable[[float], str]:
    """Return a format for amounts up to `most`: of dollars, three of its significant digits."""
    if unit == "input_tokens":
        return render_count
    digits = min(8, max(2, 2 - math.floor(math.log10(most or 1))))

    def render(amount: float) -> str:
        sign = MINUS if round(amount, digits) < 0 else ""
        return f"{sign}${abs(amount):,.{digits}f}"

    return render


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
