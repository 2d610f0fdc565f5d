"""What the page's script draws, as one block of JSON: costs, tokens, the masking map, the moves."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from addon.replay.boundary_moves import Value, find_moves
from addon.replay.compare import Comparison
from addon.replay.report.overview import POLICIES, PolicyKey
from addon.replay.report.text import UNITS, pluralize
from addon.replay.summary import CostUnit
from masking.accounting.cost import Bill
from masking.accounting.reason_row import label_reasons, spell_reasons
from masking.errors import printable

_VALUES: dict[CostUnit, Value] = {
    "usd": lambda bill: bill.dollars or 0.0,
    "input_tokens": lambda bill: bill.cost,
}
_DIGITS: dict[CostUnit, int] = {"usd": 8, "input_tokens": 2}


def render_charts(charts: Iterable[str]) -> str:
    """Return the page's data as JSON, given that of each conversation; requests count from 0."""
    others = {
        "policies": {policy.key: policy.name for policy in POLICIES},
        "units": UNITS,
        "reasons": label_reasons(),
    }
    return f'{_dump(others)[:-1]},"conversations":[{",".join(charts)}]}}'


def render_chart(comparison: Comparison) -> str:
    """Return one conversation's as JSON: in US dollars where all of its own prices are known."""
    bills = find_bills(comparison)
    known = all(bill.dollars is not None for bill in bills["chosen"])
    unit: CostUnit = "usd" if known else "input_tokens"
    value = _VALUES[unit]
    chart = {
        "name": printable(comparison.name),
        "about": _introduce(comparison),
        "unit": unit,
        "series": {key: _describe_bills(bills[key], unit) for key in bills},
        "map": [spell_reasons(request.reasons) for request in comparison.chosen],
        "moves": [
            {**asdict(move), "net": move.net} for move in find_moves(comparison.chosen, value)
        ],
    }
    return _dump(chart)


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def find_bills(comparison: Comparison) -> dict[PolicyKey, list[Bill]]:
    """Return what each request costs, by policy."""
    return {
        "everything": [request.entry.cost.before for request in comparison.chosen],
        "sliding": [request.entry.cost.after for request in comparison.sliding],
        "chosen": [request.entry.cost.after for request in comparison.chosen],
    }


def _introduce(comparison: Comparison) -> str:
    """Return a sentence on a conversation: its models, its window, and the basis of its cache."""
    requests = comparison.chosen
    models = sorted({printable(request.model or "an unknown model") for request in requests})
    reported = sum(request.entry.cost.basis == "reported" for request in requests)
    if not reported:
        cached = "simulated"
    elif reported == len(requests):
        cached = "as the provider reported them"
    else:
        cached = f"as reported for {pluralize(reported, 'request')}, simulated for the others"
    return (
        f"{pluralize(len(requests), 'request')} to {', '.join(models)}; "
        f"window of {pluralize(comparison.window_turns, 'turn')}; cached tokens {cached}."
    )


def _describe_bills(bills: Sequence[Bill], unit: CostUnit) -> dict[str, list[float]]:
    value = _VALUES[unit]
    return {
        "prompt": _round((bill.prompt for bill in bills), 1),
        "cached": _round((bill.cached for bill in bills), 1),
        "cost": _round(map(value, bills), _DIGITS[unit]),
    }


def _round(values: Iterable[float], digits: int) -> list[float]:
    """Round, and spell whole numbers without a fraction, which makes the page smaller."""
    rounded = (round(value, digits) for value in values)
    return [int(value) if value == int(value) else value for value in rounded]
