"""Hosts that sell cached tokens at a price that nobody has told: named once each, in the log."""

from addon.exchange import Exchange
from masking.analysis.prices import Ratios, guess_price

_LIKELY = Ratios(0.1, 1.0)
"""A wrong 0.1 is cheap, a wrong 1.0 is dear."""

_MAX_HOSTS = 1_000


class UnlistedHosts:
    """Remembers which hosts have been named."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def find_warning(self, exchange: Exchange) -> str | None:
        """Return what to say of the host of an answered request, where that is news."""
        terms, usage = exchange.terms, exchange.usage
        if exchange.pricing != "auto" or terms is None or terms.source is not None:
            return None
        if usage is None or not usage.cached or exchange.host in self._named:
            return None
        if len(self._named) < _MAX_HOSTS:
            self._named.add(exchange.host)
        return _render(exchange.host, exchange.model or "?")


def _render(host: str, model: str) -> str:
    guess = guess_price(model)
    if guess is None or guess.ratios is None:
        ratios, origin = _LIKELY, "or your provider's own prices"
    else:
        ratios, origin = guess.ratios, f"what {guess.provider.name} takes"
    return (
        f"{host} reports cached tokens, and the price list does not know what they cost there for "
        f"{model}: the window slides at every turn, which is dear where they are cheap. "
        f"The line to set: cache_pricing = [{ratios.read:g}, {ratios.write:g}] ({origin})"
    )
