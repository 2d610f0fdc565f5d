"""What a user sets about prices: where they come from, and prices and windows of one's own."""

from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from typing import Literal

from masking.errors import ConfigError
from masking.host_names import check_host, is_named, normalize_host

CachePricing = Literal["none", "auto"] | tuple[float, float]
"""Prices of a cached and of a written token, relative to a plain input token, or their source."""

MAX_PRICE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """What hosts and models with such names (`*` matches anything) charge, as the user says.

    `read` and `write` are relative to a plain input token; `dollars_per_million` is for plain
    ones. Names are compared in lower case. Raises ConfigError for what cannot be a price or a host.
    """

    host: str = "*"
    model: str = "*"
    read: float
    write: float
    dollars_per_million: float | None = None

    def __post_init__(self) -> None:
        check_host(self.host, "host")
        for name in ("read", "write", "dollars_per_million"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < MAX_PRICE:
                raise ConfigError(f"must be from 0 up and below {MAX_PRICE:g}", name)

    def fits(self, host: str, model: str) -> bool:
        """Whether it is the price of this model at this host."""
        return _is_for(self, host, model)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWindow:
    """How many tokens hosts and models with such names take, prompt and answer, as the user says.

    Names are as in `OwnPrice`. Raises ConfigError for what cannot be a window or a host.
    """

    host: str = "*"
    model: str = "*"
    tokens: int

    def __post_init__(self) -> None:
        check_host(self.host, "host")
        if self.tokens <= 0:
            raise ConfigError("must be above 0", "tokens")

    def fits(self, host: str, model: str) -> bool:
        """Whether it is the window of this model at this host."""
        return _is_for(self, host, model)


def _is_for(own: OwnPrice | OwnWindow, host: str, model: str) -> bool:
    is_here = is_named(host, (normalize_host(own.host),))
    return is_here and fnmatchcase(model.lower(), own.model.lower())


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
