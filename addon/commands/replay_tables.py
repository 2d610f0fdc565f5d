"""How `obsmask replay` shows what it found, in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from addon.commands.replaying import ReplayResult
from addon.metrics.amounts import render_error
from addon.replay.replay import ReplaySettings
from addon.replay.totals import UNITS, AssumedPrice, CostUnit, Summary, assumed_prices, summarize
from masking.errors import printable

_MOST_MODELS = 3
_MOST_NAMES = 3

_TOKENS = ("tokens before", "tokens after")
_COSTS = ("all sent", "sliding", "chosen", "saved")
_CALLS = ("re-reads", "quotes")

_UNBOUNDED = 10_000

_LEAST_NAME = 20
"""Columns that a name has at least; a longer one is folded before a table is split."""

_EXPLANATION = """
all sent: nothing is masked; sliding: the window moves at every turn;
chosen: your settings; re-reads: calls that repeat or name what was masked;
quotes: calls that hold a line of it; answers are in none of the costs."""


class _Row(NamedTuple):
    """A row, before it is spelled."""

    name: str
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTable:
    """A table that rich can print: as two, one below the other, where the screen is narrow.

    `first` are the columns that name the rows.
    """

    first: tuple[str, ...]
    rows: Sequence[_Row]
    totals: Sequence[_Row] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what is printed."""
        summary = [*self.totals, *self.rows][0].summary
        unit = UNITS[summary.cost_unit]
        yield f"The prompts of {summary.requests:,} requests; costs in {unit}\n"
        whole = self._render((*self.first, *_TOKENS, *_COSTS, *_CALLS))
        if self._measure(whole, console, options) <= options.max_width:
            yield whole
        else:
            yield self._render((*self.first, *_COSTS))
            yield ""
            yield self._render((self.first[0], *_TOKENS, *_CALLS))
        yield _EXPLANATION

    def _measure(self, whole: Table, console: Console, options: ConsoleOptions) -> int:
        """Return how wide a screen must be for the table, its names folded."""
        longest = max(cell_len(printable(row.name)) for row in (*self.rows, *self.totals))
        unbounded = options.update(max_width=_UNBOUNDED)
        found = Measurement.get(console, unbounded, whole).maximum
        return found - max(0, longest - _LEAST_NAME)

    def _render(self, columns: Sequence[str]) -> Table:
        table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
        table.add_column(columns[0], overflow="fold")
        for name in columns[1:]:
            table.add_column(name, justify="right", no_wrap=True)
        for section in (self.rows, self.totals):
            for name, summary in section:
                cells = _describe(summary)
                table.add_row(escape(printable(name)), *(cells[column] for column in columns[1:]))
            table.add_section()
        return table


def render_conversations(replay: ReplayResult, *, total: bool = False) -> ReplayTable:
    """Return a row for each conversation, unless only the `total` is wanted, and one for all."""
    every, found = summarize(replay.totals), [] if total else replay.conversations
    return ReplayTable(
        first=("conversation", "requests"),
        rows=[_Row(name, summarize(totals, every.cost_unit)) for name, totals in found],
        totals=[] if len(found) == 1 else [_Row("all", every)],
    )


def render_prices(replays: Sequence[ReplayResult]) -> ReplayTable:
    """Return a row for each price of a cached token."""
    return ReplayTable(
        first=("cached, written token",),
        rows=[_Row(_render_prices(r.settings), summarize(r.totals)) for r in replays],
    )


def render_assumed(replay: ReplayResult) -> str | None:
    """Return which prices were assumed, and for how many requests; None if all are known."""
    found = assumed_prices(replay.totals)
    if not found:
        return None
    count = sum(assumed.requests for assumed in found)
    said = [describe_assumed(assumed) for assumed in found[:_MOST_MODELS]]
    more = len(found) - len(said)
    models = "; ".join([*said, *([f"and {more} more models"] if more else [])])
    return (
        f"Prices are assumed for {count:,} of {replay.totals.requests:,} requests: {models}.\n"
        "Set them with --model or --prices; for good, as obsmask prices HOST MODEL says."
    )


def describe_assumed(assumed: AssumedPrice) -> str:
    """Return which prices were assumed for a model, and why."""
    model = printable(assumed.model or "a model without a name")
    known = "is not known" if assumed.maker is None else f"as {assumed.maker}"
    return f"{model} {known} (cached at {assumed.read:g}, written at {assumed.write:g})"


def render_masked_before(names: Sequence[str]) -> str:
    """Return a warning that these conversations were recorded with their results masked."""
    shown = ", ".join(map(printable, names[:_MOST_NAMES]))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (
        f"obsmask: {shown}{more}: recorded with old results masked already. What masking saves "
        "there, and what it costs, these figures cannot say."
    )


def render_passed_over(replay: ReplayResult) -> str:
    """Return how many requests were skipped, and why."""
    reasons = "; ".join(f"{count} {why}" for why, count in replay.passed_over.most_common())
    return f"Requests skipped: {reasons}."


def _render_prices(settings: ReplaySettings) -> str:
    pricing = settings.price_settings.cache_pricing
    if isinstance(pricing, str):
        return "as listed"
    read, write = pricing
    return f"{read:g}, {write:g}" + (" (no cache)" if read >= write else "")


def _describe(summary: Summary) -> dict[str, str]:
    """Return the cells of a row, by the column."""
    return {
        "requests": f"{summary.requests:,}",
        "tokens before": f"{summary.tokens_before:,}",
        "tokens after": f"{summary.tokens_after:,}",
        "all sent": _render_cost(summary.cost_before, summary.cost_unit),
        "sliding": _render_cost(summary.cost_sliding, summary.cost_unit),
        "chosen": _render_cost(summary.cost_after, summary.cost_unit),
        "saved": _render_saved(summary),
        "re-reads": _render_share(summary.rereads, summary.calls),
        "quotes": _render_share(summary.quotes, summary.calls),
    }


def _render_saved(summary: Summary) -> str:
    """Return what was saved, with its margin of error, or `about 0` if that is larger."""
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
