"""The shipped price list, and a list of our own with one of every kind of entry."""

import json
import subprocess
import sys
from datetime import UTC, date, datetime, time
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest

from masking.prices import Price, PriceList, PriceStep, load_shipped, read_list
from tests.make_price_list import SHIPPED, make_list

OPEN_AI, ANTHROPIC, GOOGLE = (
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
)


@pytest.mark.parametrize(
    ("host", "model", "dollars", "ratios"),
    [
        pytest.param(OPEN_AI, "gpt-4o", 2.5, (0.5, 1), id="gpt-4o at half"),
        pytest.param(OPEN_AI, "gpt-4o-2024-08-06", 2.5, (0.5, 1), id="a dated model"),
        pytest.param(OPEN_AI, "gpt-4o-20240806", 2.5, (0.5, 1), id="a date without dashes"),
        pytest.param(OPEN_AI, "GPT-4.1", 2, (0.25, 1), id="a model in capitals"),
        pytest.param(OPEN_AI, "gpt-5", 1.25, (0.1, 1), id="gpt-5 at a tenth"),
        pytest.param(OPEN_AI, "gpt-5.6", 4, (0.1, 1.25), id="gpt-5.6 takes more for writing"),
        pytest.param(OPEN_AI, "gpt-6-sol", 2, (0.1, 1.25), id="gpt-6-sol"),
        pytest.param(OPEN_AI, "gpt-4-turbo", 10, None, id="a model without a discount"),
        pytest.param("API.OpenAI.com", "gpt-4o", 2.5, (0.5, 1), id="a host in capitals"),
        pytest.param("api.openai.com.", "gpt-4o", 2.5, (0.5, 1), id="a host with its last dot"),
        pytest.param(ANTHROPIC, "claude-sonnet-4-20250514", 3, (0.1, 1.25), id="claude-sonnet-4"),
        pytest.param(ANTHROPIC, "claude-opus-4-8", 5, (0.1, 1.25), id="claude-opus-4-8"),
        pytest.param(ANTHROPIC, "claude-sonnet-5", 2, (0.1, 1.25), id="claude-sonnet-5"),
        pytest.param(ANTHROPIC, "claude-opus-5", 5, (0.1, 1.25), id="claude-opus-5"),
        pytest.param("mine.openai.azure.com", "gpt-4o", 2.5, (0.5, 1), id="gpt-4o at Azure"),
        pytest.param(
            "mine.openai.azure.com", "gpt-4.1-nano", 0.1, (0.25, 1), id="another provider's model"
        ),
        pytest.param(GOOGLE, "gemini-2.5-pro", 1.25, (0.1, 1), id="gemini-2.5-pro"),
        pytest.param(GOOGLE, "gemini-3.5-flash", 1.5, (0.1, 1), id="gemini-3.5-flash"),
        pytest.param(
            "api.groq.com", "openai/gpt-oss-120b", 0.15, (0.5, 1), id="a name with a slash"
        ),
        pytest.param("api.moonshot.ai", "kimi-k2-0905-preview", 0.6, (0.25, 1), id="kimi"),
        pytest.param("api.x.ai", "grok-4", 3, (0.25, 1), id="grok"),
        pytest.param("api.deepseek.com", "deepseek-chat", 0.27, (0.07 / 0.27, 1), id="deepseek"),
    ],
)
def test_the_list_tells_what_a_host_takes_for_a_plain_a_cached_and_a_written_token(
    host: str, model: str, dollars: float, ratios: tuple[float, float] | None
) -> None:
    price = load_shipped().find(host, model)
    assert price is not None
    assert (dollars, ratios and pytest.approx(ratios)) == (price.dollars_per_million, price.ratios)


