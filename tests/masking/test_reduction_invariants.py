"""What holds of every conversation and every way to reduce it."""

import copy

from hypothesis import event, given
from hypothesis import strategies as st

from masking import ChatMessage
from masking.history_summary import BEGIN, END, find_blocks
from masking.messages_api import edit_messages, reduce_history
from masking.reduction import (
    ReductionOptions,
    ReductionPlan,
    count_chars,
    find_pairs,
    plan_reduction,
)
from masking.wire.chat import CHAT
from tests.support.builders import conversations, examples, parts, read, texts, turn

Reduction = tuple[list[ChatMessage], ReductionOptions]


def _speak(role: str) -> list[ChatMessage]:
    return [{"role": role, "content": f"{role} must\n- [ ] be 😀"}]


_dispatched = st.lists(st.one_of(texts, st.sampled_from([BEGIN, END, "\n"])), max_size=6)
_dispatches = st.one_of(_dispatched.map("".join), _dispatched.map(lambda found: parts(*found))).map(
    lambda content: turn("call_0", content)
)
_speakers = st.sampled_from(["system", "developer", "user", "assistant"])
_speeches = _speakers.map(_speak)
_blocks: st.SearchStrategy[list[ChatMessage]] = st.one_of(conversations(), _speeches, _dispatches)


@st.composite
def reductions(draw: st.DrawFn) -> Reduction:
    """A conversation, and options that reduce it, mostly, as far as any of the stages."""
    blocks = draw(st.lists(_blocks, min_size=2, max_size=4))
    messages = [message for block in blocks for message in block]
    share = draw(st.sampled_from([0.01, 0.3, 0.5, 0.7, 0.9, 0.99, 0.99, 1.0]))
    return messages, ReductionOptions(
        enabled=True,
        max_input_chars=int(count_chars(read(messages).elements) * share),
        preserve_recent_raw_turns=draw(st.sampled_from([1, 1, 2, 2, 4, 0, -1, 99])),
        summary_max_chars=draw(st.sampled_from([40, 40, 90, 200, 1_400, 1, 0, -1])),
        observation_masking=draw(st.sampled_from([True, True, False])),
        max_observation_chars=draw(st.sampled_from([80, 80, 34, 20, 4, 3, 1, 0, -1])),
    )


def edited(messages: list[ChatMessage], plan: ReductionPlan) -> list[ChatMessage]:
    return edit_messages(read(messages), plan.edits) if plan.changes else messages


def pair(messages: list[ChatMessage]) -> dict[int, int]:
    """Return by the position of each result that of its call."""
    conversation = read(messages)
    pairs = find_pairs(conversation.elements, conversation.results, conversation.wire)
    return {result: only for result, (only,) in pairs.items()}


def texts_of(message: object) -> tuple[str, ...]:
    return CHAT.read_element(message).all_texts


def plan_of(reduction: Reduction) -> tuple[ReductionPlan, list[int | None]]:
    messages, options = reduction
    plan = plan_reduction(read(messages), options)
    event(str(plan.stage))
    return plan, plan.edits.order(len(messages))


@given(reductions())
def test_no_input_is_mutated(reduction: Reduction) -> None:
    before = copy.deepcopy(reduction[0])
    reduce_history(*reduction)
    assert before == reduction[0]


@given(reductions())
def test_the_same_conversation_is_always_reduced_alike(reduction: Reduction) -> None:
    messages, options = reduction
    assert reduce_history(messages, options) == reduce_history(copy.deepcopy(messages), options)


@examples(3)
@given(reductions())
def test_reducing_twice_equals_once(reduction: Reduction) -> None:
    """Each stage ends within the budget, or leaves nothing but what is kept.

    It does not hold of a conversation that has grown in between: what is recent has moved on.
    """
    once = reduce_history(*reduction)
    assert once.messages is reduce_history(once.messages, reduction[1]).messages


@examples(3)
@given(reductions())
def test_each_pair_stays_whole_or_goes_whole(reduction: Reduction) -> None:
    messages, _ = reduction
    plan, order = plan_of(reduction)
    before, after = pair(messages), pair(edited(messages, plan))
    assert all((result in order) == (call in order) for result, call in before.items())
    assert {order[result]: order[call] for result, call in after.items()} == {
        result: call for result, call in before.items() if result in order
    }


