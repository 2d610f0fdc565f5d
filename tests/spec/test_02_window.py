"""Chapter 2: a result is masked once its tool turn is older than the last `window_turns`."""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from masking import (
    ChatMessage,
    MaskPolicy,
    RedactionPolicy,
    ReductionOptions,
    WireError,
    mask_old_tool_results,
    redact_tool_results,
    reduce_history,
)
from masking.window import FREE, BoundaryPrices
from tests.spec.talk import CACHED, IN_FORMATS_WITH_IDS, OUTPUT, SHORT, mask, reasons, requests
from tests.support.builders import assistant, call, result
from tests.support.builders import turn as chat_turn
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    Ask,
    Give,
    Model,
    Step,
    Tools,
    User,
    Writer,
    turn,
)

MESSAGES = [*chat_turn("a", OUTPUT), *chat_turn("b", OUTPUT)]


def test_by_default_the_policy_is_that_of_the_tech_spec_and_off() -> None:
    policy = MaskPolicy()
    found = (policy.enabled, policy.window_turns, policy.keep_errors, policy.keep_last_k_per_tool)
    assert (False, 8, True, None) == found


def test_a_policy_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SHORT.window_turns = 3  # type: ignore[misc]


@as_one_test
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(MaskPolicy(), id="off"),
        pytest.param(replace(SHORT, enabled=False), id="not enabled"),
        pytest.param(replace(SHORT, window_turns=0), id="a window of no turns"),
        pytest.param(replace(SHORT, window_turns=-1), id="a window of less"),
        pytest.param(replace(SHORT, window_turns=2), id="nothing is old enough"),
    ],
)
def test_the_very_same_list_comes_back_if_nothing_is_to_be_done(policy: MaskPolicy) -> None:
    assert MESSAGES is mask_old_tool_results(MESSAGES, policy)


def test_otherwise_a_new_list_comes_back_and_no_message_is_mutated() -> None:
    messages = copy.deepcopy(MESSAGES)
    masked = mask_old_tool_results(messages, SHORT)
    assert MESSAGES == messages
    assert [MESSAGES[0], result("a", "<a shell 600>"), *MESSAGES[2:]] == masked


@pytest.mark.parametrize(
    "change",
    [
        lambda given: mask_old_tool_results(given, SHORT),
        lambda given: mask_old_tool_results(given, replace(SHORT, enabled=False)),
        lambda given: redact_tool_results(given, RedactionPolicy()),
        lambda given: reduce_history(given, ReductionOptions()).messages,
    ],
    ids=["masked", "off", "redaction off", "reduction off"],
)
def test_any_sequence_of_messages_will_do(
    change: Callable[[Sequence[ChatMessage]], list[ChatMessage]],
) -> None:
    found = change((*MESSAGES,))
    assert isinstance(found, list)
    assert change(MESSAGES) == found


@as_one_test
@pytest.mark.parametrize("given", ["nope", b"nope", {"role": "user"}, None, 3, iter(MESSAGES)])
def test_what_is_no_list_of_messages_is_an_error(given: list[ChatMessage]) -> None:
    for change in (
        lambda: mask_old_tool_results(given, SHORT),
        lambda: mask_old_tool_results(given, MaskPolicy()),
        lambda: redact_tool_results(given, RedactionPolicy()),
        lambda: reduce_history(given, ReductionOptions()),
    ):
        with pytest.raises(WireError) as caught:
            change()
        expected = f"expected a list of messages, got {type(given).__name__} in 'messages'"
        assert expected == str(caught.value)


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_the_last_window_turns_stay_and_all_before_them_are_masked(
    writer: Writer, window: int
) -> None:
    (*_, told) = requests(writer, 6)
    expected = ["masked"] * (5 - window) + ["in_window"] * window
    assert expected == reasons(mask(told, replace(SHORT, window_turns=window)))


@as_one_test
@IN_EVERY_FORMAT
def test_the_window_slides_at_every_turn_where_nothing_has_a_price(writer: Writer) -> None:
    """It is the window's edge by definition, however long the placeholders are."""
    policy = replace(SHORT, placeholder_template="long " * 200)
    found = [reasons(mask(told, policy)).count("masked") for told in requests(writer, 6)]
    assert [0, 0, 1, 2, 3, 4] == found


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("later", "window", "expected"),
    [
        pytest.param([Model((Ask("b"),))], 1, "masked", id="without its results, so far"),
        pytest.param([Model((Ask("b"), Ask("c")))], 2, "in_window", id="parallel calls are one"),
        pytest.param([Model(text="Done."), User()], 1, "in_window", id="without calls it is none"),
    ],
)
def test_what_counts_as_a_tool_turn(
    writer: Writer, later: list[Step], window: int, expected: str
) -> None:
    told = writer.tell(User(), *turn("a", OUTPUT), *later)
    assert [expected] == reasons(mask(told, replace(SHORT, window_turns=window)))


@IN_FORMATS_WITH_IDS
@pytest.mark.parametrize("prices", [FREE, CACHED], ids=["a sliding window", "one with a price"])
def test_what_stands_behind_the_last_answer_is_never_masked(
    writer: Writer, prices: BoundaryPrices
) -> None:
    """However old its call is, the model has not read it yet."""
    late = Tools((Give("old", OUTPUT),))
    told = writer.tell(User(), *turn("old", OUTPUT), *turn("b", OUTPUT), late)
    assert ["in_window"] * 2 == reasons(mask(told, SHORT, prices))[1:]
    read = told.then(Model(text="So."))
    assert reasons(mask(read, SHORT, prices))[2] in ("masked", "held")


@as_one_test
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(assistant(), id="an empty list"),
        pytest.param({"role": "assistant", "tool_calls": None}, id="null"),
        pytest.param({"role": "assistant", "tool_calls": {"id": "b"}}, id="no list"),
        pytest.param(assistant(call("")), id="an empty id"),
        pytest.param(assistant(call(7)), id="an id that is no text"),
        pytest.param({"role": "user", "tool_calls": [call("b")]}, id="another role"),
    ],
)
def test_it_takes_a_call_with_an_id_to_make_a_turn(message: ChatMessage) -> None:
    messages = [*chat_turn("a", OUTPUT), message]
    assert messages is mask_old_tool_results(messages, SHORT)


def test_text_results_of_role_tool_alone_are_masked() -> None:
    odd: list[ChatMessage] = [
        {"role": "user", "tool_call_id": "a", "content": OUTPUT},
        {"role": "tool", "tool_call_id": "a", "content": {"text": OUTPUT}},
        {"role": "tool", "tool_call_id": "a", "content": None},
        {"role": "tool", "tool_call_id": "a"},
    ]
    messages = [assistant(call("a")), *odd, *chat_turn("b")]
    assert messages is mask_old_tool_results(messages, SHORT)
