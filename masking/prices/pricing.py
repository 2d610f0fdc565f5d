"""The prices by which a request is masked and billed.

A pricing depends on the configuration and the request (host, model, cache marks) alone, never on
an answer. So a restart and a second proxy render the same bytes.
"""

import dataclasses
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Literal, TypeVar

from masking.errors import ConfigError
from masking.patterns import check_host, is_named, normalize_host
from masking.prices.cache_rules import OPENAI, UNKNOWN_MARKS, CacheRules, find_cache_rules
from masking.prices.list_check import MAX_PRICE
from masking.prices.price_list import Price, PriceStep, open_list

_Found = TypeVar("_Found", Price, int)

CachePricing = Literal["none", "auto"] | tuple[float, float]
"""Prices of a cached and of a written token, relative to a plain input token, or their source."""


@dataclass(frozen=True, kw_only=True)
class _Own:
    """What a user says about hosts and models with such names; `*` matches anything."""

    host: str = "*"
    model: str = "*"

    def __post_init__(self) -> None:
        check_host(self.host, "host")

    def fits(self, host: str, model: str) -> bool:
        """Whether it holds for this model at this host; names are compared in lower case."""
        is_here = is_named(host, (normalize_host(self.host),))
        return is_here and fnmatchcase(model.lower(), self.model.lower())


