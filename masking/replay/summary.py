"""Sums over replayed requests: sizes, tokens and bills, before and after masking."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from masking.accounting.cost import Bill, Cost
from masking.accounting.margin import NO_MARGIN, Margin
from masking.accounting.worst_bill import WorstBill, find_worst_bill
from masking.replay.comparison import Comparison
from masking.replay.replay import ReplayedRequest
from masking.replay.reread import Rereads

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
        quote it (see `masking.replay.reread`).
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


def summarize(comparisons: Sequence[Comparison], unit: CostUnit | None = None) -> Summary:
    """Sum up conversations that were replayed under one policy.

    Costs are in this unit, or else in the one that `find_unit` gives. Raises ValueError if there
    are no conversations.
    """
    if not comparisons:
        raise ValueError("no requests to sum up")
    requests = [request for comparison in comparisons for request in comparison.chosen]
    sliding = [request for comparison in comparisons for request in comparison.sliding]
    rereads = sum((each.chosen_rereads for each in comparisons), start=Rereads())
    rereads_sliding = sum((each.sliding_rereads for each in comparisons), start=Rereads())
    worst = [find_worst(comparison.chosen) for comparison in comparisons]
    unit = unit or find_unit(requests)
    before = _add_bills(unit, (request.entry.cost.before for request in requests))
    after = _add_bills(unit, (request.entry.cost.after for request in requests))
    return Summary(
        window_turns=comparisons[0].window_turns,
        requests=len(requests),
        tool_results=sum(request.sizes.tool_results for request in requests),
        masked_tool_results=sum(request.sizes.masked for request in requests),
        tool_chars_before=sum(request.sizes.tool_chars_before for request in requests),
        tool_chars_after=sum(request.sizes.tool_chars_after for request in requests),
        json_chars_before=sum(request.sizes.json_chars_before for request in requests),
        json_chars_after=sum(request.sizes.json_chars_after for request in requests),
        tokens_before=count_tokens(request.entry.cost.before for request in requests),
        tokens_after=count_tokens(request.entry.cost.after for request in requests),
        cost_unit=unit,
        cost_before=before,
        cost_before_warm=_add_bills(unit, (request.entry.cost.before_warm for request in requests)),
        cost_sliding=_add_bills(unit, (request.entry.cost.after for request in sliding)),
        cost_after=after,
        saved_error=add_margins(unit, (request.entry.cost for request in requests)).width,
        delta_percent=_percent(after, before),
        worst_percent=max(((bill.part - 1) * 100 for bill in worst if bill), default=None),
        calls=rereads.calls,
        rereads=rereads.either,
        quotes=rereads.quoted,
        rereads_sliding=rereads_sliding.either,
        quotes_sliding=rereads_sliding.quoted,
    )


def find_unit(requests: Iterable[ReplayedRequest]) -> CostUnit:
    """Return dollars if the prices of all these requests are known, else input tokens."""
    known = all(request.entry.cost.after.dollars is not None for request in requests)
    return "usd" if known else "input_tokens"


def count_tokens(bills: Iterable[Bill]) -> int:
    """Return the tokens of these prompts: the provider's own count if it reported one."""
    return round(sum(bill.prompt for bill in bills))


def _add_bills(unit: CostUnit, bills: Iterable[Bill]) -> float:
    return sum((bill.cost if unit == "input_tokens" else bill.dollars or 0.0) for bill in bills)


def add_margins(unit: CostUnit, costs: Iterable[Cost]) -> Margin:
    """Return the margin of error of what these requests saved."""
    margins = (cost.margin if unit == "input_tokens" else cost.dollar_margin for cost in costs)
    return sum(margins, start=NO_MARGIN)


def find_worst(requests: Sequence[ReplayedRequest]) -> WorstBill | None:
    """Return a conversation's worst moment; None if none of its requests costs anything."""
    costs = [request.entry.cost for request in requests]
    return find_worst_bill(
        (cost.after.cost for cost in costs), (cost.before.cost for cost in costs)
    )


def _percent(after: float, before: float) -> float | None:
    return (after / before - 1) * 100 if before else None
