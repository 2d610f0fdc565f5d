"""`obsmask tune`: which settings pay on one's own recordings."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from addon.commands.replay_tables import describe_assumed
from addon.commands.workers import Workers
from masking.config import ROOT
from masking.measures.price_settings import PriceSettings
from masking.measures.pricing import find_pricing
from masking.replay.assumed_prices import AssumedPrice
from masking.replay.replay import ReplaySettings, Session
from masking.tune.grid import LEAST_WINDOW, Grid, Tuning, find_tunings, tuning_of
from masking.tune.max_loss_front import NO_PROMISE, BillTotals, MaxLossFront
from masking.tune.outcome import Outcome
from masking.tune.recommend import Sweep, find_pareto_front, recommend
from masking.tune.tune import find_max_loss_front, tune

CAVEAT = (
    "A replay prices tokens. It cannot show what an agent would have done had it not seen what was "
    "masked. Re-reads and quotes are the only signs of that here: later calls that repeat one "
    "whose result was masked, or name what only masked results showed, or hold a line of it."
)


def run_tune(
    sessions: Sequence[Session],
    present: ReplaySettings,
    workers: Workers,
    console: Console,
    *,
    progress: Console,
    grid: Grid | None = None,
) -> Sweep:
    """Try a grid of settings on all sessions; print those worth a look, and those to use.

    A session with fewer others than there are workers is tried in several tasks. Raises ValueError
    where there is no request, and what reading a session raises.
    """
    tunings = find_tunings(tuning_of(present), grid or Grid())
    parts = max(1, -(-workers.width // max(1, len(sessions))))
    with _show_progress(progress, len(sessions) * parts) as advance:
        outcomes = tune(sessions, present, tunings, workers.executor, parts=parts, on_done=advance)
    sweep = Sweep(outcomes=outcomes, present=tuning_of(present), promise=present.policy.max_loss)
    if not outcomes[sweep.off].tokens:
        raise ValueError("no request to try settings on")
    if count := outcomes[sweep.off].assumed:
        console.print(_describe_assumed(count, present), highlight=False, markup=False)
    console.print(render_sweep(sweep))
    console.print("\n".join(_explain(sweep)), highlight=False)
    lines = render_settings(recommend(sweep), present.price_settings)
    console.print(lines, soft_wrap=True, highlight=False, markup=False)
    return sweep


def run_front(
    sessions: Sequence[Session],
    present: ReplaySettings,
    workers: Workers,
    console: Console,
    *,
    progress: Console,
) -> MaxLossFront:
    """Print what each `max_loss` comes to, with the clairvoyant beside it. Raises as `run_tune`."""
    priced = tuning_of(present)._replace(enabled=True, max_loss=present.policy.max_loss)
    with _show_progress(progress, len(sessions)) as advance:
        front = find_max_loss_front(
            sessions, priced.apply(present), workers.executor, on_done=advance
        )
    if not front.everything:
        raise ValueError("no request that costs anything")
    console.print(_render_front(front))
    console.print(_FRONT_CAVEAT, highlight=False)
    return front


def render_settings(tuning: Tuning, price_settings: PriceSettings) -> str:
    """Return the lines of a config.toml that give these settings, under these prices."""
    slides, given = tuning.max_loss is None, price_settings.cache_pricing
    settings = tuning._asdict() | {
        "cache_pricing": "none" if slides else "auto" if given == "none" else given,
        "assumed_prices": None
        if price_settings.assumed == PriceSettings().assumed
        else price_settings.assumed,
    }
    known = {name: value for name, value in settings.items() if value is not None}
    lines = (f"{name} = {json.dumps(value)}" for name, value in known.items())
    return "\n".join([f"[{ROOT}.schema1]", *lines])


@contextmanager
def _show_progress(console: Console, total: int) -> Iterator[Callable[[], None]]:
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("tune", total=total)
        yield lambda: progress.advance(task)


def render_sweep(sweep: Sweep) -> Table:
    """Return a row for each of the settings worth a look, from the cheapest on."""
    plain = sweep.outcomes[sweep.off]
    unit = "US dollars" if sweep.in_dollars else "plain input tokens"
    table = _open_table(
        f"{len(sweep.outcomes):,} settings on {plain.requests:,} requests of {plain.tokens:,} "
        f"tokens; costs in {unit}",
        ("", "window", "latest", "errors", "last\nK", "min\nchars", "max\nloss"),
        ("cost", "saved", "tokens\nsaved", "re-\nreads", "quotes", "worst"),
    )
    best = recommend(sweep)
    shown = {*find_pareto_front(sweep), best, sweep.present, sweep.off}
    for tuning in sorted(shown, key=sweep.costs.__getitem__):
        table.add_row(
            _name(tuning, best, sweep),
            *_describe_tuning(tuning),
            *_describe_outcome(tuning, sweep),
            style="bold" if tuning == best else "",
        )
    return table


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


def _describe_assumed(count: int, settings: ReplaySettings) -> str:
    reason = ""
    if settings.model is not None:
        pricing = find_pricing(settings.price_settings, None, settings.model)
        maker = None if pricing.entry is None else str(pricing.entry)
        assumed = AssumedPrice(settings.model, pricing.read, pricing.write, maker, count)
        reason = f": {describe_assumed(assumed)}"
    return (
        f"Prices are assumed for {count:,} requests{reason}.\n"
        "Set them with --model or --prices, or under prices in the configuration."
    )


def _explain(sweep: Sweep) -> Iterator[str]:
    plain, refused = sweep.outcomes[sweep.off], len(sweep.outcomes) - len(sweep.kept)
    yield CAVEAT
    yield (
        f"Re-reads and quotes are parts of {plain.rereads.calls:,} calls; worst is the most that a "
        "conversation's bill was above that of sending everything, at any of its requests. The "
        "cache is simulated, and answers are not in the costs."
    )
    if refused:
        yield (
            f"{refused:,} settings are left out: with them a conversation's bill went more than 2 "
            f"points above the {sweep.promise:.0%} that max_loss allows (the rule works with "
            "estimates, hence the 2 points)."
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
        f"Counting each affected call as one more request, these settings save {saved[0]} of "
        f"sending everything, and the present ones {saved[1]}"
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


_FRONT_CAVEAT = (
    "Bills in tokens over that of the cheapest schedule, which is known only afterwards; the "
    "clairvoyant knows it, too, and keeps the promise. Worst: the most that a conversation's bill "
    "was above that of sending everything, in the end and at any request. The rule keeps it in "
    "estimated tokens."
)


_WORST = ("worst\nin the end", "worst\never")


def _render_front(front: MaxLossFront) -> Table:
    table = _open_table(
        f"Sending everything: {front.everything / front.optimum:.4f} of the cheapest schedule",
        ("max_loss",),
        ("rule", *_WORST, "clairvoyant", *_WORST),
    )
    for loss, rule, best in zip(front.losses, front.rule, front.clairvoyant, strict=True):
        cells = (*_describe_totals(rule, front.optimum), *_describe_totals(best, front.optimum))
        table.add_row("none" if loss >= NO_PROMISE else f"{loss:g}", *cells)
    return table


def _describe_totals(totals: BillTotals, optimum: float) -> tuple[str, ...]:
    return (
        f"{totals.paid / optimum:.4f}",
        f"{totals.worst_end - 1:+.1%}",
        f"{totals.worst - 1:+.1%}",
    )


def _open_table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
