"""What a promise costs, and what the clairvoyant makes of it."""

import dataclasses
import functools

import pytest

from addon.commands.work import read_sessions
from addon.places import recordings
from addon.replay.replay import ReplaySettings, Session, replay
from addon.replay.reread import NEVER
from masking.model import ChatMessage
from masking.prices import PriceSettings, Pricing
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.masking.test_boundary import converse
from tests.replay.test_fast_replay import say_in_messages
from tests.support.marking import MarkedSession, Request, mark_as_pi, mark_nothing
from tests.support.places import CONVERSATIONS
from tests.support.schedules import Conversation, bills, optimum
from tests.support.sessions import Talk, grow, work
from tests.tools.benchmarks.boundary import PRICES, read_conversations
from tests.tools.benchmarks.cheapest_schedule import ConversationSizes
from tests.tools.benchmarks.max_loss_front import draw
from tests.tools.benchmarks.session_front import (
    LOSSES,
    NO_PROMISE,
    BillTotals,
    MaxLossFront,
    add_fronts,
    find_conversation_front,
    find_session_front,
    make_empty_front,
    render_front,
)

SHIPPED = MaskPolicy(True, 4, skip_if_not_shorter=True)
SETTINGS = ReplaySettings(
    strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings((0.1, 1.0))
)


@functools.cache
def front_of_work() -> MaxLossFront:
    return find_session_front(grow(work(40, chars=12_000)), SETTINGS)


def test_a_looser_promise_is_never_dearer_for_the_clairvoyant() -> None:
    paid = [totals.paid for totals in front_of_work().clairvoyant]
    assert sorted(paid, reverse=True) == paid
    assert pytest.approx(front_of_work().optimum) == paid[-1]
    assert paid[-1] < paid[0]


@pytest.mark.parametrize("place", range(len(LOSSES)))
def test_the_clairvoyant_keeps_the_promise_in_tokens(place: int) -> None:
    totals = front_of_work().clairvoyant[place]
    assert totals.worst_end <= totals.worst <= (1 + LOSSES[place]) * (1 + 1e-9)


def test_the_rule_is_no_cheaper_than_the_optimum() -> None:
    front = front_of_work()
    assert all(front.optimum <= totals.paid * (1 + 1e-9) for totals in front.rule)
    assert front.rule[-1].paid < front.everything


def mark_the_end(request: Request) -> Request:
    """Mark the last message alone."""
    return {**request, "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "session",
    [
        pytest.param(MarkedSession(say_in_messages(40, 4), mark_as_pi), id="marks"),
        pytest.param(MarkedSession(say_in_messages(40, 4), mark_the_end), id="no mark in the head"),
        pytest.param(
            MarkedSession(grow(work(40)), mark_nothing, "api.openai.com", "gpt-5.6"),
            id="request ends",
        ),
    ],
)
def test_where_a_cache_is_read_at_certain_points_a_front_is_billed_by_them(
    session: Session,
) -> None:
    settings = ReplaySettings(strategies=Strategies(schema1=SHIPPED))
    front = find_session_front(session, settings)
    paid = [request.entry.cost.after.cost for request in replay(session, settings, TokenCounter())]
    assert pytest.approx(sum(paid), rel=0.05) == front.rule[LOSSES.index(0.1)].paid
    assert front.optimum <= front.rule[-1].paid < front.everything


def test_bills_are_those_of_the_cheapest_schedules() -> None:
    talk = converse([(200, [3_000])] * 30, opening=5_000)
    front = draw([talk], Pricing(0.1, 1.0), (0.1, NO_PROMISE))
    assert pytest.approx(optimum(talk, 8, Pricing(0.1, 1.0))) == front.optimum
    assert pytest.approx(front.optimum) == front.clairvoyant[1].paid
    nothing = [frozenset[int]()] * len(talk.requests)
    assert pytest.approx(bills(talk, nothing, Pricing(0.1, 1.0))[-1]) == front.everything


