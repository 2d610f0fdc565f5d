"""What a host takes for a model's input: the price list of genai-prices, which comes with it.

Nothing is fetched. That a provider sells cached tokens at a discount is data of that list.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, Provider, Usage

_ANY_DAY = datetime(2100, 1, 1, 12, tzinfo=UTC)
"""When ratios are read: one moment for all, so that they depend on nothing but the request. The
newest prices hold then, and no night rates."""

_SAMPLE = 1_000
"""Tokens of the prompt that ratios are read at, below every price step for long prompts."""


class Ratios(NamedTuple):
    """The price of a cached and of a written token, relative to a plain input token."""

    read: float
    write: float


PLAIN = Ratios(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Price:
    """A model's price at a provider: an entry of the list.

    `ratios` are None where the list has no price of cached tokens.
    """

    provider: Provider = field(repr=False)
    model: ModelInfo = field(repr=False)
    ratios: Ratios | None

    def dollars_per_token(self, prompt_tokens: float, when: datetime) -> float:
        """Return what a plain input token costs, in US dollars, in a prompt of this size."""
        size = max(1, round(prompt_tokens))
        usage = Usage(input_tokens=size)
        return float(_dollars(self.provider, self.model, usage, when.astimezone(UTC)) / size)


def find_price(host: str, model: str) -> Price | None:
    """Return the price that a host takes for a model; None where the list does not know both.

    A model without an input price, or with one of 0, counts as one that is not known.
    """
    providers = get_snapshot().providers
    try:
        url = f"https://{host.lower().rstrip('.')}/"
        provider = get_snapshot().find_provider(None, None, url)
    except LookupError:
        return None
    found = provider.find_model(model, all_providers=providers)
    return None if found is None else _read_price(provider, found)


def guess_price(model: str) -> Price | None:
    """Return the price at the provider whose models have such names, whoever sells it here."""
    for provider in get_snapshot().providers:
        if provider.model_match is not None and provider.model_match.is_match(model.lower()):
            found = provider.find_model(model)
            return None if found is None else _read_price(provider, found)
    return None


def _read_price(provider: Provider, model: ModelInfo) -> Price | None:
    """Return an entry of the list as a price; None where its input costs nothing.

    A token that is written costs what a plain one does, at least: where the list has less, that
    is the price of storing it, which comes on top (Gemini at OpenRouter).
    """
    plain = _dollars(provider, model, Usage(input_tokens=_SAMPLE))
    if plain <= 0:
        return None
    read = _dollars(provider, model, Usage(input_tokens=_SAMPLE, cache_read_tokens=_SAMPLE))
    write = _dollars(provider, model, Usage(input_tokens=_SAMPLE, cache_write_tokens=_SAMPLE))
    ratios = Ratios(float(read / plain), max(1.0, float(write / plain)))
    return Price(provider, model, None if read == plain else ratios)


def _dollars(
    provider: Provider, model: ModelInfo, usage: Usage, when: datetime = _ANY_DAY
) -> Decimal:
    return model.calc_price(usage, provider, genai_request_timestamp=when).input_price
