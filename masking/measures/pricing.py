"""The prices by which a request is masked and billed; this is the one place that finds them.

A pricing depends on the configuration and the request (host, model, cache marks) alone, never on
an answer. So a restart and a second proxy render the same bytes.
"""

import dataclasses
import functools
from bisect import bisect_left
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from masking.host_names import is_named
from masking.measures.cache_rules import OPENAI, UNKNOWN_MARKS, CacheRules, find_rules
from masking.measures.price_list import Price, PriceList
from masking.measures.price_list_check import open_list
from masking.measures.price_settings import OwnPrice, PriceSettings
from masking.measures.prices import assume_price, find_price
from masking.measures.windows import find_window
from masking.model import PriceStep

Source = Literal["config", "price list", "assumed"]

_LONGEST_NAME = 256
"""In characters, of a host or a model. A longer name is on no list."""

_MILLION = 1_000_000

_LONG = "1h"
"""An hour, as requests spell it."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """What a provider charges for a request's tokens, and what its cache keeps of them.

    read, write: the prices of a cached and of a written token, relative to a plain input token.
    short_write: the price of a token that is written for the usual time, where the request asks for
        an hour; None if that is `write`.
    dollars_per_million: for plain input tokens, below every price step; None if it is not known,
        which it never is where the ratios are assumed.
    entry: where the ratios, or else the dollars, come from: the list's entry for this host, or the
        maker's entry where they are assumed.
    window: the tokens of the model's context window, prompt and answer; None if it is not known.
    """

    read: float
    write: float
    _: KW_ONLY
    short_write: float | None = None
    source: Source = "config"
    dollars_per_million: float | None = None
    steps: tuple[PriceStep, ...] = ()
    cache: CacheRules = OPENAI
    entry: Price | None = None
    window: int | None = None

    @property
    def ratios(self) -> tuple[float, float]:
        """The prices of a cached and of a written token."""
        return self.read, self.write

    @property
    def written_prices(self) -> tuple[float, float]:
        """The prices of a token that is written for the usual time, and for an hour."""
        if self.short_write is not None:
            return self.short_write, self.write
        has_long = self.cache.long_write is not None and self.source != "config"
        return self.write, (self.cache.long_write or self.write) if has_long else self.write

    def find_cost(self, prompt: float, cached: float, uncached: float | None = None) -> float:
        """Return the cost, in plain input tokens, of a prompt with so many `cached` tokens.

        `uncached` is the mean price of its other tokens; if it is None, all of them are written.
        """
        each = self.write if uncached is None else uncached
        return (cached * self.read + (prompt - cached) * each) * self.find_factor(prompt)

    def find_factor(self, prompt: float) -> float:
        """Return how many times as much a token costs in a prompt of this many tokens."""
        place = bisect_left(self.steps, prompt, key=lambda step: step.above)
        return self.steps[place - 1].factor if place else 1.0

    def in_dollars(self, cost: float) -> float | None:
        """Return a cost in plain input tokens in US dollars; None if the price is not known."""
        each = self.dollars_per_million
        return None if each is None else cost * each / _MILLION

    def ask_for(self, lifetime: str | None) -> "Pricing":
        """Return it for a request whose last cache mark asks for this lifetime, as spelled.

        What is configured is the price, whatever is asked for.
        """
        if lifetime != _LONG or self.cache.long_write is None or self.source == "config":
            return self
        return dataclasses.replace(self, write=self.cache.long_write, short_write=self.write)

    def forget_after(self, ttl: float | None) -> "Pricing":
        """Return it with a cache that forgets a prompt after `ttl` seconds; None for never."""
        return dataclasses.replace(self, cache=dataclasses.replace(self.cache, ttl=ttl))


def find_pricing(
    settings: PriceSettings,
    host: str | None,
    model: str | None,
    *,
    is_marked: bool = True,
    lifetime: str | None = None,
) -> Pricing:
    """Return the configured prices, else the list's, else those to be assumed.

    A recording may not tell the host; then it is the host whose models have such names.
    `is_marked` says whether the request asks for a cache, `lifetime` for how long, as its last mark
    spells it (`5m`, `1h`); None for the usual time. Raises ConfigError for a price list that cannot
    be used, OSError for one that cannot be read.
    """
    if max(len(host or ""), len(model or "")) > _LONGEST_NAME:  # and must not be remembered
        host = model = None
    pricing = _find_pricing(settings, host, model)
    if pricing.cache.reads_at == "marks" and not is_marked:
        return _price_unmarked(pricing, is_host_known=host is not None)
    return pricing.ask_for(lifetime)


def _price_unmarked(pricing: Pricing, *, is_host_known: bool) -> Pricing:
    """Return the prices of a request without a mark, for a model that is cached at marks.

    Where the provider asks for marks there is no cache. That is certain at a host of the price list
    alone: a gateway may set marks of its own, and of a conversation without a host it is not known
    what its provider was asked for. Then any prefix is taken to be cached.
    """
    if is_host_known and pricing.source == "price list" and pricing.cache.needs_marks:
        return dataclasses.replace(pricing, read=1.0, write=1.0)
    return dataclasses.replace(pricing, cache=UNKNOWN_MARKS)


@functools.lru_cache(1_024)
def _find_pricing(settings: PriceSettings, host: str | None, model: str | None) -> Pricing:
    window = find_window(host, model, settings)
    return dataclasses.replace(_find_prices(settings, host, model), window=window)


def _find_prices(settings: PriceSettings, host: str | None, model: str | None) -> Pricing:
    prices = open_list(settings.price_list)
    listed = find_price(prices, host, model)
    if own := _find_own(settings, host or "", model or ""):
        return _price_by_configuration(own, listed, prices, model)
    if listed is None or listed.ratios is None:
        return _assume(settings, prices, model)
    return Pricing(
        *listed.ratios,
        source="price list",
        dollars_per_million=listed.dollars_per_million,
        steps=listed.steps,
        cache=find_rules(listed.provider, model),
        entry=listed,
    )


def _find_own(settings: PriceSettings, host: str, model: str) -> OwnPrice | None:
    """Return what the configuration says about a host and a model."""
    own = next((price for price in settings.own if price.fits(host, model)), None)
    if not isinstance(settings.cache_pricing, str):
        read, write = settings.cache_pricing
        dollars = None if own is None else own.dollars_per_million
        return OwnPrice(read=read, write=write, dollars_per_million=dollars)
    if own is None and is_named(host, settings.uncached):
        return OwnPrice(read=1.0, write=1.0)
    return own


def _price_by_configuration(
    own: OwnPrice, listed: Price | None, prices: PriceList, model: str | None
) -> Pricing:
    """Return the configured ratios, with the rest from the list as far as it knows."""
    known = listed or assume_price(prices, model)
    dollars = own.dollars_per_million
    if dollars is None and listed is not None:
        dollars = listed.dollars_per_million
    return Pricing(
        own.read,
        own.write,
        source="config",
        dollars_per_million=dollars,
        steps=() if listed is None else listed.steps,
        cache=find_rules(None if known is None else known.provider, model),
        entry=listed,
    )


def _assume(settings: PriceSettings, prices: PriceList, model: str | None) -> Pricing:
    """Return the ratios of the model's maker, or the assumed ones, without dollars and steps."""
    maker = assume_price(prices, model)
    read, write = (maker and maker.ratios) or settings.assumed
    cache = find_rules(None if maker is None else maker.provider, model)
    return Pricing(read, write, source="assumed", cache=cache, entry=maker)
