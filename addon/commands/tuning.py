"""`obsmask tune`: which settings pay on one's own recordings."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

from addon.commands.tune_tables import (
    FRONT_CAVEAT,
    explain_sweep,
    render_assumed_count,
    render_front,
    render_sweep,
)
from addon.commands.workers import Workers
from masking.config import ROOT
from masking.measures.price_settings import PriceSettings
from masking.replay.replay import ReplaySettings, Session
from masking.tune.grid import Grid, Tuning, find_tunings, tuning_of
from masking.tune.max_loss_front import MaxLossFront
from masking.tune.recommend import Sweep, recommend
from masking.tune.tune import find_max_loss_front, tune


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

    If there are fewer sessions than workers, each is tried in several tasks. Raises ValueError if
    there is no request, and what reading a session raises.
    """
    tunings = find_tunings(tuning_of(present), grid or Grid())
    parts = max(1, -(-workers.width // max(1, len(sessions))))
    with _show_progress(progress, len(sessions) * parts) as advance:
        outcomes = tune(sessions, present, tunings, workers.executor, parts=parts, on_done=advance)
    sweep = Sweep(outcomes=outcomes, present=tuning_of(present), promise=present.policy.max_loss)
    if not outcomes[sweep.off].tokens:
        raise ValueError("no request to try settings on")
    if count := outcomes[sweep.off].assumed:
        console.print(render_assumed_count(count, present), highlight=False, markup=False)
    console.print(render_sweep(sweep))
    console.print("\n".join(explain_sweep(sweep)), highlight=False)
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
    """Print what each `max_loss` costs, beside the cheapest schedule. Raises as `run_tune`."""
    priced = tuning_of(present)._replace(enabled=True, max_loss=present.policy.max_loss)
    with _show_progress(progress, len(sessions)) as advance:
        front = find_max_loss_front(
            sessions, priced.apply(present), workers.executor, on_done=advance
        )
    if not front.everything:
        raise ValueError("no request that costs anything")
    console.print(render_front(front))
    console.print(FRONT_CAVEAT, highlight=False)
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
