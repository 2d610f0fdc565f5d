"""Where the boundary stands, and what that costs."""

import dataclasses
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.model import ChatMessage
from masking.prices import PriceStep, Pricing, ReadsAt
from masking.tokens import estimate_tokens
from masking.window import BoundaryPosition, lay_out
from masking.window.boundary import Candidate, RequestSize, pays_now
from masking.window.policy import CERTAIN
from tests.support import builders
from tests.support.builders import IMAGE, parts, read, read_body, unanswered
from tests.support.marks import as_one_test, thorough
from tests.support.priced import (
    PricedPolicy,
    decide,
    evaluate,
    find_boundaries,
    find_boundary,
    mask_old_tool_results,
    measure_candidates,
    rewrite_request,
)
from tests.support.schedules import (
    Conversation,
    bills,
    costs_at_entries,
    find_edges,
    masks_of_edges,
    masks_of_rule,
    optimum,
)

if TYPE_CHECKING:
    from _typeshed import TraceFunction

PRICES = [
    Pricing(0.5, 1.0),
    Pricing(0.25, 1.0),
    Pricing(0.1, 1.0),
    Pricing(0.1, 1.25),
    Pricing(0.02, 1),
]


def policy(
    prices: Pricing, window: int = 2, k: int | None = None, loss: float = 0.1
) -> PricedPolicy:
    return PricedPolicy(
        enabled=True,
        window_turns=window,
        keep_last_k_per_tool=k,
        cache_read_ratio=prices.read,
        cache_write_ratio=prices.write,
        max_loss=loss / CERTAIN,  # sizes are exact here
    )


def converse(
    turns: list[tuple[int, list[int]]], opening: int = 100, *, grows: bool = False
) -> Conversation:
    """Build a conversation from each turn's own size and the sizes of its results.

    A placeholder has a size of 30; where results may grow it stands for shorter ones, too.
    """
    size = float(opening)
    requests: list[RequestSize] = []
    results: list[Candidate] = []
    for turn, (own, sizes) in enumerate(turns):
        requests.append(RequestSize(size, turn, len(results)))
        size += own
        for result in sizes:
            saving = result - 30 if grows else max(0, result - 30)
            results.append(Candidate(turn, size, saving, "tool"))
            size += result + 16
    return Conversation((*requests, RequestSize(size, len(turns), len(results))), tuple(results))


conversations = st.builds(
    converse,
    st.lists(
        st.tuples(st.integers(16, 500), st.lists(st.integers(0, 20_000), max_size=3)), max_size=25
    ),
    st.integers(0, 20_000),
    grows=st.booleans(),
)


def unmasked(conversation: Conversation, prices: Pricing) -> list[float]:
    nothing = [frozenset[int]()] * len(conversation.requests)
    return bills(conversation, nothing, prices)


@given(conversations, st.sampled_from(PRICES), st.integers(1, 4), st.sampled_from([0.0, 0.05, 0.1]))
def test_the_promise_holds_at_every_request(
    conversation: Conversation, prices: Pricing, window: int, loss: float
) -> None:
    masks = masks_of_rule(conversation, policy(prices, window, loss=loss))
    paid = bills(conversation, masks, prices)
    full = unmasked(conversation, prices)
    assert [
        (p, f) for p, f in zip(paid, full, strict=True) if p > f * (1 + loss) * (1 + 1e-9)
    ] == []


def test_what_was_saved_pays_for_a_later_move() -> None:
    """With a promise of 1%, the last move is affordable only by what the first one saved."""
    sizes = [1_000, 100, 1_000, 1_000, 1_000, 1_000, 3_000]
    conversation = converse([(100, [size]) for size in sizes], opening=1_000)
    rule = policy(Pricing(0.25, 1.0), loss=0.01)
    positions = find_boundaries(conversation.requests, conversation.results, rule)
    assert [0, 0, 0, 1, 1, 1, 1, 5] == [position.turn for position in positions]


