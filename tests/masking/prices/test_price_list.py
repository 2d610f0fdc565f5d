"""Price lists: the shipped one, one of our own with every kind of entry, and lists from outside."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest

from masking.errors import ConfigError
from masking.prices import PriceList, PriceStep, load_shipped, pack_list, read_list
from masking.prices.price_list import Price
from tests.support.marks import as_one_test
from tests.tools.make_price_list import SHIPPED, make_list

# The shipped price list, and a list of our own with one of every kind of entry.


OPEN_AI, ANTHROPIC, GOOGLE = (
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
)


@as_one_test
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


@as_one_test
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


@as_one_test
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


@as_one_test
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
    price = load_shipped().find(None, model)
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


@as_one_test
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
    assert OURS.find(None, "plain") is None
    found = OURS.find(None, "a")
    assert found is not None
    assert ("maker", "Maker") == (found.provider, found.seller)


@as_one_test
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
            *bill_answers(price),
        )
        assert (name, expected and pytest.approx(expected)) == (name, found)


LONG = (50_000, 150_000, 250_000, 1_000_000)


def bill_long(price: Price) -> list[float]:
    """Return what a million tokens cost, in prompts of these sizes."""
    return [price.dollars_per_million * find_factor(price.steps, tokens) for tokens in LONG]


def bill_answers(price: Price) -> list[float]:
    """Return what a million tokens of answers cost, after prompts of these sizes."""
    each = price.answer_dollars_per_million or 0.0
    return [each * find_factor(price.answer_steps, tokens) for tokens in LONG]


def find_factor(steps: Sequence[PriceStep], tokens: int) -> float:
    return max((step.factor for step in steps if step.above < tokens), default=1.0)


def ask_library(
    library: ModuleType, host: str, name: str, noon: datetime
) -> tuple[float, ...] | None:
    """Return dollars, ratios and the price of long prompts; None where a price is not known."""

    def calc(kind: str, tokens: int, **usage: int) -> float:
        found = library.data_snapshot.get_snapshot().calc(
            library.Usage(input_tokens=tokens, **usage), name, None, f"https://{host}/", noon
        )
        return float(getattr(found, kind) or 0)

    def bill(tokens: int, **usage: int) -> float:
        return calc("input_price", tokens, **usage) / tokens * 1e6

    try:
        plain = bill(1_000)
    except LookupError:
        return None
    if not plain:
        return None
    read = bill(1_000, cache_read_tokens=1_000) / plain
    write = max(1.0, bill(1_000, cache_write_tokens=1_000) / plain)
    ratios = (1.0, 1.0) if read == 1 else (read, write)
    answers = [calc("output_price", tokens, output_tokens=1_000_000) for tokens in LONG]
    return (plain, *ratios, *map(bill, LONG), *answers)


# Price lists from outside: what is taken of genai-prices' published form, and what is refused.


TODAY = date(2026, 11, 22)


def publish(prices: object, **provider: object) -> list[dict[str, Any]]:
    """Return what genai-prices publishes of a shop with one model."""
    model = {"id": "m", "name": "M", "match": {"equals": "m"}, "prices": prices}
    return [
        {
            "id": "shop",
            "name": "Shop",
            "pricing_urls": ["https://shop.test/prices"],
            "api_pattern": r"https://shop\.test",
            "extractors": [],
            "models": [{**model, "context_window": 9, "description": "Good."}],
            **provider,
        }
    ]


def dumps(document: object) -> bytes:
    return json.dumps(document).encode()


def take(document: object) -> dict[str, Any]:
    """Return the one model that is kept of what is published."""
    packed = json.loads(pack_list(dumps(document), TODAY, "a test"))
    model: dict[str, Any] = packed["providers"][0]["models"][0]
    return model


@as_one_test
@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        pytest.param({"input_mtok": 2}, {"input": 2}, id="one price"),
        pytest.param(
            {"input_mtok": 2, "cache_read_mtok": 0.2, "cache_write_mtok": 2.5, "output_mtok": 9},
            {"input": 2, "cache_read": 0.2, "cache_write": 2.5, "output": 9},
            id="all that is needed",
        ),
        pytest.param({}, {}, id="none"),
        pytest.param({"input_mtok": None, "output_mtok": 9}, {"output": 9}, id="none of any input"),
        pytest.param(
            {
                "input_mtok": {"base": 2, "tiers": [{"start": 9, "price": 8},
                                                    {"start": 5, "price": 4}]},
                "cache_read_mtok": {"base": 0.2, "tiers": [{"start": 5, "price": 0.4}]},
                "output_mtok": {"base": 9, "tiers": [{"start": 5, "price": 12}]},
            },
            {"input": 2, "cache_read": 0.2, "output": 9,
             "steps": [[5, 4], [9, 8]], "output_steps": [[5, 12]]},
            id="price steps",
        ),
    ],
)  # fmt: skip
def test_of_a_models_prices_those_of_texts_are_kept(
    prices: object, expected: dict[str, object]
) -> None:
    assert {"id": "m", "match": {"equals": "m"}, **expected, "window": 9} == take(publish(prices))


def when(plain: float, **constraint: str) -> dict[str, object]:
    return {"constraint": constraint or None, "prices": {"input_mtok": plain}}


@as_one_test
@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        pytest.param([when(1), when(2, start_date="2026-11-22")], 2, id="from today"),
        pytest.param([when(1), when(2, start_date="2026-11-23")], 1, id="from tomorrow"),
        pytest.param(
            [when(1), when(2, start_date="2026-01-01"), when(3, start_date="2026-02-01")], 3,
            id="the last that has begun",
        ),
        pytest.param([when(1, start_date="2030-01-01")], 1, id="the first where none has begun"),
        pytest.param(
            [when(1), when(2, start_time="12:00:00Z", end_time="13:00:00Z")], 2, id="from noon"
        ),
        pytest.param(
            [when(1), when(2, start_time="00:30:00Z", end_time="12:00:00Z")], 1, id="till noon"
        ),
        pytest.param(
            [when(1), when(2, start_time="16:30:00Z", end_time="12:30:00Z")], 2,
            id="over midnight, till after noon",
        ),
        pytest.param(
            [when(1), when(2, start_time="16:30:00Z", end_time="00:30:00Z")], 1, id="by night"
        ),
        pytest.param(
            [when(1), when(2, start_time="11:00:00Z", end_time="10:00:00Z")], 2,
            id="but for an hour in the morning",
        ),
        pytest.param([], None, id="no prices"),
    ],
)  # fmt: skip
def test_the_price_is_that_of_the_day_at_noon(prices: object, expected: float | None) -> None:
    assert expected == take(publish(prices)).get("input")


@pytest.mark.parametrize("form", ["the list alone", "with units beside it"])
def test_a_published_list_is_converted_to_our_form(form: str) -> None:
    published = publish(
        {"input_mtok": 3, "cache_read_mtok": 0.3},
        model_match={"or": [{"starts_with": "m"}]},
        fallback_model_providers=["shop"],
        provider_match=None,
    )
    document = published if form == "the list alone" else {"units": {}, "providers": published}
    packed = pack_list(dumps(document), TODAY, "a test")
    prices = read_list(packed)
    assert ("2026-11-22", "a test", 1) == (prices.date, prices.source, prices.models)
    found = prices.find("shop.test", "m")
    assert found == prices.find(None, "M")
    assert found is not None
    assert (3, (0.1, 1.0)) == (found.dollars_per_million, found.ratios)
    assert packed == pack_list(packed, date(2030, 1, 1), "another")
    assert b'\n{"id":"m",' in packed


def test_a_list_of_ours_keeps_its_steps() -> None:
    document = ours(input=1, steps=[[5, 2]], output=4, output_steps=[[5, 6]])
    found = read_list(dumps(document)).find("shop.test", "m")
    assert found is not None
    assert (PriceStep(5, 2.0),) == found.steps
    assert (4.0, (PriceStep(5, 1.5),)) == (found.answer_dollars_per_million, found.answer_steps)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param({}, None, id="a list from before there was a price of answers"),
        pytest.param({"output": 0}, 0.0, id="answers that cost nothing"),
        pytest.param({"output": 0, "output_steps": [[5, 1]]}, 0.0, id="a step from nothing on"),
    ],
)
def test_a_list_may_have_no_price_of_answers(
    model: dict[str, object], expected: float | None
) -> None:
    found = read_list(dumps(ours(input=1, **model))).find("shop.test", "m")
    assert found is not None
    assert (expected, ()) == (found.answer_dollars_per_million, found.answer_steps)


def ours(provider: dict[str, object] | None = None, /, **model: object) -> dict[str, Any]:
    """Return a valid list of our own form, with these changes."""
    entry = {"id": "m", "match": {"equals": "m"}, **model}
    shop = {"id": "shop", "name": "Shop", "api_pattern": r"https://shop\.test", "models": [entry]}
    return {"date": "2026-11-22", "source": "us", "providers": [{**shop, **(provider or {})}]}


def deep(levels: int) -> dict[str, object]:
    clause: dict[str, object] = {"equals": "m"}
    for _ in range(levels):
        clause = {"or": [clause]}
    return clause


MODEL = "providers[0].models[0]"


@as_one_test
@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        pytest.param("x", "list", "expected dict, got str", id="a text"),
        pytest.param(None, "list", "got nothing", id="null"),
        pytest.param({"date": 1}, "date", "expected str, got int", id="an invalid date"),
        pytest.param({"date": "9999-99-99"}, "date", "a date", id="a day that never comes"),
        pytest.param({"date": "20261122"}, "date", "a date", id="a date in another form"),
        pytest.param({"date": "(a+)+$"}, "date", "a date", id="no date"),
        pytest.param({"date": "2026-11-22"}, "source", "got nothing", id="no source"),
        pytest.param(
            {"date": "2026-11-22", "source": "y"}, "providers", "got nothing", id="no providers"
        ),
        pytest.param(ours() | {"source": "\x1b]0;a\x07"}, "source", "printed", id="an escape"),
        pytest.param(ours({"id": "a\nb"}), "providers[0].id", "printed", id="two lines"),
        pytest.param(ours({"name": "\u202ea"}), "providers[0].name", "printed", id="right to left"),
        pytest.param(ours({"name": "a" * 201}), "providers[0].name", "200", id="a long name"),
        pytest.param(ours(id="\x1b[2Jm"), f"{MODEL}.id", "printed", id="a screen that is cleared"),
        pytest.param(
            ours({"fallback_model_providers": ["\x9b"]}),
            "providers[0].fallback_model_providers[0]", "printed", id="another control character",
        ),
        pytest.param({}, "providers", "got nothing", id="nothing in it"),
        pytest.param([1], "providers[0]", "expected dict, got int", id="published: no object"),
        pytest.param([{}], "providers[0].models", "got nothing", id="published: no models"),
        pytest.param(publish(1), f"{MODEL}.prices", "expected list", id="published: no prices"),
        pytest.param(publish([{}]), f"{MODEL}.prices[0].prices", "nothing", id="published: none"),
        pytest.param(
            publish([when(1), {"constraint": 1}]), f"{MODEL}.prices[1].constraint", "got int",
            id="published: an invalid constraint",
        ),
        pytest.param(
            publish({"input_mtok": {"base": 1, "tiers": 1}}), f"{MODEL}.prices.input_mtok.tiers",
            "expected list", id="published: invalid tiers",
        ),
        pytest.param(
            publish({"input_mtok": {"base": 1, "tiers": [{}]}}), f"{MODEL}.steps[0][0]",
            "got nothing", id="published: an empty tier",
        ),
        pytest.param(
            publish({"input_mtok": {"base": 1, "tiers": [{"start": 5}, {"start": "5"}]}}),
            f"{MODEL}.steps[0][0]", "got str", id="published: tiers that have no order",
        ),
        pytest.param(publish({"input_mtok": "1"}), f"{MODEL}.input", "number", id="a text"),
        pytest.param(ours({"id": None}), "providers[0].id", "got nothing", id="no id"),
        pytest.param(ours({"name": 1}), "providers[0].name", "got int", id="an invalid name"),
        pytest.param(
            ours({"api_pattern": "("}), "providers[0].api_pattern", "regular", id="no expression"
        ),
        pytest.param(
            ours({"model_match": {}}), "providers[0].model_match", "expected one of", id="no clause"
        ),
        pytest.param(
            ours({"fallback_model_providers": [1]}), "providers[0].fallback_model_providers[0]",
            "expected str", id="an invalid provider",
        ),
        pytest.param(ours(id=1), f"{MODEL}.id", "expected str", id="a model without a name"),
        pytest.param(ours(match=None), f"{MODEL}.match", "got nothing", id="no match"),
        pytest.param(ours(match={"is": "m"}), f"{MODEL}.match", "equals, starts", id="unknown"),
        pytest.param(
            ours(match={"equals": "m", "or": []}), f"{MODEL}.match", "one of", id="two clauses"
        ),
        pytest.param(ours(match={"equals": 1}), f"{MODEL}.match.equals", "str", id="no text"),
        pytest.param(ours(match={"regex": "["}), f"{MODEL}.match.regex", "regular", id="no regex"),
        pytest.param(
            ours(match={"or": [{"and": [1]}]}), f"{MODEL}.match.or[0].and[0]", "expected dict",
            id="a clause in a clause",
        ),
        pytest.param(ours(match=deep(9)), f"{MODEL}.match", "at most 8 clauses", id="deep"),
        pytest.param(
            ours(match=deep(20)), f"{MODEL}.match" + ".or[0]" * 11, "8 clauses", id="deeper",
        ),
        pytest.param(ours(input=True), f"{MODEL}.input", "number from 0 up", id="a boolean"),
        pytest.param(ours(input=-1), f"{MODEL}.input", "number from 0 up", id="less than 0"),
        pytest.param(ours(input=1e6), f"{MODEL}.input", "below 1e+06", id="a million dollars"),
        pytest.param(ours(cache_read="x"), f"{MODEL}.cache_read", "number", id="no price"),
        pytest.param(ours(cache_write=[]), f"{MODEL}.cache_write", "number", id="no price, either"),
        pytest.param(ours(steps=1), f"{MODEL}.steps", "expected list", id="no steps"),
        pytest.param(ours(steps=[[1]]), f"{MODEL}.steps[0][1]", "got nothing", id="half a step"),
        pytest.param(ours(steps=[1]), f"{MODEL}.steps[0]", "[tokens, price]", id="no step"),
        pytest.param(ours(steps=[[1.5, 1]]), f"{MODEL}.steps[0][0]", "whole", id="half a token"),
        pytest.param(ours(steps=[[5, "x"]]), f"{MODEL}.steps[0][1]", "number", id="no price there"),
        pytest.param(ours(steps=[[5, 1], [5, 2]]), f"{MODEL}.steps[1]", "more tokens", id="twice"),
        pytest.param(ours(steps=[[0, 1]]), f"{MODEL}.steps[0]", "more tokens", id="from 0 on"),
        pytest.param(ours(output="x"), f"{MODEL}.output", "number", id="no price of answers"),
        pytest.param(
            ours(output_steps=[[5, -1]]), f"{MODEL}.output_steps[0][1]", "from 0 up",
            id="less than nothing for answers",
        ),
        pytest.param(ours(window=0), f"{MODEL}.window", "whole number", id="no window"),
        pytest.param(ours(window=1.5), f"{MODEL}.window", "whole number", id="half a token more"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place(document: object, path: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        pack_list(dumps(document), TODAY, "a test")
    assert path == raised.value.path
    assert problem in raised.value.problem


def test_clauses_as_deep_as_json_may_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="less deep"):
        read_list(dumps(ours(match=deep(300))))


def test_an_unknown_field_that_is_too_deep_to_be_written_is_reported_with_its_place() -> None:
    with pytest.raises(ConfigError) as raised:
        pack_list(dumps(ours(notes=deep(300))), TODAY, "a test")
    assert "providers[0]" == raised.value.path
    assert raised.value.problem.startswith("cannot be written again")


@as_one_test
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b"\xff", "not JSON", id="no text"),
        pytest.param(b"[" * 5_000, "not JSON", id="without end"),
        pytest.param(b" " * 10_000_001, "larger than 10 MB", id="far too long"),
    ],
)
def test_what_is_not_json_is_refused(data: bytes, problem: str) -> None:
    for read in (read_list, lambda data: pack_list(data, TODAY, "a test")):
        with pytest.raises(ConfigError, match=problem):
            read(data)


# Patterns


def test_every_pattern_of_the_shipped_list_is_taken() -> None:
    """And there is room for eight times as many, as the list grows with every new model."""
    shipped = load_shipped()
    document = {"date": shipped.date, "source": shipped.source, "providers": shipped.providers * 8}
    assert 8 * shipped.models == read_list(dumps(document)).models


@as_one_test
@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        (r"^claude-opus-5[-@]\d{8}$", ["claude-opus-5@20260101"], ["claude-opus-5-1"]),
        (r"^(?!.*-tts(?:$|-))", ["gpt-5"], ["gpt-5-tts", "a-tts-1"]),
        (r"^(?![^/]+/)(?:mini|mix)stral", ["ministral"], ["a/ministral", "stral"]),
        (r"\.5\[fast=(true|false)\]$", ["grok-4.5[fast=true]"], ["grok-4.5"]),
        (r"^o[134](-mini)?$", ["o1", "o3-mini"], ["o2"]),
        (r"^a{2,3}b{1,}c{2}$", ["aabbcc"], ["abcc"]),
        (r"b.*c", ["a b d c"], ["acb"]),
    ],
)
def test_a_simple_pattern_is_matched(pattern: str, names: list[str], others: list[str]) -> None:
    prices = read_list(dumps(ours({"model_match": {"regex": pattern}}, input=1, match={"or": [
        {"contains": ""}]})))  # fmt: skip
    assert [True] * len(names) == [prices.find(None, name) is not None for name in names]
    assert [False] * len(others) == [prices.find(None, name) is not None for name in others]


NOT_SIMPLE = "expected a pattern of"
TOO_LONG = "may take too long to match"


@as_one_test
@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a+)+$", NOT_SIMPLE),
        ("^(a|a)*$", NOT_SIMPLE),
        ("^(?:a?){40}$", NOT_SIMPLE),
        ("^(?:a|b|ab)*c$", NOT_SIMPLE),
        ("^(?=(a+)+b)", NOT_SIMPLE),
        (r"^(a+)\1$", NOT_SIMPLE),
        ("^(?P<a>a)$", NOT_SIMPLE),
        ("(?x)a", NOT_SIMPLE),
        ("a+?b", NOT_SIMPLE),
        ("[[]a", "not a regular expression"),
        ("[]a]*", NOT_SIMPLE),
        ("a{b}", NOT_SIMPLE),
        ("^.*.*.*=x$", TOO_LONG),
        ("^(?!.*.*.*b)", TOO_LONG),
        ("^" + "a?" * 40 + "a" * 40, TOO_LONG),
        ("^" + "(?:a|a)" * 25 + "b", TOO_LONG),
        ("^" + "a{1,9}" * 9 + "b", TOO_LONG),
        ("a" * 201, "at most 200 characters"),
        ("(" * 90 + ")" * 89, "not a regular expression"),
        ("a{99999999999999999999}", "not a regular expression"),
    ],
)
@pytest.mark.parametrize("place", ["api_pattern", "model_match.regex", "models[0].match.regex"])
def test_a_pattern_that_may_not_end_is_refused(pattern: str, problem: str, place: str) -> None:
    documents = {
        "api_pattern": ours({"api_pattern": pattern}),
        "model_match.regex": ours({"model_match": {"regex": pattern}}),
        "models[0].match.regex": ours(match={"regex": pattern}),
    }
    with pytest.raises(ConfigError) as raised:
        read_list(dumps(documents[place]))
    assert f"providers[0].{place}" == raised.value.path
    assert problem in raised.value.problem


@as_one_test
@pytest.mark.parametrize("pattern", [".*.*b", r"^\*\*[*+][,+]{3}.*x{1,2}", "a?" * 12 + "b|c"])
def test_few_parts_of_a_pattern_may_match_in_more_than_one_way(pattern: str) -> None:
    assert 1 == read_list(dumps(ours(match={"regex": pattern}))).models
    with pytest.raises(ConfigError, match=TOO_LONG):
        read_list(dumps(ours(match={"regex": pattern + "(x*)"})))


def test_a_published_list_is_not_in_our_form() -> None:
    with pytest.raises(ConfigError, match="expected dict, got list"):
        read_list(dumps(publish({})))
