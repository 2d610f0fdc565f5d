import dataclasses
import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting import cost as costs
from masking.accounting.cost import Basis, Bill, Cost, PromptTokens, update_counts
from masking.accounting.prefix_cache import Piece
from masking.accounting.prompt import Prompt
from masking.prices import (
    OPENAI,
    CacheRules,
    PriceSettings,
    PriceStep,
    Pricing,
    find_cache_rules,
    find_pricing,
)
from masking.wire.usage import Usage

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
EXACT = CacheRules(minimum=1, block=1)
"""A cache that keeps every token."""

TENTH = Pricing(0.1, 1.0, cache=EXACT)
WRITTEN = Pricing(0.1, 1.25, cache=EXACT)
UNPRICED = Pricing(1.0, 1.0)
GPT_4O = find_pricing(PriceSettings(), "api.openai.com", "gpt-4o")
GEMINI = find_pricing(PriceSettings(), "aiplatform.googleapis.com", "gemini-2.5-pro")

BEFORE, AFTER = PromptTokens(10_000, 9_000), PromptTokens(6_000, 5_000)


def bill_request(
    before: PromptTokens,
    after: PromptTokens,
    usage: Usage | None,
    pricing: Pricing,
    *,
    masked: bool,
    last_hit_rate: float = 1.0,
) -> Cost:
    """Bill a request of a conversation of which nothing was counted before."""
    report = (usage or Usage()).without_slips()
    sizes = Prompt(before=(Piece(b"", before.tokens),), after=(Piece(b"", after.tokens),))
    counts = update_counts(None, sizes, report.prompt, is_masked=masked)
    return costs.bill_request(before, after, counts, report, pricing, last_hit_rate)


def spend(
    usage: Usage | None,
    *,
    before: PromptTokens = BEFORE,
    after: PromptTokens = AFTER,
    pricing: Pricing = TENTH,
    masked: bool = True,
    last_hit_rate: float = 1.0,
) -> Cost:
    return bill_request(before, after, usage, pricing, masked=masked, last_hit_rate=last_hit_rate)


def amounts(bill: Bill) -> tuple[float, float]:
    return bill.prompt, bill.cached


@pytest.mark.parametrize(
    ("usage", "before", "after", "basis"),
    [
        pytest.param(
            None, (10_000, 9_000), (6_000, 5_000), "simulated", id="nothing reported: as predicted"
        ),
        pytest.param(
            Usage(completion=7),
            (10_000, 9_000),
            (6_000, 5_000),
            "simulated",
            id="no prompt reported",
        ),
        pytest.param(
            Usage(prompt=0, completion=7),
            (10_000, 9_000),
            (6_000, 5_000),
            "simulated",
            id="a prompt of 0 is not known",
        ),
        pytest.param(
            Usage(prompt=6_000, cached=5_000),
            (10_000, 9_000),
            (6_000, 5_000),
            "reported",
            id="as predicted",
        ),
        pytest.param(
            Usage(prompt=3_000, cached=2_500),
            (5_000, 4_500),
            (3_000, 2_500),
            "reported",
            id="tokens of half the estimate",
        ),
        pytest.param(
            Usage(prompt=3_000),
            (5_000, 4_500),
            (3_000, 2_500),
            "simulated",
            id="half the estimate, and no word of the cache",
        ),
        pytest.param(
            Usage(prompt=6_000, cached=0), (10_000, 0), (6_000, 0), "reported", id="a cold cache"
        ),
        pytest.param(
            Usage(prompt=6_000, cached=2_500),
            (10_000, 4_500),
            (6_000, 2_500),
            "reported",
            id="half of what was predicted",
        ),
        pytest.param(
            Usage(prompt=6_000, cached=5_400),
            (10_000, 9_400),
            (6_000, 5_400),
            "reported",
            id="more than was predicted",
        ),
        pytest.param(
            Usage(prompt=6_000, cached=9_000),
            (10_000, 10_000),
            (6_000, 6_000),
            "reported",
            id="more than the prompt has",
        ),
        pytest.param(
            Usage(cached=2_500),
            (10_000, 4_500),
            (6_000, 2_500),
            "reported",
            id="the cache alone reported",
        ),
        pytest.param(
            Usage(prompt=-5, cached=-5),
            (10_000, 9_000),
            (6_000, 5_000),
            "simulated",
            id="counts below 0 are not known",
        ),
        pytest.param(
            Usage(prompt=10**400, cached=10**400, written=10**400),
            (10_000, 9_000),
            (6_000, 5_000),
            "simulated",
            id="counts beyond all measure are not known",
        ),
    ],
)
def test_the_prompt_that_was_sent_is_as_reported_and_the_other_in_proportion(
    usage: Usage | None, before: tuple[float, float], after: tuple[float, float], basis: Basis
) -> None:
    cost = spend(usage)
    assert (before, after, basis) == (amounts(cost.before), amounts(cost.after), cost.basis)
    for bill in (cost.before, cost.after):
        assert bill.cost == pytest.approx(bill.prompt - 0.9 * bill.cached)