@given(
    conversations,
    st.sampled_from(PRICES),
    st.integers(1, 4),
    st.sampled_from(["marks", "request ends"]),
    st.integers(0, 100),
)
def test_it_holds_where_a_cache_is_read_at_entries_alone(
    conversation: Conversation, prices: Pricing, window: int, reads_at: ReadsAt, part: int
) -> None:
    rule = dataclasses.replace(policy(prices, window), reads_at=reads_at)
    head = int(conversation.requests[0].size * part / 100)
    nothing = [frozenset[int]()] * len(conversation.requests)
    masks = masks_of_rule(conversation, rule, head)
    paid = [*itertools.accumulate(costs_at_entries(conversation, masks, prices, rule, head))]
    full = [*itertools.accumulate(costs_at_entries(conversation, nothing, prices, rule, head))]
    assert [(p, f) for p, f in zip(paid, full, strict=True) if p > f * 1.1 * (1 + 1e-9)] == []


@pytest.mark.parametrize("reads_at", ["any prefix", "marks", "request ends"])
@given(conversations, st.integers(1, 4), st.sampled_from([2_048, 4_096]))
def test_no_prompt_is_masked_below_the_least_that_is_cached(
    reads_at: ReadsAt, conversation: Conversation, window: int, least: int
) -> None:
    rule = dataclasses.replace(
        policy(Pricing(0.1, 1.0), window), reads_at=reads_at, shortest_prefix=least
    )
    masks = masks_of_rule(conversation, rule)
    sizes = [0.0, *(request.size for request in conversation.requests)]
    for cached, masked in zip(sizes, masks, strict=False):
        saved = sum(conversation.results[place].saving for place in masked)
        assert not masked or cached - saved >= least


@pytest.mark.parametrize(
    ("reads_at", "expected"),
    [
        pytest.param("any prefix", 2, id="at any prefix the price of the move decides"),
        pytest.param("marks", 0, id="at marks the masked prompt would be too short"),
        pytest.param("request ends", 0, id="at ends of requests it would be, too"),
    ],
)
def test_the_least_of_a_thousand_tokens_counts_where_not_every_prefix_is_cached(
    reads_at: ReadsAt, expected: int
) -> None:
    conversation = converse([(20, [3_000])] * 3)
    rule = dataclasses.replace(
        policy(Pricing(0.5, 1.0), 1, loss=1.0), reads_at=reads_at, shortest_prefix=1_024
    )
    assert expected == find_boundary(conversation.requests, conversation.results, rule).turn


@pytest.mark.parametrize(
    ("reads_at", "prices"),
    [
        ("marks", Pricing(0.1, 1.25)),
        thorough("marks", Pricing(0.1, 2.0)),
        thorough("marks", Pricing(0.025, 1.25)),
        thorough("request ends", Pricing(0.1, 1.25)),
        thorough("request ends", Pricing(0.1, 2.0)),
        ("request ends", Pricing(0.025, 1.25)),
    ],
)
def test_there_it_moves_less_often_and_still_saves(reads_at: ReadsAt, prices: Pricing) -> None:
    conversation = converse([(200, [3_000])] * 150, opening=20_000)
    rule = dataclasses.replace(policy(prices, 8), reads_at=reads_at)
    nothing = [frozenset[int]()] * len(conversation.requests)
    masks = masks_of_rule(conversation, rule, 15_000)
    paid = sum(costs_at_entries(conversation, masks, prices, rule, 15_000))
    blind = masks_of_rule(conversation, policy(prices, 8))
    full = sum(costs_at_entries(conversation, nothing, prices, rule, 15_000))
    assert 2 < len({*masks}) < len({*blind})
    assert paid < full


@given(conversations, st.sampled_from(PRICES), st.integers(1, 4))
def test_the_promise_holds_where_a_conversation_ends_right_after_a_move(
    conversation: Conversation, prices: Pricing, window: int
) -> None:
    """Every move is somebody's last request; and it has not yet saved anything."""
    masks = masks_of_rule(conversation, policy(prices, window))
    paid, full = bills(conversation, masks, prices), unmasked(conversation, prices)
    moves = [n for n in range(1, len(masks)) if masks[n] != masks[n - 1]]
    assert all(paid[n] <= 1.1 * full[n] * (1 + 1e-9) for n in moves)


