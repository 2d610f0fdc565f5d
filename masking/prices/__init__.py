"""Prices: what a provider charges for input tokens, what its cache keeps, how much a model takes.

`find_pricing` answers all of that for a request's host and model.
"""

from masking.prices.cache_rules import (
    LATEST_ENDS,
    OPENAI,
    UNKNOWN_MARKS,
    CacheRules,
    ReadsAt,
    find_cache_rules,
)
from masking.prices.price_list import (
    MAX_MEGABYTES,
    MAX_TEXT,
    Price,
    PriceList,
    PriceStep,
    load_shipped,
    open_list,
    read_list,
)
from masking.prices.pricing import (
    MAX_PRICE,
    CachePricing,
    OwnPrice,
    OwnWindow,
    PriceSettings,
    Pricing,
    Source,
    find_pricing,
    find_window,
    fits_window,
)
from masking.prices.published import pack_list

__all__ = [
    "LATEST_ENDS",
    "MAX_MEGABYTES",
    "MAX_PRICE",
    "MAX_TEXT",
    "OPENAI",
    "UNKNOWN_MARKS",
    "CachePricing",
    "CacheRules",
    "OwnPrice",
    "OwnWindow",
    "Price",
    "PriceList",
    "PriceSettings",
    "PriceStep",
    "Pricing",
    "ReadsAt",
    "Source",
    "find_cache_rules",
    "find_pricing",
    "find_window",
    "fits_window",
    "load_shipped",
    "open_list",
    "pack_list",
    "read_list",
]
