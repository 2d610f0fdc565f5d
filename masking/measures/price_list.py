"""A price list: which hosts sell which models, what input tokens cost there, how many they take.

`prices.json` is made from the data of genai-prices (MIT, see `prices.LICENSE`) by
`python -m tests.make_price_list`, which needs that package; nothing is fetched. It has one price
for each model: that at noon UTC of the day on which it was made. So the ratios by which a request
is masked depend on the files alone, not on the day or the hour.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from typing import Any

import orjson

from masking.model import PriceStep

_SHIPPED = files("masking.measures") / "prices.json"

MAX_NAME = 300
"""The most characters that a pattern is matched against; longer hosts and models are not listed.

With this bound, what a pattern may cost is known before it is ever used (`price_list_check`).
"""

MAX_PATTERNS = 1_000
"""The most patterns of a list, so that each is compiled once."""

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=[-:]|$)")
"""LiteLLM and OpenRouter write `-20251211` where a list may have `-2025-12-11`."""

_Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Price:
    """An entry of the list: what a provider charges for a model's input.

    `provider` is the provider's id, `seller` its name. `dollars_per_million` is for plain tokens,
    below every price step. `ratios` are the prices of a cached and of a written token, relative to
    a plain one; None if the list has no price of cached tokens.
    """

    provider: str
    seller: str
    model: str
    dollars_per_million: float
    ratios: tuple[float, float] | None
    steps: tuple[PriceStep, ...] = ()

    def __str__(self) -> str:
        return f"{self.model} of {self.seller}"


@dataclass(frozen=True, slots=True, eq=False)
class PriceList:
    """Providers with their models, as JSON objects; the first that matches counts.

    `date` is the day of the prices, `source` says where they come from. A model without a price,
    or with a price of 0, counts as not listed. Any text may be looked up.
    """

    date: str
    source: str
    providers: tuple[_Object, ...] = field(repr=False)

    @property
    def models(self) -> int:
        """The number of models, counted once for each provider."""
        return sum(len(provider["models"]) for provider in self.providers)

    def find(self, host: str, model: str) -> Price | None:
        """Return what a host charges for a model; None unless the list knows both."""
        return self._read_price(self._find_seller(host), model)

    def find_maker(self, model: str) -> Price | None:
        """Return the price at the first provider whose models have such names."""
        return self._read_price(self._find_maker(model), model)

    def find_window(self, host: str | None, model: str) -> int | None:
        """Return the tokens of a model's context window at a host, or at its maker without a host.

        None unless the list knows it. What costs nothing has a window, too.
        """
        provider = self._find_maker(model) if host is None else self._find_seller(host)
        entry = provider and self._find_entry(provider, model)
        return entry.get("window") if entry else None

    def _find_seller(self, host: str) -> _Object | None:
        url = f"https://{host.lower().rstrip('.')}/"
        if len(url) > MAX_NAME:
            return None
        return next((p for p in self.providers if _compile(p["api_pattern"]).match(url)), None)

    def _find_maker(self, model: str) -> _Object | None:
        name, makers = model.lower(), (p for p in self.providers if "model_match" in p)
        return next((p for p in makers if _is_match(p["model_match"], name)), None)

    def _read_price(self, provider: _Object | None, model: str) -> Price | None:
        entry = provider and self._find_entry(provider, model)
        return _read_price(provider, entry) if provider and entry else None

    def _find_entry(self, provider: _Object, model: str) -> _Object | None:
        name = model.lower()
        for spelling in dict.fromkeys((name, _COMPACT_DATE.sub(r"-\1-\2-\3", name))):
            for entry in self._list_models(provider):
                if _is_match(entry["match"], spelling):
                    return entry
        return None

    def _list_models(self, provider: _Object) -> Iterator[_Object]:
        """Yield what a provider sells: its own models, then those of others that it resells."""
        yield from provider["models"]
        for name in provider.get("fallback_model_providers", ()):
            yield from next((p["models"] for p in self.providers if p["id"] == name), ())


def load_list(data: bytes) -> PriceList:
    """Read a list that is known to be valid."""
    document = orjson.loads(data)
    return PriceList(document["date"], document["source"], tuple(document["providers"]))


@functools.cache
def load_shipped() -> PriceList:
    """Return the list that comes with the package; read once in a process."""
    return load_list(_SHIPPED.read_bytes())


@functools.lru_cache(MAX_PATTERNS)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_CLAUSES: Mapping[str, Callable[[str, Any], bool]] = {
    "equals": lambda name, text: name == text.lower(),
    "starts_with": lambda name, text: name.startswith(text.lower()),
    "ends_with": lambda name, text: name.endswith(text.lower()),
    "contains": lambda name, text: text.lower() in name,
    "regex": lambda name, pattern: len(name) <= MAX_NAME and bool(_compile(pattern).search(name)),
    "or": lambda name, clauses: any(_is_match(clause, name) for clause in clauses),
    "and": lambda name, clauses: all(_is_match(clause, name) for clause in clauses),
}
"""How a list matches names, by the key of a clause. Names are in lower case, texts in any."""

CLAUSES = tuple(_CLAUSES)


def _is_match(clause: _Object, name: str) -> bool:
    ((kind, value),) = clause.items()
    return _CLAUSES[kind](name, value)


def _read_price(provider: _Object, entry: _Object) -> Price | None:
    """Return an entry as a price; None if its input costs nothing.

    A written token costs at least as much as a plain one. Where the list has less, that is the
    price of storing the token, which is charged in addition (Gemini at OpenRouter).
    """
    plain, read = entry.get("input", 0), entry.get("cache_read")
    if plain <= 0:
        return None
    write = max(1.0, _divide(entry.get("cache_write", plain), plain))
    ratios = None if read in (None, plain) else (_divide(read, plain), write)
    return Price(
        provider=provider["id"],
        seller=provider["name"],
        model=entry["id"],
        dollars_per_million=float(plain),
        ratios=ratios,
        steps=tuple(PriceStep(above, _divide(at, plain)) for above, at in entry.get("steps", ())),
    )


def _divide(price: object, plain: object) -> float:
    """Divide in decimals, so that 0.3 of 3 is 0.1."""
    return float(Decimal(str(price)) / Decimal(str(plain)))
