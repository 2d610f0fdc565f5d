"""Which entry of the price list holds for a request, and which model a name is taken for."""

import re
from collections.abc import Iterator

from masking.measures.price_list import Price, PriceList

_VENDORS = re.compile(r"^(?:[a-z][a-z-]*\.)+(?=[a-z])")
"""Bedrock's `us.anthropic.claude-...`; not the first part of `gpt-4.1`, which has a digit."""

_LAST_PART = re.compile(r"[-_@:][^-_@:]*$")
_MOST_PARTS = 8
"""What may have been added at the end of a name; `-20250929-v1:0` is three parts."""


def find_price(prices: PriceList, host: str | None, model: str | None) -> Price | None:
    """Return what the list says of a model at a host; at its maker's where no host is told."""
    if not model:
        return None
    return prices.find_maker(model) if host is None else prices.find(host, model)


def assume_price(prices: PriceList, model: str | None) -> Price | None:
    """Return what a model's maker takes for it, whoever sells it here under whatever name.

    None where no maker is known, or where its entry has no price of cached tokens.
    """
    found = (prices.find_maker(name) for name in dict.fromkeys(_spell(model or "")))
    return next((price for price in found if price is not None and price.ratios), None)


def _spell(model: str) -> Iterator[str]:
    """Yield the names that a model may have with its maker, the likeliest first.

    What stands before a slash or names a vendor goes; then what was added at the end, part by
    part: `openrouter/openai/gpt-5-high` becomes `gpt-5`.
    """
    name = _VENDORS.sub("", model.lower().rpartition("/")[2])
    yield model
    for _ in range(_MOST_PARTS):
        yield name
        yield name.replace(".", "-")
        name = _LAST_PART.sub("", name)
