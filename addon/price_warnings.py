"""What the log says of prices, once for each host: what is assumed, and what looks wrong.

Nothing is learned from an answer: each warning names the line to set.
"""

import json
from collections import OrderedDict
from dataclasses import dataclass

from addon.exchange import Exchange
from masking.analysis.terms import Terms

_MAX_HOSTS = 1_000

_MANY = 20
"""So many requests in a row without a cached token are no accident."""

_LARGE = 2_000
"""Tokens that should have been cached, twice what any provider asks for at least."""


@dataclass(slots=True)
class _Host:
    was_told: bool = False
    uncached: int = 0


class PriceWarnings:
    """Remembers what was said of each host; of many hosts, of those that were used last."""

    def __init__(self, max_hosts: int = _MAX_HOSTS) -> None:
        self._max_hosts = max_hosts
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def find(self, exchange: Exchange) -> list[str]:
        """Return what to say of an exchange that has come to its end."""
        if exchange.terms is None:
            return []
        host = self._hosts.setdefault(exchange.host, _Host())
        self._hosts.move_to_end(exchange.host)
        if len(self._hosts) > self._max_hosts:
            self._hosts.popitem(last=False)
        warnings = []
        if exchange.terms.source == "assumed" and not host.was_told:
            host.was_told = True
            warnings.append(_render_assumed(exchange.host, exchange.model, exchange.terms))
        host.uncached = _count_uncached(exchange, host.uncached)
        if host.uncached == _MANY:
            warnings.append(_render_uncached(exchange.host))
        return warnings


def _count_uncached(exchange: Exchange, count: int) -> int:
    """Return how many requests in a row have had nothing from the cache, against all likelihood.

    Where a provider does not report cached tokens at all, nothing is known of its cache.
    """
    cached = None if exchange.usage is None else exchange.usage.cached
    if exchange.entry is None or cached is None or exchange.replay:
        return count
    if cached:
        return 0
    is_priced = exchange.terms is not None and exchange.terms.ratios.read < 1
    return count + (is_priced and exchange.entry.cost.predicted >= _LARGE)


def _render_assumed(host: str, model: str | None, terms: Terms) -> str:
    read, write = terms.ratios
    entry = terms.entry
    reason = "" if entry is None else f", as {entry.seller} takes for {entry.model}"
    name = json.dumps(host, ensure_ascii=False)
    return (
        f"the price list does not know what {host} takes for {model or 'a request without a model'}"
        f": assumed that a cached token costs {read:g} of a plain one and a written one {write:g}"
        f"{reason}. If that is wrong, the line to set in [observation_masking] is "
        f"prices = [{{ host = {name}, read = {read:g}, write = {write:g} }}], with its prices"
    )


def _render_uncached(host: str) -> str:
    name = json.dumps(host, ensure_ascii=False)
    return (
        f"{host} has reported no cached tokens on {_MANY} requests in a row that should have had "
        "them. If it sells none, masking saves more with this line in "
        f"[observation_masking.hosts]: uncached = [{name}]"
    )
