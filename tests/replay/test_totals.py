"""A session under three policies, what agents lose, and the sums of requests."""

import dataclasses
import json
from dataclasses import replace
from itertools import accumulate

import pytest
from msgspec import structs

from addon.records.words import DOLLARS, INPUT_TOKENS
from addon.replay.numbers import dump_totals
from addon.replay.replay import ReplayedRequest, ReplaySettings
from addon.replay.reread import Rereads
from addon.replay.totals import (
    BilledPrice,
    ConversationTotals,
    Totals,
    WorstBill,
    add_all,
)
from masking.accounting.bill import TokenKinds
from masking.model import ChatMessage
from masking.prices import PriceSettings
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.builders import MASK_ALL, OLD, assistant, policy, result, turn
from tests.support.replays import (
    FREE_OF_CHARGE,
    Comparison,
    Talk,
    add_up,
    billed_anew,
    compare,
    replayed,
)
from tests.support.talks import Talk as SentTalk
from tests.support.talks import grow, work, write_body

# Sums

ONE = replayed(Talk(turns=8, model="gpt-4o"), (0.1, 1.25))
OTHER = replayed(Talk(turns=5, model="nobody's"), (0.1, 1.25))


def test_a_conversation_comes_to_the_sums_of_its_requests() -> None:
    totals, costs = add_up(ONE).totals, [request.entry.cost for request in ONE.chosen]
    assert (9, 3) == (totals.requests, totals.window_turns)
    assert sum(request.sizes.masked for request in ONE.chosen) == totals.masked_tool_results
    assert sum(cost.after.cost for cost in costs) == pytest.approx(totals.bill.tokens.after)
    dollars = sum(2.5e-6 * cost.before.cost for cost in costs)
    assert dollars == pytest.approx(totals.bill.dollars.before)
    paid, whole = ([*map(float, bills)] for bills in zip(
        *((cost.after.cost, cost.before.cost) for cost in costs), strict=True
    ))  # fmt: skip
    sums = zip(accumulate(paid), accumulate(whole), strict=True)
    parts = [(so_far / full, -at) for at, (so_far, full) in enumerate(sums)]
    part, at = max(parts)
    assert WorstBill(part, -at) == totals.worst


def test_dollars_are_known_if_those_of_all_are() -> None:
    one, other = add_up(ONE).totals, add_up(OTHER).totals
    assert (DOLLARS, INPUT_TOKENS) == (one.currency, other.currency)
    assert (one + one).bill.dollars.after == 2 * one.bill.dollars.after
    assert INPUT_TOKENS == (one + other).currency == (other + one).currency
    assert (one + other).bill.tokens == one.bill.tokens + other.bill.tokens
    assert (one + other).bill.unpriced == other.bill.tokens


def test_the_worst_of_all_is_the_first_of_the_highest() -> None:
    found = [
        Totals(worst=worst)
        for worst in (None, WorstBill(1.2, 3), WorstBill(1.2, 7), WorstBill(0.9, 0), None)
    ]
    assert WorstBill(1.2, 3) == sum(found, start=Totals()).worst


def test_prices_are_counted_by_model() -> None:
    counted = dict(add_all([add_up(ONE), add_up(OTHER), add_up(ONE)]).prices)
    prices = {
        model: BilledPrice(model, 0.1, 1.25, "config", entry)
        for model, entry in (("gpt-4o", "gpt-4o of OpenAI"), ("nobody's", None))
    }
    assert {prices["gpt-4o"]: 18, prices["nobody's"]: 6} == counted


def test_what_costs_nothing_has_no_worst_moment() -> None:
    requests = tuple(billed_anew(request, FREE_OF_CHARGE) for request in ONE.chosen)
    assert None is add_up(replace(ONE, chosen=requests)).totals.worst


def test_no_conversations_come_to_nothing() -> None:
    assert Totals() == add_all([]) == add_all([ConversationTotals("none", Totals())])


def counted(request: ReplayedRequest, before: float, after: float) -> ReplayedRequest:
    """Return a request whose prompt came to so many tokens at the provider, all and masked."""
    prompts = {"prompt_before": TokenKinds(before), "prompt_after": TokenKinds(after)}
    return billed_anew(request, structs.replace(request.entry.bill, **prompts))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    settings = ReplaySettings(strategies=Strategies(schema1=MaskPolicy(enabled=True)))
    (found,) = compare(grow(work(3)), settings, TokenCounter())
    return found


