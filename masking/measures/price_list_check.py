"""A price list from outside, in our own form or in the one that genai-prices publishes.

The whole list is checked at once. A mistake anywhere refuses all of it, and names the place.

A list has regular expressions. `re` holds the interpreter while it matches one, so `(a+)+$` alone
could stop the proxy for good. An engine without backtracking (RE2) has no look-ahead, which
genai-prices uses. So patterns are held to a small syntax, in which we can count the ways to match.
"""

import functools
import re
import warnings
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

from masking.errors import ConfigError
from masking.measures.price_list import (
    CLAUSES,
    MAX_NAME,
    MAX_PATTERNS,
    PriceList,
    load_list,
    load_shipped,
)

MAX_MEGABYTES = 10
MAX_TEXT = 200
"""The most characters of a name, an id or a pattern."""

_MAX_WAYS = 200_000
"""In how many ways all patterns of a list together may be tried: matching them takes well below a
second then. The shipped list has 18,000."""

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
    if len(data) > MAX_MEGABYTES * 1_000_000:
        raise ConfigError(f"larger than {MAX_MEGABYTES} MB", "list")
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
        kept["steps"] = sorted(
            ([tier.get("start"), tier.get("price")] for tier in steps),
            key=lambda step: step[0] if type(step[0]) is int else 0,
        )
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
    _check_date(document.get("date"), "date")
    _check_name(document.get("source"), "source")
    patterns = _Patterns()
    for provider, path in _items(document.get("providers"), "providers"):
        _check_provider(_expect(dict, provider, path), path, patterns)


def _check_date(value: object, path: str) -> None:
    text = _expect(str, value, path)
    try:
        is_date = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_date = False
    if not is_date:
        raise ConfigError("expected a date, as 2026-01-31", path)


def _check_name(value: object, path: str) -> None:
    """Check what may be printed: control characters would steer a terminal."""
    text = _expect(str, value, path)
    if not text.isprintable() or len(text) > MAX_TEXT:
        raise ConfigError(f"expected at most {MAX_TEXT} characters that can be printed", path)


def _check_provider(provider: _Object, path: str, patterns: "_Patterns") -> None:
    for name in ("id", "name"):
        _check_name(provider.get(name), f"{path}.{name}")
    patterns.check(provider.get("api_pattern"), f"{path}.api_pattern", is_anchored=True)
    if "model_match" in provider:
        _check_clause(provider["model_match"], f"{path}.model_match", patterns)
    others = provider.get("fallback_model_providers", [])
    for other, place in _items(others, f"{path}.fallback_model_providers"):
        _check_name(other, place)
    for model, place in _items(provider.get("models"), f"{path}.models"):
        _check_model(_expect(dict, model, place), place, patterns)


def _check_model(model: _Object, path: str, patterns: "_Patterns") -> None:
    _check_name(model.get("id"), f"{path}.id")
    _check_clause(model.get("match"), f"{path}.match", patterns)
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


def _check_clause(clause: object, path: str, patterns: "_Patterns", depth: int = 0) -> None:
    found = _expect(dict, clause, path)
    if len(found) != 1 or next(iter(found)) not in CLAUSES or depth > _MAX_DEPTH:
        raise ConfigError(f"expected one of {', '.join(CLAUSES)}", path)
    ((kind, value),) = found.items()
    place = f"{path}.{kind}"
    if kind in ("or", "and"):
        for each, at in _items(value, place):
            _check_clause(each, at, patterns, depth + 1)
    elif kind == "regex":
        patterns.check(value, place)
    else:
        _expect(str, value, place)


_CHARACTER = r"\\[dws] | \\[^A-Za-z0-9]"
_TOKEN = re.compile(
    rf"""
    (?: {_CHARACTER} | \[\^? (?: {_CHARACTER} | [^\[\]\\^] )+ \] | [^\[\]\\(){{}}?*+|^$] )
        (?: (?P<any> [*+] ) | (?P<optional> \? )
          | \{{ (?P<low> \d\d? ) (?P<high> ,\d{{0,2}} )? \}} )?
    | (?P<open> \( (?: \?[:!=] )? )
    | \) (?P<close> \?? )
    | (?P<bar> \| )
    | [$^]
    """,
    re.VERBOSE,
)
"""A character or a class of them, and how often it may come; or a bracket, a bar, an end of the
text. A group may be optional, and comes no more than once."""


_SIMPLE = "characters and classes, repeated or not, and groups that come at most once"


class _Patterns:
    """Checks the patterns of a list, one after the other."""

    def __init__(self) -> None:
        self._number = self._ways = 0

    def check(self, value: object, path: str, *, is_anchored: bool = False) -> None:
        """Check a pattern, which is tried at the start of a text alone if it is anchored."""
        pattern = _expect(str, value, path)
        if len(pattern) > MAX_TEXT:
            raise ConfigError(f"expected a pattern of at most {MAX_TEXT} characters", path)
        try:
            with warnings.catch_warnings(action="error"):
                re.compile(pattern)
        except (re.error, RecursionError, OverflowError, Warning):
            raise ConfigError("not a regular expression", path) from None
        self._number += 1
        if self._number > MAX_PATTERNS:
            raise ConfigError(f"expected at most {MAX_PATTERNS:,} patterns in a list", path)
        self._ways += _count_ways(pattern, path, is_anchored=is_anchored)
        if self._ways > _MAX_WAYS:
            raise ConfigError("a pattern that may take too long to match", path)


def _count_ways(pattern: str, path: str, *, is_anchored: bool) -> int:
    """Return in how many ways a valid pattern can be tried against a text of `MAX_NAME` at most.

    That is a product over what follows each other, and a sum over what stands between bars.
    Raises ConfigError for what is beyond the syntax that can be counted.
    """
    outer: list[tuple[int, int]] = []
    before_bar, ways, place = 0, 1, 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None:
            rest = pattern[place : place + 8]
            raise ConfigError(f"expected a pattern of {_SIMPLE}, not {rest!a} in it", path)
        place = found.end()
        if found["open"]:
            outer.append((before_bar, ways))
            before_bar, ways = 0, 1
        elif found["close"] is not None:
            inner = before_bar + ways + len(found["close"])
            before_bar, ways = outer.pop()
            ways *= inner
        elif found["bar"]:
            before_bar, ways = before_bar + ways, 1
        else:
            ways *= _count_lengths(found)
    ways += before_bar
    if not is_anchored and (before_bar or not pattern.startswith("^")):
        ways *= MAX_NAME
    return ways


def _count_lengths(token: re.Match[str]) -> int:
    """Return how many lengths a token can have."""
    if token["any"]:
        return MAX_NAME
    if token["optional"]:
        return 2
    if token["high"]:
        return int(token["high"][1:] or MAX_NAME) - int(token["low"]) + 1
    return 1


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