CLAUDE = find_pricing(PriceSettings(), "api.anthropic.com", "claude-opus-5", lifetime="5m")
CLAUDE_HOUR = find_pricing(PriceSettings(), "api.anthropic.com", "claude-opus-5", lifetime="1h")


@pytest.mark.parametrize(
    ("pricing", "usage", "expected"),
    [
        pytest.param(CLAUDE, Usage(prompt=100, cached=60, written=40), 56, id="five minutes"),
        pytest.param(
            CLAUDE, Usage(prompt=100, cached=60, written=40, written_long=0), 56, id="no hour"
        ),
        pytest.param(
            CLAUDE, Usage(prompt=100, cached=60, written=40, written_long=40), 86, id="an hour"
        ),
        pytest.param(
            CLAUDE, Usage(prompt=100, cached=60, written=40, written_long=10), 63.5, id="both"
        ),
        pytest.param(CLAUDE_HOUR, Usage(prompt=100, cached=60, written=40), 86, id="as asked for"),
        pytest.param(
            CLAUDE_HOUR,
            Usage(prompt=100, cached=60, written=40, written_long=0),
            56,
            id="asked for an hour, and written for five minutes",
        ),
        pytest.param(
            CLAUDE, Usage(prompt=100, cached=60, written=30, written_long=99), 76, id="a slip"
        ),
        pytest.param(
            CLAUDE, Usage(prompt=100, cached=60, written=0, written_long=0), 46, id="nothing"
        ),
        pytest.param(
            WRITTEN, Usage(prompt=100, cached=60, written=40, written_long=40), 56, id="configured"
        ),
    ],
)
def test_what_is_written_costs_as_much_as_it_is_kept_for(
    pricing: Pricing, usage: Usage, expected: float
) -> None:
    found = spend(usage, before=PromptTokens(100, 60), after=PromptTokens(100, 60), pricing=pricing)
    assert pytest.approx(expected) == found.after.cost


@pytest.mark.parametrize(
    ("writable", "cached", "expected"),
    [
        pytest.param(None, 50, 50 * 0.1 + 50 * 1.25, id="all of it"),
        pytest.param(100, 50, 50 * 0.1 + 50 * 1.25, id="up to a mark at the end"),
        pytest.param(80, 50, 50 * 0.1 + 30 * 1.25 + 20, id="up to a mark before the end"),
        pytest.param(50, 50, 50 * 0.1 + 50, id="nothing beyond what is read"),
        pytest.param(0, 0, 100, id="no mark"),
    ],
)
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked sent", "masked sent"])
def test_what_stands_after_the_last_mark_is_plain(
    writable: int | None, cached: int, expected: float, masked: bool
) -> None:
    prompt = PromptTokens(100, cached, writable=writable)
    found = spend(None, before=prompt, after=prompt, pricing=WRITTEN, masked=masked)
    assert pytest.approx(expected) == found.after.cost
    assert pytest.approx(expected) == found.before.cost


