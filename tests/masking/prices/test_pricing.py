"""What host and model cost, and how many tokens a model takes."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.ledger import Ledger, Sent
from masking.accounting.prompt import Prompt
from masking.conversation import Piece, Request
from masking.errors import ConfigError
from masking.prices import (
    OwnPrice,
    OwnWindow,
    PriceSettings,
    PriceStep,
    Pricing,
    Source,
    find_pricing,
    fits_window,
    open_list,
)
from masking.prices.cache_rules import find_cache_rules
from masking.window import FREE, price_boundary
from masking.wire.chat import CHAT
from masking.wire.usage import Usage
from tests.support.marks import as_one_test

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
OPEN_AI = ("api.openai.com", "gpt-4o")
AUTO, NONE, GIVEN = PriceSettings(), PriceSettings("none"), PriceSettings((0.2, 3.0))
ASSUMED, PLAIN = (0.1, 1.25), (1.0, 1.0)
STEPS = (PriceStep(100, 2.0), PriceStep(1_000, 5.0))
CLAUDE = ("api.anthropic.com", "claude-opus-4-8")
LONG = "gpt-4o" + "x" * 300


@as_one_test
@pytest.mark.parametrize(
    ("settings", "host", "model", "expected"),
    [
        pytest.param(AUTO, *OPEN_AI, ((0.5, 1), "price list", 2.5), id="listed: the list's"),
        pytest.param(NONE, *OPEN_AI, ((0.5, 1), "price list", 2.5), id="none: as auto"),
        pytest.param(GIVEN, *OPEN_AI, ((0.2, 3), "config", 2.5), id="configured: those"),
        pytest.param(AUTO, "localhost", "m", (ASSUMED, "assumed", None), id="nothing is known"),
        pytest.param(NONE, "localhost", "m", (ASSUMED, "assumed", None), id="none, nothing known"),
        pytest.param(
            PriceSettings(assumed=(0.3, 1.0)), "localhost", "m", ((0.3, 1), "assumed", None),
            id="nothing is known, and other prices are to be assumed",
        ),
        pytest.param(GIVEN, "localhost", "m", ((0.2, 3), "config", None), id="configured, unknown"),
        pytest.param(
            AUTO, "api.openai.com", "m", (ASSUMED, "assumed", None), id="an unlisted model"
        ),
        pytest.param(
            AUTO, "api.openai.com", "gpt-4-turbo", (ASSUMED, "assumed", 10),
            id="a listed model without a price of cached tokens",
        ),
        pytest.param(AUTO, "api.openai.com", None, (ASSUMED, "assumed", None), id="no model"),
        pytest.param(AUTO, "api.openai.com", "", (ASSUMED, "assumed", None), id="an empty model"),
        pytest.param(
            AUTO, "", "gpt-4o", ((0.5, 1), "assumed", 2.5), id="an empty host is none known"
        ),
        pytest.param(
            AUTO, None, "claude-sonnet-4-20250514", ((0.1, 1.25), "price list", 3),
            id="no host: at the maker's",
        ),
        pytest.param(
            AUTO, None, "gpt-5-high", ((0.1, 1), "assumed", 1.25), id="no host, a name like another"
        ),
        pytest.param(AUTO, None, "m", (ASSUMED, "assumed", None), id="no host, nobody's model"),
        pytest.param(AUTO, None, None, (ASSUMED, "assumed", None), id="neither"),
        pytest.param(AUTO, None, LONG, (ASSUMED, "assumed", None), id="a model's name without end"),
        pytest.param(GIVEN, LONG, "gpt-4o", ((0.2, 3), "config", None), id="a long host"),
    ],
)  # fmt: skip
def test_what_is_billed_is_configured_or_listed_or_assumed(
    settings: PriceSettings,
    host: str | None,
    model: str | None,
    expected: tuple[tuple[float, float], Source, float | None],
) -> None:
    pricing = find_pricing(settings, host, model)
    assert expected == (pricing.ratios, pricing.source, pricing.dollars_per_million)


@as_one_test
@pytest.mark.parametrize(
    ("host", "model", "tier", "expected"),
    [
        pytest.param(
            "api.anthropic.com", "claude-opus-4-6", "fast", (30, 150, None), id="a model of its own"
        ),
        pytest.param(
            "api.anthropic.com",
            "claude-opus-4-8-20260301",
            "fast",
            (10, 50, None),
            id="a model's version",
        ),
        pytest.param(
            "openrouter.ai",
            "anthropic/claude-opus-4.6",
            "fast",
            (30, 150, None),
            id="under the seller's name",
        ),
        pytest.param(
            "api.anthropic.com",
            "claude-opus-5-5",
            "fast",
            (4, 20, "fast"),
            id="that of an older model is another's",
        ),
        pytest.param(*OPEN_AI, "priority", (2.5, 10, "priority"), id="not known"),
        pytest.param(*OPEN_AI, "flex", (2.5, 10, "flex"), id="not known, either"),
        pytest.param(*OPEN_AI, None, (2.5, 10, None), id="the standard one"),
        pytest.param("example.com", "m", "priority", (None, None, None), id="without a price"),
        pytest.param(None, None, "priority", (None, None, None), id="without a model"),
        pytest.param(
            "example.com",
            "llama-3.1-70b-instruct-fp8",
            "fast",
            (None, None, None),
            id="nobody sells it otherwise",
        ),
    ],
)
def test_a_tier_of_service_has_its_price_where_the_list_knows_it(
    host: str | None,
    model: str | None,
    tier: str | None,
    expected: tuple[float | None, float | None, str | None],
) -> None:
    pricing = find_pricing(AUTO, host, model, tier=tier)
    assert expected == (
        pricing.dollars_per_million,
        pricing.answer_dollars_per_million,
        pricing.standard_for,
    )
    standard = find_pricing(AUTO, host, model)
    assert (standard.ratios, standard.source) == (pricing.ratios, pricing.source)


def test_a_price_of_ones_own_is_that_of_every_tier() -> None:
    pricing = find_pricing(OWN, *OPEN_AI, tier="priority")
    assert (7.0, None) == (pricing.dollars_per_million, pricing.standard_for)


OWN = PriceSettings(
    own=(
        OwnPrice(host="*.Corp.example", model="Claude-*", read=0.2, write=1.5),
        OwnPrice(host="api.openai.com", read=0.3, write=1.0, dollars_per_million=7.0),
        OwnPrice(model="local-*", read=1.0, write=1.0),
        OwnPrice(model="local-m", read=0.9, write=1.0),
    ),
    uncached=("free.example", "*.lan"),
)


@as_one_test
@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param("a.corp.EXAMPLE", "claude-x", ((0.2, 1.5), "config", None), id="both fit"),
        pytest.param("a.corp.example", "gpt-4o", ((0.5, 1), "assumed", 2.5), id="another model"),
        pytest.param("corp.example", "claude-x", (ASSUMED, "assumed", None), id="another host"),
        pytest.param(*OPEN_AI, ((0.3, 1), "config", 7), id="dollars of one's own"),
        pytest.param("x", "local-m", (PLAIN, "config", None), id="the first that fits"),
        pytest.param(None, "local-m", (PLAIN, "config", None), id="any host, none known"),
        pytest.param("FREE.example.", "gpt-4o", (PLAIN, "config", 2.5), id="uncached"),
        pytest.param("gpu.lan", "m", (PLAIN, "config", None), id="uncached, by a pattern"),
    ],
)
def test_a_price_of_ones_own_goes_first(
    host: str | None, model: str, expected: tuple[tuple[float, float], Source, float | None]
) -> None:
    pricing = find_pricing(OWN, host, model)
    assert expected == (pricing.ratios, pricing.source, pricing.dollars_per_million)


def test_a_price_for_everything_goes_before_ones_own_but_for_its_dollars() -> None:
    pricing = find_pricing(dataclasses.replace(OWN, cache_pricing=(0.7, 1.0)), *OPEN_AI)
    assert ((0.7, 1.0), "config", 7.0) == (
        pricing.ratios,
        pricing.source,
        pricing.dollars_per_million,
    )


def test_a_host_without_cached_tokens_keeps_the_dollars_of_the_list() -> None:
    pricing = find_pricing(PriceSettings(uncached=("api.openai.com",)), *OPEN_AI)
    assert (PLAIN, "config", 2.5) == (pricing.ratios, pricing.source, pricing.dollars_per_million)


@as_one_test
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("gpt-4o", "gpt-4o", id="the very name"),
        pytest.param("GPT-4o", "gpt-4o", id="in capitals"),
        pytest.param("gpt-4o-2024-08-06", "gpt-4o", id="dated"),
        pytest.param("gpt-5-high", "gpt-5", id="with an effort"),
        pytest.param("gpt-5_high", "gpt-5", id="with an effort, spelled otherwise"),
        pytest.param("openai/gpt-4o", "gpt-4o", id="OpenAI's prefix"),
        pytest.param("models/gemini-2.5-pro", "gemini-2.5-pro", id="Google's prefix"),
        pytest.param("google/gemini-2.5-pro", "gemini-2.5-pro", id="OpenRouter's prefix"),
        pytest.param("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", id="with a dot"),
        pytest.param("x/anthropic/claude-sonnet-5.5:beta", "claude-sonnet-5-5", id="all of it"),
        pytest.param("claude-sonnet-4-5@20250929", "claude-sonnet-4-5", id="Vertex's date"),
        pytest.param(
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5", id="Bedrock's name"
        ),
        pytest.param(
            "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-8",
            "claude-opus-4-8",
            id="Bedrock's profile",
        ),
        pytest.param("kimi-k2.5:cloud", "kimi-k2.5", id="with a tag"),
        pytest.param("gpt-99-ultra", None, id="a model that is not known"),
        pytest.param("gpt", None, id="a family"),
        pytest.param("gpt-4-turbo", None, id="a model without a price of cached tokens"),
        pytest.param("qwen3-coder", None, id="a model of an unknown maker"),
        pytest.param("/", None, id="a slash"),
        pytest.param("-" * 256, None, id="dashes"),
        pytest.param("claude" + "-a" * 125, None, id="many parts"),
    ],
)
def test_under_another_host_a_model_is_assumed_to_cost_what_its_maker_takes(
    model: str, expected: str | None
) -> None:
    pricing = find_pricing(AUTO, "llm.corp.example", model)
    assert expected == (pricing.entry and pricing.entry.model)
    assert "assumed" == pricing.source
    maker = open_list("").find(None, expected or model)  # of the very name, or under that
    assert pricing.dollars_per_million == (maker and maker.dollars_per_million)
    assert pricing.borrowed_from == (maker and maker.seller)
    assert pricing.steps == (maker.steps if maker else ())
    assert not price_boundary(pricing).steps
    assert pricing.ratios == (pricing.entry.ratios if pricing.entry else ASSUMED)


@as_one_test
@pytest.mark.parametrize(
    ("host", "model", "provider"),
    [
        pytest.param(*OPEN_AI, "openai", id="OpenAI"),
        pytest.param("api.anthropic.com", "claude-sonnet-4-20250514", "anthropic", id="Anthropic"),
        pytest.param(None, "deepseek-chat", "deepseek", id="DeepSeek, by the model's name"),
        pytest.param("localhost", "deepseek-chat", "deepseek", id="DeepSeek, behind a gateway"),
        pytest.param("localhost", "m", None, id="nobody that is known"),
    ],
)
@pytest.mark.parametrize("settings", [AUTO, GIVEN], ids=["auto", "configured"])
def test_the_caches_rules_are_the_providers_or_the_makers(
    settings: PriceSettings, host: str | None, model: str, provider: str | None
) -> None:
    assert find_cache_rules(provider) == find_pricing(settings, host, model).cache


@pytest.mark.parametrize(
    ("settings", "ratios", "expected"),
    [
        pytest.param(NONE, (0.1, 1.25), PLAIN, id="none: it slides"),
        pytest.param(AUTO, (0.1, 1.25), (0.1, 1.25), id="auto: as billed"),
        pytest.param(AUTO, PLAIN, PLAIN, id="auto, and nothing is cheaper: it slides"),
        pytest.param(GIVEN, (0.2, 3), (0.2, 3), id="as configured"),
    ],
)
def test_the_boundary_is_drawn_by_what_is_billed_unless_it_is_to_slide(
    settings: PriceSettings, ratios: tuple[float, float], expected: tuple[float, float]
) -> None:
    pricing = Pricing(*ratios, source="config", steps=STEPS)
    prices = price_boundary(pricing, slides=settings.slides)
    assert expected == (prices.read, prices.write)
    assert (() if settings is NONE else STEPS) == prices.steps
    assert (expected == PLAIN) == prices.slides
    assert price_boundary(pricing, slides=True) == FREE


MARKED = {"messages": [{"role": "user", "cache_control": {"type": "ephemeral"}}]}
QUOTED = {"messages": [{"role": "user", "content": '"cache_control"'}]}


@as_one_test
@pytest.mark.parametrize(
    ("settings", "host", "model", "body", "expected"),
    [
        pytest.param(AUTO, *CLAUDE, MARKED, (0.1, 1.25), id="a mark"),
        pytest.param(AUTO, *CLAUDE, {}, PLAIN, id="no mark"),
        pytest.param(AUTO, *CLAUDE, QUOTED, PLAIN, id="a text that quotes one"),
        pytest.param(GIVEN, *CLAUDE, {}, (0.2, 3), id="no mark, and prices configured"),
        pytest.param(AUTO, *OPEN_AI, {}, (0.5, 1), id="no mark where none is needed"),
        pytest.param(AUTO, "localhost", CLAUDE[1], {}, (0.1, 1.25), id="behind a gateway"),
        pytest.param(AUTO, None, CLAUDE[1], {}, (0.1, 1.25), id="no host is told"),
    ],
)
def test_without_a_cache_mark_nothing_is_cached_where_it_takes_one(
    settings: PriceSettings,
    host: str | None,
    model: str,
    body: dict[str, object],
    expected: tuple[float, float],
) -> None:
    is_marked = Request(body, CHAT).marks.are_there
    assert expected == find_pricing(settings, host, model, is_marked=is_marked).ratios


@as_one_test
@pytest.mark.parametrize(
    ("settings", "host", "model", "lifetime", "expected"),
    [
        pytest.param(AUTO, *CLAUDE, None, (0.1, 1.25), id="not said"),
        pytest.param(AUTO, *CLAUDE, "5m", (0.1, 1.25), id="five minutes"),
        pytest.param(AUTO, *CLAUDE, "1h", (0.1, 2.0), id="an hour"),
        pytest.param(AUTO, "localhost", CLAUDE[1], "1h", (0.1, 2.0), id="behind a gateway"),
        pytest.param(AUTO, CLAUDE[0], "claude-fable-5-1", "1h", (0.025, 2.0), id="another read"),
        pytest.param(GIVEN, *CLAUDE, "1h", (0.2, 3), id="prices configured"),
        pytest.param(AUTO, *OPEN_AI, "1h", (0.5, 1), id="where lifetimes have no price"),
    ],
)
def test_a_token_costs_more_to_write_for_an_hour(
    settings: PriceSettings,
    host: str,
    model: str,
    lifetime: str | None,
    expected: tuple[float, float],
) -> None:
    assert expected == find_pricing(settings, host, model, lifetime=lifetime).ratios


@as_one_test
@pytest.mark.parametrize(
    ("host", "is_marked", "expected"),
    [
        pytest.param(CLAUDE[0], True, "marks", id="a mark"),
        pytest.param(CLAUDE[0], False, "marks", id="no mark, and so no cache"),
        pytest.param("localhost", True, "marks", id="a mark behind a gateway"),
        pytest.param("localhost", False, "any prefix", id="a gateway that may set some"),
        pytest.param("api.githubcopilot.com", False, "any prefix", id="a provider that may"),
        pytest.param(None, False, "any prefix", id="no host is told"),
    ],
)
def test_a_prompt_is_read_at_marks_unless_they_are_unknown(
    host: str | None, is_marked: bool, expected: str
) -> None:
    assert expected == find_pricing(AUTO, host, CLAUDE[1], is_marked=is_marked).cache.reads_at


@as_one_test
@pytest.mark.parametrize(
    ("prompt", "expected"),
    [(0, 1), (100, 1), (100.5, 2), (101, 2), (1_000, 2), (1_001, 5), (1e9, 5)],
)
def test_above_a_price_step_every_token_costs_more(prompt: float, expected: float) -> None:
    pricing = Pricing(*PLAIN, source="config", steps=STEPS)
    assert expected == pricing.factor_at(prompt)
    assert find_pricing(AUTO, *OPEN_AI).factor_at(prompt) == 1


@pytest.mark.parametrize(
    ("cached", "uncached", "expected"),
    [
        pytest.param(0, 1.25, 125, id="nothing is cached: all is written"),
        pytest.param(80, 1.25, 33, id="the rest is written"),
        pytest.param(80, 1.0, 28, id="the rest is plain"),
        pytest.param(100, 1.25, 10, id="all is cached"),
    ],
)
def test_a_prompt_costs_what_is_cached_and_what_is_not(
    cached: float, uncached: float, expected: float
) -> None:
    pricing = Pricing(0.1, 1.25, steps=(PriceStep(99, 2.0),))
    assert pytest.approx(2 * expected) == pricing.cost_of(100, cached, uncached)


def test_a_cache_that_forgets_changes_nothing_else() -> None:
    listed = find_pricing(AUTO, *OPEN_AI)
    forgetful = listed.forget_after(300.0)
    assert 300.0 == forgetful.cache.ttl
    assert listed == forgetful.forget_after(None)


@as_one_test
@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param(*OPEN_AI, (2.5, None, 10.0), id="the host's own"),
        pytest.param("localhost", "gpt-4o", (2.5, "OpenAI", 10.0), id="the maker's"),
        pytest.param("api.openai.com", "gpt-4-turbo", (10.0, "OpenAI", 30.0), id="no ratios"),
        pytest.param("localhost", "gpt-4-turbo", (10.0, "OpenAI", 30.0), id="the maker has none"),
        pytest.param("localhost", "m", (None, None, None), id="nobody's model"),
        pytest.param("own.example", "gpt-4o", (2.5, "OpenAI", 10.0), id="ratios of one's own"),
        pytest.param("dear.example", "gpt-4o", (7.0, None, None), id="dollars of one's own"),
        pytest.param("free.example", "gpt-4o", (0.0, None, None), id="nothing is charged"),
    ],
)
def test_dollars_are_the_hosts_or_borrowed_from_the_models_maker_and_never_made_up(
    host: str, model: str, expected: tuple[float | None, str | None, float | None]
) -> None:
    own = PriceSettings(
        own=(
            OwnPrice(host="own.example", read=0.5, write=1.0),
            OwnPrice(host="dear.example", read=0.5, write=1.0, dollars_per_million=7.0),
            OwnPrice(host="free.example", read=1.0, write=1.0, dollars_per_million=0.0),
        )
    )
    pricing = find_pricing(own, host, model)
    plain, _, answers = expected
    assert expected == (
        pricing.dollars_per_million,
        pricing.borrowed_from,
        pricing.answer_dollars_per_million,
    )
    assert pricing.in_dollars(1_000) == (None if plain is None else pytest.approx(plain / 1_000))
    answer = pricing.price_answer(1_000, 10_000)
    assert answer == (None if answers is None else pytest.approx(answers / 1_000))


def test_an_answer_to_a_long_prompt_costs_as_much_more_as_the_list_says() -> None:
    pricing = find_pricing(AUTO, "api.anthropic.com", "claude-sonnet-4-5")
    answers = [pricing.price_answer(1_000_000, prompt) for prompt in (200_000, 200_001)]
    assert [15.0, 22.5] == answers
    assert [1.0, 2.0] == [pricing.factor_at(prompt) for prompt in (200_000, 200_001)]


def test_another_list_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    shop = {"id": "s", "name": "S", "api_pattern": "https://shop/", "models": [
        {"id": "m", "match": {"equals": "m"}, "input": 1, "cache_read": 0.4}
    ]}  # fmt: skip
    path.write_text(json.dumps({"date": "2027-01-01", "source": "us", "providers": [shop]}))
    settings = PriceSettings(price_list=str(path))
    assert ((0.4, 1), "price list") == (
        find_pricing(settings, "shop", "m").ratios,
        find_pricing(settings, "shop", "m").source,
    )
    assert "assumed" == find_pricing(settings, *OPEN_AI).source
    path.write_text("changed while it is in use")
    assert "price list" == find_pricing(settings, "shop", "m").source
    with pytest.raises(ConfigError, match="not JSON"):
        find_pricing(
            PriceSettings(price_list=f"{path.parent}/../{tmp_path.name}/prices.json"), "x", "m"
        )


settings_ = st.sampled_from([AUTO, NONE, GIVEN, OWN])
hosts = st.sampled_from([None, "api.openai.com", "API.openai.com", "api.anthropic.com", "x"])
models = st.sampled_from([None, "gpt-4o", "claude-sonnet-4-20250514", "grok-4", "m", LONG])
counts = st.none() | st.integers(0, 3_000)
PROMPT = Prompt(before=(Piece(b"b" * 16, 2_000),), after=(Piece(b"a" * 16, 1_500),))


@given(
    settings_, hosts, models, st.lists(st.builds(Usage, prompt=counts, cached=counts), max_size=3)
)
def test_whatever_is_answered_the_prices_stay_the_same(
    settings: PriceSettings, host: str | None, model: str | None, answers: list[Usage]
) -> None:
    pricing = find_pricing(settings, host, model)
    ledger = Ledger()
    for usage in answers:
        sent = Sent(
            cache_scope=b"s",
            prompt=PROMPT,
            masked=frozenset(),
            usage=usage,
            when=NOON,
            is_masked=True,
        )
        ledger.enter(sent, pricing)
    assert pricing == find_pricing(settings, host, model)
    assert 0 < pricing.read <= pricing.write


@given(settings_, st.none() | st.text(), st.none() | st.text())
def test_whatever_a_host_and_a_model_are_called_there_is_a_price(
    settings: PriceSettings, host: str | None, model: str | None
) -> None:
    pricing = find_pricing(settings, host, model)
    assert pricing.source == "config" or pricing.read <= pricing.write
    is_borrowed = pricing.borrowed_from is not None
    assert is_borrowed <= (pricing.dollars_per_million is not None)
    if pricing.dollars_per_million is not None:
        assert (pricing.source == "assumed") <= is_borrowed
    assert (pricing.source == "price list") <= (not is_borrowed)


# How many tokens a model takes, and whether a prompt fits.


OPEN_AI_HOST, ANTHROPIC_HOST = "api.openai.com", "api.anthropic.com"


@as_one_test
@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param(OPEN_AI_HOST, "gpt-5", 400_000, id="a listed host and model"),
        pytest.param(ANTHROPIC_HOST, "claude-sonnet-4-5-20250929", 200_000, id="a dated model"),
        pytest.param("localhost", "gpt-4o", 128_000, id="another host: its maker's"),
        pytest.param(None, "claude-opus-4-8", 1_000_000, id="no host: its maker's"),
        pytest.param(
            "gateway.test", "openrouter/openai/gpt-5-high", 400_000, id="a name with parts added"
        ),
        pytest.param(OPEN_AI_HOST, "tts-1", None, id="a listed model without a window"),
        pytest.param("localhost", "no-such-model", None, id="a model of nobody"),
        pytest.param(OPEN_AI_HOST, "", None, id="an empty name"),
        pytest.param(OPEN_AI_HOST, None, None, id="no name"),
    ],
)
def test_a_window_is_found_by_host_and_model_or_else_by_the_models_maker(
    host: str | None, model: str | None, expected: int | None
) -> None:
    assert expected == find_pricing(PriceSettings(), host, model).window


def test_what_costs_nothing_has_a_window_and_a_list_of_ones_own_holds(tmp_path: Path) -> None:
    model = {"id": "m", "match": {"equals": "m"}, "input": 0, "window": 32_000}
    shop = {"id": "s", "name": "S", "api_pattern": "https://shop", "models": [model]}
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"date": "2026-11-22", "source": "a test", "providers": [shop]}))
    settings = PriceSettings(price_list=str(path))
    assert 32_000 == find_pricing(settings, "shop.test", "m").window
    assert None is find_pricing(settings, OPEN_AI_HOST, "gpt-5").window


@as_one_test
@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param("localhost", "qwen3-coder", 32_768, id="by the model"),
        pytest.param("127.0.0.1", "gpt-5", 9_000, id="by the host"),
        pytest.param("127.0.0.1", None, 9_000, id="by the host alone"),
        pytest.param("localhost", "gpt-5", 400_000, id="neither"),
        pytest.param(None, None, None, id="nothing is known"),
    ],
)
def test_what_a_user_says_of_windows_comes_first(
    host: str | None, model: str | None, expected: int | None
) -> None:
    windows = (OwnWindow(model="Qwen3*", tokens=32_768), OwnWindow(host="127.*", tokens=9_000))
    settings = PriceSettings(windows=windows)
    assert expected == find_pricing(settings, host, model).window


@as_one_test
@pytest.mark.parametrize(
    ("tokens", "window", "counted", "expected"),
    [
        pytest.param(60_000, 100_000, False, True, id="estimated, three fifths"),
        pytest.param(60_001, 100_000, False, False, id="estimated, and more"),
        pytest.param(66_666, 100_000, True, True, id="counted, two thirds"),
        pytest.param(66_667, 100_000, True, False, id="counted, and more"),
        pytest.param(1e9, None, False, True, id="a window that is not known"),
        pytest.param(0, 1, False, True, id="nothing"),
    ],
)
def test_a_prompt_fits_that_leaves_room_for_the_answer(
    tokens: float, window: int | None, counted: bool, expected: bool
) -> None:
    assert expected == fits_window(tokens, window, counted=counted)
