"""One page of HTML that shows what masking costs and saves: all it needs is in the page itself.

The numbers are one block of JSON, in which no `<` is left, so nothing that a file named can end
it; the script writes texts only, never markup. A policy in the page forbids every other source.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from string import Template

from masking.accounting.cost import Bill
from masking.accounting.margin import NO_MARGIN, Margin
from masking.accounting.worst_bill import AS_MUCH, find_worst_bill
from masking.model import Reason
from masking.replay.assumed_prices import find_assumed_prices
from masking.replay.boundary_moves import Value, find_moves
from masking.replay.comparison import Comparison
from masking.replay.reread import Rereads
from masking.replay.summary import CostUnit, add_margins, count_tokens, find_unit

Bills = Mapping[str, Sequence[Bill]]
"""What each request costs, by policy."""

LETTERS: dict[Reason, str] = {
    "masked": "m",
    "redacted": "r",
    "reduced": "d",
    "dropped": "x",
    "held": "h",
    "in_window": "w",
    "error": "e",
    "last_k": "k",
    "latest": "l",
    "too_short": "t",
    "not_shorter": "s",
    "already_masked": "a",
    "not_string": "n",
    "bad_id": "b",
    "orphan": "o",
    "other_tool": "q",
    "in_use": "u",
    "off": "f",
}
"""How the masking map spells the reasons; the page lists them in this order."""

_POLICIES = ("everything", "sliding", "chosen")

_VALUES: dict[CostUnit, Value] = {
    "usd": lambda bill: bill.dollars or 0.0,
    "input_tokens": lambda bill: bill.cost,
}
_DIGITS: dict[CostUnit, int] = {"usd": 8, "input_tokens": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What requests come to: their tokens when all is sent and as chosen, the cost by policy.

    `worst` is by how much, at most, the bill of the chosen policy has exceeded that of sending
    everything: in input-token equivalents, relative to it, at any request, which is `worst_at`,
    counted from 0. `rereads` and `quotes` are, by policy, of all `calls` those that repeat or name
    what was masked, and those that quote it (see `masking.replay.reread`). `error` is by how much
    what a policy saves may be off, either way.
    """

    requests: int
    tokens_before: int
    tokens_after: int
    cost: Mapping[str, float]
    calls: int
    rereads: Mapping[str, int]
    quotes: Mapping[str, int]
    error: Mapping[str, float]
    worst: float = 0.0
    worst_at: int = 0


def render_report(comparisons: Sequence[Comparison]) -> str:
    """Return the page; it asks for nothing else, neither the network nor the disk.

    A conversation's costs are in US dollars where all of its prices are known, the sums in them
    where all prices of all conversations are; else they are in input-token equivalents.
    """
    style, script = _read("report.css"), _read("report_charts.js") + _read("report.js")
    return Template(_read("report.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_embed(_describe([each for each in comparisons if each.chosen])),
    )


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _hash(text: str) -> str:
    """Return how a Content-Security-Policy names an inline script or style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed(value: object) -> str:
    """Return JSON in ASCII that can stand in a script element, whatever its strings hold."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")


def _describe(comparisons: Sequence[Comparison]) -> dict[str, object]:
    bills = [_find_bills(each) for each in comparisons]
    unit = find_unit(request for each in comparisons for request in each.chosen)
    pairs = zip(comparisons, bills, strict=True)
    sums = [_sum_up(each, its_bills, unit) for each, its_bills in pairs]
    return {
        "unit": unit,
        "reasons": {letter: reason for reason, letter in LETTERS.items()},
        "total": asdict(_total(sums)),
        "conversations": [
            {"sums": asdict(its_sums), **_describe_conversation(each, its_bills)}
            for each, its_bills, its_sums in zip(comparisons, bills, sums, strict=True)
        ],
    }