@pytest.mark.parametrize(
    ("usage", "predicted", "share", "warm"),
    [
        pytest.param(None, 5_000, 1, 9_000, id="nothing reported"),
        pytest.param(Usage(prompt=6_000, cached=5_000), 5_000, 1, 9_000, id="as predicted"),
        pytest.param(Usage(prompt=6_000, cached=1_250), 5_000, 0.25, 9_000, id="a quarter of it"),
        pytest.param(Usage(prompt=6_000, cached=0), 5_000, 0, 9_000, id="a cold cache"),
        pytest.param(Usage(prompt=6_000, cached=5_500), 5_000, 1, 9_500, id="more than predicted"),
    ],
)
def test_both_are_shown_what_the_cache_held_and_what_it_would_have_held(
    usage: Usage | None, predicted: int, share: float, warm: float
) -> None:
    cost = spend(usage)
    assert (predicted, share) == (cost.predicted, cost.hit_rate)
    assert (10_000, warm) == amounts(cost.before_warm)
    assert (10_000, warm * share) == amounts(cost.before)


@pytest.mark.parametrize(
    ("last_hit_rate", "reported", "cached"),
    [
        pytest.param(1.0, 0, 9_000, id="the cache has held so far"),
        pytest.param(0.5, 0, 4_500, id="half of it has"),
        pytest.param(0.0, 0, 0, id="it never has"),
        pytest.param(0.5, 300, 4_800, id="something is cached all the same"),
        pytest.param(1.0, None, 9_000, id="nothing reported"),
    ],
)
def test_where_nothing_is_predicted_the_cache_does_as_it_did(
    last_hit_rate: float, reported: int | None, cached: float
) -> None:
    usage = Usage(prompt=6_000, cached=reported)
    cost = spend(usage, after=PromptTokens(6_000, 0), last_hit_rate=last_hit_rate)
    assert (0, last_hit_rate) == (cost.predicted, cost.hit_rate)
    assert (10_000, cached) == amounts(cost.before)


@pytest.mark.parametrize(
    ("common", "reported", "cached"),
    [
        pytest.param((0, 0), 5_500, 9_500, id="beyond all that is masked, as after a restart"),
        pytest.param((0, 0), 4_000, 8_000, id="just up to the end of what is masked"),
        pytest.param((0, 0), 3_999, 3_999, id="not as far, or not by this conversation"),
        pytest.param((0, 0), 0, 0, id="nothing: a cold cache, or a new conversation"),
        pytest.param((1_000, 1_000), 5_500, 9_500, id="beyond it, and a beginning was known"),
        pytest.param((1_000, 1_000), 1_100, 1_100, id="little more than what was known"),
        pytest.param((9_000, 1_000), 5_500, 10_000, id="more was known of the other prompt"),
        pytest.param((9_000, 5_000), 5_500, 9_500, id="as much was known of both"),
    ],
)
def test_what_is_cached_and_was_not_known_is_as_much_of_both_ends(
    common: tuple[int, int], reported: int, cached: float
) -> None:
    before, after = PromptTokens(10_000, common[0], 8_000), PromptTokens(6_000, common[1], 4_000)
    cost = spend(Usage(prompt=6_000, cached=reported), before=before, after=after)
    assert (reported, cached) == (cost.after.cached, cost.before.cached)


def test_of_a_recording_whose_beginning_is_not_known_as_much_of_both_ends_is_new() -> None:
    before, after = PromptTokens(10_000, 0, 8_000), PromptTokens(6_000, 0, 4_000)
    cost = spend(Usage(prompt=10_000, cached=9_500), before=before, after=after, masked=False)
    assert (9_500, 5_500) == (cost.before.cached, cost.after.cached)


