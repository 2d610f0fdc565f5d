from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.analysis.ledger import Ledger, Sent
from masking.analysis.prices import PLAIN, Ratios
from masking.analysis.prompt import Prompt
from masking.analysis.simulate import Piece, find_rules
from masking.analysis.terms import Source, Terms, apply_terms, find_terms
from masking.config import CachePricing
from masking.usage import Usage
from tests.builders import MASK_ALL

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
OPEN_AI = ("api.openai.com", "gpt-4o")
LONG = "gpt-4o" + "x" * 300


@pytest.mark.parametrize(
    ("pricing", "host", "model", "expected"),
    [
        pytest.param("auto", *OPEN_AI, ((0.5, 1), "price list", True), id="listed: the list's"),
        pytest.param("none", *OPEN_AI, ((0.5, 1), "price list", True), id="none: the list's, too"),
        pytest.param((0.2, 3.0), *OPEN_AI, ((0.2, 3), "config", True), id="configured: those"),
        pytest.param("auto", "localhost", "gpt-4o", (PLAIN, None, False), id="an unlisted host"),
        pytest.param("none", "localhost", "gpt-4o", (PLAIN, None, False), id="none, unlisted"),
        pytest.param(
            (0.2, 1.0), "localhost", "m", ((0.2, 1), "config", False), id="configured, unlisted"
        ),
        pytest.param("auto", "api.openai.com", "m", (PLAIN, None, False), id="an unlisted model"),
        pytest.param("auto", "api.openai.com", None, (PLAIN, None, False), id="no model"),
        pytest.param("auto", "api.openai.com", "", (PLAIN, None, False), id="an empty model"),
        pytest.param("auto", "", "gpt-4o", (PLAIN, None, False), id="an empty host is none known"),
        pytest.param(
            "auto",
            None,
            "claude-sonnet-4-20250514",
            ((0.1, 1.25), "price list", True),
            id="no host",
        ),
        pytest.param("auto", None, "m", (PLAIN, None, False), id="no host, and a model of nobody"),
        pytest.param("auto", None, None, (PLAIN, None, False), id="neither"),
        pytest.param("auto", None, LONG, (PLAIN, None, False), id="a model's name without end"),
        pytest.param((0.2, 1.0), LONG, "gpt-4o", ((0.2, 1), "config", False), id="a long host"),
    ],
)
def test_what_is_billed_is_configured_or_listed_or_plain(
    pricing: CachePricing,
    host: str | None,
    model: str | None,
    expected: tuple[tuple[float, float], Source | None, bool],
) -> None:
    terms = find_terms(pricing, host, model)
    assert expected == (terms.ratios, terms.source, terms.price is not None)


@pytest.mark.parametrize(
    ("host", "model", "provider"),
    [
        pytest.param(*OPEN_AI, "openai", id="OpenAI"),
        pytest.param("api.anthropic.com", "claude-sonnet-4-20250514", "anthropic", id="Anthropic"),
        pytest.param(None, "deepseek-chat", "deepseek", id="DeepSeek, by the model's name"),
        pytest.param("localhost", "deepseek-chat", None, id="nobody that is known"),
    ],
)
@pytest.mark.parametrize("pricing", ["auto", (0.5, 1.0)], ids=["listed", "configured"])
def test_the_caches_rules_are_the_providers(
    pricing: CachePricing, host: str | None, model: str, provider: str | None
) -> None:
    assert find_rules(provider) == find_terms(pricing, host, model).rules


@pytest.mark.parametrize(
    ("pricing", "terms", "expected"),
    [
        pytest.param("none", Terms(ratios=Ratios(0.1, 1.25)), PLAIN, id="none: it slides"),
        pytest.param("auto", Terms(ratios=Ratios(0.1, 1.25)), (0.1, 1.25), id="auto: as billed"),
        pytest.param("auto", Terms(), PLAIN, id="auto, and nothing known: it slides"),
        pytest.param((0.3, 1.0), Terms(ratios=Ratios(0.3, 1)), (0.3, 1), id="as configured"),
    ],
)
def test_the_boundary_is_drawn_by_what_is_billed_unless_it_is_to_slide(
    pricing: CachePricing, terms: Terms, expected: tuple[float, float]
) -> None:
    policy = apply_terms(MASK_ALL, pricing, terms)
    assert expected == (policy.cache_read_ratio, policy.cache_write_ratio)
    assert (expected == PLAIN) == policy.slides
    assert MASK_ALL == apply_terms(policy, "none", terms)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("api.openai.com", 0.0025, id="a price that is known"),
        pytest.param("localhost", None, id="none that is known"),
    ],
)
def test_dollars_are_never_made_up(host: str, expected: float | None) -> None:
    dollars = find_terms("auto", host, "gpt-4o").in_dollars(1_000, 5_000, NOON)
    assert dollars == (None if expected is None else pytest.approx(expected))


pricings: st.SearchStrategy[CachePricing] = st.sampled_from(["none", "auto", (0.1, 1.25)])
hosts = st.sampled_from([None, "api.openai.com", "API.openai.com", "api.anthropic.com", "x"])
models = st.sampled_from([None, "gpt-4o", "claude-sonnet-4-20250514", "grok-4", "m", LONG])
counts = st.none() | st.integers(0, 3_000)
PROMPT = Prompt(before=(Piece(b"b" * 16, 2_000),), after=(Piece(b"a" * 16, 1_500),))


@given(
    pricings, hosts, models, st.lists(st.builds(Usage, prompt=counts, cached=counts), max_size=3)
)
def test_whatever_is_answered_the_terms_stay_the_same(
    pricing: CachePricing, host: str | None, model: str | None, answers: list[Usage]
) -> None:
    terms = find_terms(pricing, host, model)
    ledger = Ledger()
    for usage in answers:
        sent = Sent(
            seed=b"s", prompt=PROMPT, masked=frozenset(), usage=usage, when=NOON, is_masked=True
        )
        ledger.enter(sent, terms)
    assert terms == find_terms(pricing, host, model)
    assert 0 < terms.ratios.read <= terms.ratios.write
