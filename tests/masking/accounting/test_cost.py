"""What a request cost, and what it would have cost without masking; margins, and the worst bill."""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from masking.accounting import cost as costs
from masking.accounting.bill import NO_MARGIN, NO_MONEY, Margin, Money, TokenKinds, read_margin
from masking.accounting.cost import (
    DEFAULT_SPREAD,
    Basis,
    Cost,
    Counts,
    Estimate,
    Growth,
    PromptCost,
    PromptTokens,
    Rate,
    make_bill,
    update_counts,
)
from masking.accounting.ledger import Ledger, Sent
from masking.accounting.prompt import Prompt, digest_of, read_prompt
from masking.conversation import Piece
from masking.prices import CacheRules, PriceSettings, PriceStep, Pricing, find_pricing
from masking.prices.cache_rules import OPENAI, find_cache_rules
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter
from masking.wire.usage import Usage
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy, rewrite_request
from tests.support.sessions import CHATS, each_of, read_chat
from tests.support.talks import grow, work
from tests.tools.provider.completions import PromptCache
from tests.tools.provider.script import Received, Reply

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
    report = (usage or Usage()).plausible_only()
    sizes = Prompt(before=(Piece(b"", before.tokens),), after=(Piece(b"", after.tokens),))
    counts = update_counts(None, sizes, report.prompt, is_masked=masked)
    return costs.price_request(before, after, counts, report, pricing, last_hit_rate)


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


def amounts(bill: PromptCost) -> tuple[float, float]:
    return bill.prompt, bill.cached


@as_one_test
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
            (10_000, 9_000),
            (6_000, 5_000),
            "simulated",
            id="more than the prompt has is not known",
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


@as_one_test
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
            CLAUDE, Usage(prompt=100, cached=60, written=30, written_long=99), 53.5, id="a slip"
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


@as_one_test
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


@as_one_test
@pytest.mark.parametrize(
    ("usage", "share", "cached"),
    [
        pytest.param(None, 1, 9_000, id="nothing reported"),
        pytest.param(Usage(prompt=6_000, cached=5_000), 1, 9_000, id="as predicted"),
        pytest.param(Usage(prompt=6_000, cached=1_250), 0.25, 2_250, id="a quarter of it"),
        pytest.param(Usage(prompt=6_000, cached=0), 0, 0, id="a cold cache"),
        pytest.param(Usage(prompt=6_000, cached=5_500), 1, 9_500, id="more than predicted"),
    ],
)
def test_the_cache_held_of_the_other_prompt_what_it_held_of_the_one_that_was_sent(
    usage: Usage | None, share: float, cached: float
) -> None:
    cost = spend(usage)
    assert (5_000, share) == (cost.predicted, cost.hit_rate)
    assert (10_000, cached) == amounts(cost.before)


@as_one_test
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


@as_one_test
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


@as_one_test
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


@as_one_test
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
    for prompt, read in ((cost.after, 5_000), (cost.before, 9_000)):
        kinds = TokenKinds(1_000 - 4_000 * (price - 1), read, 4_000 * (price - 1))
        assert kinds == prompt.kinds
        assert [*astuple(kinds.split(prompt.cost, 0.1, 1.25))] == pytest.approx(
            [kinds.uncached, 0.1 * kinds.read, 1.25 * kinds.written]
        )


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
    sizes = Prompt(before=(Piece(b"", tokens),), after=(Piece(b"", tokens),))
    counts = update_counts(None, sizes, tokens, is_masked=True)
    money = make_bill(cost, counts, Usage(), pricing).dollars
    assert (money.before, money.after) == pytest.approx((before or 0.0, after or 0.0))
    assert (before is not None) == bool(money.requests)


def test_masking_that_brings_a_prompt_under_a_price_step_saves_that_too() -> None:
    pricing = dataclasses.replace(UNPRICED, steps=(PriceStep(5_000, 2.0), PriceStep(9_999, 3.0)))
    cost = spend(Usage(prompt=5_000, cached=0), after=PromptTokens(5_000, 0), pricing=pricing)
    assert (10_000, 5_000) == (cost.before.prompt, cost.after.prompt)
    assert (30_000, 5_000) == (cost.before.cost, cost.after.cost)


