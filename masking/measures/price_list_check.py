"""A price list from outside, in our own form or in the one that genai-prices publishes.

The whole list is checked at once. A mistake anywhere refuses all of it, and names the place.
"""

import functools
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

from masking.errors import ConfigError
from masking.measures.price_list import CLAUSES, PriceList, load_list, load_shipped

_MAX_BYTES = 50_000_000
_MAX_DEPTH = 8
"""How deep clauses may stand in clauses."""

_MAX_PRICE = 1e6
_NOON = "12:00"

_PRICES = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
}
"""The prices of a model that are kept, with our names for them."""

_Object = dict[str, Any]
_Kind = TypeVar("_Kind")


def pack_list(data: bytes, today: date, source: str) -> bytes:
    """Return a list in our own form, fully checked, with a line for each model.

    A list in genai-prices' form (`prices/data.json` and its newer versions) has neither date nor
    source: it gets `today` and `source`, and keeps the prices that hold on that day at noon UTC.
    Raises ConfigError with the place of the first mistake.
    """
    document = _decode(data)
    if isinstance(document, list):
        document = {"providers": document}
    document = _expect(dict, document, "list")
    if "date" not in document:
        document = {"date": today.isoformat(), "source": source, "providers": [
            _convert_provider(provider, today, path)
            for provider, path in _items(document.get("providers"), "providers")
        ]}  # fmt: skip
    _check_list(document)
    return _spell(document)


def read_list(data: bytes) -> PriceList:
    """Read a list in our own form. Raises ConfigError with the place of the first mistake."""
    _check_list(_expect(dict, _decode(data), "list"))
    return load_list(data)


@functools.lru_cache(8)
def open_list(path: str) -> PriceList:
    """Return the list in a file, or the shipped one without a path; read once in a process.

    Raises ConfigError as `read_list` does, and OSError for a file that cannot be read.
    """
    return read_list(Path(path).read_bytes()) if path else load_shipped()


def _decode(data: bytes) -> object:
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"more than {_MAX_BYTES:,} bytes", "list")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"not JSON: {error}", "list") from None


def _spell(document: _Object) -> bytes:
    """Return a list as JSON in which every model has a line of its own."""
    providers = []
    for provider in document["providers"]:
        models = b",\n".join(map(orjson.dumps, provider["models"]))
        head = orjson.dumps({name: value for name, value in provider.items() if name != "models"})
        providers.append(head[:-1] + b',"models":[\n' + models + b"\n]}")
    head = orjson.dumps({name: document[name] for name in ("date", "source")})
    return head[:-1] + b',"providers":[\n' + b",\n".join(providers) + b"\n]}\n"


def _convert_provider(provider: object, today: date, path: str) -> _Object:
    found = _expect(dict, provider, path)
    kept = ("id", "name", "api_pattern", "model_match", "fallback_model_providers")
    models = _items(found.get("models"), f"{path}.models")
    return {
        **{name: found[name] for name in kept if found.get(name) is not None},
        "models": [_convert_model(model, today, place) for model, place in models],
    }


def _convert_model(model: object, today: date, path: str) -> _Object:
    found = _expect(dict, model, path)
    prices = _choose_prices(found.get("prices"), today, f"{path}.prices")
    kept: _Object = {name: found.get(name) for name in ("id", "match")}
    for theirs, ours in _PRICES.items():
        price = prices.get(theirs)
        if isinstance(price, dict):
            kept[ours] = price.get("base")
        elif price is not None:
            kept[ours] = price
    tiers = prices.get("input_mtok")
    if isinstance(tiers, dict):
        place = f"{path}.prices.input_mtok.tiers"
        steps = [_expect(dict, tier, at) for tier, at in _items(tiers.get("tiers"), place)]
        kept["steps"] = sorted([tier.get("start"), tier.get("price")] for tier in steps)
    if found.get("context_window") is not None:
        kept["window"] = found["context_window"]
    return kept