@given(conversations, st.sampled_from(PRICES), st.integers(1, 4), st.sampled_from([None, 1, 2]))
def test_the_boundary_never_goes_back_and_never_passes_the_edge(
    conversation: Conversation, prices: Pricing, window: int, k: int | None
) -> None:
    rule = policy(prices, window, k)
    found = [
        find_boundary(conversation.requests[: n + 1], conversation.results[: request.results], rule)
        for n, request in enumerate(conversation.requests)
    ]
    assert sorted(found) == found
    assert all(
        turn <= edge
        for (turn, _), edge in zip(found, find_edges(conversation, window), strict=True)
    )


STEPS = (PriceStep(20_000, 2.0), PriceStep(50_000, 2.5))


def stepped_bills(
    conversation: Conversation,
    masks: list[frozenset[int]],
    prices: Pricing,
    steps: Sequence[PriceStep] = STEPS,
) -> list[float]:
    """Return what has been paid up to each request where long prompts are dearer."""
    flat = [0.0, *bills(conversation, masks, prices)]
    sizes = [
        request.size - sum(conversation.results[place].saving for place in masked)
        for request, masked in zip(conversation.requests, masks, strict=True)
    ]
    factors = [max([1.0, *(s.factor for s in steps if size > s.above)]) for size in sizes]
    costs = (
        (now - before) * f
        for (before, now), f in zip(itertools.pairwise(flat), factors, strict=True)
    )
    return list(itertools.accumulate(costs))


@given(conversations, st.sampled_from(PRICES), st.integers(1, 4), st.sampled_from([0.0, 0.05, 0.1]))
def test_the_promise_holds_where_long_prompts_are_dearer(
    conversation: Conversation, prices: Pricing, window: int, loss: float
) -> None:
    rule = dataclasses.replace(policy(prices, window, loss=loss), price_steps=STEPS)
    masks = masks_of_rule(conversation, rule)
    nothing = [frozenset[int]()] * len(masks)
    paid = stepped_bills(conversation, masks, prices)
    full = stepped_bills(conversation, nothing, prices)
    assert [
        (p, f) for p, f in zip(paid, full, strict=True) if p > f * (1 + loss) * (1 + 1e-9)
    ] == []


@pytest.mark.parametrize(
    "above",
    [
        pytest.param(10_000, id="both prompts are lifted over it"),
        pytest.param(4_234, id="the masked prompt stood exactly at it"),
    ],
)
def test_what_is_new_may_lift_a_prompt_over_a_price_step(above: int) -> None:
    """The boundary would move for the last request, which is much longer than those before it."""
    conversation = converse([(20, [4_000])] * 4 + [(20, [20_000])], opening=0)
    prices, steps = Pricing(0.02, 1.0), (PriceStep(above, 10.0),)
    rule = dataclasses.replace(policy(prices, 2, loss=0.05), price_steps=steps)
    masks = masks_of_rule(conversation, rule)
    paid = stepped_bills(conversation, masks, prices, steps)
    full = stepped_bills(conversation, [frozenset[int]()] * len(masks), prices, steps)
    assert paid[-1] <= 1.05 * full[-1]
    moved = [*masks[:-1], frozenset(range(3))]
    assert stepped_bills(conversation, moved, prices, steps)[-1] > 1.05 * full[-1]


def test_getting_below_a_price_step_is_a_gain() -> None:
    """At a fiftieth for cached tokens nothing else would make the boundary move so early."""
    conversation = converse([(20, [4_000])] * 12, opening=1_000)
    prices = Pricing(0.02, 1.0)
    steps = (PriceStep(40_000, 10.0),)
    flat, stepped = (
        find_boundary(
            conversation.requests,
            conversation.results,
            dataclasses.replace(policy(prices, 2, loss=1.0), price_steps=price_steps),
        )
        for price_steps in ((), steps)
    )
    assert flat < stepped


@given(conversations, st.integers(1, 4))
def test_without_a_discount_it_is_the_windows_edge(conversation: Conversation, window: int) -> None:
    found = find_boundary(
        conversation.requests, conversation.results, policy(Pricing(1, 1), window)
    )
    last = conversation.requests[-1]
    assert BoundaryPosition(max(0, last.turns - window), last.results) == found


