"""The moves of a boundary: what each took out, what it cost, and when it has paid off."""

import dataclasses
from itertools import accumulate

import pytest

from addon.records.words import DOLLARS, INPUT_TOKENS, Currency
from addon.replay.replay import ReplayedRequest
from addon.replay.report.page import find_moves
from masking.accounting.cost import price_move
from masking.prices import CachePricing
from masking.wire.usage import Usage
from tests.support.builders import policy
from tests.support.replays import POLICY, Talk, replayed


def test_moves_are_reported_where_more_is_masked_than_before() -> None:
    requests = replayed(Talk()).chosen
    masked = [sum(reason == "masked" for reason in request.reasons) for request in requests]
    expected = [
        (place, after - before)
        for place, (before, after) in enumerate(zip([0, *masked], masked, strict=False))
        if after > before
    ]
    moves = find_moves(requests, INPUT_TOKENS)
    assert len(moves) > 1
    assert expected == [(move.request, move.results) for move in moves]


@pytest.mark.parametrize("currency", [INPUT_TOKENS, DOLLARS])
@pytest.mark.parametrize("pricing", [(0.5, 1.0), (0.1, 1.25), "none", (1.0, 1.0)])
def test_the_nets_of_all_moves_are_what_was_saved(
    currency: Currency, pricing: CachePricing
) -> None:
    requests = replayed(Talk(), pricing).chosen
    saved = sum(currency.choose(request.entry.bill).saved for request in requests)
    assert saved == pytest.approx(sum(move.net for move in find_moves(requests, currency)))


def test_a_moves_price_is_what_writing_anew_costs_beyond_reading() -> None:
    requests = replayed(Talk(), (0.4, 1.25)).chosen
    move, *_ = find_moves(requests, INPUT_TOKENS)
    before, after = (requests[place].entry.cost for place in (move.request - 1, move.request))
    price = requests[move.request].entry.move
    assert price is not None
    uncached = before.after.prompt - after.after.cached
    assert after.before.prompt - after.after.prompt == price.removed == move.removed
    assert uncached > price.removed
    assert move.price == price.price
    assert (1.25 - 0.4) * (uncached - price.removed) == pytest.approx(price.price, abs=128)


def test_the_ledger_prices_a_move_from_the_bill_before_it() -> None:
    requests = replayed(Talk(), (0.4, 1.25)).chosen
    prices = {move.request: move.price for move in find_moves(requests, INPUT_TOKENS)}
    assert any(prices.values())
    costs = [None, *(request.entry.cost for request in requests)]
    assert prices == {
        at: price_move(costs[at], request.entry.cost, request.pricing).price
        for at, request in enumerate(requests)
        if request.entry.move is not None
    }


def test_without_the_move_that_request_would_have_cost_its_price_less() -> None:
    """What was to be masked would have been read from the cache, and the new part written."""
    requests = replayed(Talk(), (0.4, 1.25)).chosen
    move, *_ = find_moves(requests, INPUT_TOKENS)
    cost = requests[move.request].entry.cost
    unmoved = 0.4 * cost.before.cached + 1.25 * (cost.before.prompt - cost.before.cached)
    moved = cost.after.cost
    assert unmoved + move.price - 0.4 * move.removed == pytest.approx(moved)


def test_a_move_has_paid_off_when_it_has_saved_its_price() -> None:
    requests = replayed(Talk(), (0.5, 1.0)).chosen
    move, *later = find_moves(requests, INPUT_TOKENS)
    assert move.repaid_at is not None
    assert later
    saved = [request.entry.bill.tokens.saved for request in requests[: later[0].request]]
    expected = next(n for n, net in enumerate(accumulate(saved)) if n >= move.request and net >= 0)
    assert expected == move.repaid_at
    assert move.net > 0


def test_a_move_that_has_not_paid_off_says_so() -> None:
    move = find_moves(replayed(Talk(), "none").chosen, INPUT_TOKENS)[-1]
    assert move.net < 0
    assert move.repaid_at is None


def test_what_no_cache_held_is_no_price_of_a_move() -> None:
    nothing_cached = Talk(usage=Usage(prompt=8_000, cached=0))
    moves = find_moves(replayed(nothing_cached).chosen, INPUT_TOKENS)
    assert moves
    assert {0.0} == {move.price for move in moves}


def test_a_first_request_that_is_masked_moves_for_nothing() -> None:
    requests = replayed(Talk()).chosen[-1:]
    entry = requests[0].entry
    price = price_move(None, entry.cost, requests[0].pricing)
    entry = dataclasses.replace(entry, move=price)
    first: ReplayedRequest = dataclasses.replace(requests[0], entry=entry)
    (move,) = find_moves([first], INPUT_TOKENS)
    assert (0, sum(r == "masked" for r in first.reasons)) == (move.request, move.results)
    assert (0.0, 0) == (move.price, move.repaid_at)


def test_placeholders_that_are_longer_still_have_a_share() -> None:
    longer = policy(POLICY, placeholder_template="longer " * 900, skip_if_not_shorter=False)
    moves = find_moves(replayed(Talk(turns=6), "none", longer).chosen, INPUT_TOKENS)
    assert moves
    assert all(move.removed < 0 and move.net < 0 for move in moves)
