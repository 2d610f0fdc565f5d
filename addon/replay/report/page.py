"""One page of HTML that shows what masking costs and saves: all it needs is in the page itself.

Names come from recordings and are hostile until shown: templates escape every text, the data are
one block of JSON in which no `<` is left, and the script writes texts only, never markup. A policy
in the page forbids every other source.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from typing import NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined

from addon.counts import pluralize
from addon.replay.replay import Pause, ReplayedRequest, ReplaySettings
from addon.replay.report.tables import (
    POLICIES,
    Headline,
    PolicyKey,
    describe_headline,
    list_conversations,
    list_policies,
    list_prices,
    render_arrival,
)
from addon.replay.totals import (
    UNITS,
    Comparison,
    ConversationTotals,
    CostUnit,
    add_all,
    assumed_prices,
    summarize,
)
from masking.accounting import (
    Move,
    MovePrice,
    PromptCost,
    divide_savings,
    label_reasons,
    run_lengths,
)
from masking.arrival import ArrivalPolicy
from masking.errors import printable
from masking.model import Reason
from masking.window import MaskPolicy

_STYLES = ("uPlot.min.css", "report.css")
_SCRIPTS = ("uPlot.iife.min.js", "elements.js", "charts.js", "masking_map.js", "report.js")


_SETTINGS = [field.name for field in fields(MaskPolicy)]
_ARRIVAL = [
    name
    for field in fields(ArrivalPolicy)
    if (name := field.name) not in (*_SETTINGS, "arguments_chars")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """When a report was made, by which version, from which `sources` (files and folders)."""

    created: datetime
    version: str
    sources: tuple[str, ...]
    settings: ReplaySettings
    pause: Pause | None = None

    @property
    def date(self) -> str:
        """When it was made: `June 1, 2026, 12:00 UTC`."""
        return f"{self.created:%B} {self.created.day}, {self.created:%Y, %H:%M %Z}"

    def list_settings(self) -> list[tuple[str, str]]:
        """Return the settings of the replay, by the names that files and options give them."""
        policy, settings = self.settings.policy, self.settings
        known: dict[str, object] = {name: getattr(policy, name) for name in _SETTINGS}
        known["cache_pricing"] = settings.price_settings.cache_pricing
        if settings.strategies.arrival.enabled:
            known |= {
                f"arrival.{name}": getattr(settings.strategies.arrival, name) for name in _ARRIVAL
            }
        known["redaction.enabled"] = settings.strategies.redaction.redacts
        known["reduction.enabled"] = settings.strategies.reduction.reduces
        known["memory.enabled"] = settings.remembers
        known["--model"] = settings.model
        known["--cache-ttl"] = settings.ttl
        known["--pause"] = self.pause
        return [
            (name, json.dumps(value, ensure_ascii=False))
            for name, value in known.items()
            if value is not None
        ]


class LogSection(NamedTuple):
    """What the page says of all sessions of agents' logs, of which it draws only some.

    title, sentence: what they cost and would have cost, in short and as a sentence.
    columns, rows: a table by agent and model, and by length; the rows have a cell for each column.
    notes: what else there is to say, a paragraph each.
    """

    title: str
    sentence: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def render_report(
    conversations: Sequence[ConversationTotals],
    charts: Sequence[str],
    origin: Origin,
    logs: LogSection | None = None,
) -> str:
    """Return the page, which needs nothing from the network or the disk.

    `charts` has the outcome of `render_chart` for each conversation. With `logs` these are only
    some of the sessions that the page tells of.

    A conversation's charts are in US dollars if all of its prices are known, and the rest of the
    page is if the prices of all conversations are. Otherwise costs are in plain input tokens that
    cost as much. Raises ValueError if there is no request.
    """
    totals = add_all(conversations)
    summary = summarize(totals)
    style, script = _join(_STYLES), _join(_SCRIPTS)
    # JSON in ASCII, which can stand in a script element, whatever its strings hold.
    data = render_charts(charts).replace("<", "\\u003c").replace(">", "\\u003e")
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            style=style,
            style_hash=_hash(style),
            script=script,
            script_hash=_hash(script),
            data=data,
            headline=describe_headline(summary, len(conversations))
            if logs is None
            else Headline(logs.title, logs.sentence),
            logs=logs,
            unit=UNITS[summary.cost_unit],
            masked_before=sum(each.totals.masked_before > 0 for each in conversations),
            assumed=sum(each.requests for each in assumed_prices(totals)),
            requests=pluralize(totals.requests, "request"),
            reported=totals.reported,
            policies=list_policies(totals),
            arrival=render_arrival(summary),
            conversations=list_conversations(conversations, totals),
            prices=list_prices(totals),
            origin=origin,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    return environment


def _read(name: str) -> str:
    return (files("addon.replay.report") / "assets" / name).read_text("utf-8")


def _join(names: Sequence[str]) -> str:
    return "\n".join(_read(name) for name in names)


def _hash(text: str) -> str:
    """Return the name of an inline script or style sheet in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# What the script draws, as one block of JSON: costs, tokens, the masking map, the moves

