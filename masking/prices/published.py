"""A price list as genai-prices publishes it, in our own form.

For `obsmask prices --update FILE`, and for the program that makes the shipped list.
"""

from collections.abc import Iterator
from datetime import date
from typing import TypeVar

import orjson

from masking.errors import ConfigError
from masking.prices.list_check import check_list
from masking.prices.price_list import Object, decode

_Kind = TypeVar("_Kind")

_PRICES = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "output_mtok": "output",
}
"""The prices of a model that are kept, with our names for them."""

_STEPS = {"input_mtok": "steps", "output_mtok": "output_steps"}
"""Those of them whose steps are kept."""

_NOON = "12:00"


def pack_list(data: bytes, today: date, source: str) -> bytes:
    """Return a list in our own form, fully checked, with a line for each model.

    A list in genai-prices' form (`prices/data.json` and its newer versions) has neither date nor
    source: it gets `today` and `source`, and keeps the prices that hold on that day at noon UTC.
    Raises ConfigError with the place of the first mistake.
    """
    document = decode(data)
    if isinstance(document, list):
        document = {"providers": document}
    packed: Object = _expect(dict, document, "list")
    if "date" not in packed:
        packed = {"date": today.isoformat(), "source": source, "providers": [
            _convert_provider(provider, today, path)
            for provider, path in _items(packed.get("providers"), "providers")
        ]}  # fmt: skip
    check_list(packed)
    providers = []
    for place, provider in enumerate(packed["providers"]):
        others = {name: value for name, value in provider.items() if name != "models"}
        try:
            models = b",\n".join(map(orjson.dumps, provider["models"]))
            head = orjson.dumps(others)
        except orjson.JSONEncodeError as error:  # a field that nobody knows is too deep
            raise ConfigError(f"cannot be written again ({error})", f"providers[{place}]") from None
        providers.append(head[:-1] + b',"models":[\n' + models + b"\n]}")
    head = orjson.dumps({name: packed[name] for name in ("date", "source")})
    return head[:-1] + b',"providers":[\n' + b",\n".join(providers) + b"\n]}\n"


def _convert_provider(provider: object, today: date, path: str) -> Object:
    found = _expect(dict, provider, path)
    kept = ("id", "name", "api_pattern", "model_match", "fallback_model_providers")
    models = _items(found.get("models"), f"{path}.models")
    return {
        **{name: found[name] for name in kept if found.get(name) is not None},
        "models": [_convert_model(model, today, place) for model, place in models],
    }


def _convert_model(model: object, today: date, path: str) -> Object:
    found = _expect(dict, model, path)
    prices = _choose_prices(found.get("prices"), today, f"{path}.prices")
    kept: Object = {name: found.get(name) for name in ("id", "match")}
    for theirs, ours in _PRICES.items():
        price = prices.get(theirs)
        if isinstance(price, dict):
            kept[ours] = price.get("base")
        elif price is not None:
            kept[ours] = price
    for theirs, ours in _STEPS.items():
        tiers = prices.get(theirs)
        if isinstance(tiers, dict):
            place = f"{path}.prices.{theirs}.tiers"
            steps = [_expect(dict, tier, at) for tier, at in _items(tiers.get("tiers"), place)]
            kept[ours] = sorted(
                ([tier.get("start"), tier.get("price")] for tier in steps),
                key=lambda step: step[0] if type(step[0]) is int else 0,
            )
    if found.get("context_window") is not None:
        kept["window"] = found["context_window"]
    return kept


def _choose_prices(prices: object, today: date, path: str) -> Object:
    """Return the prices that hold on a day at noon UTC: the last whose condition is met."""
    if isinstance(prices, dict):
        return prices
    chosen: Object = {}
    for number, (item, place) in enumerate(_items(prices, path)):
        conditional = _expect(dict, item, place)
        constraint = conditional.get("constraint") or {}
        if number == 0 or _holds(_expect(dict, constraint, f"{place}.constraint"), today):
            chosen = _expect(dict, conditional.get("prices"), f"{place}.prices")
    return chosen


def _holds(constraint: Object, today: date) -> bool:
    if "start_date" in constraint:
        return str(constraint["start_date"]) <= today.isoformat()
    start, end = (str(constraint.get(name, ""))[:5] for name in ("start_time", "end_time"))
    return start <= _NOON < end if start <= end else start <= _NOON or end > _NOON


def _items(value: object, path: str) -> Iterator[tuple[object, str]]:
    """Yield the items of a list, each with its place. Raises ConfigError if it is no list."""
    for place, item in enumerate(_expect(list, value, path)):
        yield item, f"{path}[{place}]"


def _expect(kind: type[_Kind], value: object, path: str) -> _Kind:
    """Return a value that is of this type. Raises ConfigError if it is not."""
    if type(value) is not kind:
        found = "nothing" if value is None else type(value).__name__
        raise ConfigError(f"expected {kind.__name__}, got {found}", path)
    return value
