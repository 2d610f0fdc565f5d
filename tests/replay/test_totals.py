"""Totals of replayed requests: what is added, and what is the worst of all."""

import dataclasses
from dataclasses import replace

import pytest

from addon.replay.compare import Comparison, compare
from addon.replay.replay import ReplayedRequest, ReplaySettings
from addon.replay.totals import BilledPrice, ConversationTotals, Totals, add_all, summarize
from masking.accounting.cost import Bill, WorstBill, worst_bill
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.replays import Talk, add_up, replayed
from tests.sessions import grow, work

ONE = replayed(Talk(turns=8, model="gpt-4o"), (0.1, 1.25))
OTHER = replayed(Talk(turns=5, model="nobody's"), (0.1, 1.25))


def test_a_conversation_comes_to_the_sums_of_its_requests() -> None:
    totals, costs = add_up(ONE).totals, [request.entry.cost for request in ONE.chosen]
    assert (9, 3) == (totals.requests, totals.window_turns)
    assert sum(request.sizes.masked for request in ONE.chosen) == totals.masked_tool_results
    assert sum(cost.after.cost for cost in costs) == pytest.approx(totals.after.cost)
    assert sum(cost.before.dollars or 0.0 for cost in costs) == pytest.approx(totals.before.dollars)
    paid, whole = ([*map(float, bills)] for bills in zip(
        *((cost.after.cost, cost.before.cost) for cost in costs), strict=True
    ))  # fmt: skip
    assert worst_bill(paid, whole) == totals.worst


def test_dollars_are_known_if_those_of_all_are() -> None:
    one, other = add_up(ONE).totals, add_up(OTHER).totals
    assert one.after.dollars is not None
    assert (one + one).after.dollars == 2 * one.after.dollars
    assert None is (one + other).after.dollars is (other + one).after.dollars
    assert (one + other).after.cost == one.after.cost + other.after.cost


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
    nothing = Bill(0.0, 0.0, 0.0, 0.0)
    requests = tuple(
        replace(
            request,
            entry=replace(
                request.entry, cost=replace(request.entry.cost, before=nothing, after=nothing)
            ),
        )
        for request in ONE.chosen
    )
    assert None is add_up(replace(ONE, chosen=requests)).totals.worst


def test_no_conversations_come_to_nothing() -> None:
    assert Totals() == add_all([]) == add_all([ConversationTotals("none", Totals())])


def counted(request: ReplayedRequest, before: float, after: float) -> ReplayedRequest:
    """Return a request whose prompt came to so many tokens at the provider, all and masked."""
    cost = request.entry.cost
    bills = [bill._replace(prompt=n) for bill, n in ((cost.before, before), (cost.after, after))]
    entry = dataclasses.replace(
        request.entry, cost=dataclasses.replace(cost, before=bills[0], after=bills[1])
    )
    return dataclasses.replace(request, entry=entry)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    settings = ReplaySettings(policy=MaskPolicy(enabled=True))
    (found,) = compare(grow(work(3)), settings, TokenCounter())
    return found


def test_tokens_are_those_that_are_billed(comparison: Comparison) -> None:
    requests = tuple(counted(request, 100.25, 60.5) for request in comparison.chosen)
    summary = summarize(add_up(dataclasses.replace(comparison, chosen=requests)).totals)
    expected = (round(100.25 * len(requests)), round(60.5 * len(requests)))
    assert expected == (summary.tokens_before, summary.tokens_after)


def test_nothing_cannot_be_summed_up() -> None:
    with pytest.raises(ValueError, match="no requests to sum up"):
        summarize(Totals())
