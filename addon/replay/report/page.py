"""A replay as a page: one file of HTML that shows what masking costs and saves."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import accumulate, zip_longest
from typing import NamedTuple

from addon.counts import pluralize
from addon.look.pages import render_file
from addon.look.parts import (
    Column,
    Part,
    Series,
    chart,
    charts,
    figures,
    legend,
    masking_map,
    moves_of,
    render_compact,
    render_on_axis,
    table,
    text,
    title,
)
from addon.records.words import DOLLARS, INPUT_TOKENS, Currency
from addon.replay.numbers import describe_arrival, render_count
from addon.replay.replay import Pause, ReplayedRequest, ReplaySettings
from addon.replay.report.tables import (
    POLICIES,
    Headline,
    PolicyKey,
    describe_headline,
    list_conversations,
    list_policies,
    list_prices,
)
from addon.replay.totals import (
    ComparedRequest,
    ConversationTotals,
    add_all,
    assumed_prices,
)
from masking.accounting import Move, MovePrice, TokenKinds, divide_savings, run_lengths
from masking.arrival import ArrivalPolicy
from masking.errors import printable
from masking.model import Reason
from masking.window import MaskPolicy

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
    tables: by agent and model, and by length.
    notes: what else there is to say, a paragraph each.
    """

    title: str
    sentence: str
    tables: Sequence[Part]
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
    cost as much. There is at least one conversation.
    """
    totals = add_all(conversations)
    places = {
        "policies-table": [list_policies(totals)],
        "conversations-table": [list_conversations(conversations, totals)],
        "prices-table": [list_prices(totals)],
        "settings-table": [_list_settings(origin)],
    }
    if logs is not None:
        notes = [text(note, "note") for note in logs.notes]
        places["sessions-table"] = [*logs.tables, *notes]
    longest = max(range(len(conversations)), key=lambda at: conversations[at].totals.requests)
    head = _dump({"places": places, "first": f"c{longest + 1}"})
    drawn = ",".join(f'"c{at}":{parts}' for at, parts in enumerate(charts, 1))
    return render_file(
        "report",
        f'{head[:-1]},"conversations":{{{drawn}}}}}',
        headline=Headline(logs.title, logs.sentence)
        if logs
        else describe_headline(totals, len(conversations)),
        has_logs=logs is not None,
        shown=len(conversations),
        masked_before=sum(each.totals.masked_before > 0 for each in conversations),
        assumed=sum(requests for _, requests in assumed_prices(totals)),
        requests=pluralize(totals.requests, "request"),
        reported=totals.reported,
        arrival=describe_arrival(
            totals.arrival,
            totals.chosen_rereads.calls,
            totals.currency.choose(totals.bill),
            totals.currency,
        ),
        origin=origin,
    )


def _list_settings(origin: Origin) -> Part:
    columns = (Column("Setting", "name"), Column("Value", "text"))
    rows = [(name, printable(value)) for name, value in origin.list_settings()]
    return table("Settings of the replay", columns, rows)


# One conversation: costs, tokens, the masking map, the moves


def render_chart(name: str, window_turns: int, requests: Sequence[ComparedRequest]) -> str:
    """Return one conversation's parts as JSON, in US dollars if all of its prices are known."""
    return _dump([*_list_parts(name, window_turns, requests)])


def _dump(value: object) -> str:
    """Return JSON in ASCII, which can stand in a script element, whatever its strings hold."""
    return json.dumps(value, separators=(",", ":"))


def _list_parts(
    name: str, window_turns: int, compared: Sequence[ComparedRequest]
) -> Iterator[Part]:
    requests = [each.chosen for each in compared]
    is_known = all(request.entry.bill.is_in_dollars for request in requests)
    currency = DOLLARS if is_known else INPUT_TOKENS
    moves = find_moves(requests, currency)
    moved = [move.request for move in moves]
    yield title(printable(name))
    yield text(_introduce(requests, window_turns), "note")
    yield title("Bill")
    yield legend(
        [*((f"line {key}", each) for key, each, _ in POLICIES), ("ink", "the boundary moves")]
    )
    costs, prompts = costs_by_policy(compared, currency), _prompts_by_policy(compared)
    sums = {key: [*accumulate(each)] for key, each in costs.items()}
    yield charts(
        _compare("Bill so far", "What all requests up to each one cost.", sums, moved, currency),
        _compare("Bill of each request", "What each one costs by itself.", costs, moved, currency),
    )
    yield title("Tokens of each prompt")
    yield legend(
        [("chosen-cached", "cached, the lower part"), ("chosen", "not cached, the upper part")]
    )
    yield charts(
        *(
            _chart_tokens(key, of_policy, prompts[key], moved if key == "chosen" else [])
            for key, of_policy, _ in POLICIES
        ),
        is_pair=False,
    )
    yield from masking_map([run_lengths(request.reasons) for request in requests])
    yield from moves_of(moves, len(requests), currency)
    yield figures(
        "All figures of this conversation, as a table",
        f"Tokens of each request, and bills in {currency.name}",
    )


