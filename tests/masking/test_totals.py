"""Totals of replayed requests: what is added, and what is the worst of all."""

from dataclasses import replace

import pytest

from addon.replay.totals import BilledPrice, ConversationTotals, Totals, add_all
from masking.accounting.cost import Bill
from masking.accounting.worst_bill import WorstBill, find_worst_bill
from tests.replays import Talk, add_up, replayed

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
    assert find_worst_bill(paid, whole) == totals.worst


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
