"""The line that `obsmask run` prints at the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from addon.config import advise
from addon.metrics.held import HELD
from addon.metrics.tally import Tally
from addon.metrics.tally_line import (
    CHANGES,
    PASSED,
    SIGNED,
    Untouched,
    explain_passed,
    find_why_untouched,
    render_outgrown,
    render_tally,
)
from addon.proxy.health_check import Health

_NOTHING = (
    "no request to a model came through the proxy: obsmask doctor -- COMMAND looks for the reason; "
    "obsmask run --reverse URL -- COMMAND is for an agent that takes no proxy"
)


class Remedies(NamedTuple):
    """What would have requests masked that passed; None if nothing would, or it was done already.

    signed: claude-code's, which it signs; `hindrance` says why nothing was done about that.
    held: those of a WebSocket, whose provider holds the history; `keeps_sockets` is whether this
        run has them pass, whatever the configuration says.
    """

    signed: str | None = None
    held: str | None = None
    hindrance: str = ""
    keeps_sockets: bool = False


def render_end(
    tally: Tally, health: Health, remedies: Remedies, *, deaths: int, log: Path | None
) -> str:
    """Return what a run came to.

    deaths: how often the proxy ended by itself; `log` says why.
    """
    return "; ".join(_render_parts(tally, health, remedies, deaths, log))


def _render_parts(
    tally: Tally, health: Health, remedies: Remedies, deaths: int, log: Path | None
) -> Iterator[str]:
    if health.lost_records:
        yield f"{health.summary}, of which {health.lost_records} could not be recorded"
    elif tally.count:
        yield render_tally(tally, _find_why(tally, health, remedies))
    else:
        yield _NOTHING
    signed = tally.passed_through[SIGNED]
    if tally.changed and signed and remedies.signed and explain_passed(tally, SIGNED).setting:
        yield f"{signed} requests passed, as claude-code signs them: {remedies.signed} changes that"
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


def _find_why(tally: Tally, health: Health, remedies: Remedies) -> Untouched:
    """Return why nothing was masked, with the option that changes that, if there is one."""
    why = find_why_untouched(tally)
    if why == PASSED[SIGNED]:
        hindrance = f", and {remedies.hindrance}" if remedies.hindrance else ""
        return Untouched(f"{why.because}{hindrance}", remedies.signed)
    if why == PASSED[HELD["pass"]] and remedies.keeps_sockets:
        return Untouched(why.because, remedies.held)
    if change := CHANGES.get(why):
        return Untouched(why.because, advise(Path(health.config)).set(change))
    if why in PASSED.values() and why.setting is not None:
        return Untouched(why.because, remedies.held)
    return why