@dataclass(frozen=True, kw_only=True)
class OwnPrice(_Own):
    """What such hosts charge for such models, as the user says.

    `read` and `write` are relative to a plain input token; `dollars_per_million` is for plain
    ones. Raises ConfigError for what cannot be a price or a host.
    """

    read: float
    write: float
    dollars_per_million: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("read", "write", "dollars_per_million"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < MAX_PRICE:
                raise ConfigError(f"must be from 0 up and below {MAX_PRICE:g}", name)


@dataclass(frozen=True, kw_only=True)
class OwnWindow(_Own):
    """How many tokens such models take at such hosts, prompt and answer, as the user says.

    Raises ConfigError for what cannot be a window or a host.
    """

    tokens: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens <= 0:
            raise ConfigError("must be above 0", "tokens")


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """How requests are priced.

    cache_pricing: "auto", or the prices of every request; "none" is billed as "auto" is, and the
        window slides.
    own: with "auto", the first that fits is the price.
    uncached: patterns of hosts that sell every token at the price of a plain one.
    assumed: what a cached and a written token cost where nothing else is known.
    price_list: the path of a list that takes the place of the shipped one.
    windows: of models; the first that fits comes before the list's.
    """

    cache_pricing: CachePricing = "auto"
    _: KW_ONLY
    own: tuple[OwnPrice, ...] = ()
    uncached: tuple[str, ...] = ()
    assumed: tuple[float, float] = (0.1, 1.25)
    price_list: str = ""
    windows: tuple[OwnWindow, ...] = ()

    @property
    def slides(self) -> bool:
        """Whether the window slides at every turn, whatever that costs."""
        return self.cache_pricing == "none"


Source = Literal["config", "price list", "assumed"]

_LONGEST_NAME = 256
"""In characters, of a host or a model. A longer name is on no list, and none is looked up."""

_MILLION = 1_000_000

_LONG = "1h"
"""An hour, in the spelling of requests."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """What a provider charges for a request's tokens, and what its cache keeps of them.

    read, write: the prices of a cached and of a written token, relative to a plain input token.
    short_write: the price of a token that is written for the usual time, where the request asks for
        an hour; None if that is `write`.
    dollars_per_million: for plain input tokens, below every one of `steps`; None if it is not
        known, neither of the host nor of the model's maker.
    borrowed_from: whose price in dollars that is, where what the host charges is not known: the
        model's maker, or the host itself where only its ratios are not known. An amount in dollars
        is about right then. None where the price is the host's own.
    answer_dollars_per_million: the same for tokens of answers, below every one of `answer_steps`,
        which are by the size of the prompt, too.
    entry: where the ratios, or else the dollars, come from: the list's entry for this host, or the
        maker's entry where they are assumed.
    window: the tokens of the model's context window, prompt and answer; None if it is not known.
    tier: the tier of service that the request asks for (`fast`, `priority`, `flex`); None for the
        standard one.
    is_standard: whether the dollars are those of the standard tier all the same, because what this
        one costs is not known.
    """

    read: float
    write: float
    _: KW_ONLY
    short_write: float | None = None
    source: Source = "config"
    dollars_per_million: float | None = None
    borrowed_from: str | None = None
    steps: tuple[PriceStep, ...] = ()
    answer_dollars_per_million: float | None = None
    answer_steps: tuple[PriceStep, ...] = ()
    cache: CacheRules = OPENAI
    entry: Price | None = None
    window: int | None = None
    tier: str | None = None
    is_standard: bool = False

    @property
    def standard_for(self) -> str | None:
        """The tier of service in whose place the dollars are those of the standard one, if so."""
        return self.tier if self.is_standard and self.dollars_per_million is not None else None

    @property
    def ratios(self) -> tuple[float, float]:
        """The prices of a cached and of a written token."""
        return self.read, self.write

    @property
    def written_prices(self) -> tuple[float, float]:
        """The prices of a token that is written for the usual time, and for an hour."""
        if self.short_write is not None:
            return self.short_write, self.write
        has_long = self.cache.long_write is not None and self.source != "config"
        return self.write, (self.cache.long_write or self.write) if has_long else self.write

    def cost_of(self, prompt: float, cached: float, uncached: float) -> float:
        """Return the cost, in plain input tokens, of a prompt with so many `cached` tokens.

        `uncached` is the mean price of its other tokens.
        """
        return (cached * self.read + (prompt - cached) * uncached) * self.factor_at(prompt)

    def factor_at(self, prompt: float) -> float:
        """Return how many times as much a token costs in a prompt of this many tokens."""
        return _find_factor(self.steps, prompt)

    def in_dollars(self, cost: float) -> float | None:
        """Return a cost in plain input tokens in US dollars; None if the price is not known."""
        each = self.dollars_per_million
        return None if each is None else cost * each / _MILLION

    def price_answer(self, tokens: float, prompt: float) -> float | None:
        """Return what an answer to a prompt of this many tokens costs, in US dollars.

        None if the price of answers is not known.
        """
        each = self.answer_dollars_per_million
        if each is None:
            return None
        return tokens * each * _find_factor(self.answer_steps, prompt) / _MILLION

    def ask_for(self, lifetime: str | None) -> "Pricing":
        """Return the pricing of a request whose last cache mark has this lifetime.

        A configured price holds for every lifetime.
        """
        if lifetime != _LONG or self.cache.long_write is None or self.source == "config":
            return self
        return dataclasses.replace(self, write=self.cache.long_write, short_write=self.write)

    def forget_after(self, ttl: float | None) -> "Pricing":
        """Return the pricing with a cache that forgets after `ttl` seconds; None for never."""
        return dataclasses.replace(self, cache=dataclasses.replace(self.cache, ttl=ttl))


def _find_factor(steps: tuple[PriceStep, ...], prompt: float) -> float:
    place = bisect_left(steps, prompt, key=lambda step: step.above)
    return steps[place - 1].factor if place else 1.0


def find_pricing(
    settings: PriceSettings,
    host: str | None,
    model: str | None,
    *,
    is_marked: bool = True,
    lifetime: str | None = None,
    tier: str | None = None,
) -> Pricing:
    """Return the configured prices, else the list's, else those to be assumed.

    A recording may not tell the host; then it is the host whose models have such names.
    `is_marked` says whether the request asks for a cache, `lifetime` for how long, as its last mark
    spells it (`5m`, `1h`); None for the usual time. `tier` is the tier of service that it asks for:
    it changes the dollars alone. Raises ConfigError for a price list that cannot
    be used, OSError for one that cannot be read.
    """
    if max(len(host or ""), len(model or "")) > _LONGEST_NAME:  # and must not be remembered
        host = model = None
    pricing = _find_pricing(settings, host, model, tier)
    if is_marked or pricing.cache.reads_at != "marks":
        return pricing.ask_for(lifetime)
    # The model is cached at marks, and the request has none. Where the provider asks for marks
    # there is no cache then. That is certain at a host of the price list alone: a gateway may set
    # marks of its own, and of a conversation without a host it is not known what its provider was
    # asked for. Then any prefix is taken to be cached.
    if host is not None and pricing.source == "price list" and pricing.cache.needs_marks:
        return dataclasses.replace(pricing, read=1.0, write=1.0)
    return dataclasses.replace(pricing, cache=UNKNOWN_MARKS)


@lru_cache(1_024)
def _find_pricing(
    settings: PriceSettings, host: str | None, model: str | None, tier: str | None
) -> Pricing:
    window = _find_window(settings, host, model)
    pricing = dataclasses.replace(_find_prices(settings, host, model), window=window)
    return pricing if tier is None else _price_tier(pricing, settings, host, model, tier)


_VERSION = re.compile(r"(?:[-@]20\d{6}|-latest|-v\d+(?::\d+)?|:\d+)+$")
"""What a model's name may end with and is the same model."""


def _price_tier(
    pricing: Pricing, settings: PriceSettings, host: str | None, model: str | None, tier: str
) -> Pricing:
    """Return the pricing of a tier of service; a price that a user has set is that of every one."""
    own = _find_own(settings, host or "", model or "")
    if own is not None and own.dollars_per_million is not None:
        return dataclasses.replace(pricing, tier=tier)
    name = _VENDORS.sub("", (model or "").lower().rpartition("/")[2]).replace(".", "-")
    provider = None if pricing.entry is None else pricing.entry.provider
    found = open_list(settings.price_list).find_tier(_VERSION.sub("", name), tier, provider)
    if found is None:
        return dataclasses.replace(pricing, tier=tier, is_standard=True)
    prompt, answer = pricing.dollars_per_million, pricing.answer_dollars_per_million
    return dataclasses.replace(
        pricing,
        tier=tier,
        dollars_per_million=None if prompt is None else prompt * found.prompt,
        answer_dollars_per_million=(
            None if answer is None or found.answer is None else answer * found.answer
        ),
    )


def _find_prices(settings: PriceSettings, host: str | None, model: str | None) -> Pricing:
    prices = open_list(settings.price_list)
    listed = prices.find(host, model) if model else None

    def find_maker(name: str) -> Price | None:
        price = prices.find(None, name)
        return price if price is not None and price.ratios else None

    maker = _look_up(model, find_maker)  # whoever sells it here, under any name
    own = _find_own(settings, host or "", model or "")

    # The ratios: those that are configured, else those that the list has for this host, else those
    # of the model's maker, or the assumed ones.
    source: Source
    if own is not None:
        source, ratios, known = "config", (own.read, own.write), listed or maker
    elif listed is not None and listed.ratios is not None:
        source, ratios, known = "price list", listed.ratios, listed
    else:
        source, ratios, known = "assumed", (maker and maker.ratios) or settings.assumed, maker
    pricing = Pricing(
        *ratios,
        source=source,
        cache=find_cache_rules(None if known is None else known.provider, model),
        entry=known if own is None else listed,
    )

    # The dollars, likewise. What such a host charges for answers is not configured.
    if own is not None and own.dollars_per_million is not None:
        steps = () if listed is None else listed.steps
        return dataclasses.replace(
            pricing, dollars_per_million=own.dollars_per_million, steps=steps
        )
    price = listed or _look_up(model, partial(prices.find, None))
    if price is None:
        return pricing
    is_borrowed = source == "assumed" or price is not listed
    return dataclasses.replace(
        pricing,
        dollars_per_million=price.dollars_per_million,
        borrowed_from=price.seller if is_borrowed else None,
        steps=price.steps,
        answer_dollars_per_million=price.answer_dollars_per_million,
        answer_steps=price.answer_steps,
    )


def _find_own(settings: PriceSettings, host: str, model: str) -> OwnPrice | None:
    """Return what the configuration says about a host and a model."""
    own = next((price for price in settings.own if price.fits(host, model)), None)
    if not isinstance(settings.cache_pricing, str):
        read, write = settings.cache_pricing
        dollars = None if own is None else own.dollars_per_million
        return OwnPrice(read=read, write=write, dollars_per_million=dollars)
    if own is None and is_named(host, settings.uncached):
        return OwnPrice(read=1.0, write=1.0)
    return own


_VENDORS = re.compile(r"^(?:[a-z][a-z-]*\.)+(?=[a-z])")
"""Bedrock's `us.anthropic.claude-...`; not the first part of `gpt-4.1`, which has a digit."""

_LAST_PART = re.compile(r"[-_@:][^-_@:]*$")
_MOST_PARTS = 8
"""How many parts may have been added to a name; `-20250929-v1:0` is three."""


def _list_names(model: str) -> Iterator[str]:
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


def _look_up(model: str | None, find: Callable[[str], _Found | None]) -> _Found | None:
    """Return what is found under the first of a model's names under which anything is."""
    return next(filter(None, map(find, dict.fromkeys(_list_names(model or "")))), None)


def _find_window(settings: PriceSettings, host: str | None, model: str | None) -> int | None:
    """Return the tokens of a model's context window, prompt and answer; None if it is not known.

    What the configuration says comes first, then what the list says about the host, then what it
    says about the model's maker.
    """
    own = (each.tokens for each in settings.windows if each.fits(host or "", model or ""))
    if (tokens := next(own, None)) is not None or not model:
        return tokens
    prices = open_list(settings.price_list)
    here = None if host is None else prices.find_window(host, model)
    return here or _look_up(model, partial(prices.find_window, None))


_COUNTED = 2 / 3
"""The part of a window that a prompt may take, in the model's own tokens. The rest is the answer's:
GPT-5 takes 272,000 of 400,000 tokens, and agents ask Claude for 32,000 of 200,000."""

_ESTIMATED = 0.6
"""The same in tokens of o200k, of which other models make more: a quarter more is usual for code.
Where the answer has a sixth of the window, that may be 1.39 times as many."""


def fits_window(tokens: float, window: int | None, *, counted: bool = False) -> bool:
    """Whether a prompt fits, with room for the answer; it does where the window is not known.

    `tokens` are o200k's, estimated or counted; if `counted`, they are the model's own.
    """
    return window is None or tokens <= window * (_COUNTED if counted else _ESTIMATED)
