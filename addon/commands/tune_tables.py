"""How `obsmask tune` shows what it found, in a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

from addon.commands.replay_tables import describe_assumed
from addon.replay.replay import ReplaySettings
from addon.replay.totals import AssumedPrice
from addon.replay.tune.recommend import (
    LEAST_WINDOW,
    Outcome,
    Sweep,
    Tuning,
    pareto_front,
    recommend,
)
from masking.prices import find_pricing

CAVEAT = (
    "A replay prices tokens. It cannot show what an agent would have done without what was masked. "
    "The only signs of that are re-reads and quotes: later calls that repeat one whose result was "
    "masked, or name what only masked results showed, or have a line that only these showed."
)


_TUNING = ("window", "latest", "errors", "last\nK", "min\nchars", "max\nloss")
_COSTS = ("cost", "saved")
_LOSSES = ("tokens\nsaved", "re-\nreads", "quotes", "worst")

_NAMED = ("row", "", *_TUNING)
"""The columns that are words, or name a row: the second is its name."""

_UNBOUNDED = 10_000


@dataclass(frozen=True, slots=True)
class SweepTable:
    """A table that rich can print: as two with numbered rows where the screen is narrow.

    `rows` have their cells by column, and a style.
    """

    title: str
    rows: Sequence[tuple[Mapping[str, str], str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what is printed."""
        whole = self._render(self.title, "", *_TUNING, *_COSTS, *_LOSSES)
        unbounded = options.update(max_width=_UNBOUNDED)
        if Measurement.get(console, unbounded, whole).maximum <= options.max_width:
            yield whole
        else:
            yield self.title
            yield self._render(None, "row", "", *_TUNING, *_COSTS)
            yield self._render(None, "row", "", *_LOSSES)

    def _render(self, title: str | None, *columns: str) -> Table:
        named = [each for each in columns if each in _NAMED]
        table = _open_table(title, named, [each for each in columns if each not in _NAMED])
        for number, (cells, style) in enumerate(self.rows, 1):
            found = {"row": str(number), **cells}
            table.add_row(*(found[column] for column in columns), style=style)
        return table


def render_sweep(sweep: Sweep) -> SweepTable:
    """Return a row for each of the settings worth a look, the cheapest first."""
    plain, best = sweep.outcomes[sweep.off], recommend(sweep)
    unit = "US dollars" if sweep.in_dollars else "plain input tokens"
    title = (
        f"{len(sweep.outcomes):,} settings on {plain.requests:,} requests of {plain.tokens:,} "
        f"tokens; costs in {unit}"
    )
    rows = []
    shown = {*pareto_front(sweep), best, sweep.present, sweep.off}
    for tuning in sorted(shown, key=sweep.costs.__getitem__):
        names = ("", *_TUNING, *_COSTS, *_LOSSES)
        described = (*_describe_tuning(tuning), *_describe_outcome(tuning, sweep))
        cells = (_name(tuning, best, sweep), *described)
        rows.append((dict(zip(names, cells, strict=True)), "bold" if tuning == best else ""))
    return SweepTable(title, rows)


def _name(tuning: Tuning, best: Tuning, sweep: Sweep) -> str:
    if tuning == best:
        return "keep" if best == sweep.present else "use"
    return {sweep.present: "present", sweep.off: "all sent"}.get(tuning, "")


def _describe_tuning(tuning: Tuning) -> tuple[str, ...]:
    if not tuning.enabled:
        return ("off", "", "", "", "", "")
    return (
        str(tuning.window_turns),
        str(tuning.keep_latest_turns),
        "kept" if tuning.keep_errors else "masked",
        str(tuning.keep_last_k_per_tool),
        str(tuning.min_chars),
        "slides" if tuning.max_loss is None else f"{tuning.max_loss:.0%}",
    )


def _describe_outcome(tuning: Tuning, sweep: Sweep) -> tuple[str, ...]:
    outcome, cost = sweep.outcomes[tuning], sweep.costs[tuning]
    return (
        f"{cost:,.4f}" if sweep.in_dollars else f"{cost:,.0f}",
        _render_saved(cost, sweep),
        f"{1 - outcome.tokens / sweep.outcomes[sweep.off].tokens:.1%}",
        _render_share(outcome.rereads.either, outcome),
        _render_share(outcome.rereads.quoted, outcome),
        f"{outcome.worst - 1:+.1%}",
    )


def _render_share(count: int, outcome: Outcome) -> str:
    return f"{count / max(1, outcome.rereads.calls):.1%}"


def _render_saved(cost: float, sweep: Sweep) -> str:
    everything = sweep.costs[sweep.off]
    return f"{1 - cost / everything:.1%}" if everything else ""


def render_assumed_count(count: int, settings: ReplaySettings) -> str:
    """Return for how many requests prices were assumed, and which, if a model was given."""
    reason = ""
    if settings.model is not None:
        pricing = find_pricing(settings.price_settings, None, settings.model)
        maker = None if pricing.entry is None else str(pricing.entry)
        assumed = AssumedPrice(settings.model, pricing.read, pricing.write, maker, count)
        reason = f": {describe_assumed(assumed)}"
    return (
        f"Prices are assumed for {count:,} requests{reason}.\n"
        "Set them with --model or --prices; for good, as obsmask prices HOST MODEL says."
    )


def explain_sweep(sweep: Sweep) -> Iterator[str]:
    """Yield what a reader of the table must know, and what is recommended."""
    plain, refused = sweep.outcomes[sweep.off], len(sweep.outcomes) - len(sweep.kept)
    yield CAVEAT
    yield (
        f"Re-reads and quotes are parts of {plain.rereads.calls:,} calls. Worst is the most by "
        "which a conversation's bill exceeded that of sending everything, at any of its requests. "
        "The cache is simulated, and costs do not include answers."
    )
    if refused:
        yield (
            f"{refused:,} settings are left out: with them a conversation's bill exceeded the "
            f"{sweep.promise:.0%} that max_loss allows by more than 2 points, the margin of the "
            "rule's estimates."
        )
    yield (
        f"No window under {LEAST_WINDOW} turns is recommended: recordings made without masking "
        "cannot show what an agent would have missed."
    )
    yield ""
    yield _recommend(sweep)


def _recommend(sweep: Sweep) -> str:
    best = recommend(sweep)
    if best == sweep.present:
        return "Nothing tried is 1% cheaper, counting each affected call as one more request. Keep:"
    saved = [
        _render_saved(sweep.costs_with_rereads[tuning], sweep) for tuning in (best, sweep.present)
    ]
    reckoned = (
        f"Counting each affected call as one more request, these settings save {saved[0]} of the "
        f"bill of sending everything, and the present ones {saved[1]}"
    )
    return f"{reckoned}{_refuse_present(sweep)}:"


def _refuse_present(sweep: Sweep) -> str:
    """Return why the present settings cannot be kept, whatever they save."""
    worst = sweep.outcomes[sweep.present].worst - 1
    if not sweep.keeps_promise(sweep.present):
        return (
            f". But these break the promise of max_loss = {sweep.promise:g} on these recordings: "
            f"at its worst request a conversation's bill was {worst:.1%} above that of sending "
            f"everything, {worst - sweep.promise:.1%} more than is allowed. Use"
        )
    if not sweep.present.is_window_long_enough:
        return f". But their window is under {LEAST_WINDOW} turns. Use"
    return ""


def _open_table(title: str | None, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