Value = Callable[[PromptCost], float]
"""Returns a bill's amount in the unit that is wanted."""

_VALUES: dict[CostUnit, Value] = {
    "usd": lambda bill: bill.dollars or 0.0,
    "input_tokens": lambda bill: bill.cost,
}
_DIGITS: dict[CostUnit, int] = {"usd": 8, "input_tokens": 2}


def render_charts(charts: Iterable[str]) -> str:
    """Return the page's data as JSON, from that of each conversation; requests count from 0."""
    others = {
        "policies": {policy.key: policy.name for policy in POLICIES},
        "units": UNITS,
        "reasons": label_reasons(),
    }
    return f'{_dump(others)[:-1]},"conversations":[{",".join(charts)}]}}'


def render_chart(comparison: Comparison) -> str:
    """Return one conversation's data as JSON, in US dollars if all of its prices are known."""
    bills = bills_by_policy(comparison)
    known = all(bill.dollars is not None for bill in bills["chosen"])
    unit: CostUnit = "usd" if known else "input_tokens"
    value = _VALUES[unit]
    chart = {
        "name": printable(comparison.name),
        "about": _introduce(comparison),
        "unit": unit,
        "series": {key: _describe_bills(bills[key], unit) for key in bills},
        "map": [run_lengths(request.reasons) for request in comparison.chosen],
        "moves": [
            {**asdict(move), "net": move.net} for move in find_moves(comparison.chosen, value)
        ],
    }
    return _dump(chart)


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def bills_by_policy(comparison: Comparison) -> dict[PolicyKey, list[PromptCost]]:
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


def _describe_bills(bills: Sequence[PromptCost], unit: CostUnit) -> dict[str, list[float]]:
    value = _VALUES[unit]
    return {
        "prompt": _round((bill.prompt for bill in bills), 1),
        "cached": _round((bill.cached for bill in bills), 1),
        "cost": _round(map(value, bills), _DIGITS[unit]),
    }


def _round(values: Iterable[float], digits: int) -> list[float]:
    """Round, and write whole numbers without a fraction, which makes the page smaller."""
    rounded = (round(value, digits) for value in values)
    return [int(value) if value == int(value) else value for value in rounded]


# The moves of a conversation's boundary: what each removed, what it cost, what it has saved. The
# saving of a request is divided among the moves made so far, by the tokens that each removed. So
# what the moves saved adds up to what the whole conversation saved.


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryMove:
    """One move, at a `request` counted from 0.

    results: how many results it masked.
    removed: the tokens that these results no longer take.
    uncached: the tokens that the cache held before the move and no longer holds.
    rewritten: those of them that are still sent, and so are written again.
    price: what writing them costs, in input-token equivalents.
    paid, saved: the price, and what the move has saved up to the last request, in the wanted unit.
    repaid_at: the request by which it had saved its price; None if it has not.
    """

    request: int
    results: int
    removed: float
    uncached: float
    rewritten: float
    price: float
    paid: float
    saved: float = 0.0
    repaid_at: int | None = None

    @property
    def net(self) -> float:
        """What it has saved beyond its price; less than 0 if it has not paid off."""
        return self.saved - self.paid


def find_moves(requests: Sequence[ReplayedRequest], value: Value) -> list[BoundaryMove]:
    """Return the moves of one conversation's boundary, in order."""
    moves = [
        _describe_move(place, requests[place - 1].reasons if place else (), request, move, value)
        for place, request in enumerate(requests)
        if (move := request.entry.move) is not None
    ]
    costs = [request.entry.cost for request in requests]
    earned = divide_savings(
        [Move(move.request, move.removed, move.paid) for move in moves],
        [
            value(cost.before) - value(cost.after) - _value_arrival(request, cost.after, value)
            for request, cost in zip(requests, costs, strict=True)
        ],
    )
    return [replace(move, **each._asdict()) for move, each in zip(moves, earned, strict=True)]


def _value_arrival(request: ReplayedRequest, paid: PromptCost, value: Value) -> float:
    """Return what arrival saved at a request, which no move has."""
    arrival = request.entry.arrival
    if arrival is None:
        return 0.0
    return value(paid._replace(cost=arrival.cost, dollars=arrival.dollars))


def _describe_move(
    place: int,
    reasons_before: Sequence[Reason],
    request: ReplayedRequest,
    move: MovePrice,
    value: Value,
) -> BoundaryMove:
    """Return a move as it stands at its own request."""
    bill = request.entry.cost.after
    reasons = zip_longest(reasons_before, request.reasons)
    return BoundaryMove(
        request=place,
        results=sum(before != "masked" == now for before, now in reasons),
        removed=move.removed,
        uncached=move.uncached,
        rewritten=move.rewritten,
        price=move.price,
        paid=move.price * value(bill) / bill.cost if bill.cost else 0.0,
    )