def test_tokens_are_those_that_are_billed(comparison: Comparison) -> None:
    requests = tuple(counted(request, 100.25, 60.5) for request in comparison.chosen)
    found = dump_totals(add_up(dataclasses.replace(comparison, chosen=requests)).totals)
    expected = (round(100.25 * len(requests)), round(60.5 * len(requests)))
    assert expected == (found["tokens_before"], found["tokens_after"])


# Three policies

COUNTER = TokenCounter()
SHIPPED = MaskPolicy(True, 8, skip_if_not_shorter=True, mask_text_parts=True)
FIRST_READ = "the line that is replaced in the end\n"


def edit(line: str) -> ChatMessage:
    arguments = json.dumps({"path": "src/first_read.py", "old": line, "new": "pass"})
    return assistant(
        {"id": "edit", "type": "function", "function": {"name": "edit", "arguments": arguments}}
    )


def edits_what_it_read(turns: int) -> list[ChatMessage]:
    """A file is read, other things are done in so many turns, and a line of it is replaced."""
    others = [message for n in range(turns) for message in turn(f"c{n}", f"{n} {OLD * 20}")]
    opening: ChatMessage = {"role": "user", "content": "Fix it."}
    return [opening, *turn("read", FIRST_READ + OLD * 20), *others, edit(FIRST_READ)]


@pytest.mark.parametrize(
    ("window", "quotes"),
    [
        pytest.param(2, (1, 1), id="out of the window"),
        pytest.param(30, (0, 0), id="in the window"),
    ],
)
def test_a_quote_is_counted_under_both_policies(window: int, quotes: tuple[int, int]) -> None:
    settings = ReplaySettings(
        strategies=Strategies(schema1=policy(MASK_ALL, window_turns=window)),
        price_settings=PriceSettings((0.5, 1.0)),
    )
    [found] = compare(grow([*edits_what_it_read(20), result("edit", "ok")]), settings, COUNTER)
    assert quotes == (found.sliding_rereads.quoted, found.chosen_rereads.quoted)
    total = dump_totals(add_all(map(add_up, [found, found])))
    assert (2 * quotes[0], 2 * quotes[1]) == (total["quotes_sliding"], total["quotes"])
    assert 2 * found.chosen_rereads.calls == total["calls"]
    assert 2 * found.chosen_rereads.either == total["rereads"]
    assert 2 * found.sliding_rereads.either == total["rereads_sliding"]


def sum_of(found: list[Comparison]) -> Rereads:
    return sum((each.chosen_rereads for each in found), start=Rereads())


def test_what_another_strategy_hides_counts_as_well() -> None:
    session = grow([*edits_what_it_read(20), result("edit", "ok")])
    off = policy(MASK_ALL, enabled=False)
    small = ReductionOptions(enabled=True, max_input_chars=20_000)
    reduced = ReplaySettings(strategies=Strategies(schema1=off, reduction=small))
    assert Rereads(calls=22) == sum_of(
        compare(session, ReplaySettings(strategies=Strategies(schema1=off)), COUNTER)
    )
    assert 1 == sum_of(compare(session, reduced, COUNTER)).quoted


def test_what_is_shown_again_does_not_count() -> None:
    """After a history was taken back the same result is in the window again."""
    settings = ReplaySettings(
        strategies=Strategies(schema1=policy(MASK_ALL, window_turns=2)),
        price_settings=PriceSettings((1.0, 1.0)),
    )
    messages = edits_what_it_read(20)
    long, short = messages[:-1], [*messages[:3], messages[-1]]
    bodies = (write_body(long), write_body(short[:-1]), write_body([*short, result("edit", "ok")]))
    assert 0 == sum_of(compare(SentTalk(bodies), settings, COUNTER)).quoted


def test_several_conversations_are_counted_apart() -> None:
    other = [{**message} for message in edits_what_it_read(3)]
    other[0]["content"] = "Do something else."
    one, two = (
        grow([*messages, result("edit", "ok")]).bodies
        for messages in (edits_what_it_read(20), other)
    )
    settings = ReplaySettings(
        strategies=Strategies(schema1=policy(MASK_ALL, window_turns=4)),
        price_settings=PriceSettings((1.0, 1.0)),
    )
    found = compare(SentTalk((*one, *two)), settings, COUNTER)
    assert [1, 0] == [each.chosen_rereads.quoted for each in found]
