"""`python -m tests.tools.make_price_list`: makes the shipped price list from genai-prices.

It needs genai-prices, which nothing else here does: `pip install genai-prices` in an environment
of its own, beside what this package needs. Or else
`obsmask prices --update FILE` takes what genai-prices publishes.
"""

import importlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import orjson

import masking.prices
from masking.prices import pack_list

SHIPPED = Path(masking.prices.__file__).with_name("prices.json")


def make_list(today: date) -> bytes:
    """Return the list in the package that is installed, in our own form."""
    providers = importlib.import_module("genai_prices.data").providers
    source = f"genai-prices {version('genai-prices')} (github.com/pydantic/genai-prices)"
    return pack_list(orjson.dumps(_publish(providers)), today, source)


def _publish(value: object) -> object:
    """Return the package's objects as its published JSON has them."""
    if isinstance(value, list):
        return [_publish(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if type(value).__module__.startswith("genai_prices"):
        fields = vars(value).items()
        return {name.rstrip("_"): _publish(each) for name, each in fields if name != "extractors"}
    return value


if __name__ == "__main__":
    SHIPPED.write_bytes(make_list(datetime.now(UTC).date()))
    print(SHIPPED)
