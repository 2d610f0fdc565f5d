"""How `obsmask replay` shows what it found, in a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from addon.commands.replaying import ReplayResult
from addon.metrics.account import render_error
from masking.replay.assumed_prices import AssumedPrice, find_assumed_prices
from masking.replay.comparison import Comparison
from masking.replay.replay import ReplaySettings
from masking.replay.summary import CostUnit, Summary, summarize

_UNITS: dict[CostUnit, str] = {
    "usd": "US dollars",
    "input_tokens": "plain input tokens of the same price",
}

_MOST_MODELS = 3

_COLUMNS = ("tokens", "after", "all sent", "sliding", "policy", "saved", "re-reads", "quotes")
"""Tokens before and after masking; costs of sending everything, of the window, of the policy; of
all calls under it those that repeat or name what was masked, and those that quote it."""


def render_conversations(comparisons: Sequence[Comparison]) -> Table:
    """Return a row for each conversation, and one for all of them."""
    total = summarize(comparisons)
    table = _open_table(total, "conversation", "calls")
    for comparison in comparisons:
        summary = summarize([comparison], total.cost_unit)
        name = escape(_printable(comparison.name))
        table.add_row(name, f"{summary.requests:,}", *_describe(summary))
    if len(comparisons) > 1:
        table.add_section()
        table.add_row("all", f"{total.requests:,}", *_describe(total))
    return table


def render_prices(replays: Sequence[ReplayResult]) -> Table:
    """Return a row for each price of a cached token."""
    summaries = [summarize(replay.comparisons) for replay in replays]
    table = _open_table(summaries[0], "cached, written token")
    for replay, summary in zip(replays, summaries, strict=True):
        table.add_row(_render_prices(replay.settings), *_describe(summary))
    return table


def render_assumed(replay: ReplayResult) -> str | None:
    """Return which prices were assumed, and for how many requests; None where all are known."""
    requests = [request for comparison in replay.comparisons for request in comparison.chosen]
    found = find_assumed_prices(requests)
    if not found:
        return None
    count = sum(assumed.requests for assumed in found)
    said = [_describe_assumed(assumed) for assumed in found[:_MOST_MODELS]]
    more = len(found) - len(said)
    models = "; ".join([*said, *([f"and {more} more models"] if more else [])])
    return (
        f"Prices are assumed for {count:,} of {len(requests):,} requests: {models}.\n"
        "Set them by --model, --prices, or prices in the configuration."
    )


def _describe_assumed(assumed: AssumedPrice) -> str:
    reason = "which is not known" if assumed.maker is None else f"as {assumed.maker}"
    ratios = f"cached at {assumed.read:g}, written at {assumed.write:g}"
    return f"{_printable(assumed.model or 'a model without a name')}, {reason}: {ratios}"


def render_passed_over(replay: ReplayResult) -> str:
    """Return how many requests were passed over, and why."""
    reasons = ", ".join(f"{count} {why}" for why, count in replay.passed_over.most_common())
    return f"Passed over: {reasons}"


def _open_table(summary: Summary, *first: str) -> Table:
    title = f"The prompts of {summary.requests:,} requests; costs in {_UNITS[summary.cost_unit]}"
    table = Table(title=f"{title}\n", title_justify="left", box=SIMPLE_HEAD, padding=0)
    table.show_edge = False  # two columns more, for the names to fit on a screen of 100
    table.add_column(first[0], overflow="fold")
    for name in (*first[1:], *_COLUMNS):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _render_prices(settings: ReplaySettings) -> str:
    pricing = settings.price_settings.cache_pricing
    if isinstance(pricing, str):
        return "as listed"
    read, write = pricing
    return f"{read:g}, {write:g}" + (" (no cache)" if read >= write else "")


def _describe(summary: Summary) -> tuple[str, ...]:
    costs = (summary.cost_before, summary.cost_sliding, summary.cost_after)
    return (
        f"{summary.tokens_before:,}",
        f"{summary.tokens_after:,}",
        *(_render_cost(cost, summary.cost_unit) for cost in costs),
        _render_saved(summary),
        *(_render_share(count, summary.calls) for count in (summary.rereads, summary.quotes)),
    )


def _render_saved(summary: Summary) -> str:
    """Return what was saved, with its margin of error; `about 0` where it may as well be none."""
    if summary.delta_percent is None:
        return ""
    saved = summary.cost_before - summary.cost_after
    if saved and abs(saved) <= summary.saved_error:
        return "about 0"
    error = render_error(summary.saved_error / summary.cost_before, "{:.1f}")
    return f"{0 - summary.delta_percent:+.1f}%{error}"


def _render_share(count: int, calls: int) -> str:
    return f"{count / calls:.1%}" if calls else ""


def _render_cost(cost: float, unit: CostUnit) -> str:
    return f"{cost:,.4f}" if unit == "usd" else f"{cost:,.0f}"


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