def _choose_prices(prices: object, today: date, path: str) -> _Object:
    """Return the prices that hold on a day at noon UTC: the last whose condition is met."""
    if isinstance(prices, dict):
        return prices
    chosen: _Object = {}
    for number, (item, place) in enumerate(_items(prices, path)):
        conditional = _expect(dict, item, place)
        constraint = conditional.get("constraint") or {}
        if number == 0 or _holds(_expect(dict, constraint, f"{place}.constraint"), today):
            chosen = _expect(dict, conditional.get("prices"), f"{place}.prices")
    return chosen


def _holds(constraint: _Object, today: date) -> bool:
    if "start_date" in constraint:
        return str(constraint["start_date"]) <= today.isoformat()
    start, end = (str(constraint.get(name, ""))[:5] for name in ("start_time", "end_time"))
    return start <= _NOON < end if start <= end else start <= _NOON or end > _NOON


def _check_list(document: _Object) -> None:
    for name in ("date", "source"):
        _expect(str, document.get(name), name)
    for provider, path in _items(document.get("providers"), "providers"):
        _check_provider(_expect(dict, provider, path), path)


def _check_provider(provider: _Object, path: str) -> None:
    for name in ("id", "name"):
        _expect(str, provider.get(name), f"{path}.{name}")
    _check_pattern(provider.get("api_pattern"), f"{path}.api_pattern")
    if "model_match" in provider:
        _check_clause(provider["model_match"], f"{path}.model_match")
    others = provider.get("fallback_model_providers", [])
    for other, place in _items(others, f"{path}.fallback_model_providers"):
        _expect(str, other, place)
    for model, place in _items(provider.get("models"), f"{path}.models"):
        _check_model(_expect(dict, model, place), place)


def _check_model(model: _Object, path: str) -> None:
    _expect(str, model.get("id"), f"{path}.id")
    _check_clause(model.get("match"), f"{path}.match")
    for name in _PRICES.values():
        if name in model:
            _check_price(model[name], f"{path}.{name}")
    if "window" in model and not (type(model["window"]) is int and model["window"] > 0):
        raise ConfigError("expected a whole number of tokens, above 0", f"{path}.window")
    above = 0
    for step, place in _items(model.get("steps", []), f"{path}.steps"):
        if not isinstance(step, list) or len(step) != 2 or type(step[0]) is not int:
            raise ConfigError("expected [tokens, price]", place)
        if step[0] <= above:
            raise ConfigError("expected more tokens than at the step before", place)
        _check_price(step[1], f"{place}[1]")
        above = step[0]


def _check_clause(clause: object, path: str, depth: int = 0) -> None:
    found = _expect(dict, clause, path)
    if len(found) != 1 or next(iter(found)) not in CLAUSES or depth > _MAX_DEPTH:
        raise ConfigError(f"expected one of {', '.join(CLAUSES)}", path)
    ((kind, value),) = found.items()
    _CHECKS.get(kind, _check_text)(value, f"{path}.{kind}", depth)


def _check_clauses(value: object, path: str, depth: int) -> None:
    for clause, place in _items(value, path):
        _check_clause(clause, place, depth + 1)


def _check_text(value: object, path: str, depth: int) -> None:
    _expect(str, value, path)


def _check_pattern(value: object, path: str, depth: int = 0) -> None:
    try:
        re.compile(_expect(str, value, path))
    except (re.error, RecursionError, OverflowError):
        raise ConfigError("not a regular expression", path) from None


_CHECKS: dict[str, Callable[[object, str, int], None]] = {
    "or": _check_clauses,
    "and": _check_clauses,
    "regex": _check_pattern,
}


def _check_price(value: object, path: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= cast(float, value) < _MAX_PRICE):
        raise ConfigError(f"expected a number from 0 up and below {_MAX_PRICE:g}", path)


def _items(value: object, path: str) -> Iterator[tuple[object, str]]:
    for place, item in enumerate(_expect(list, value, path)):
        yield item, f"{path}[{place}]"


def _expect(kind: type[_Kind], value: object, path: str) -> _Kind:
    if type(value) is not kind:
        found = "nothing" if value is None else type(value).__name__
        raise ConfigError(f"expected {kind.__name__}, got {found}", path)
    return value
