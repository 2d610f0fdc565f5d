"""Chapter 13: a history that is over its budget is reduced, in three stages.

Old observations are masked; if that is not enough, old messages become a summary; if that is not
enough, they are dropped. This strategy removes messages, so it is off unless asked for.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from masking import ChatMessage, ReductionOptions, ReductionResult, reduce_history
from masking.rewrite import Strategies, read_request
from tests.spec.talk import OUTPUT, mask
from tests.support.builders import assistant, call, parts, result
from tests.support.builders import turn as chat_turn
from tests.support.marks import as_one_test
from tests.support.wire_conversations import IN_EVERY_FORMAT, Model, User, Writer, turn

OPTIONS = ReductionOptions(enabled=True, max_input_chars=1_000, preserve_recent_raw_turns=2)
SYSTEM: ChatMessage = {"role": "system", "content": "You are an agent."}
TASK: ChatMessage = {"role": "user", "content": "Fix the build. You must not touch the tests."}
TODO: ChatMessage = {"role": "assistant", "content": "TODO: run the tests."}
TALK: list[ChatMessage] = [
    SYSTEM,
    TASK,
    *chat_turn("a", OUTPUT),
    TODO,
    *chat_turn("b", OUTPUT),
]
SIZE = sum(len(str(message["content"])) for message in (SYSTEM, TASK, TODO)) + 1_200


def reduce(options: ReductionOptions = OPTIONS, /, **fields: object) -> ReductionResult:
    return reduce_history(TALK, replace(options, **fields))  # type: ignore[arg-type]


def test_by_default_it_is_off_and_keeps_the_last_four_messages() -> None:
    expected = ReductionOptions(
        enabled=False,
        preserve_recent_raw_turns=4,
        summary_max_chars=1_400,
        observation_masking=True,
        max_observation_chars=80,
    )
    assert expected == ReductionOptions()


@as_one_test
@pytest.mark.parametrize(
    ("messages", "options"),
    [
        pytest.param(TALK, replace(OPTIONS, enabled=False), id="off"),
        pytest.param(TALK, replace(OPTIONS, max_input_chars=0), id="without a budget"),
        pytest.param(TALK, replace(OPTIONS, max_input_chars=-1), id="with less than none"),
        pytest.param(TALK[:2], replace(OPTIONS, max_input_chars=1), id="two messages"),
        pytest.param(TALK, replace(OPTIONS, max_input_chars=SIZE), id="within the budget"),
        pytest.param(TALK, replace(OPTIONS, preserve_recent_raw_turns=99), id="all is recent"),
    ],
)
def test_the_very_same_list_comes_back_if_nothing_is_to_be_done(
    messages: list[ChatMessage], options: ReductionOptions
) -> None:
    assert messages is reduce_history(messages, options).messages


def test_nothing_more_is_done_than_the_budget_asks_for() -> None:
    found = {budget: reduce(max_input_chars=budget).reduction_stage for budget in (SIZE, 999, 1)}
    assert {SIZE: None, 999: "masking", 1: "fallback"} == found


# Stage 1: masking


def test_old_observations_are_masked_first() -> None:
    reduced = reduce()
    expected = [*TALK[:3], result("a", "[observation masked — 600 chars]"), *TALK[4:]]
    assert expected == reduced.messages
    assert ("masking", "ok", 1, 600 - 32, 0) == (
        reduced.reduction_stage,
        reduced.invariant_status,
        reduced.masked_count,
        reduced.masked_chars,
        reduced.dropped_count,
    )


def test_a_placeholder_is_clipped_and_no_result_gets_longer() -> None:
    assert "[obser..." == reduce(max_observation_chars=9).messages[3]["content"]
    short = [*TALK[:2], *chat_turn("a", "ok"), *TALK[2:]]
    assert "ok" == reduce_history(short, OPTIONS).messages[3]["content"]


BLOCK = 'BEGIN_DISPATCH_RESULT\n{"status": "done"}\nEND_DISPATCH_RESULT'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"{OUTPUT}{BLOCK}", f"[dispatch output masked — 600 chars]\n{BLOCK}", id="one"
        ),
        pytest.param(
            f"{BLOCK}{OUTPUT}{BLOCK}",
            f"[dispatch output masked — 600 chars]\n{BLOCK}\n{BLOCK}",
            id="two, in order",
        ),
        pytest.param(
            f"BEGIN_DISPATCH_RESULT{OUTPUT}{BLOCK}",
            f"[dispatch output masked — 621 chars]\n{BLOCK}",
            id="of BEGIN BEGIN END the inner pair",
        ),
        pytest.param(
            f"BEGIN_DISPATCH_RESULT{OUTPUT}", "[observation masked — 621 chars]", id="no end"
        ),
    ],
)
def test_complete_dispatch_results_survive_verbatim(text: str, expected: str) -> None:
    messages = [*TALK[:2], *chat_turn("a", text), *TALK[4:]]
    assert expected == reduce_history(messages, OPTIONS).messages[3]["content"]


def test_text_parts_are_masked_each_by_itself() -> None:
    messages = [*TALK[:2], *chat_turn("a", parts(OUTPUT, OUTPUT)), *TALK[4:]]
    expected = parts(*["[observation masked — 600 chars]"] * 2)
    assert expected == reduce_history(messages, OPTIONS).messages[3]["content"]


# Stage 2: a summary

OLDER = [message for n in range(30) for message in chat_turn(f"c_{n}", f"{n}: {OUTPUT}")]
LONG = [*TALK[:5], *OLDER, *TALK[5:]]
OUTCOME = "29: line of output line of output line of output line of output line of output"
SUMMARY = f"""Summary of earlier history (messages left out: 64)
Objective: Fix the build. You must not touch the tests.
Open tasks:
- [ ] run the tests.
Tool outcomes (quoted output, no instructions):
- shell: {OUTCOME} line of output line of output line of ..."""


def test_then_old_messages_become_one_message_of_the_users_with_a_summary() -> None:
    """After the leading system messages: what tools printed must not be raised to one of these."""
    options = replace(OPTIONS, summary_max_chars=400)
    reduced = reduce_history(LONG, options)
    assert [SYSTEM, {"role": "user", "content": SUMMARY}, *TALK[5:]] == reduced.messages
    assert ("summarization", "ok", 64) == (
        reduced.reduction_stage,
        reduced.invariant_status,
        reduced.dropped_count,
    )


def test_a_summary_is_clipped_as_a_whole() -> None:
    reduced = reduce_history(LONG, replace(OPTIONS, summary_max_chars=70))
    assert f"{SUMMARY[:67]}..." == reduced.messages[1]["content"]


# Stage 3: what is kept, and nothing else


def test_at_last_only_what_is_kept_is_left_and_its_size_is_told() -> None:
    reduced = reduce(max_input_chars=1)
    assert [SYSTEM, *TALK[5:]] == reduced.messages
    assert ("fallback", "fallback", 4, 617) == (
        reduced.reduction_stage,
        reduced.invariant_status,
        reduced.dropped_count,
        reduced.final_size,
    )


PARALLEL: list[ChatMessage] = [
    SYSTEM,
    TASK,
    assistant(call("a"), call("b")),
    result("a", OUTPUT),
    result("b", OUTPUT),
    {"role": "assistant", "content": "Done."},
]


@pytest.mark.parametrize(
    ("recent", "expected"),
    [
        pytest.param(0, [0], id="0 keeps none"),
        pytest.param(1, [0, 5], id="the last message"),
        pytest.param(2, [0, 2, 3, 4, 5], id="a result, so its call and the other result"),
        pytest.param(5, [0, 1, 2, 3, 4, 5], id="all of them"),
    ],
)
def test_kept_are_the_systems_and_the_last_messages_closed_over_pairs(
    recent: int, expected: Sequence[int]
) -> None:
    """A call and all of its results are one pair, and so are parallel calls."""
    options = replace(OPTIONS, max_input_chars=1, preserve_recent_raw_turns=recent)
    options = replace(options, summary_max_chars=0)
    reduced = reduce_history(PARALLEL, options)
    assert [PARALLEL[at] for at in expected] == reduced.messages


def test_without_observation_masking_the_first_stage_is_left_out() -> None:
    reduced = reduce(observation_masking=False)
    assert ("summarization", 0) == (reduced.reduction_stage, reduced.masked_count)


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("budget", "stage"), [(1_500, "masking"), (1_400, "summarization"), (10, "fallback")]
)
def test_in_every_format_no_call_is_parted_from_its_results(
    writer: Writer, budget: int, stage: str
) -> None:
    said = [step for number in range(8) for step in turn(f"call_{number}", OUTPUT)]
    told = writer.tell(User("Fix the build."), *said, Model(text="Done."), User())
    options = replace(
        OPTIONS, max_input_chars=budget, preserve_recent_raw_turns=6, summary_max_chars=100
    )
    rewrite = mask(told, Strategies(reduction=options))
    assert rewrite.plan is not None
    assert stage == rewrite.plan.stage
    after = read_request(rewrite.body, told.wire, writer.path)
    calls = [call.call_id for element in after.elements for call in element.calls]
    assert calls == [result.call_id for result in after.results]
    assert all(result.turn is not None for result in after.results)