@given(
    st.lists(
        st.tuples(st.integers(16, 100), st.lists(st.integers(0, 2_000), max_size=2)), max_size=7
    ).map(converse),
    st.sampled_from(PRICES),
)
def test_the_optimum_is_that_of_all_schedules(conversation: Conversation, prices: Pricing) -> None:
    edges = find_edges(conversation, 2)
    schedules = (
        steps
        for steps in itertools.product(*(range(edge + 1) for edge in edges))
        if list(steps) == sorted(steps)
    )
    cheapest = min(
        bills(conversation, masks_of_edges(conversation, steps), prices)[-1] for steps in schedules
    )
    assert cheapest == pytest.approx(optimum(conversation, 2, prices))


@pytest.mark.parametrize("prices", PRICES)
def test_results_that_arrive_evenly_are_masked_in_the_end_and_that_pays(prices: Pricing) -> None:
    conversation = converse([(200, [5_000])] * 60, opening=20_000)
    paid = bills(conversation, masks_of_rule(conversation, policy(prices, 8)), prices)[-1]
    best = optimum(conversation, 8, prices)
    assert best <= paid <= 1.1 * best
    assert paid < unmasked(conversation, prices)[-1]


def test_a_huge_result_about_to_leave_the_window_is_waited_for() -> None:
    """By rent alone the boundary would move at once, and again a turn later."""
    conversation = converse([(20, [300])] * 10 + [(20, [60_000])] + [(20, [300])] * 12)
    masks = masks_of_rule(conversation, policy(Pricing(0.1, 1.0), 3, loss=10.0))
    moves = sum(masks[n] != masks[n - 1] for n in range(1, len(masks)))
    assert moves <= 3


def test_a_plan_ends_with_the_window() -> None:
    """The latest of a target, which stays for longer, is not waited for."""
    conversation = converse([(20, [300])] * 7)
    targets = [("read", "a.py" if turn % 2 else f"{turn}.py") for turn in range(7)]
    results = [
        result._replace(target=target)
        for result, target in zip(conversation.results, targets, strict=True)
    ]
    rule = dataclasses.replace(policy(Pricing(0.25, 1.0), 2, loss=1.0), keep_latest_turns=4)
    assert 5 == find_boundary(conversation.requests, results, rule).turn


def test_the_last_of_a_tool_stay_behind_the_boundary() -> None:
    """Of 40 results 38 are old; with all of them among the last there is nothing to move for."""
    conversation = converse([(20, [5_000])] * 40)
    found = {
        k: find_boundary(
            conversation.requests, conversation.results, policy(Pricing(0.1, 1.0), 2, k)
        ).turn
        for k in (None, 1, 5, 50)
    }
    assert [True, True, True, False] == [found[k] > 0 for k in (None, 1, 5, 50)]


def evenly(count: int) -> Conversation:
    return converse([(200, [3_000])] * count)


def one_turn_of_many(count: int) -> Conversation:
    """All results in the window, then plain answers, each of which may look ahead."""
    opening = converse([(20, [30_000]), (20, [300] * count)])
    last = opening.requests[-1]
    answers = [last._replace(size=last.size + 20 * n, turns=last.turns) for n in range(1, count)]
    return Conversation((*opening.requests, *answers), opening.results)


def one_target_again_and_again(count: int) -> Conversation:
    talk = converse([(20, [300] * 20)] * (count // 20))
    targets = (
        result._replace(target=("read", str(n % 50))) for n, result in enumerate(talk.results)
    )
    return Conversation(talk.requests, tuple(targets))


@pytest.mark.parametrize(
    ("shape", "k"),
    [
        (evenly, None),
        (one_turn_of_many, None),
        (one_target_again_and_again, 10**6),
        thorough(evenly, 10**6),
        thorough(one_turn_of_many, 10**6),
        thorough(one_target_again_and_again, None),
    ],
)
def test_work_is_linear_in_the_conversation(
    shape: Callable[[int], Conversation], k: int | None
) -> None:
    rule = dataclasses.replace(policy(Pricing(0.1, 1.25), 8, k), keep_latest_turns=24)

    def count_steps(size: int) -> int:
        conversation = shape(size)
        steps = 0

        def count(frame: FrameType, event: str, _argument: object) -> "TraceFunction | None":
            """Count the lines of the core, and none of what measures its coverage."""
            nonlocal steps
            steps += event == "line"
            return count if frame.f_globals["__name__"].startswith("masking.") else None

        before = sys.gettrace()
        sys.settrace(count)
        try:
            find_boundary(conversation.requests, conversation.results, rule)
        finally:
            sys.settrace(before)
        return steps

    assert count_steps(2_000) < 7 * count_steps(400)


# In requests


def talk(turns: int, chars: int = 4_000) -> list[ChatMessage]:
    messages: list[ChatMessage] = [{"role": "user", "content": "Go on."}]
    for turn in range(turns):
        function = {"name": "shell", "arguments": "{}"}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn} " * (chars // 3)},
        ]
    return messages


