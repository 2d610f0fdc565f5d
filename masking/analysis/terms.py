"""Under which terms a request is masked and billed: the price of a cached and a written token.

They depend on the configuration, the host and the model alone, never on an answer, so that a
restart and a second proxy render the same bytes.
"""

import dataclasses
import functools
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from masking.analysis.prices import PLAIN, Price, Ratios, find_price, guess_price
from masking.analysis.simulate import OPENAI, CacheRules, find_rules
from masking.config import CachePricing
from masking.policy import MaskPolicy

Source = Literal["config", "price list"]

_LONGEST_NAME = 256
"""Characters of a host's and of a model's name; what is longer is on no list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a provider takes, and what its cache keeps.

    Without a `source` the ratios are not known, and every token counts as a plain one. Without a
    price there are no dollars.
    """

    ratios: Ratios = PLAIN
    source: Source | None = None
    price: Price | None = None
    rules: CacheRules = OPENAI

    def in_dollars(self, cost: float, prompt: float, when: datetime) -> float | None:
        """Return what input-token equivalents cost in US dollars, in a prompt of this size."""
        return None if self.price is None else cost * self.price.dollars_per_token(prompt, when)


def find_terms(pricing: CachePricing, host: str | None, model: str | None) -> Terms:
    """Return what is billed: the configured ratios, else the price list's where it has any.

    Where a recording does not tell the host, it is the one whose models have such names.
    """
    if max(len(host or ""), len(model or "")) > _LONGEST_NAME:  # nor is it to be remembered
        host = model = None
    return _find_terms(pricing, host, model)


@functools.lru_cache(1_024)
def _find_terms(pricing: CachePricing, host: str | None, model: str | None) -> Terms:
    price = _find_price(host, model)
    rules = find_rules(price.provider.id if price else None)
    if not isinstance(pricing, str):
        return Terms(ratios=Ratios(*pricing), source="config", price=price, rules=rules)
    if price is None or price.ratios is None:
        return Terms(price=price, rules=rules)
    return Terms(ratios=price.ratios, source="price list", price=price, rules=rules)


def _find_price(host: str | None, model: str | None) -> Price | None:
    if model is None:
        return None
    return guess_price(model) if host is None else find_price(host, model)


def apply_terms(policy: MaskPolicy, pricing: CachePricing, terms: Terms) -> MaskPolicy:
    """Return the policy with the prices that its boundary is drawn by; with "none" it slides."""
    read, write = PLAIN if pricing == "none" else terms.ratios
    return dataclasses.replace(policy, cache_read_ratio=read, cache_write_ratio=write)