@given(reductions())
def test_messages_keep_their_order_and_what_is_not_masked_is_the_same_object(
    reduction: Reduction,
) -> None:
    messages, _ = reduction
    plan, order = plan_of(reduction)
    kept = [at for at in order if at is not None]
    assert sorted(set(kept)) == kept
    masked = {*plan.edits.replacements}
    for at, new in zip(order, edited(messages, plan), strict=True):
        if at is not None:
            assert (new is not messages[at]) == (at in masked)


@given(reductions())
def test_no_result_grows_and_no_block_is_lost(reduction: Reduction) -> None:
    messages, _ = reduction
    plan, order = plan_of(reduction)
    for at, new in zip(order, edited(messages, plan), strict=True):
        if at is None or new is messages[at]:
            continue
        old = messages[at]
        assert "tool" == old["role"]
        assert {**old, "content": None} == {**new, "content": None}
        before, after = texts_of(old), texts_of(new)
        assert len(before) == len(after)
        assert all(a == b or 0 < len(a) < len(b) for a, b in zip(after, before, strict=True))
        assert find_blocks("".join(before)) == find_blocks("".join(after))


@given(reductions())
def test_the_numbers_are_true(reduction: Reduction) -> None:
    messages, options = reduction
    plan, order = plan_of(reduction)
    after = reduce_history(messages, options)
    assert after.messages == edited(messages, plan)
    assert after.final_size == plan.size_after == count_chars(read(after.messages).elements)
    assert plan.size_before == count_chars(read(messages).elements)
    assert after.dropped_count == len(messages) - sum(at is not None for at in order)
    assert after.reduced == (after.messages is not messages) == plan.changes
    assert 0 <= after.masked_chars
    if plan.stage == "masking":
        assert after.masked_chars == plan.size_before - plan.size_after > 0


@examples(3)
@given(reductions())
def test_a_stage_is_taken_only_where_it_ends_within_the_budget_or_is_the_last(
    reduction: Reduction,
) -> None:
    messages, options = reduction
    after = reduce_history(messages, options)
    assert ("fallback" == after.invariant_status) == (after.reduction_stage == "fallback")
    if after.reduction_stage is None:
        is_short = len(messages) <= 2 or options.max_input_chars <= 0
        assert is_short or count_chars(read(messages).elements) <= options.max_input_chars
    elif after.reduction_stage != "fallback":
        assert after.final_size <= options.max_input_chars < count_chars(read(messages).elements)


@given(reductions())
def test_what_is_recent_or_the_systems_stays(reduction: Reduction) -> None:
    messages, options = reduction
    _, order = plan_of(reduction)
    roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
    systems = [at for at, role in enumerate(roles) if role in ("system", "developer")]
    others = [at for at in range(len(messages)) if at not in systems]
    recent = others[max(0, len(others) - max(0, options.preserve_recent_raw_turns)) :]
    assert set(order) >= {*systems, *recent}


@given(reductions())
def test_without_masking_the_later_stages_leave_the_same_messages(reduction: Reduction) -> None:
    messages, options = reduction
    with_it, without = (
        reduce_history(
            messages,
            ReductionOptions(
                enabled=True,
                max_input_chars=options.max_input_chars,
                preserve_recent_raw_turns=options.preserve_recent_raw_turns,
                summary_max_chars=options.summary_max_chars,
                observation_masking=masking,
            ),
        )
        for masking in (True, False)
    )
    assert (0, 0) == (without.masked_count, without.masked_chars)
    if with_it.reduction_stage != "masking":
        assert with_it.messages == without.messages


@given(reductions(), st.sets(st.integers(0, 20)))
def test_what_is_settled_is_not_masked(reduction: Reduction, settled: set[int]) -> None:
    messages, options = reduction
    tools = [n for n, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "tool"]
    plan = plan_reduction(read(messages), options, settled)
    masked = {*plan.edits.replacements}
    assert not masked & {tools[place] for place in settled if place < len(tools)}
