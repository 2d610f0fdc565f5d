import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from genai_prices.types import (
    ClauseEquals,
    ClauseStartsWith,
    ConditionalPrice,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)

from masking.analysis.prices import PLAIN, Price, Ratios, find_price, guess_price

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param("api.openai.com", "gpt-4o", (0.5, 1), id="gpt-4o at half"),
        pytest.param("api.openai.com", "gpt-4o-2024-08-06", (0.5, 1), id="a dated model"),
        pytest.param("api.openai.com", "GPT-4.1", (0.25, 1), id="a model in capitals"),
        pytest.param("api.openai.com", "gpt-5", (0.1, 1), id="gpt-5 at a tenth"),
        pytest.param("api.openai.com", "gpt-4-turbo", None, id="a model without a discount"),
        pytest.param("API.OpenAI.com", "gpt-4o", (0.5, 1), id="a host in capitals"),
        pytest.param("api.openai.com.", "gpt-4o", (0.5, 1), id="a host with its last dot"),
        pytest.param("api.anthropic.com", "claude-sonnet-4-20250514", (0.1, 1.25), id="claude"),
        pytest.param("mine.openai.azure.com", "gpt-4o", (0.5, 1), id="another provider's model"),
        pytest.param(
            "generativelanguage.googleapis.com", "gemini-2.5-pro", (0.1, 1), id="gemini at Google"
        ),
        pytest.param("api.groq.com", "openai/gpt-oss-120b", (0.5, 1), id="a name with a slash"),
        pytest.param("api.moonshot.ai", "kimi-k2-0905-preview", (0.25, 1), id="kimi"),
        pytest.param("api.x.ai", "grok-4", (0.25, 1), id="grok"),
    ],
)
def test_the_list_tells_what_a_host_takes_for_a_cached_and_a_written_token(
    host: str, model: str, expected: tuple[float, float] | None
) -> None:
    price = find_price(host, model)
    assert price is not None
    assert expected == price.ratios


@pytest.mark.parametrize(
    ("host", "model"),
    [
        pytest.param("localhost", "gpt-4o", id="a host that is not listed"),
        pytest.param("proxy.api.openai.com", "gpt-4o", id="a name that ends as a listed one does"),
        pytest.param("router.huggingface.co", "gpt-4o", id="a host that is listed by its paths"),
        pytest.param("api.openai.com", "claude-sonnet-4-20250514", id="another host's model"),
        pytest.param("api.openai.com", "no-such-model", id="a model that is not listed"),
        pytest.param("api.openai.com", "", id="no model"),
        pytest.param("api.openai.com", "\ud800\n\0", id="a model that is no text"),
        pytest.param("", "gpt-4o", id="no host"),
        pytest.param("...", "gpt-4o", id="dots"),
        pytest.param("\ud800 @\n[::1]%/?#", "gpt-4o", id="a host that is none"),
        pytest.param("[" * 1_000, "gpt-4o", id="a long host that is none"),
    ],
)
def test_without_the_host_or_the_model_there_is_no_price(host: str, model: str) -> None:
    assert find_price(host, model) is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("gpt-4o", ("openai", (0.5, 1)), id="gpt at OpenAI"),
        pytest.param("claude-sonnet-4-20250514", ("anthropic", (0.1, 1.25)), id="claude"),
        pytest.param("KIMI-K2-0905-preview", ("moonshotai", (0.25, 1)), id="in capitals"),
        pytest.param("no-such-model", None, id="a name that nobody has"),
        pytest.param("gpt-no-such", None, id="a provider's name, and no model of it"),
        pytest.param("", None, id="no name"),
    ],
)
def test_a_price_is_guessed_from_the_models_name(
    model: str, expected: tuple[str, tuple[float, float]] | None
) -> None:
    price = guess_price(model)
    assert expected == (price and (price.provider.id, price.ratios))


def listed(match: str, prices: ModelPrice | list[ConditionalPrice]) -> ModelInfo:
    return ModelInfo(id=match, match=ClauseEquals(equals=match), prices=prices)


