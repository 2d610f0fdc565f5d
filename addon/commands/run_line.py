"""The line that `obsmask run` prints at the end."""

from collections.abc import Iterator
from pathlib import Path

from addon.metrics.tally import Tally
from addon.metrics.tally_line import (
    CHANGES,
    PASSED,
    Untouched,
    find_why_untouched,
    render_outgrown,
    render_tally,
)
from addon.proxy.health_check import Health
from addon.shared.config_places import advise

_NOTHING = (
    "no request to a model came through the proxy: obsmask doctor -- COMMAND looks for the reason; "
    "obsmask run --reverse URL -- COMMAND is for an agent that takes no proxy"
)

_CLIENT_CHANGES = "obsmask run --client-changes"


def render_end(
    tally: Tally, health: Health, *, changes_client: bool, deaths: int, log: Path | None
) -> str:
    """Return what a run came to.

    changes_client: whether the client was changed already, or cannot be.
    deaths: how often the proxy ended by itself; `log` says why.
    """
    return "; ".join(_render_parts(tally, health, changes_client, deaths, log))


def _render_parts(
    tally: Tally, health: Health, changes_client: bool, deaths: int, log: Path | None
) -> Iterator[str]:
    if health.lost_records:
        yield f"{health.summary}, of which {health.lost_records} could not be recorded"
    elif tally.count:
        yield render_tally(tally, _find_why(tally, health, changes_client))
    else:
        yield _NOTHING
    if tally.outgrown:
        yield render_outgrown(tally)
    if health.unopened:
        hosts = ", ".join(health.unopened)
        count = sum(health.unopened.values())
        yield f"{count} connections passed unopened, for lack of trust, to {hosts}"
    if health.unserved:
        yield f"{health.unserved} requests passed in a format that is not masked"
    if deaths:
        times = "once" if deaths == 1 else f"{deaths} times"
        yield f"the proxy ended {times} by itself, and {log} says why"
    if tally.count:
        yield f"records in {health.records}"


def _find_why(tally: Tally, health: Health, changes_client: bool) -> Untouched:
    """Return why nothing was masked, with the option that changes that, if there is one."""
    why = find_why_untouched(tally)
    if change := CHANGES.get(why):
        return Untouched(why.because, advise(Path(health.config)).set(change))
    if why in PASSED.values() and why.setting is not None:
        return Untouched(why.because, None if changes_client else _CLIENT_CHANGES)
    return why