@pytest.mark.parametrize(
    ("host", "model", "steps"),
    [
        pytest.param(GOOGLE, "gemini-2.5-pro", [(200_000, 2)], id="Gemini: double from 200,000 on"),
        pytest.param(ANTHROPIC, "claude-sonnet-4-5", [(200_000, 2)], id="Claude: double"),
        pytest.param(ANTHROPIC, "claude-haiku-5-5", [(100_000, 5)], id="Claude: five times"),
        pytest.param(OPEN_AI, "gpt-5.6-sol", [(272_000, 2)], id="GPT: double"),
        pytest.param(OPEN_AI, "gpt-4o", [], id="none"),
    ],
)
def test_the_list_tells_the_price_steps(
    host: str, model: str, steps: list[tuple[int, float]]
) -> None:
    price = load_shipped().find(host, model)
    assert price is not None
    assert tuple(steps) == price.steps


@pytest.mark.parametrize(
    ("host", "model"),
    [
        pytest.param("localhost", "gpt-4o", id="a host that is not listed"),
        pytest.param("proxy.api.openai.com", "gpt-4o", id="a name that ends as a listed one does"),
        pytest.param("router.huggingface.co", "gpt-4o", id="a host that is listed by its paths"),
        pytest.param(OPEN_AI, "claude-sonnet-4-20250514", id="another host's model"),
        pytest.param(OPEN_AI, "no-such-model", id="a model that is not listed"),
        pytest.param(OPEN_AI, "gpt-6", id="a family, and no model"),
        pytest.param(OPEN_AI, "", id="no model"),
        pytest.param(OPEN_AI, "\ud800\n\0", id="a model that is no text"),
        pytest.param("", "gpt-4o", id="no host"),
        pytest.param("...", "gpt-4o", id="dots"),
        pytest.param("\ud800 @\n[::1]%/?#", "gpt-4o", id="an invalid host"),
        pytest.param("[" * 1_000, "gpt-4o", id="a long invalid host"),
    ],
)
def test_without_the_host_or_the_model_there_is_no_price(host: str, model: str) -> None:
    assert load_shipped().find(host, model) is None


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
def test_a_model_is_found_at_the_provider_whose_models_have_such_names(
    model: str, expected: tuple[str, tuple[float, float]] | None
) -> None:
    price = load_shipped().find_maker(model)
    assert expected == (price and (price.provider, price.ratios))


MODELS: dict[str, dict[str, Any]] = {
    "plain": {"input": 2},
    "discount": {"input": 3, "cache_read": 0.3},
    "no discount": {"input": 3, "cache_read": 3},
    "written": {"input": 3, "cache_read": 0.3, "cache_write": 3.75},
    "stored": {"input": 1.25, "cache_read": 0.125, "cache_write": 0.375},
    "free": {"input": 0, "cache_read": 0},
    "unpriced": {},
}


def one(name: str, match: object, **prices: object) -> dict[str, object]:
    return {"id": name, "match": match, **prices}


def provide(name: str, models: list[dict[str, object]], **more: object) -> dict[str, object]:
    pattern = rf"https://{name}\.test/"
    return {"id": name, "name": name.title(), "api_pattern": pattern, "models": models, **more}


def listed(*providers: dict[str, object]) -> PriceList:
    document = {"date": "2026-11-22", "source": "a test", "providers": providers}
    return read_list(json.dumps(document).encode())


OURS = listed(
    provide("shop", [one(name, {"equals": name}, **prices) for name, prices in MODELS.items()]),
    provide("maker", [one("a", {"equals": "a"}, input=1)], model_match={"ends_with": "A"}),
    provide(
        "dealer", [one("b", {"equals": "b"}, input=5)], fallback_model_providers=["no", "maker"]
    ),
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("plain", (2, None), id="no discount is listed"),
        pytest.param("no discount", (3, None), id="a cached token costs what a plain one does"),
        pytest.param("discount", (3, (0.1, 1)), id="a cached token at a tenth"),
        pytest.param("written", (3, (0.1, 1.25)), id="a written token at a quarter more"),
        pytest.param("stored", (1.25, (0.1, 1)), id="a price of storing, below a plain token's"),
        pytest.param("free", None, id="a price of 0"),
        pytest.param("unpriced", None, id="no price at all"),
    ],
)
def test_ratios_are_those_of_an_entry_and_nothing_is_priced_at_0(
    model: str, expected: tuple[float, tuple[float, float] | None] | None
) -> None:
    price = OURS.find("shop.test", model)
    assert expected == (price and (price.dollars_per_million, price.ratios))