def test_fronts_add_up() -> None:
    one = front_of_work()
    other = find_session_front(grow(work(12)), SETTINGS)
    both = one + other
    assert one + make_empty_front() == one
    assert one.everything + other.everything == both.everything
    assert [a.paid + b.paid for a, b in zip(one.rule, other.rule, strict=True)] == [
        totals.paid for totals in both.rule
    ]
    worst = [max(a.worst, b.worst) for a, b in zip(one.rule, other.rule, strict=True)]
    assert worst == [totals.worst for totals in both.rule]


def test_a_session_of_two_conversations_counts_them_apart() -> None:
    opening: ChatMessage = {"role": "user", "content": "Go on."}
    bodies = [grow(work(8)).bodies, grow([opening, *work(30)[1:]]).bodies]
    mixed = Talk((*bodies[0][:4], *bodies[1], *bodies[0][4:]))
    assert find_session_front(mixed, SETTINGS) == add_fronts(
        find_session_front(Talk(each), SETTINGS) for each in bodies
    )


def test_no_session_has_an_empty_front() -> None:
    assert make_empty_front() == find_session_front(Talk(()), SETTINGS)


def test_where_a_cached_token_costs_nothing_less_every_promise_is_the_same() -> None:
    front = find_session_front(
        grow(work(20)), dataclasses.replace(SETTINGS, price_settings=PriceSettings((1.0, 1.0)))
    )
    paid = [totals.paid for totals in (*front.rule, *front.clairvoyant)]
    assert paid == [pytest.approx(front.optimum)] * len(paid)


def test_a_table_has_a_row_for_each_promise() -> None:
    table = render_front(front_of_work())
    assert ["0", "0.02", "0.05", "0.1", "0.15", "0.2", "0.3", "none"] == [*table.columns[0].cells]
    assert all(str(cell).endswith("%") for at in (2, 3, 5, 6) for cell in table.columns[at].cells)
    assert f"{front_of_work().everything / front_of_work().optimum:.4f}" in str(table.title)


def test_a_price_of_nothing_counts_as_sending_everything() -> None:
    sizes = ConversationSizes(requests=[1, 2], offsets=[], savings=[], ripe=[])
    front = find_conversation_front(sizes, [[]], Pricing(0.0, 0.0), (0.1,))
    assert BillTotals(paid=0.0, worst_end=1.0, worst=1.0) == front.rule[0] == front.clairvoyant[0]


def test_nothing_to_mask_leaves_everything_as_it_is() -> None:
    sizes = ConversationSizes(requests=[10, 20], offsets=[5], savings=[3], ripe=[NEVER])
    front = find_conversation_front(sizes, [[NEVER]], Pricing(0.5, 1.0), (0.1,))
    assert 25.0 == front.everything == front.optimum == front.rule[0].paid


@pytest.mark.thorough
def test_recordings_have_a_front() -> None:
    front = add_fronts(
        find_session_front(session, SETTINGS) for session in read_sessions(recordings())
    )
    assert 0 < front.optimum <= front.everything


EXPECTED = dict(zip(PRICES, (1.0000, 1.0011, 1.0185, 1.0397, 1.0537), strict=True))
"""The clairvoyant's bill over the optimum's at a max_loss of 0.05, found elsewhere."""


@pytest.fixture(scope="module")
def talks() -> list[Conversation]:
    return list(read_conversations(CONVERSATIONS))


@pytest.mark.skipif(not CONVERSATIONS.exists(), reason="no conversations at hand")
@pytest.mark.parametrize("prices", PRICES)
def test_the_clairvoyant_is_as_far_from_the_optimum_as_was_found_elsewhere(
    talks: list[Conversation], prices: Pricing
) -> None:
    front = draw(talks, prices, (0.05,))
    assert pytest.approx(EXPECTED[prices], abs=0.001) == front.clairvoyant[0].paid / front.optimum
    assert front.clairvoyant[0].paid <= front.rule[0].paid
    assert front.rule[0].worst <= 1.05 * (1 + 1e-9)