@pytest.mark.parametrize(
    ("rules", "common", "prompt", "expected"),
    [
        pytest.param(OPENAI, 1_023, 4_000, 0, id="OpenAI: below the least"),
        pytest.param(OPENAI, 1_024, 4_000, 1_024, id="OpenAI: the least"),
        pytest.param(OPENAI, 1_151, 4_000, 1_024, id="OpenAI: a token short of the next block"),
        pytest.param(OPENAI, 1_152, 4_000, 1_152, id="OpenAI: the next block"),
        pytest.param(OPENAI, 512, 8_000, 1_024, id="OpenAI: the least, by the provider's count"),
        pytest.param(OPENAI, 1_100, 3_000, 0, id="OpenAI: too few, by the provider's count"),
        pytest.param(OPENAI, 4_000, 4_480, 4_480, id="OpenAI: all of it, to the token"),
        pytest.param(find_cache_rules("deepseek"), 127, 4_000, 64, id="DeepSeek: one block"),
    ],
)
def test_a_prediction_is_in_the_providers_tokens_and_blocks(
    rules: CacheRules, common: int, prompt: int, expected: int
) -> None:
    cost = spend(
        Usage(prompt=prompt),
        after=PromptTokens(4_000, common),
        pricing=dataclasses.replace(TENTH, cache=rules),
    )
    assert (expected, expected) == (cost.predicted, cost.after.cached)


@pytest.mark.parametrize(
    ("written", "price"),
    [
        pytest.param(None, 1.25, id="no word of it: all that is not cached is written"),
        pytest.param(0, 1.0, id="nothing is written"),
        pytest.param(500, 1.125, id="half of it is written"),
        pytest.param(1_000, 1.25, id="all of it is written"),
        pytest.param(9_000, 1.25, id="more than there is"),
        pytest.param(-1, 1.25, id="less than nothing is not known"),
    ],
)
def test_what_is_not_cached_costs_what_was_written_of_it(written: int | None, price: float) -> None:
    cost = spend(Usage(prompt=6_000, cached=5_000, written=written), pricing=WRITTEN)
    assert cost.after.cost == pytest.approx(500 + 1_000 * price)
    assert cost.before.cost == pytest.approx(900 + 1_000 * price)


def test_where_all_is_cached_what_the_other_prompt_lacks_is_written() -> None:
    cost = spend(Usage(prompt=6_000, cached=6_000, written=0), pricing=WRITTEN, after=AFTER)
    assert cost.after.cost == pytest.approx(600)
    assert cost.before.cost == pytest.approx(1_000)


