"""What the log says about prices, once for each host: what is assumed, and what looks wrong.

Prices are never learned from answers: each warning names the command that sets them.
"""

from dataclasses import dataclass

from cachetools import LRUCache

from addon.metrics.advice import Advice
from addon.metrics.record import RequestRecord
from addon.metrics.uncached import MANY, count_uncached, render_uncached

_MAX_HOSTS = 1_000


@dataclass(slots=True)
class _Host:
    was_told: bool = False
    uncached: int = 0


class PriceWarnings:
    """Remembers what was said about each host, for the hosts that were used last."""

    def __init__(self, max_hosts: int = _MAX_HOSTS) -> None:
        self._hosts: LRUCache[str, _Host] = LRUCache(max_hosts)

    def find(self, record: RequestRecord, advice: Advice) -> list[str]:
        """Return what to say about a request that has come to its end."""
        if record.price_source is None:
            return []
        host = self._hosts.setdefault(record.host, _Host())
        warnings = []
        if record.price_source == "assumed" and not host.was_told:
            host.was_told = True
            warnings.append(_render_assumed(record, advice))
        before, host.uncached = host.uncached, count_uncached(host.uncached, record)
        if before < MANY == host.uncached:
            warnings.append(render_uncached(record.host, advice))
        return warnings


def _render_assumed(record: RequestRecord, advice: Advice) -> str:
    host, read, write = record.host, record.price_read_ratio, record.price_write_ratio
    reason = (
        "" if record.price_entry is None else ", as {} charges for {}".format(*record.price_entry)
    )
    return (
        f"no price of cached tokens is known for {record.model or 'a request without a model'} at "
        f"{host}: assumed {read:g} of a plain token's, and {write:g} for a written one{reason}. "
        "If that is wrong, set your own, with other numbers: "
        f"{advice.add('prices', {'host': host, 'read': read, 'write': write})}"
    )