def test_where_nothing_is_cheaper_every_token_is_a_plain_one() -> None:
    cost = spend(Usage(prompt=6_000, cached=5_000), pricing=UNPRICED)
    assert (10_000, 6_000) == (cost.before.cost, cost.after.cost)


def test_what_is_no_text_makes_no_savings() -> None:
    cost = spend(
        Usage(prompt=42_000), before=PromptTokens(20_000, 0), after=PromptTokens(12_000, 0)
    )
    assert (42_000, 54_000) == (cost.after.prompt, cost.before.prompt)


def test_masking_that_breaks_the_cache_is_a_loss() -> None:
    cost = spend(Usage(prompt=6_000, cached=1_000), after=PromptTokens(6_000, 1_000))
    assert (1_000 + 900, 5_000 + 100) == pytest.approx((cost.before.cost, cost.after.cost))


def test_an_empty_prompt_costs_nothing_and_a_reported_one_what_it_has() -> None:
    empty = PromptTokens(0, 0)
    assert (0, 0) == amounts(spend(None, before=empty, after=empty).after)
    cost = spend(Usage(prompt=50), before=empty, after=empty)
    assert (50, 0, 50) == (cost.after.cost, cost.after.cached, cost.before.cost)


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
    for bill in (cost.before, cost.after):
        assert 0 <= bill.cached <= bill.prompt
        plain = bill.prompt * pricing.factor_at(bill.prompt)
        assert read * plain <= bill.cost * (1 + 1e-9)
        assert bill.cost <= write * plain * (1 + 1e-9)


@given(sides(), sides(), pricings, st.integers(1, 300_000), st.integers(0, 300_000))
def test_the_cache_falls_short_of_both_prompts_in_the_same_proportion(
    before: PromptTokens, after: PromptTokens, pricing: Pricing, prompt: int, cached: int
) -> None:
    usage = Usage(prompt=prompt, cached=cached)
    cost = bill_request(before, after, usage, pricing, masked=True)
    if cached <= cost.predicted and cost.predicted:
        share = cached / cost.predicted
        usage = Usage(prompt=prompt, cached=cost.predicted)
        warm = bill_request(before, after, usage, pricing, masked=True)
        assert cost.before.cached == pytest.approx(share * warm.before.cached)
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


# What masking takes out by a provider's count, where the truth is known.


COUNTER = TokenCounter()


# The scripted provider counts both prompts.


class Bills(NamedTuple):
    """What a session saved, as it was and as it was told."""

    true: float
    told: Money


def play(session: Any, pricing: Pricing, *, is_masked: bool) -> Bills:  # noqa: ANN401 - any session
    """Send a session masked and unmasked to providers that count; `is_masked` is the one told."""
    policy = PricedPolicy(
        True, 4, placeholder_template="[{tool_name}: {original_chars}]", mask_text_parts=True,
        cache_read_ratio=pricing.read, cache_write_ratio=pricing.write, max_loss=1.0,
    )  # fmt: skip
    providers, ledger, true, told = (PromptCache(), PromptCache()), Ledger(), 0.0, NO_MONEY
    for recorded in session.requests():
        if recorded.passed_over is not None:
            continue
        conversation = read_request(recorded.body)
        changed = rewrite_request(conversation, Strategies(schema1=policy))
        usages = [
            count(provider, body)
            for provider, body in zip(
                providers, (conversation.document, json.loads(changed.body)), strict=True
            )
        ]
        true += cost(usages[0], pricing) - cost(usages[1], pricing)
        sent = Sent(
            cache_scope=b"",
            prompt=read_prompt(changed, COUNTER),
            masked=changed.masked,
            usage=usages[is_masked],
            when=recorded.when,
            is_masked=is_masked,
        )
        told += ledger.enter(sent, pricing).bill.tokens
    return Bills(true, told)