TALK = talk(40)
REQUESTS = [TALK[: n + 1] for n in range(0, len(TALK), 2)]
TENTH = policy(Pricing(0.1, 1.0), 3)


def test_old_results_are_held_until_moving_pays() -> None:
    reasons = []
    for messages in REQUESTS:
        body = {"messages": messages}
        decisions = decide(read_body(body), TENTH)
        reasons.append(Counter(decision.reason for decision in decisions))
    assert any(reason["held"] for reason in reasons)
    assert any(reason["masked"] and not reason["held"] for reason in reasons)
    assert {"held", "masked", "in_window"} == set().union(*reasons)


def test_between_moves_the_earlier_bytes_stand_still() -> None:
    moves = 0
    for before, now in itertools.pairwise(mask_old_tool_results(m, TENTH) for m in REQUESTS):
        moves += now[: len(before)] != before
    assert 0 < moves < len(REQUESTS) / 3


def test_what_is_masked_once_stays_masked() -> None:
    for before, now in itertools.pairwise(mask_old_tool_results(m, TENTH) for m in REQUESTS):
        masked = [n for n, (old, new) in enumerate(zip(TALK, before, strict=False)) if old != new]
        assert [before[n] for n in masked] == [now[n] for n in masked]


def test_masking_what_is_masked_changes_nothing() -> None:
    once = mask_old_tool_results(TALK, TENTH)
    assert once != TALK
    assert [m for m in once if m["role"] != "tool"] == [m for m in TALK if m["role"] != "tool"]


def test_bytes_and_messages_agree() -> None:
    body = json.dumps({"messages": TALK}).encode()
    assert {"messages": mask_old_tool_results(TALK, TENTH)} == json.loads(
        rewrite_request(body, TENTH).body
    )


def test_a_result_that_comes_late_is_held_until_the_next_move() -> None:
    """It is held though the model has read it, and the other result of its turn is masked."""
    late: ChatMessage = {"role": "tool", "tool_call_id": "call_0", "content": "late " * 500}
    answer: ChatMessage = {"role": "assistant", "content": "Go on."}
    before = REQUESTS[-2]  # at the request after it the boundary does not move
    masked = mask_old_tool_results([*before, late, answer], TENTH)
    assert masked[: len(before)] == mask_old_tool_results(before, TENTH)
    assert masked[len(before) :] == [late, answer]
    assert masked[2] != before[2]


def test_with_a_price_no_placeholder_is_longer_than_its_result() -> None:
    """Even where the policy would allow it: what costs more has no place in the promise."""
    short = talk(40, chars=12)
    assert short is mask_old_tool_results(short, TENTH)
    assert short != mask_old_tool_results(short, policy(Pricing(1.0, 1.0), 3))


def test_a_cancelled_request_leaves_the_boundary_where_it_was() -> None:
    """What follows the last message of the assistant has no part in the decision."""
    for messages in REQUESTS:
        masked = mask_old_tool_results(messages, TENTH)
        more: ChatMessage = {"role": "user", "content": "Stop. " * 20_000}
        assert [*masked, more] == mask_old_tool_results([*messages, more], TENTH)


def test_a_result_before_its_call_never_counts_as_the_last_of_its_tool() -> None:
    early = {"role": "tool", "tool_call_id": "call_39", "content": "early " * 700}
    messages = [TALK[0], early, *TALK[1:]]
    rule = policy(Pricing(0.1, 1.0), 3, k=1)
    decisions = decide(read(messages), rule)
    assert "in_window" == decisions[0].reason


