"""Which entry of the price list holds for a request, and which model a name stands for."""

import re
from collections.abc import Iterator

from masking.measures.price_list import Price, PriceList

_VENDORS = re.compile(r"^(?:[a-z][a-z-]*\.)+(?=[a-z])")
"""Bedrock's `us.anthropic.claude-...`; not the first part of `gpt-4.1`, which has a digit."""

_LAST_PART = re.compile(r"[-_@:][^-_@:]*$")
_MOST_PARTS = 8
"""How many parts may have been added to a name; `-20250929-v1:0` is three."""


def find_price(prices: PriceList, host: str | None, model: str | None) -> Price | None:
    """Return the list's entry for a model at a host, or at its maker if there is no host."""
    if not model:
        return None
    return prices.find_maker(model) if host is None else prices.find(host, model)


def assume_price(prices: PriceList, model: str | None) -> Price | None:
    """Return what a model's maker charges for it, whoever sells it here, under any name.

    None if no maker is known, or its entry has no price of cached tokens.
    """
    found = (prices.find_maker(name) for name in dict.fromkeys(list_names(model or "")))
    return next((price for price in found if price is not None and price.ratios), None)


def list_names(model: str) -> Iterator[str]:
    """Yield the names that a model may have with its maker, the likeliest first.

    What stands before a slash, or names a vendor, is dropped; then what was added at the end, part
    by part: `openrouter/openai/gpt-5-high` becomes `gpt-5`.
    """
    name = _VENDORS.sub("", model.lower().rpartition("/")[2])
    yield model
    for _ in range(_MOST_PARTS):
        yield name
        yield name.replace(".", "-")
        name = _LAST_PART.sub("", name)
