"""What the log says of prices, once for each host: what is assumed, and what looks wrong.

Nothing is learned from an answer: each warning names the line to set.
"""

import json
from collections import OrderedDict
from dataclasses import dataclass

from addon.metrics.exchange import Exchange
from addon.metrics.uncached import MANY, count_uncached, render_uncached
from masking.measures.pricing import Pricing

_MAX_HOSTS = 1_000


@dataclass(slots=True)
class _Host:
    was_told: bool = False
    uncached: int = 0


class PriceWarnings:
    """Remembers what was said of each host; of many hosts, of those that were used last."""

    def __init__(self, max_hosts: int = _MAX_HOSTS) -> None:
        self._max_hosts = max_hosts
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def find(self, exchange: Exchange, record: dict[str, object]) -> list[str]:
        """Return what to say of an exchange that has come to its end, and of its record."""
        if exchange.pricing is None:
            return []
        host = self._hosts.setdefault(exchange.host, _Host())
        self._hosts.move_to_end(exchange.host)
        if len(self._hosts) > self._max_hosts:
            self._hosts.popitem(last=False)
        warnings = []
        if exchange.pricing.source == "assumed" and not host.was_told:
            host.was_told = True
            warnings.append(_render_assumed(exchange.host, exchange.model, exchange.pricing))
        before, host.uncached = host.uncached, count_uncached(host.uncached, record)
        if before < MANY == host.uncached:
            warnings.append(render_uncached(exchange.host))
        return warnings


def _render_assumed(host: str, model: str | None, pricing: Pricing) -> str:
    read, write = pricing.ratios
    entry = pricing.entry
    reason = "" if entry is None else f", as {entry.seller} charges for {entry.model}"
    name = json.dumps(host, ensure_ascii=False)
    line = f"observation_masking.prices = [{{ host = {name}, read = {read:g}, write = {write:g} }}]"
    return (
        f"no price of cached tokens is known for {model or 'a request without a model'} at {host}"
        f": assumed {read:g} of a plain token's, and {write:g} for a written one{reason}. "
        f"If that is wrong, set your own at the top of the configuration: {line}"
    )
