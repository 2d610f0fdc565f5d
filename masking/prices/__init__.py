"""Prices: what a provider charges for input tokens, what its cache keeps, how much a model takes.

`find_pricing` answers all of that for a request's host and model.
"""

from masking.prices.cache_rules import LATEST_ENDS, CacheRules, ReadsAt
from masking.prices.list_check import MAX_PRICE, MAX_TEXT
from masking.prices.price_list import (
    MAX_MEGABYTES,
    PriceList,
    PriceStep,
    load_shipped,
    open_list,
    read_list,
)
from masking.prices.pricing import (
    CachePricing,
    OwnPrice,
    OwnWindow,
    PriceSettings,
    Pricing,
    Source,
    find_pricing,
    fits_window,
)
from masking.prices.published import pack_list

__all__ = [
    "LATEST_ENDS",
    "MAX_MEGABYTES",
    "MAX_PRICE",
    "MAX_TEXT",
    "CachePricing",
    "CacheRules",
    "OwnPrice",
    "OwnWindow",
    "PriceList",
    "PriceSettings",
    "PriceStep",
    "Pricing",
    "ReadsAt",
    "Source",
    "find_pricing",
    "fits_window",
    "load_shipped",
    "open_list",
    "pack_list",
    "read_list",
]