_LINES: tuple[tuple[PolicyKey, float, tuple[int, ...]], ...] = (
    ("everything", 5, ()),
    ("chosen", 2, ()),
    ("sliding", 1.6, (5, 3)),
)
"""How each policy is drawn: the dashes last, so that equal lines are both seen."""

_NAMES = {policy.key: policy.name.lower() for policy in POLICIES}


def _compare(
    name: str,
    note: str,
    costs: dict[PolicyKey, list[float]],
    moves: Sequence[int],
    currency: Currency,
) -> Part:
    series = [
        Series(
            name=_NAMES[key],
            mark=key,
            values=_round(costs[key], 8 if currency.is_dollars else 2),
            texts=[currency.render_bare(cost) for cost in costs[key]],
            width=width,
            dash=dash,
        )
        for key, width, dash in _LINES
    ]
    unit, render = currency.name, render_on_axis(currency)
    return chart(name, note, series, unit=unit, render=render, moves=moves)


def _chart_tokens(
    key: PolicyKey, name: str, prompts: Sequence[TokenKinds], moves: Sequence[int]
) -> Part:
    """Return a chart of prompts: bars of all of each, and over them of what was cached."""
    prompt, cached = [each.total for each in prompts], [each.read for each in prompts]
    note = f"{render_count(sum(prompt))} tokens in all, {render_count(sum(cached))} of them cached."
    series = [
        Series(what, mark, _round(values, 1), [*map(render_count, values)], "bars")
        for what, mark, values in (("tokens", key, prompt), ("cached", f"{key}-cached", cached))
    ]
    return chart(name, note, series, unit="Tokens", render=render_compact, moves=moves)


def costs_by_policy(
    compared: Sequence[ComparedRequest], currency: Currency
) -> dict[PolicyKey, list[float]]:
    """Return what each request costs, by policy."""
    sliding = [currency.choose(each.sliding.entry.bill) for each in compared]
    chosen = [currency.choose(each.chosen.entry.bill) for each in compared]
    return {
        "everything": [money.before for money in chosen],
        "sliding": [money.after for money in sliding],
        "chosen": [money.after for money in chosen],
    }


def _prompts_by_policy(compared: Sequence[ComparedRequest]) -> dict[PolicyKey, list[TokenKinds]]:
    return {
        "everything": [each.chosen.entry.bill.prompt_before for each in compared],
        "sliding": [each.sliding.entry.bill.prompt_after for each in compared],
        "chosen": [each.chosen.entry.bill.prompt_after for each in compared],
    }


def _introduce(requests: Sequence[ReplayedRequest], window_turns: int) -> str:
    """Return a sentence on a conversation: its models, its window, and the basis of its cache."""
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
        f"window of {pluralize(window_turns, 'turn')}; cached tokens {cached}."
    )


def _round(values: Iterable[float], digits: int) -> list[float]:
    """Round, and write whole numbers without a fraction, which makes the page smaller."""
    rounded = (round(value, digits) for value in values)
    return [int(value) if value == int(value) else value for value in rounded]


def find_moves(requests: Sequence[ReplayedRequest], currency: Currency) -> list[Move]:
    """Return the moves of one conversation's boundary, in order."""
    moves = [
        _read_move(at, requests[at - 1].reasons if at else (), request, move, currency)
        for at, request in enumerate(requests)
        if (move := request.entry.move) is not None
    ]
    return divide_savings(moves, [currency.choose(each.entry.bill) for each in requests])


def _read_move(
    at: int,
    reasons_before: Sequence[Reason],
    request: ReplayedRequest,
    move: MovePrice,
    currency: Currency,
) -> Move:
    """Return a move as it stands at its own request."""
    bill = request.entry.bill
    reasons = zip_longest(reasons_before, request.reasons)
    return Move(
        request=at,
        results=sum(before != "masked" == now for before, now in reasons),
        removed=move.removed,
        price=move.price * currency.choose(bill).after / (bill.tokens.after or 1.0),
    )
