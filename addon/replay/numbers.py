"""Counts, percentages and amounts of money, as tables and the report show them."""

import math
from collections.abc import Callable

from addon.replay.totals import CostUnit

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


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 request`, `2,000 requests`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
