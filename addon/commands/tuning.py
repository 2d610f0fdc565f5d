"""`obsmask tune`: which settings pay on one's own recordings."""

from itertools import islice

from rich.console import Console

from addon.commands.session_work import SessionWork
from addon.commands.tune_tables import (
    explain_sweep,
    render_assumed_count,
    render_sweep,
)
from addon.metrics.advice import Advice
from addon.replay.replay import ReplaySettings
from addon.replay.tune.recommend import (
    Grid,
    Outcome,
    Sweep,
    Tuning,
    add_outcomes,
    list_tunings,
    recommend,
    split_into_batches,
    try_tunings,
    tuning_of,
)
from masking.prices import PriceSettings


def run_tune(
    work: SessionWork,
    present: ReplaySettings,
    console: Console,
    advice: Advice,
    *,
    grid: Grid | None = None,
) -> Sweep:
    """Try a grid of settings on all sessions; print those worth a look, and those to use.

    If there are fewer sessions than workers, each is tried in several tasks. Raises ValueError if
    there is no request, and what reading a session raises.
    """
    tunings = list_tunings(tuning_of(present), grid or Grid())
    sessions = sum(1 for _ in islice(work.read(), work.workers.width))
    batches = split_into_batches(tunings, max(1, -(-work.workers.width // max(1, sessions))))
    found = work.run(
        "tune",
        try_tunings,
        [(present, batch) for batch in batches],
        list[Outcome],
        present.price_lists,
    )
    outcomes = add_outcomes(tunings, batches, found)
    sweep = Sweep(outcomes=outcomes, present=tuning_of(present), promise=present.policy.max_loss)
    if not outcomes[sweep.off].tokens:
        raise ValueError("no request to try settings on")
    if count := outcomes[sweep.off].assumed:
        console.print(render_assumed_count(count, present), highlight=False, markup=False)
    console.print(render_sweep(sweep))
    console.print("\n".join(explain_sweep(sweep)), highlight=False)
    settings = find_settings(recommend(sweep), present.price_settings)
    console.print(advice.set(settings), soft_wrap=True, highlight=False, markup=False)
    return sweep


def find_settings(tuning: Tuning, price_settings: PriceSettings) -> dict[str, object]:
    """Return the settings by their names in a configuration, under these prices."""
    slides, given = tuning.max_loss is None, price_settings.cache_pricing
    settings = tuning._asdict() | {
        "cache_pricing": "none" if slides else "auto" if given == "none" else given,
        "assumed_prices": None
        if price_settings.assumed == PriceSettings().assumed
        else price_settings.assumed,
    }
    return {f"schema1.{name}": value for name, value in settings.items() if value is not None}