def at(
    plain: str | None, read: str | None = None, write: str | None = None, **others: Decimal
) -> ModelPrice:
    """Return prices in dollars for a million tokens."""
    names = {"input_mtok": plain, "cache_read_mtok": read, "cache_write_mtok": write}
    given = {name: Decimal(value) for name, value in names.items() if value is not None}
    return ModelPrice(**given, **others)


MODELS = [
    listed("plain", at("2")),
    listed("discount", at("3", "0.3")),
    listed("written", at("3", "0.3", "3.75")),
    listed("stored", at("1.25", "0.125", "0.375")),
    listed("free", at("0", "0", "0")),
    listed("spoken", at(None, output_mtok=Decimal(5))),
    listed("unpriced", at(None)),
    listed(
        "long",
        ModelPrice(
            input_mtok=TieredPrices(Decimal(1), [Tier(200_000, Decimal(2))]),
            cache_read_mtok=TieredPrices(Decimal("0.1"), [Tier(200_000, Decimal("0.2"))]),
        ),
    ),
    listed(
        "cut",
        [
            ConditionalPrice(prices=at("10", "5")),
            ConditionalPrice(
                constraint=StartDateConstraint(date(2026, 1, 1)), prices=at("5", "0.5")
            ),
        ],
    ),
    listed(
        "nightly",
        [
            ConditionalPrice(prices=at("4", "1")),
            ConditionalPrice(
                constraint=TimeOfDateConstraint(time(0, tzinfo=UTC), time(8, tzinfo=UTC)),
                prices=at("2", "1"),
            ),
        ],
    ),
]


def provide(name: str, names: MatchLogic | None, models: list[ModelInfo]) -> Provider:
    return Provider(
        id=name, name=name, api_pattern=rf"https://{name}\.test/", model_match=names, models=models
    )


@pytest.fixture
def our_list() -> Iterator[None]:
    """A price list of our own, with one of every kind of entry."""
    providers = [
        provide("nameless", None, MODELS),
        provide("shop", ClauseStartsWith(starts_with="shop-"), [listed("shop-a", at("1"))]),
    ]
    set_custom_snapshot(DataSnapshot(providers=providers, from_auto_update=False))
    yield
    set_custom_snapshot(None)


@pytest.mark.usefixtures("our_list")
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("plain", None, id="no discount is listed"),
        pytest.param("discount", Ratios(0.1, 1.0), id="a cached token at a tenth"),
        pytest.param("written", Ratios(0.1, 1.25), id="a written token at a quarter more"),
        pytest.param("stored", Ratios(0.1, 1.0), id="a price of storing, below a plain token's"),
        pytest.param("long", Ratios(0.1, 1.0), id="a price step for long prompts"),
        pytest.param("cut", Ratios(0.1, 1.0), id="the newest price"),
        pytest.param("nightly", Ratios(0.25, 1.0), id="the price by day"),
        pytest.param("free", None, id="a price of 0"),
        pytest.param("spoken", None, id="no price of any input"),
        pytest.param("unpriced", None, id="no price at all"),
    ],
)
def test_ratios_are_those_of_an_entry_and_nothing_is_priced_at_0(
    model: str, expected: Ratios | None
) -> None:
    price = find_price("nameless.test", model)
    assert expected == (price and price.ratios)