def count(provider: PromptCache, body: Mapping[str, Any]) -> Usage:
    found = provider.usage(Received(request=dict(body)), Reply())
    cached = found["prompt_tokens_details"]["cached_tokens"]
    return Usage(prompt=found["prompt_tokens"], cached=cached)


def cost(usage: Usage, pricing: Pricing) -> float:
    prompt, cached = usage.prompt or 0, usage.cached or 0
    return cached * pricing.read + (prompt - cached) * pricing.write


def test_what_the_provider_says_that_it_took_out_is_what_it_saved() -> None:
    (*_, recorded) = grow(work(6)).requests()
    policy = PricedPolicy(True, 2, placeholder_template="[{tool_name}]")
    changed = rewrite_request(read_request(recorded.body), Strategies(schema1=policy))
    sent = Sent(
        cache_scope=b"",
        prompt=read_prompt(changed, COUNTER),
        masked=changed.masked,
        usage=Usage(prompt=6_000),
        when=NOON,
        is_masked=True,
        removed=1_234,
    )
    found = Ledger().enter(sent, UNPRICED).cost
    assert (7_234, 6_000) == (found.before.prompt, found.after.prompt)
    assert NO_MARGIN == found.margin


@pytest.mark.parametrize("is_masked", [True, False], ids=["live", "a recording"])
@pytest.mark.parametrize("pricing", [Pricing(0.5, 1.0), Pricing(0.1, 1.0)], ids=["half", "tenth"])
@each_of("recording", CHATS)
def test_what_was_truly_saved_is_within_the_margin(
    recording: Path, pricing: Pricing, is_masked: bool
) -> None:
    true, money = play(read_chat(recording), pricing, is_masked=is_masked)
    assert abs(true - money.saved) <= money.error


@pytest.mark.parametrize("is_masked", [True, False], ids=["live", "a recording"])
def test_the_margin_is_a_small_part_of_what_was_saved(is_masked: bool) -> None:
    true, money = play(grow(work(40)), Pricing(0.1, 1.0), is_masked=is_masked)
    assert 0 < money.error < true / 4


# What is told from what.


def prompt(before: Sequence[int], after: Sequence[int] | None = None) -> Prompt:
    pieces = [Piece(digest_of(at), tokens) for at, tokens in enumerate(before)]
    masked = [
        piece if piece.tokens == tokens else Piece(digest_of("masked"), tokens)
        for piece, tokens in zip(pieces, after or before, strict=True)
    ]
    return Prompt(before=tuple(pieces), after=tuple(masked))


def follow(*requests: tuple[Prompt, int | None], is_masked: bool = True) -> Counts:
    counts: Counts | None = None
    for sent, counted in requests:
        counts = update_counts(counts, sent, counted, is_masked=is_masked)
    assert counts is not None
    return counts


def line(times: int, message: float = 10.0, value: float = 1.2) -> Growth:
    growth = Growth()
    for number in range(1, times + 1):
        ours = 100 * number
        growth = growth.add(2, ours, 2 * message + value * ours)
    return growth


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        pytest.param(Growth(), None, id="nothing counted"),
        pytest.param(line(1, 0.0), Rate(1.2), id="too seldom: the mean, and the default"),
        pytest.param(line(5), Rate(1.2, 10.0, 0.0), id="a line"),
        pytest.param(line(5, message=-5), Rate(1.1667, 0.0, 0.0195), id="no less than nothing"),
    ],
)
def test_a_line_is_found(growth: Growth, expected: Rate | None) -> None:
    found = growth.fit()
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert expected[:2] == pytest.approx(found[:2], abs=1e-3)
        if growth.times < 3:
            assert DEFAULT_SPREAD == found.spread


def test_texts_of_one_size_tell_a_mean() -> None:
    growth = Growth()
    for theirs in (110, 120, 130):
        growth = growth.add(2, 100, theirs)
    found = growth.fit()
    assert found is not None
    assert (1.2, 0.0) == (found.value, found.message)
    assert found.spread == pytest.approx((200 / 3) ** 0.5 / 120)


