"""What masking takes out by a provider's count, where the truth is known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.recordings.provider.completions import PromptCache
from addon.recordings.provider.received import Received
from addon.recordings.provider.script import Reply
from masking.accounting.cost import (
    DEFAULT_SPREAD,
    Counts,
    Estimate,
    Growth,
    Rate,
    update_counts,
)
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.accounting.prefix_cache import Piece
from masking.accounting.prompt import Prompt, digest_of, read_prompt
from masking.prices import Pricing
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter
from masking.wire.usage import Usage
from tests.priced import PricedPolicy, rewrite_request
from tests.sessions import CHATS, grow, read_chat, work

COUNTER = TokenCounter()


# The scripted provider counts both prompts.


class Bills(NamedTuple):
    """What a session saved, as it was and as it was told."""

    true: float
    entry: Entry


def play(session: Any, pricing: Pricing, *, is_masked: bool) -> Bills:  # noqa: ANN401 - any session
    """Send a session masked and unmasked to providers that count; `is_masked` is the one told."""
    policy = PricedPolicy(
        True, 4, placeholder_template="[{tool_name}: {original_chars}]", mask_text_parts=True,
        cache_read_ratio=pricing.read, cache_write_ratio=pricing.write, max_loss=1.0,
    )  # fmt: skip
    providers, ledger, true = (PromptCache(), PromptCache()), Ledger(), 0.0
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
            seed=b"",
            prompt=read_prompt(changed, COUNTER),
            masked=changed.masked,
            usage=usages[is_masked],
            when=recorded.when,
            is_masked=is_masked,
        )
        entry = ledger.enter(sent, pricing)
    return Bills(true, entry)


def count(provider: PromptCache, body: Mapping[str, Any]) -> Usage:
    found = provider.usage(Received(request=dict(body)), Reply())
    cached = found["prompt_tokens_details"]["cached_tokens"]
    return Usage(prompt=found["prompt_tokens"], cached=cached)


def cost(usage: Usage, pricing: Pricing) -> float:
    prompt, cached = usage.prompt or 0, usage.cached or 0
    return cached * pricing.read + (prompt - cached) * pricing.write


@pytest.mark.parametrize("is_masked", [True, False], ids=["live", "a recording"])
@pytest.mark.parametrize("pricing", [Pricing(0.5, 1.0), Pricing(0.1, 1.0)], ids=["half", "tenth"])
@pytest.mark.parametrize("recording", CHATS, ids=lambda path: path.stem)
def test_what_was_truly_saved_is_within_the_margin(
    recording: Path, pricing: Pricing, is_masked: bool
) -> None:
    true, entry = play(read_chat(recording), pricing, is_masked=is_masked)
    assert abs(true - entry.total.tokens) <= entry.total.margin.width


@pytest.mark.parametrize("is_masked", [True, False], ids=["live", "a recording"])
def test_the_margin_is_a_small_part_of_what_was_saved(is_masked: bool) -> None:
    true, entry = play(grow(work(40)), Pricing(0.1, 1.0), is_masked=is_masked)
    assert 0 < entry.total.margin.width < true / 4


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


def test_a_prefix_is_as_long_as_the_prompt_that_is_known() -> None:
    counts = follow((prompt([1_000]), 1_500), (prompt([1_000, 500]), 2_100))
    whole = counts.convert((1_000, 1), (1_500, 2))
    assert (Estimate(1_500), Estimate(2_100)) == whole
    rate = counts.rate
    assert rate.value == pytest.approx(600 / 500)
    short, _ = counts.convert((900, 1), (900, 1))
    assert short.tokens == pytest.approx(1_500 - 100 * 1.2)
    assert short.error == pytest.approx(100 * 1.2 * DEFAULT_SPREAD)
    none, _ = counts.convert((0, 0), (0, 0))
    assert Estimate(0.0) == none


def test_where_only_one_prompt_is_known_a_prefix_is_in_proportion() -> None:
    counts = follow((prompt([1_000], [500]), 600))
    first, other = counts.convert((250, 1), (750, 1))
    assert 300 == first.tokens
    assert 300 + 500 * 1.2 == pytest.approx(other.tokens)
    mixed = follow((prompt([1_000]), None), (prompt([1_000, 200]), 1_800))
    assert 1_500 == mixed.convert((1_000, 1), (1_000, 1))[0].tokens


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