def test_a_price_step_is_a_factor_of_the_lowest_price() -> None:
    stepped = one("m", {"equals": "m"}, input=0.3, steps=[[100, 0.6], [1_000, 0.9]])
    price = listed(provide("shop", [stepped])).find("shop.test", "m")
    assert price is not None
    assert (PriceStep(100, 2.0), PriceStep(1_000, 3.0)) == price.steps


@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param("dealer.test", "b", ("dealer", 5), id="its own model"),
        pytest.param("dealer.test", "A", ("dealer", 1), id="one that it resells"),
        pytest.param("maker.test", "b", None, id="a dealer's model at the maker"),
        pytest.param("dealer.test", "c", None, id="a model of nobody"),
    ],
)
def test_a_provider_sells_its_own_models_first_and_then_those_of_others(
    host: str, model: str, expected: tuple[str, float] | None
) -> None:
    price = OURS.find(host, model)
    assert expected == (price and (price.provider, price.dollars_per_million))


def test_a_provider_that_names_no_models_is_no_maker() -> None:
    assert OURS.find_maker("plain") is None
    found = OURS.find_maker("a")
    assert found is not None
    assert ("maker", "Maker") == (found.provider, found.seller)


@pytest.mark.parametrize(
    ("clause", "fitting", "others"),
    [
        pytest.param({"equals": "AbC"}, ["abc", "ABC"], ["abcd"], id="equals"),
        pytest.param({"starts_with": "AbC"}, ["abc", "abcd"], ["xabc"], id="starts with"),
        pytest.param({"ends_with": "AbC"}, ["abc", "xabc"], ["abcd"], id="ends with"),
        pytest.param({"contains": "AbC"}, ["abc", "xabcd"], ["ab-c"], id="contains"),
        pytest.param({"regex": r"^a\d$"}, ["a1", "A1"], ["a12"], id="a regular expression"),
        pytest.param({"or": [{"equals": "a"}, {"equals": "b"}]}, ["a", "b"], ["ab"], id="any"),
        pytest.param(
            {"and": [{"contains": "a"}, {"contains": "b"}]}, ["ab", "ba"], ["a", "b"], id="all"
        ),
        pytest.param({"or": []}, [], ["", "a"], id="any of none"),
    ],
)
def test_names_match_in_any_case(clause: object, fitting: list[str], others: list[str]) -> None:
    prices = listed(provide("shop", [one("m", clause, input=1)]))
    names = [*fitting, *others]
    assert fitting == [name for name in names if prices.find("shop.test", name)]


# The shipped list as a whole.

HOSTS = {
    "anthropic": ANTHROPIC,
    "aws": "bedrock-runtime.us-east-1.amazonaws.com",
    "azure": "mine.openai.azure.com",
    "cohere": "api.cohere.ai",
    "deepseek": "api.deepseek.com",
    "github-copilot": "api.githubcopilot.com",
    "google": GOOGLE,
    "groq": "api.groq.com",
    "mistral": "api.mistral.ai",
    "moonshotai": "api.moonshot.ai",
    "novita": "api.novita.ai",
    "openai": OPEN_AI,
    "openrouter": "openrouter.ai",
    "together": "api.together.xyz",
    "x-ai": "api.x.ai",
    "zai": "api.z.ai",
}


def find_all() -> list[Price]:
    """Return the price of every listed model at a host of each provider that has one."""
    prices = load_shipped()
    return [
        price
        for provider in prices.providers
        if (host := HOSTS.get(provider["id"]))
        for model in provider["models"]
        if (price := prices.find(host, model["id"]))
    ]


