"""A price list: which hosts sell which models, what tokens cost there, how many they take.

`prices.json` is made from the data of genai-prices (MIT, see `prices.LICENSE`) by
`python -m tests.tools.make_price_list`, which needs that package; nothing is fetched. It has one
price for each model: that at noon UTC of the day on which it was made. So the ratios by which a
request is masked depend on the files alone, not on the day or the hour.

A list from outside is checked as a whole (`list_check.py`); a mistake anywhere refuses all of it,
and names the place.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from masking.errors import ConfigError
from masking.prices.list_check import check_list

_SHIPPED = files("masking.prices") / "prices.json"

MAX_MEGABYTES = 10

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=[-:]|$)")
"""LiteLLM and OpenRouter write `-20251211` where a list may have `-2025-12-11`."""

Object = dict[str, Any]


class PriceStep(NamedTuple):
    """Every token of a prompt of more than `above` tokens costs `factor` times as much.

    The factor is relative to the price of prompts below the first step.
    """

    above: int
    factor: float


@dataclass(frozen=True, slots=True)
class Price:
    """An entry of the list: what a provider charges for a model's tokens.

    `provider` is the provider's id, `seller` its name. `dollars_per_million` is for plain input
    tokens, below every price step. `ratios` are the prices of a cached and of a written token,
    relative to a plain one; None if the list has no price of cached tokens.
    `answer_dollars_per_million` is for tokens of answers, below every one of `answer_steps`, which
    are by the size of the prompt, too; None if the list has no price of answers.
    """

    provider: str
    seller: str
    model: str
    dollars_per_million: float
    ratios: tuple[float, float] | None
    steps: tuple[PriceStep, ...] = ()
    answer_dollars_per_million: float | None = None
    answer_steps: tuple[PriceStep, ...] = ()

    def __str__(self) -> str:
        return f"{self.model} of {self.seller}"


class Tier(NamedTuple):
    """How many times as much prompts and answers cost in a tier of service; None if not known."""

    prompt: float
    answer: float | None


@dataclass(frozen=True, eq=False)
class PriceList:
    """Providers with their models, as JSON objects; the first that matches counts.

    `date` is the day of the prices, `source` says where they come from. A model without a price,
    or with a price of 0, counts as not listed.
    """

    date: str
    source: str
    providers: tuple[Object, ...] = field(repr=False)

    @property
    def models(self) -> int:
        """The number of models, counted once for each provider."""
        return sum(len(provider["models"]) for provider in self.providers)

    def find(self, host: str | None, model: str) -> Price | None:
        """Return what a host charges for a model, or without one the model's maker.

        None unless the list knows both. The maker is the first provider whose models have such
        names.
        """
        return self._read_price(self._find_provider(host, model), model)

    def find_window(self, host: str | None, model: str) -> int | None:
        """Return the tokens of a model's context window there; None unless the list knows it.

        What costs nothing has a window, too.
        """
        provider = self._find_provider(host, model)
        entry = provider and self._find_entry(provider, model)
        return entry.get("window") if entry else None

    def find_tier(self, model: str, tier: str, provider: str | None) -> Tier | None:
        """Return how many times as much a model costs in a tier of service.

        The list has such a tier as a model of its own, whose name ends so: `claude-opus-4.6-fast`.
        `model` is in lower case and with hyphens for dots. The `provider`, given by its id, is
        asked first; any other is about right. None if nobody is known to sell it.
        """
        end = f"-{tier}"
        for seller in sorted(self.providers, key=lambda each: each["id"] != provider):
            for entry in seller["models"]:
                name = entry["id"].lower().rpartition("/")[2].replace(".", "-")
                if name != model + end:
                    continue
                standard = self._read_price(seller, entry["id"].removesuffix(end))
                priced = self._read_price(seller, entry["id"])
                if standard is not None and priced is not None and standard != priced:
                    return _compare(priced, standard)
        return None

    def _find_provider(self, host: str | None, model: str) -> Object | None:
        if host is not None:
            url = f"https://{host.lower().rstrip('.')}/"
            return next((p for p in self.providers if _compile(p["api_pattern"]).match(url)), None)
        name, makers = model.lower(), (p for p in self.providers if "model_match" in p)
        return next((p for p in makers if _is_match(p["model_match"], name)), None)

    def _find_entry(self, provider: Object, model: str) -> Object | None:
        """Return a model among those of a provider, then among those of others that it resells."""
        name = model.lower()
        resold = (self._by_id.get(each) for each in provider.get("fallback_model_providers", ()))
        sold = [entry for seller in (provider, *resold) if seller for entry in seller["models"]]
        for spelling in dict.fromkeys((name, _COMPACT_DATE.sub(r"-\1-\2-\3", name))):
            entry: Object
            for entry in sold:
                if _is_match(entry["match"], spelling):
                    return entry
        return None

    @functools.cached_property
    def _by_id(self) -> Mapping[str, Object]:
        """Each provider by its id; of two that have the same, the first."""
        return {provider["id"]: provider for provider in reversed(self.providers)}

    def _read_price(self, provider: Object | None, model: str) -> Price | None:
        """Return what a provider charges for a model; None if it sells none, or for nothing."""
        entry = provider and self._find_entry(provider, model)
        if not (provider and entry and entry.get("input", 0) > 0):
            return None
        plain, read = entry["input"], entry.get("cache_read")
        # A written token costs at least as much as a plain one. Where the list has less, that is
        # the price of storing the token, which is charged in addition (Gemini at OpenRouter).
        write = max(1.0, _divide(entry.get("cache_write", plain), plain))
        answers = entry.get("output")
        return Price(
            provider=provider["id"],
            seller=provider["name"],
            model=entry["id"],
            dollars_per_million=float(plain),
            ratios=None if read in (None, plain) else (_divide(read, plain), write),
            steps=_read_steps(entry.get("steps", ()), plain),
            answer_dollars_per_million=None if answers is None else float(answers),
            answer_steps=_read_steps(entry.get("output_steps", ()), answers) if answers else (),
        )


def _compare(priced: Price, standard: Price) -> Tier:
    prompt = _divide(priced.dollars_per_million, standard.dollars_per_million)
    answers = priced.answer_dollars_per_million, standard.answer_dollars_per_million
    return Tier(prompt, _divide(*answers) if all(answers) else None)


def _read_steps(steps: Iterable[tuple[int, float]], plain: float) -> tuple[PriceStep, ...]:
    """Return the steps of a price, relative to that below all of them."""
    return tuple(PriceStep(above, _divide(price, plain)) for above, price in steps)


def _divide(price: object, plain: object) -> float:
    """Divide in decimals, so that 0.3 of 3 is 0.1."""
    return float(Decimal(str(price)) / Decimal(str(plain)))


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_CLAUSES: Mapping[str, Callable[[str, Any], bool]] = {
    "equals": lambda name, text: name == text.lower(),
    "starts_with": lambda name, text: name.startswith(text.lower()),
    "ends_with": lambda name, text: name.endswith(text.lower()),
    "contains": lambda name, text: text.lower() in name,
    "regex": lambda name, pattern: bool(_compile(pattern).search(name)),
    "or": lambda name, clauses: any(_is_match(clause, name) for clause in clauses),
    "and": lambda name, clauses: all(_is_match(clause, name) for clause in clauses),
}
"""How a list matches names, by the key of a clause. Names are in lower case, texts in any."""


def _is_match(clause: Object, name: str) -> bool:
    ((kind, value),) = clause.items()
    return _CLAUSES[kind](name, value)


@functools.cache
def load_shipped() -> PriceList:
    """Return the list that comes with the package; read once in a process."""
    return _make(orjson.loads(_SHIPPED.read_bytes()))  # a test has checked it


@functools.lru_cache(8)
def open_list(path: str) -> PriceList:
    """Return the list in a file, or the shipped one without a path; read once in a process.

    Raises ConfigError as `read_list` does, and OSError for a file that cannot be read.
    """
    return read_list(Path(path).read_bytes()) if path else load_shipped()


def read_list(data: bytes) -> PriceList:
    """Read a list in our own form. Raises ConfigError with the place of the first mistake."""
    document = decode(data)
    check_list(document)
    return _make(cast(Object, document))


def _make(document: Object) -> PriceList:
    return PriceList(document["date"], document["source"], tuple(document["providers"]))


def decode(data: bytes) -> object:
    """Decode the JSON of a list. Raises ConfigError if it is too large, or no JSON."""
    if len(data) > MAX_MEGABYTES * 1_000_000:
        raise ConfigError(f"larger than {MAX_MEGABYTES} MB", "list")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"not JSON: {error}", "list") from None
