"""Sums over replayed requests: sizes, tokens and bills, before and after masking."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from addon.replay.totals import ConversationTotals, Totals
from masking.accounting.cost import Bill

CostUnit = Literal["usd", "input_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Sums over the requests of a replay; None if something is not known.

    window_turns: the setting.
    tokens_*: as they are billed; the provider's own count if it reported one, else an estimate.
    cost_*: in US dollars if the price of every request is known, else in plain input tokens.
    cost_before_warm: without masking, if the provider's cache had lost nothing.
    cost_sliding: with a window that slides at every turn.
    saved_error: how far the saving may be off, either way, in the unit of the costs.
    delta_percent: the bill after masking against the one before; less than 0 is a saving.
    worst_percent: the most by which a conversation's bill so far was above the unmasked one.
    rereads, quotes: of all `calls`, those that repeat or name what was masked, and those that
        quote it (see `addon.replay.reread`).
    """

    window_turns: int
    requests: int
    tool_results: int
    masked_tool_results: int
    tool_chars_before: int
    tool_chars_after: int
    json_chars_before: int
    json_chars_after: int
    tokens_before: int
    tokens_after: int
    cost_unit: CostUnit
    cost_before: float
    cost_before_warm: float
    cost_sliding: float
    cost_after: float
    saved_error: float
    delta_percent: float | None
    worst_percent: float | None
    calls: int
    rereads: int
    quotes: int
    rereads_sliding: int
    quotes_sliding: int


def summarize(totals: Totals, unit: CostUnit | None = None) -> Summary:
    """Return what a replay under one policy came to.

    Costs are in this unit, or else in the one that `find_unit` gives. Raises ValueError if there
    are no requests.
    """
    if not totals.requests:
        raise ValueError("no requests to sum up")
    unit = unit or find_unit(totals)
    before, after = price_bill(totals.before, unit), price_bill(totals.after, unit)
    margin = totals.margin if unit == "input_tokens" else totals.dollar_margin
    worst, chosen, sliding = totals.worst, totals.chosen_rereads, totals.sliding_rereads
    return Summary(
        window_turns=totals.window_turns,
        requests=totals.requests,
        tool_results=totals.tool_results,
        masked_tool_results=totals.masked_tool_results,
        tool_chars_before=totals.tool_chars_before,
        tool_chars_after=totals.tool_chars_after,
        json_chars_before=totals.json_chars_before,
        json_chars_after=totals.json_chars_after,
        tokens_before=round(totals.before.prompt),
        tokens_after=round(totals.after.prompt),
        cost_unit=unit,
        cost_before=before,
        cost_before_warm=price_bill(totals.before_warm, unit),
        cost_sliding=price_bill(totals.sliding, unit),
        cost_after=after,
        saved_error=margin.width,
        delta_percent=_percent(after, before),
        worst_percent=None if worst is None else (worst.part - 1) * 100,
        calls=chosen.calls,
        rereads=chosen.either,
        quotes=chosen.quoted,
        rereads_sliding=sliding.either,
        quotes_sliding=sliding.quoted,
    )


def add_all(conversations: Iterable[ConversationTotals]) -> Totals:
    """Return the totals of conversations together, added in their order."""
    return sum((each.totals for each in conversations), start=Totals())


def find_unit(totals: Totals) -> CostUnit:
    """Return dollars if the prices of all requests are known, else input tokens."""
    return "input_tokens" if totals.after.dollars is None else "usd"


def price_bill(bill: Bill, unit: CostUnit) -> float:
    """Return a bill in this unit."""
    return bill.cost if unit == "input_tokens" else bill.dollars or 0.0


def _percent(after: float, before: float) -> float | None:
    return (after / before - 1) * 100 if before else None