def _describe_conversation(comparison: Comparison, bills: Bills) -> dict[str, object]:
    requests, unit = comparison.chosen, find_unit(comparison.chosen)
    return {
        "name": comparison.name,
        "window": comparison.window_turns,
        "models": sorted({request.model or "" for request in requests}),
        "prices": sorted(
            {(*request.pricing.ratios, request.pricing.source) for request in requests}
        ),
        "assumed": sum(each.requests for each in find_assumed_prices(requests)),
        "reported": sum(request.entry.cost.basis == "reported" for request in requests),
        "unit": unit,
        "series": {policy: _describe_bills(bills[policy], unit) for policy in _POLICIES},
        "map": [_spell(request.reasons) for request in requests],
        "moves": [{**asdict(m), "net": m.net} for m in find_moves(requests, _VALUES[unit])],
    }


def _find_bills(comparison: Comparison) -> Bills:
    return {
        "everything": [request.entry.cost.before for request in comparison.chosen],
        "sliding": [request.entry.cost.after for request in comparison.sliding],
        "chosen": [request.entry.cost.after for request in comparison.chosen],
    }


def _find_rereads(comparison: Comparison) -> Mapping[str, Rereads]:
    return {
        "everything": Rereads(),
        "sliding": comparison.sliding_rereads,
        "chosen": comparison.chosen_rereads,
    }


def _find_margins(comparison: Comparison, unit: CostUnit) -> Mapping[str, Margin]:
    return {
        "everything": NO_MARGIN,
        "sliding": add_margins(unit, (request.entry.cost for request in comparison.sliding)),
        "chosen": add_margins(unit, (request.entry.cost for request in comparison.chosen)),
    }


def _sum_up(comparison: Comparison, bills: Bills, unit: CostUnit) -> Sums:
    """Return what one conversation comes to."""
    value, margins = _VALUES[unit], _find_margins(comparison, unit)
    signals = _find_rereads(comparison)
    chosen, everything = ((bill.cost for bill in bills[p]) for p in ("chosen", "everything"))
    worst = find_worst_bill(chosen, everything) or AS_MUCH
    return Sums(
        requests=len(bills["chosen"]),
        tokens_before=count_tokens(bills["everything"]),
        tokens_after=count_tokens(bills["chosen"]),
        cost={policy: sum(map(value, bills[policy])) for policy in _POLICIES},
        calls=comparison.chosen_rereads.calls,
        rereads={policy: signals[policy].either for policy in _POLICIES},
        quotes={policy: signals[policy].quoted for policy in _POLICIES},
        error={policy: margin.width for policy, margin in margins.items()},
        worst=worst.part - 1,
        worst_at=worst.request,
    )


def _total(sums: Sequence[Sums]) -> Sums:
    """Return what all conversations come to; the worst moment is that of the worst of them."""
    return Sums(
        requests=sum(each.requests for each in sums),
        tokens_before=sum(each.tokens_before for each in sums),
        tokens_after=sum(each.tokens_after for each in sums),
        cost={policy: sum(each.cost[policy] for each in sums) for policy in _POLICIES},
        calls=sum(each.calls for each in sums),
        rereads={policy: sum(each.rereads[policy] for each in sums) for policy in _POLICIES},
        quotes={policy: sum(each.quotes[policy] for each in sums) for policy in _POLICIES},
        error={policy: sum(each.error[policy] for each in sums) for policy in _POLICIES},
        worst=max((each.worst for each in sums), default=0.0),
    )


def _describe_bills(bills: Sequence[Bill], unit: CostUnit) -> dict[str, list[float]]:
    value = _VALUES[unit]
    return {
        "prompt": _round((bill.prompt for bill in bills), 1),
        "cached": _round((bill.cached for bill in bills), 1),
        "cost": _round(map(value, bills), _DIGITS[unit]),
    }


def _round(values: Iterable[float], digits: int) -> list[float]:
    """Round, and spell whole numbers without a fraction: the page is the smaller for it."""
    rounded = (round(value, digits) for value in values)
    return [int(value) if value == int(value) else value for value in rounded]


def _spell(reasons: Sequence[Reason]) -> str:
    """Return a row of the masking map: a letter for each result, runs as `12m`."""
    runs = ((letter, len([*run])) for letter, run in groupby(LETTERS[r] for r in reasons))
    return "".join(f"{length if length > 1 else ''}{letter}" for letter, length in runs)