@as_one_test
@pytest.mark.parametrize(
    ("content", "saves"),
    [
        pytest.param("a line of output\n" * 50, True, id="a text"),
        pytest.param(parts("a line of output\n" * 50, "x"), True, id="a text that shrinks"),
        pytest.param([IMAGE], False, id="nothing but an image"),
        pytest.param([*parts("a line\n" * 50), IMAGE], True, id="a text beside an image"),
        pytest.param([], False, id="an empty list"),
        pytest.param(None, False, id="nothing"),
        pytest.param("x", False, id="no longer than its placeholder"),
    ],
)
def test_only_what_can_be_masked_saves_anything(content: object, saves: bool) -> None:
    body = {"messages": [*builders.turn(content=content), *unanswered()]}
    rule = dataclasses.replace(TENTH, mask_text_parts=True, placeholder_template="<{tool_name}>")
    judged = evaluate(read_body(body), rule)
    assert [saves] == [
        maskable.saving > 0 for maskable in measure_candidates(judged, lay_out(read_body(body)))
    ]
    expected = sum(estimate_tokens(r.text) - estimate_tokens(r.placeholder)
                   for decision in judged for r in decision.replacements)  # fmt: skip
    assert [expected] == [
        maskable.saving for maskable in measure_candidates(judged, lay_out(read_body(body)))
    ]


# A plan is the cheapest schedule of all, on small cases where all can be tried.


class Outlook(NamedTuple):
    """What a plan knows, as in `pays_now`."""

    requests: int
    read: float
    write: float
    price: float
    savings: Sequence[float]
    tails: Sequence[float]


def cost(outlook: Outlook, moves: dict[int, int]) -> float:
    """What a schedule costs beyond what every schedule pays.

    `moves` are request: place; nothing is masked before the first. A request pays the rent of
    what is not masked and could be in the end, and, when the boundary moves, for what it breaks.
    """
    saved, w, r = outlook.savings, outlook.write, outlook.read
    total, place = 0.0, -1
    for request in range(outlook.requests):
        moved_to = moves.get(request)
        if moved_to is None:
            masked = 0.0 if place < 0 else saved[place]
            total += r * (_ripe(outlook, request) - masked)
        elif place < 0:
            total += outlook.price + r * saved[0] - (w - r) * (saved[moved_to] - saved[0])
            place = moved_to
        else:
            total += (w - r) * (outlook.tails[place] + saved[-1] - saved[moved_to])
            place = moved_to
    return total


def _ripe(outlook: Outlook, request: int) -> float:
    return outlook.savings[min(request, len(outlook.savings) - 1)]


def schedules(outlook: Outlook) -> list[dict[int, int]]:
    """All of them: at each request the boundary stands still or moves to the edge of then."""
    last = min(len(outlook.savings), outlook.requests)
    return [
        {request: request for request, moves in enumerate(choice) if moves}
        for choice in itertools.product([False, True], repeat=last)
    ]


@st.composite
def outlooks(draw: st.DrawFn) -> Outlook:
    steps = draw(st.lists(st.integers(0, 1_000), max_size=5))
    saved = list(itertools.accumulate(steps, initial=draw(st.integers(1, 2_000))))
    tails = sorted(draw(st.lists(st.integers(0, 5_000), min_size=len(saved), max_size=len(saved))))
    return Outlook(
        requests=draw(st.integers(1, 9)),
        read=draw(st.sampled_from([0.02, 0.1, 0.5])),
        write=draw(st.sampled_from([1.0, 1.25])),
        price=draw(st.integers(1, 6_000)),
        savings=saved,
        tails=tails[::-1],
    )


@given(outlooks())
def test_a_plan_agrees_with_the_best_of_all_schedules(outlook: Outlook) -> None:
    costs = [(0 in moves, cost(outlook, moves)) for moves in schedules(outlook)]
    now = min(paid for moves_now, paid in costs if moves_now)
    later = min(paid for moves_now, paid in costs if not moves_now)
    if abs(now - later) > 1e-6:
        assert (now < later) is pays_now(**outlook._asdict())