@pytest.mark.parametrize(
    ("pricing", "tokens", "before", "after"),
    [
        pytest.param(TENTH, 6_000, None, None, id="no price is known"),
        pytest.param(UNPRICED, 6_000, None, None, id="no discount and no price"),
        pytest.param(GPT_4O, 6_000, 0.025, 0.015, id="a price"),
        pytest.param(GEMINI, 150_000, 0.625, 0.1875, id="a price step between the two"),
    ],
)
def test_dollars_are_known_where_the_price_is(
    pricing: Pricing, tokens: int, before: float | None, after: float | None
) -> None:
    cost = spend(
        Usage(prompt=tokens, cached=0),
        before=PromptTokens(tokens * 5 // 3, 0),
        after=PromptTokens(tokens, 0),
        pricing=pricing,
    )
    assert cost.before.dollars == (before and pytest.approx(before))
    assert cost.after.dollars == (after and pytest.approx(after))
    saved = None if before is None or after is None else pytest.approx(before - after)
    assert cost.saved_dollars == saved


def test_masking_that_brings_a_prompt_under_a_price_step_saves_that_too() -> None:
    pricing = dataclasses.replace(UNPRICED, steps=(PriceStep(5_000, 2.0), PriceStep(9_999, 3.0)))
    cost = spend(Usage(prompt=5_000, cached=0), after=PromptTokens(5_000, 0), pricing=pricing)
    assert (10_000, 5_000) == (cost.before.prompt, cost.after.prompt)
    assert (30_000, 5_000, 25_000) == (cost.before.cost, cost.after.cost, cost.saved)


def test_where_nothing_is_cheaper_every_token_is_a_plain_one() -> None:
    cost = spend(Usage(prompt=6_000, cached=5_000), pricing=UNPRICED)
    assert (10_000, 6_000, 4_000) == (cost.before.cost, cost.after.cost, cost.saved)


def test_what_is_no_text_makes_no_savings() -> None:
    cost = spend(
        Usage(prompt=42_000), before=PromptTokens(20_000, 0), after=PromptTokens(12_000, 0)
    )
    assert (42_000, 54_000) == (cost.after.prompt, cost.before.prompt)


def test_masking_that_breaks_the_cache_is_a_loss() -> None:
    cost = spend(Usage(prompt=6_000, cached=1_000), after=PromptTokens(6_000, 1_000))
    assert cost.saved == pytest.approx((1_000 + 900) - (5_000 + 100))


def test_an_empty_prompt_costs_nothing_and_a_reported_one_what_it_has() -> None:
    empty = PromptTokens(0, 0)
    assert (0, 0) == amounts(spend(None, before=empty, after=empty).after)
    cost = spend(Usage(prompt=50), before=empty, after=empty)
    assert (50, 0, 0) == (cost.after.cost, cost.after.cached, cost.saved)


# Invariants.

sizes = st.integers(1, 200_000)
shares = st.floats(0, 1)
priced = [
    Pricing(read, write, dollars_per_million=2.5)
    for read, write in [(0.5, 1.0), (0.1, 1.0), (0.1, 1.25), (0.25, 1.83), (1.0, 1.0)]
]
rules = st.sampled_from(
    [EXACT, OPENAI, find_cache_rules("deepseek"), find_cache_rules("anthropic")]
)
pricings = st.builds(
    dataclasses.replace,
    st.sampled_from(priced),
    cache=rules,
    steps=st.sampled_from([(), (PriceStep(50_000, 2.0),), (PriceStep(9, 1.5), PriceStep(99, 4.0))]),
)
counts = st.none() | st.integers(0, 300_000) | st.integers(-10, 10) | st.just(10**400)
usages = st.none() | st.builds(Usage, prompt=counts, cached=counts, written=counts)


@st.composite
def sides(draw: st.DrawFn) -> PromptTokens:
    tokens = draw(sizes)
    parts = st.integers(0, tokens) | st.just(0)
    return PromptTokens(tokens, draw(parts), draw(parts))


@given(sides(), usages, pricings, st.booleans(), shares)
def test_where_nothing_was_masked_nothing_is_saved(
    side: PromptTokens, usage: Usage | None, pricing: Pricing, masked: bool, last_hit_rate: float
) -> None:
    cost = bill_request(side, side, usage, pricing, masked=masked, last_hit_rate=last_hit_rate)
    assert 0 == cost.saved
    assert 0 == cost.saved_dollars
    assert cost.before == cost.after


@given(sides(), sides(), usages, pricings, shares)
def test_it_makes_no_difference_which_of_the_two_is_called_masked(
    sent: PromptTokens,
    other: PromptTokens,
    usage: Usage | None,
    pricing: Pricing,
    last_hit_rate: float,
) -> None:
    cost = bill_request(other, sent, usage, pricing, masked=True, last_hit_rate=last_hit_rate)
    turned = bill_request(sent, other, usage, pricing, masked=False, last_hit_rate=last_hit_rate)
    assert (cost.before, cost.after) == (turned.after, turned.before)
    assert cost.saved == -turned.saved
    assert (cost.predicted, cost.hit_rate, cost.basis) == (
        turned.predicted,
        turned.hit_rate,
        turned.basis,
    )


@given(sides(), sides(), usages, pricings, st.booleans(), shares)
def test_bills_stay_within_what_their_tokens_can_cost(
    before: PromptTokens,
    after: PromptTokens,
    usage: Usage | None,
    pricing: Pricing,
    masked: bool,
    last_hit_rate: float,
) -> None:
    cost = bill_request(before, after, usage, pricing, masked=masked, last_hit_rate=last_hit_rate)
    read, write = pricing.ratios
    assert 0 <= cost.hit_rate <= 1
    for bill in (cost.before, cost.before_warm, cost.after):
        assert 0 <= bill.cached <= bill.prompt
        plain = bill.prompt * pricing.find_factor(bill.prompt)
        assert read * plain <= bill.cost * (1 + 1e-9)
        assert bill.cost <= write * plain * (1 + 1e-9)
        assert bill.dollars is not None
        assert bill.dollars == pytest.approx(2.5e-6 * bill.cost)


@given(sides(), sides(), usages, pricings, st.booleans(), shares)
def test_a_cache_that_lost_nothing_is_never_dearer(
    before: PromptTokens,
    after: PromptTokens,
    usage: Usage | None,
    pricing: Pricing,
    masked: bool,
    last_hit_rate: float,
) -> None:
    cost = bill_request(before, after, usage, pricing, masked=masked, last_hit_rate=last_hit_rate)
    assert cost.before_warm.prompt == cost.before.prompt
    assert cost.before_warm.cached >= cost.before.cached * (1 - 1e-9)
    assert cost.before_warm.cost <= cost.before.cost * (1 + 1e-9)


@given(sides(), sides(), pricings, st.integers(1, 300_000), st.integers(0, 300_000))
def test_the_cache_falls_short_of_both_prompts_in_the_same_proportion(
    before: PromptTokens, after: PromptTokens, pricing: Pricing, prompt: int, cached: int
) -> None:
    usage = Usage(prompt=prompt, cached=cached)
    cost = bill_request(before, after, usage, pricing, masked=True)
    if cached <= cost.predicted and cost.predicted:
        share = cached / cost.predicted
        assert cost.before.cached == pytest.approx(share * cost.before_warm.cached)
        assert cost.hit_rate == pytest.approx(cached / cost.predicted)


@given(sides(), sides(), pricings, usages)
def test_a_cold_cache_is_cold_for_both(
    before: PromptTokens, after: PromptTokens, pricing: Pricing, usage: Usage | None
) -> None:
    cold = dataclasses.replace(usage or Usage(), cached=0)
    cost = bill_request(before, after, cold, pricing, masked=True)
    if cost.predicted:
        assert (0, 0) == (cost.before.cached, cost.after.cached)


@given(sides(), sides(), usages, pricings)
def test_the_prompt_that_was_sent_is_billed_as_the_provider_counted_it(
    before: PromptTokens, after: PromptTokens, usage: Usage | None, pricing: Pricing
) -> None:
    cost = bill_request(before, after, usage, pricing, masked=True)
    reported = usage and usage.prompt
    counted = reported if reported and 0 < reported < 10**12 else after.tokens
    assert counted == cost.after.prompt
    assert (cost.before.prompt <= cost.after.prompt) == (before.tokens <= after.tokens)
    if usage is None or usage.cached is None:
        assert ("simulated", cost.predicted) == (cost.basis, cost.after.cached)


@given(st.lists(st.integers(0, 6_000), min_size=2, max_size=5).map(sorted))
def test_the_more_is_cached_the_less_both_cost(cached: list[int]) -> None:
    costs = [spend(Usage(prompt=6_000, cached=count)) for count in cached]
    for less, more in itertools.pairwise(costs):
        assert more.after.cost <= less.after.cost
        assert more.before.cost <= less.before.cost