@pytest.mark.usefixtures("our_list")
@pytest.mark.parametrize(
    ("model", "tokens", "when", "expected"),
    [
        pytest.param("plain", 1_000, NOON, 2, id="a plain token"),
        pytest.param("plain", 0, NOON, 2, id="an empty prompt"),
        pytest.param("plain", 0.4, NOON, 2, id="part of a token"),
        pytest.param("long", 200_000, NOON, 1, id="below the price step"),
        pytest.param("long", 200_000.4, NOON, 1, id="a hair above the price step"),
        pytest.param("long", 200_001, NOON, 2, id="above the price step"),
        pytest.param("cut", 1_000, NOON, 5, id="after a price cut"),
        pytest.param("cut", 1_000, NOON - timedelta(days=365), 10, id="before a price cut"),
        pytest.param("nightly", 1_000, NOON, 4, id="by day"),
        pytest.param("nightly", 1_000, NOON.replace(hour=3), 2, id="by night"),
        pytest.param(
            "nightly",
            1_000,
            NOON.astimezone(timezone(timedelta(hours=-7))),
            4,
            id="by day, by a clock that says night",
        ),
        pytest.param("cut", 1_000, datetime(2026, 6, 1), 5, id="a time without a zone"),
    ],
)
def test_dollars_are_those_of_the_day_and_of_the_prompts_size(
    model: str, tokens: float, when: datetime, expected: float
) -> None:
    price = find_price("nameless.test", model)
    assert price is not None
    assert expected == pytest.approx(MILLION * price.dollars_per_token(tokens, when))


@pytest.mark.usefixtures("our_list")
@pytest.mark.parametrize("hour", range(0, 24, 6))
def test_by_night_and_by_day_the_time_needs_no_zone(hour: int) -> None:
    price = find_price("nameless.test", "nightly")
    assert price is not None
    assert MILLION * price.dollars_per_token(1, datetime(2026, 6, 1, hour)) in (2, 4)


@pytest.mark.usefixtures("our_list")
def test_a_provider_without_names_is_never_guessed() -> None:
    assert guess_price("plain") is None
    found = guess_price("SHOP-A")
    assert found is not None
    assert "shop" == found.provider.id


def find_all() -> list[Price]:
    """Return the price of every listed model at a host of each provider that has one."""
    hosts = {
        "anthropic": "api.anthropic.com",
        "deepseek": "api.deepseek.com",
        "google": "aiplatform.googleapis.com",
        "groq": "api.groq.com",
        "mistral": "api.mistral.ai",
        "openai": "api.openai.com",
        "openrouter": "openrouter.ai",
        "x-ai": "api.x.ai",
    }
    return [
        price
        for provider in get_snapshot().providers
        if (host := hosts.get(provider.id))
        for model in provider.models
        if (price := find_price(host, model.id))
    ]


def dates_of(price: Price) -> list[datetime]:
    """Return the days on which a price of the list begins, and those before them."""
    conditions = price.model.prices if isinstance(price.model.prices, list) else []
    starts = [c.constraint for c in conditions if isinstance(c.constraint, StartDateConstraint)]
    days = [datetime.combine(start.start_date, time(12), UTC) for start in starts]
    return [NOON, *days, *(day - timedelta(days=1) for day in days)]


def test_every_price_of_the_list_is_one_that_can_be_reckoned_with() -> None:
    prices = find_all()
    assert len(prices) > 300
    for price in prices:
        read, write = price.ratios or PLAIN
        assert 0 <= read < 1.1, price
        assert 1 <= write < 3, price
        sizes = (1, 1_000, 10_000, 300_000, 3_000_000)
        dollars = [price.dollars_per_token(n, day) for n in sizes for day in dates_of(price)]
        assert min(dollars) > 0, price
        assert max(dollars) < 0.01, price


def test_ratios_are_read_below_every_price_step() -> None:
    steps = [
        tier.start
        for price in find_all()
        for value in vars(price.model.get_prices(NOON)).values()
        if isinstance(value, TieredPrices)
        for tier in value.tiers
    ]
    assert min(steps) > 1_000


ALONE = """
import sys
touched = []
watched = ("socket.connect", "socket.getaddrinfo", "socket.__new__")
sys.addaudithook(lambda event, _: touched.append(event) if event in watched else None)
from masking.analysis.prices import find_price, guess_price
for find in (lambda: find_price("api.openai.com", "gpt-4o"), lambda: guess_price("gpt-4o")):
    assert find().ratios == (0.5, 1.0)
assert not touched, touched
assert "mitmproxy" not in sys.modules
"""


def test_nothing_is_fetched() -> None:
    found = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert (0, "") == (found.returncode, found.stderr)