def test_every_price_of_the_list_is_one_that_can_be_reckoned_with() -> None:
    prices = find_all()
    assert len(prices) > 1_000
    assert {*HOSTS} == {price.provider for price in prices}
    for price in prices:
        read, write = price.ratios or (1.0, 1.0)
        assert 0 <= read < 1.1, price
        assert 1 <= write < 3, price
        assert 0 < price.dollars_per_million < 1_000, price
        for above, factor in price.steps:
            assert above > 1_000, price
            assert 1 < factor < 20, price


def test_the_shipped_list_is_valid_and_dated() -> None:
    prices = read_list(SHIPPED.read_bytes())
    assert date.fromisoformat(prices.date) <= datetime.now(UTC).date()
    assert prices.source.startswith("genai-prices ")
    assert "MIT License" in SHIPPED.with_name("prices.LICENSE").read_text("utf-8")
    assert prices.models == sum(len(provider["models"]) for provider in prices.providers) > 2_000


ALONE = """
import sys
touched = []
watched = ("socket.connect", "socket.getaddrinfo", "socket.__new__")
sys.addaudithook(lambda event, _: touched.append(event) if event in watched else None)
from masking.prices import find_pricing
from masking.prices import PriceSettings
assert find_pricing(PriceSettings(), "api.openai.com", "gpt-4o").ratios == (0.5, 1.0)
assert not touched, touched
assert not {"mitmproxy", "genai_prices", "tiktoken"} & {*sys.modules}
"""


def test_nothing_is_fetched_and_no_library_is_loaded() -> None:
    found = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert (0, "") == (found.returncode, found.stderr)


# Beside the library the list is made from, where that is installed.


@pytest.fixture(scope="module")
def library() -> ModuleType:
    found: ModuleType = pytest.importorskip("genai_prices")
    if f" {version('genai-prices')} " not in load_shipped().source:
        pytest.skip("the list was made from another version")
    return found


def test_the_list_is_what_the_command_makes(library: ModuleType) -> None:
    assert make_list(date.fromisoformat(load_shipped().date)) == SHIPPED.read_bytes()


@pytest.mark.parametrize("provider", HOSTS)
def test_the_list_says_what_the_library_says(library: ModuleType, provider: str) -> None:
    shipped = load_shipped()
    noon = datetime.combine(date.fromisoformat(shipped.date), time(12), UTC)
    names = [model["id"] for each in shipped.providers for model in each["models"]]
    mine = {model["id"] for each in shipped.providers if each["id"] == provider
            for model in each["models"]}  # fmt: skip
    asked = [
        *mine,
        *(f"{name}-2026-01-02" for name in mine),
        *(f"{name}-20260102" for name in mine),
    ]
    for name in [*asked, *names[::7]]:
        expected = ask_library(library, HOSTS[provider], name, noon)
        price = shipped.find(HOSTS[provider], name)
        found = price and (
            price.dollars_per_million,
            *(price.ratios or (1.0, 1.0)),
            *bill_long(price),
        )
        assert (name, expected and pytest.approx(expected)) == (name, found)


LONG = (50_000, 150_000, 250_000, 1_000_000)


def bill_long(price: Price) -> list[float]:
    """Return what a million tokens cost, in prompts of these sizes."""
    factors = [max((s.factor for s in price.steps if s.above < n), default=1) for n in LONG]
    return [price.dollars_per_million * factor for factor in factors]


def ask_library(
    library: ModuleType, host: str, name: str, noon: datetime
) -> tuple[float, ...] | None:
    """Return dollars, ratios and the price of long prompts; None where a price is not known."""

    def bill(tokens: int, **usage: int) -> float:
        found = library.data_snapshot.get_snapshot().calc(
            library.Usage(input_tokens=tokens, **usage), name, None, f"https://{host}/", noon
        )
        return float(found.input_price) / tokens * 1e6

    try:
        plain = bill(1_000)
    except LookupError:
        return None
    if not plain:
        return None
    read = bill(1_000, cache_read_tokens=1_000) / plain
    write = max(1.0, bill(1_000, cache_write_tokens=1_000) / plain)
    ratios = (1.0, 1.0) if read == 1 else (read, write)
    return (plain, *ratios, *(bill(tokens) for tokens in LONG))
