"""What a request is masked and billed by: the prices of a host and a model, and its cache.

They depend on the configuration, the host and the model alone, never on an answer, so that a
restart and a second proxy render the same bytes.
"""

import dataclasses
import functools
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from masking.accounting.prefix_cache import OPENAI, CacheRules, find_rules
from masking.host_names import is_named
from masking.measures.price_list import PLAIN, Price, Ratios
from masking.measures.price_list_check import open_list
from masking.measures.price_settings import OwnPrice, PriceSettings
from masking.measures.prices import assume_price, find_price
from masking.model import PriceStep
from masking.strategies.policy import MaskPolicy

Source = Literal["config", "price list", "assumed"]

_LONGEST_NAME = 256
"""Characters of a host's and of a model's name; what is longer is on no list."""

_MILLION = 1_000_000

MARK = "cache_control"
"""The key by which a request asks for a cache."""

_MARK = f'"{MARK}"'.encode()
"""Within a text of a JSON document its quotes would be escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """What a provider takes, and what its cache keeps.

    `dollars` are for a million plain input tokens, below every price step; None where that is
    not known, as always where the ratios are assumed. `entry` is what the ratios, or else the
    dollars, were taken from: the list's for this host, or the maker's where they are assumed.
    """

    ratios: Ratios
    source: Source
    dollars: float | None = None
    steps: tuple[PriceStep, ...] = ()
    rules: CacheRules = OPENAI
    entry: Price | None = None

    def find_factor(self, prompt: float) -> float:
        """Return how many times as much a token costs in a prompt of so many tokens."""
        place = bisect_left(self.steps, prompt, key=lambda step: step.above)
        return self.steps[place - 1].factor if place else 1.0

    def in_dollars(self, cost: float) -> float | None:
        """Return what input-token equivalents cost in US dollars."""
        return None if self.dollars is None else cost * self.dollars / _MILLION


def find_pricing(settings: PriceSettings, host: str | None, model: str | None) -> Pricing:
    """Return what is billed: the configured prices, else the list's, else what is to be assumed.

    Where a recording does not tell the host, it is the one whose models have such names. Raises
    ConfigError for a price list that cannot be used, OSError for one that cannot be read.
    """
    if max(len(host or ""), len(model or "")) > _LONGEST_NAME:  # nor is it to be remembered
        host = model = None
    return _find_pricing(settings, host, model)


@functools.lru_cache(1_024)
def _find_pricing(settings: PriceSettings, host: str | None, model: str | None) -> Pricing:
    prices = open_list(settings.price_list)
    listed, maker = find_price(prices, host, model), assume_price(prices, model)
    own = _find_own(settings, host or "", model or "")
    source: Source = "price list" if own is None else "config"
    if own is not None:
        ratios, dollars = Ratios(own.read, own.write), own.dollars_per_million
    elif listed is not None and listed.ratios is not None:
        ratios, dollars = listed.ratios, listed.dollars
    else:
        return _assume(settings, maker)
    if listed is None:
        return Pricing(ratios=ratios, source=source, dollars=dollars, rules=_find_rules(maker))
    return Pricing(
        ratios=ratios,
        source=source,
        dollars=listed.dollars if dollars is None else dollars,
        steps=listed.steps,
        rules=_find_rules(listed),
        entry=listed,
    )


def _find_own(settings: PriceSettings, host: str, model: str) -> OwnPrice | None:
    """Return what the configuration says of a host and a model."""
    own = next((price for price in settings.own if price.fits(host, model)), None)
    if not isinstance(settings.cache_pricing, str):
        read, write = settings.cache_pricing
        dollars = None if own is None else own.dollars_per_million
        return OwnPrice(read=read, write=write, dollars_per_million=dollars)
    if own is None and is_named(host, settings.uncached):
        return OwnPrice(read=1.0, write=1.0)
    return own


def _assume(settings: PriceSettings, maker: Price | None) -> Pricing:
    """Return the ratios of the model's maker, or those to be assumed: neither dollars nor steps."""
    ratios = None if maker is None else maker.ratios
    return Pricing(
        ratios=ratios or Ratios(*settings.assumed),
        source="assumed",
        rules=_find_rules(maker),
        entry=maker,
    )


def _find_rules(price: Price | None) -> CacheRules:
    return find_rules(None if price is None else price.provider)


def heed_marks(pricing: Pricing, host: str | None, body: bytes) -> Pricing:
    """Return the pricing of a request: without a cache mark it has no cache where that takes one.

    So it is at a host of the price list alone: a gateway may set marks of its own, and of a
    conversation without a host it is not known what its provider was asked for.
    """
    is_there = host is not None and pricing.source == "price list"
    if not is_there or not pricing.rules.at_marks or _MARK in body:
        return pricing
    return dataclasses.replace(pricing, ratios=PLAIN)


def apply_pricing(policy: MaskPolicy, settings: PriceSettings, pricing: Pricing) -> MaskPolicy:
    """Return the policy with the prices that its boundary is drawn by; with "none" it slides."""
    slides = settings.cache_pricing == "none"
    read, write = PLAIN if slides else pricing.ratios
    return dataclasses.replace(
        policy,
        cache_read_ratio=read,
        cache_write_ratio=write,
        price_steps=() if slides else pricing.steps,
        shortest_prefix=0 if slides else pricing.rules.minimum,
    )