def test_texts_of_one_size_leave_open_what_a_message_takes() -> None:
    """Two messages of 30 tokens may be in it, or none; another size would tell."""
    alike, different = Growth(), line(5)
    for _ in range(5):
        alike = alike.add(2, 100, 2 * 10 + 1.2 * 100)
    doubts = [found.doubt * found.value for found in (alike.fit(), different.fit()) if found]
    assert [2 * 30 / 100, 0.0] == pytest.approx(doubts, abs=0.03)


def test_the_doubt_of_a_line_is_the_standard_error_of_its_slope() -> None:
    """By the textbook: of five pairs two are used up by the line itself."""
    pairs = [
        (1, 100, 150.0),
        (2, 900, 1_110.0),
        (1, 2_500, 3_000.0),
        (3, 400, 560.0),
        (1, 30, 50.0),
    ]
    growth = Growth()
    for messages, ours, theirs in pairs:
        growth = growth.add(messages, ours, theirs)
    found = growth.fit()
    assert found is not None
    left = sum((t - found.message * m - found.value * o) ** 2 / o for m, o, t in pairs)
    ours = sum(o for _, o, _ in pairs)
    spared = ours - sum(m for m, _, _ in pairs) ** 2 / sum(m * m / o for m, o, _ in pairs)
    assert (left / 3 / spared) ** 0.5 == pytest.approx(found.doubt * found.value, rel=0.01)


def test_a_million_messages_of_nothing_have_a_rate() -> None:
    growth = Growth()
    for _ in range(3):
        growth = growth.add(1_000_000, 1, 7)
    found = growth.fit()
    assert found is not None
    assert isfinite(found.doubt)


def test_what_every_request_has_alike_is_within_the_margin() -> None:
    """The provider counts 20 tokens for each message, and one for each of ours."""
    sizes = [600, *(100,) * 20]
    grown = [
        (prompt(sizes[:n]), sum(sizes[:n]) + 20 * n, prompt(sizes[:n], [600, *(10,) * (n - 1)]))
        for n in range(2, len(sizes), 2)
    ]
    counts: Counts | None = None
    for _, counted, both in grown:
        counts = update_counts(counts, both, counted, is_masked=False)
    assert counts is not None
    true = sum(sizes[1 : len(grown[-1][0].before)]) - 10 * (len(grown[-1][0].before) - 1)
    assert abs(true - counts.difference.tokens) < counts.difference.error < true


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(0, 5, id="nothing new"),
        pytest.param(100, 0, id="no growth"),
        pytest.param(100, -4, id="a count that shrinks"),
        pytest.param(10, 9_000, id="an image"),
    ],
)
def test_what_is_no_text_tells_nothing(ours: int, theirs: float) -> None:
    assert Growth() == Growth().add(2, ours, theirs)


def test_what_is_masked_is_taken_at_the_rate_of_what_was_counted() -> None:
    sizes = [100, 50, 400, 50, 300, 50, 500]
    counted = [sum(sizes[: 2 * n + 1]) * 2 for n in range(4)]
    grown = [(prompt(sizes[: 2 * n + 1]), counted[n]) for n in range(4)]
    masked = prompt([*sizes, 60, 40], [100, 50, 10, 50, 10, 50, 500, 60, 40])
    counts = follow(*grown, (masked, 2_000))
    assert (390 + 290) * 2 == counts.difference.tokens
    of_placeholders = 20 * 2 * DEFAULT_SPREAD
    assert of_placeholders < counts.difference.error < 1.2 * of_placeholders
    assert 2_000 + 1_360 == counts.other.tokens


def test_without_a_count_the_difference_is_our_own_and_its_error_the_default() -> None:
    counts = follow((prompt([100, 400], [100, 100]), None))
    expected = DEFAULT_SPREAD * (300 + 100)
    assert Estimate(300, expected) == counts.difference
    assert (200, False) == (counts.sent, counts.is_counted)


def test_a_recording_is_less_what_masking_takes_out_and_never_less_than_nothing() -> None:
    counts = follow((prompt([100, 400], [100, 100]), 1_000), is_masked=False)
    assert 1_000 - 300 * 1.5 == counts.other.tokens
    tiny = replace(counts, difference=Estimate(2_000.0))
    assert 0 == tiny.other.tokens


