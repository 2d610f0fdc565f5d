"""What schedules cost, against the tests' own reckoning and against all schedules there are."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.replay.reread import NEVER
from masking.prices import Pricing
from masking.window import BoundaryPosition, MaskPolicy
from tests.masking.test_boundary import PRICES, conversations, converse
from tests.support.first_behind import find_first_behind
from tests.support.schedules import Conversation, bills, find_edges, masks_of_edges, optimum
from tests.tools.benchmarks.cheapest_schedule import (
    ConversationSizes,
    add_up_bills,
    add_up_everything,
    apply_moves,
    find_cheapest,
)

WINDOW = 2
LOSSES = [0.0, 0.02, 0.05, 0.1, 0.3]

small = st.lists(
    st.tuples(st.integers(16, 100), st.lists(st.integers(0, 2_000), max_size=2)), max_size=7
).map(converse)
prices_of_all = st.sampled_from(PRICES)


def sizes_of(conversation: Conversation, window: int = WINDOW) -> ConversationSizes:
    return ConversationSizes(
        requests=[request.size for request in conversation.requests],
        offsets=[result.offset for result in conversation.results],
        savings=[result.saving for result in conversation.results],
        ripe=first_masked(conversation, find_edges(conversation, window)),
    )


def first_masked(conversation: Conversation, edges: list[int]) -> list[int]:
    requests, results = conversation
    boundaries = [
        BoundaryPosition(edge, r.results) for edge, r in zip(edges, requests, strict=True)
    ]
    turns = [request.turns for request in requests]
    first = find_first_behind(results, boundaries, turns, MaskPolicy())
    return [at if r.saving else NEVER for at, r in zip(first, results, strict=True)]


@given(conversations, prices_of_all, st.data())
def test_bills_are_those_of_the_tests_own_reckoning(
    conversation: Conversation, pricing: Pricing, data: st.DataObject
) -> None:
    limits = find_edges(conversation, WINDOW)
    drawn = data.draw(st.tuples(*(st.integers(0, limit) for limit in limits)))
    edges = [*itertools.accumulate(drawn, max)]
    expected = bills(conversation, masks_of_edges(conversation, edges), pricing)
    sizes = sizes_of(conversation)
    assert pytest.approx(expected) == add_up_bills(
        sizes, first_masked(conversation, edges), pricing
    )
    plain = bills(conversation, masks_of_edges(conversation, [0] * len(edges)), pricing)
    assert pytest.approx(plain) == add_up_everything(sizes, pricing)


@given(conversations, prices_of_all, st.integers(1, 4))
def test_without_a_promise_the_cheapest_is_the_optimum(
    conversation: Conversation, pricing: Pricing, window: int
) -> None:
    sizes = sizes_of(conversation, window)
    moves = find_cheapest(sizes, pricing)
    paid = add_up_bills(sizes, apply_moves(sizes, moves), pricing)
    assert pytest.approx(optimum(conversation, window, pricing)) == paid[-1]


@given(small, prices_of_all, st.sampled_from(LOSSES))
def test_with_a_promise_it_is_the_cheapest_of_all_that_keep_it(
    conversation: Conversation, pricing: Pricing, max_loss: float
) -> None:
    """Of all, those included that move by less than to the edge."""
    edges = find_edges(conversation, WINDOW)
    full = bills(conversation, masks_of_edges(conversation, [0] * len(edges)), pricing)
    schedules = (
        steps
        for steps in itertools.product(*(range(edge + 1) for edge in edges))
        if list(steps) == sorted(steps)
    )
    paid_by_all = (
        bills(conversation, masks_of_edges(conversation, steps), pricing) for steps in schedules
    )
    cheapest = min(paid[-1] for paid in paid_by_all if keeps(paid, full, max_loss))
    sizes = sizes_of(conversation)
    paid = add_up_bills(sizes, apply_moves(sizes, find_cheapest(sizes, pricing, max_loss)), pricing)
    assert pytest.approx(cheapest) == paid[-1]


@given(small, prices_of_all, st.sampled_from(LOSSES), st.sampled_from((0.0, 500.0, 3_000.0)))
def test_it_is_the_cheapest_where_a_move_leaves_little_that_can_be_read(
    conversation: Conversation, pricing: Pricing, max_loss: float, readable: float
) -> None:
    sizes = dataclasses.replace(sizes_of(conversation), readable=readable)
    full = add_up_everything(sizes, pricing)
    paid_by_all = (
        add_up_bills(sizes, apply_moves(sizes, moves), pricing)
        for count in range(len(full) + 1)
        for moves in itertools.combinations(range(len(full)), count)
    )
    cheapest = min(paid[-1] for paid in paid_by_all if keeps(paid, full, max_loss))
    paid = add_up_bills(sizes, apply_moves(sizes, find_cheapest(sizes, pricing, max_loss)), pricing)
    assert pytest.approx(cheapest) == paid[-1]


def keeps(paid: list[float], full: list[float], max_loss: float) -> bool:
    return all(
        now <= (1 + max_loss) * whole * (1 + 1e-9) for now, whole in zip(paid, full, strict=True)
    )


@given(conversations, prices_of_all, st.sampled_from(LOSSES))
def test_the_promise_holds_at_every_request(
    conversation: Conversation, pricing: Pricing, max_loss: float
) -> None:
    sizes = sizes_of(conversation)
    paid = add_up_bills(sizes, apply_moves(sizes, find_cheapest(sizes, pricing, max_loss)), pricing)
    assert keeps(paid, add_up_everything(sizes, pricing), max_loss)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param([], [], id="nothing to mask"),
        pytest.param([(20, [0])] * 6, [], id="nothing worth masking"),
        pytest.param([(20, [20_000]), *[(20, [30])] * 20], [3], id="one large result, at once"),
        pytest.param(
            [(20, [20_000]), (20, [300_000]), *[(20, [30])] * 20],
            [4],
            id="the boundary waits for a larger one",
        ),
    ],
)
def test_the_cheapest_moves_when_it_pays(
    turns: list[tuple[int, list[int]]], expected: list[int]
) -> None:
    sizes = sizes_of(converse(turns))
    assert expected == find_cheapest(sizes, Pricing(0.1, 1.0))


def test_a_promise_of_no_loss_forbids_what_costs_at_first() -> None:
    sizes = sizes_of(converse([(20, [5_000])] * 40, opening=20_000))
    pricing = Pricing(0.1, 1.0)
    free, bound = (find_cheapest(sizes, pricing, loss) for loss in (math.inf, 0.0))
    assert free
    assert free != bound


@pytest.mark.parametrize(
    ("moves", "expected"),
    [([], [NEVER] * 3), ([0], [0, NEVER, NEVER]), ([3, 5], [3, 3, NEVER]), ([2], [2, 2, NEVER])],
)
def test_a_schedule_says_from_when_on_each_result_is_masked(
    moves: list[int], expected: list[int]
) -> None:
    sizes = ConversationSizes(
        requests=[1] * 6, offsets=[0] * 3, savings=[1] * 3, ripe=[0, 2, NEVER]
    )
    assert expected == apply_moves(sizes, moves)
