"""Numbers and names as a page spells them."""

import math
from collections.abc import Callable

from addon.replay.summary import CostUnit

UNITS: dict[CostUnit, str] = {"usd": "US dollars", "input_tokens": "plain input tokens"}

MINUS = "\N{MINUS SIGN}"


def spell_count(value: float) -> str:
    """Return a whole number: `12,345`."""
    return f"{value:,.0f}".replace("-", MINUS)


def spell_percent(part: float, digits: int = 1) -> str:
    """Return a part of 1 in percent: `12.3%`."""
    return f"{100 * part:.{digits}f}%".replace("-", MINUS)


def choose_money(unit: CostUnit, most: float) -> Callable[[float], str]:
    """Return a format for amounts up to `most`: of dollars, three of its significant digits."""
    if unit == "input_tokens":
        return spell_count
    digits = min(8, max(2, 2 - math.floor(math.log10(most or 1))))

    def spell(amount: float) -> str:
        sign = MINUS if round(amount, digits) < 0 else ""
        return f"{sign}${abs(amount):,.{digits}f}"

    return spell


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 request`, `2,000 requests`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