def test_a_request_that_was_sent_otherwise_begins_anew() -> None:
    first = update_counts(None, prompt([100]), 100, is_masked=True)
    assert update_counts(first, prompt([100, 50]), 150, is_masked=False).last is None


@pytest.mark.parametrize(
    ("second", "times"),
    [
        pytest.param((prompt([100, 50]), 150), 1, id="it grew"),
        pytest.param((prompt([100, 50]), None), 0, id="not counted"),
        pytest.param((prompt([100, 50], [60, 50]), 110), 0, id="masked as well"),
    ],
)
def test_only_what_is_new_makes_a_count_grow(second: tuple[Prompt, int | None], times: int) -> None:
    assert times == follow((prompt([100]), 100), second).growth.times


def test_a_conversation_that_was_not_counted_before_tells_nothing() -> None:
    assert 0 == follow((prompt([100]), None), (prompt([100, 50]), 150)).growth.times


def prefix(tokens: int, pieces: int) -> PromptTokens:
    return PromptTokens(10_000, tokens, pieces=pieces)


def test_a_prefix_is_as_long_as_the_prompt_that_is_known() -> None:
    counts = follow((prompt([1_000]), 1_500), (prompt([1_000, 500]), 2_100))
    whole = counts.convert(prefix(1_000, 1), prefix(1_500, 2))
    assert (Estimate(1_500), Estimate(2_100)) == whole
    rate = counts.rate
    assert rate.value == pytest.approx(600 / 500)
    short, _ = counts.convert(prefix(900, 1), prefix(900, 1))
    assert short.tokens == pytest.approx(1_500 - 100 * 1.2)
    assert short.error == pytest.approx(100 * 1.2 * DEFAULT_SPREAD)
    none, _ = counts.convert(prefix(0, 0), prefix(0, 0))
    assert Estimate(0.0) == none


def test_where_only_one_prompt_is_known_a_prefix_is_in_proportion() -> None:
    counts = follow((prompt([1_000], [500]), 600))
    first, other = counts.convert(prefix(250, 1), prefix(750, 1))
    assert 300 == first.tokens
    assert 300 + 500 * 1.2 == pytest.approx(other.tokens)
    mixed = follow((prompt([1_000]), None), (prompt([1_000, 200]), 1_800))
    assert 1_500 == mixed.convert(prefix(1_000, 1), prefix(1_000, 1))[0].tokens


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9_000)), min_size=3, max_size=20))
def test_a_line_is_never_below_zero(pairs: list[tuple[int, int]]) -> None:
    growth = Growth()
    for number, (messages, ours) in enumerate(pairs):
        growth = growth.add(messages, ours, ours * (1 + number % 3))
    found = growth.fit()
    assert found is not None
    assert found.value > 0
    assert found.message >= 0
    assert found.spread >= 0


# Margins of error, and what becomes of them in a sum.


def test_what_recurs_adds_up_and_what_is_chance_evens_out() -> None:
    total = sum([Margin(3.0, 16.0)] * 4, start=NO_MARGIN)
    assert Margin(12.0, 64.0) == total
    assert 12 + 2 * 8 == total.width
    assert 0 == NO_MARGIN.width


@pytest.mark.parametrize("factor", [0.0, 0.5, 3.0])
def test_a_margin_in_another_unit_is_as_wide(factor: float) -> None:
    assert factor * Margin(3.0, 16.0).width == Margin(3.0, 16.0).scale(factor).width


@pytest.mark.parametrize("margin", [Margin(3.0, 16.0), Margin(3.0), Margin(0.0, 16.0), NO_MARGIN])
def test_a_margin_is_read_from_its_width_and_the_part_that_is_chance(margin: Margin) -> None:
    assert margin == read_margin(margin.width, margin.chance)


def test_a_margin_that_was_rounded_is_none_below_0() -> None:
    assert Margin(0.0, 4.0) == read_margin(3.9, 4.0)
