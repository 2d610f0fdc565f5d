"""Chapter 12: a named tool's result is redacted once the model has answered without a call."""

import json
from collections.abc import Sequence

import pytest

from masking import (
    ChatMessage,
    ConfigError,
    RedactionPolicy,
    redact_tool_results,
    rewrite_request,
    should_redact,
)
from masking.config import REDACTION_VARIABLE, apply_redaction_variable
from masking.rewrite import Strategies
from tests.spec.talk import IN_FORMATS_WITH_IDS, OUTPUT, mask, reasons
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

POLICY = RedactionPolicy(True, ("shell",), "<{tool_call_id} {tool_name} {original_chars}>")
ANSWER = Model(text="Done.")
CHAT_ANSWER: ChatMessage = {"role": "assistant", "content": "Done."}


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("scenario", "after", "expected"),
    [
        pytest.param(1, [ANSWER], "redacted", id="1: an answer"),
        pytest.param(2, [Model((Ask("b"),))], "in_use", id="2: another call"),
        pytest.param(3, [], "in_use", id="3: nothing"),
        pytest.param(3, [User()], "in_use", id="3: only the user"),
        pytest.param(4, [User(), Model((Ask("b"),))], "in_use", id="4: the user, then a call"),
        pytest.param(5, [*turn("b", "ok", "read"), ANSWER], "redacted", id="5: a call, an answer"),
        pytest.param(1, [ANSWER, User(), *turn("b", "ok", "read")], "redacted", id="1: and so on"),
    ],
)
def test_the_decision_matrix(
    writer: Writer, scenario: int, after: Sequence[Step], expected: str
) -> None:
    told = writer.tell(User(), *turn("a", OUTPUT), *after)
    first = mask(told, Strategies(redaction=POLICY)).decisions[0]
    assert (expected, scenario) == (first.reason, first.scenario)


@as_one_test
@IN_EVERY_FORMAT
def test_words_together_with_a_call_are_no_answer(writer: Writer) -> None:
    told = writer.tell(User(), *turn("a", OUTPUT), Model((Ask("b"),), "I look."))
    assert ["in_use"] == reasons(mask(told, Strategies(redaction=POLICY)))
    answered = told.then(Tools((Give("b", OUTPUT),)), ANSWER)
    assert ["redacted", "redacted"] == reasons(mask(answered, Strategies(redaction=POLICY)))


@IN_FORMATS_WITH_IDS
def test_parallel_calls_are_judged_one_by_one(writer: Writer) -> None:
    results = (Give("a", OUTPUT), Give("b", OUTPUT, "read"), Give("c", OUTPUT))
    calls = Model((Ask("a"), Ask("b", "read"), Ask("c")))
    told = writer.tell(User(), calls, Tools(results), ANSWER)
    rewrite = mask(told, Strategies(redaction=POLICY))
    assert ["redacted", "other_tool", "redacted"] == reasons(rewrite)


@as_one_test
@IN_EVERY_FORMAT
def test_a_redaction_is_new_after_the_first_answer_alone(writer: Writer) -> None:
    """So that it is traced once, and not at every later request."""
    told = writer.tell(User(), *turn("a", OUTPUT), ANSWER)
    for expected in (True, False, False):
        (decision,) = mask(told, Strategies(redaction=POLICY)).decisions
        assert expected is decision.is_new
        told = told.then(User(), ANSWER)


@as_one_test
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (POLICY, True),
        (RedactionPolicy(False, ("shell",)), False),
        (RedactionPolicy(True, ()), False),
        (RedactionPolicy(True, ("shel",)), False),
        (RedactionPolicy(True, ("Shell",)), False),
        (RedactionPolicy(True, ("sh*",)), False),
    ],
    ids=["the name", "off", "no names", "a part of it", "in another case", "a pattern"],
)
def test_tools_are_named_exactly(policy: RedactionPolicy, expected: bool) -> None:
    messages = [*chat_turn("a", OUTPUT), CHAT_ANSWER]
    assert expected is should_redact("shell", policy)
    assert expected is (redact_tool_results(messages, policy) is not messages)


def test_what_is_redacted_looks_like_this() -> None:
    messages = [*chat_turn("a", OUTPUT), CHAT_ANSWER]
    expected = [messages[0], result("a", "<a shell 600>"), CHAT_ANSWER]
    assert expected == redact_tool_results(messages, POLICY)
    assert result("a", OUTPUT) == messages[1]


@as_one_test
@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "assistant", "content": None}, id="content is irrelevant"),
        pytest.param({"role": "assistant", "tool_calls": None}, id="null"),
        pytest.param({"role": "assistant", "tool_calls": []}, id="an empty list"),
        pytest.param({"role": "critic", "content": "Hm."}, id="a role that nobody knows"),
        pytest.param(None, id="no object"),
    ],
)
def test_an_answer_has_no_calls_and_what_is_malformed_counts_as_one(message: ChatMessage) -> None:
    messages = [*chat_turn("a", OUTPUT), message]
    assert "<a shell 600>" == redact_tool_results(messages, POLICY)[1]["content"]


def test_malformed_messages_are_reported_so_that_there_is_a_warning() -> None:
    messages = [*chat_turn("a", OUTPUT), {"role": "critic"}, None]
    body = json.dumps({"messages": messages}).encode()
    redactions = rewrite_request(body, Strategies(redaction=POLICY)).redactions
    assert redactions is not None
    assert (2, 3) == redactions.malformed


@as_one_test
@pytest.mark.parametrize("role", ["system", "developer", "user", "tool", "function"])
def test_no_other_role_triggers_a_redaction(role: str) -> None:
    messages: list[ChatMessage] = [*chat_turn("a", OUTPUT), {"role": role, "content": "Done."}]
    assert messages is redact_tool_results(messages, POLICY)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([assistant(call("a")), {"role": "tool", "content": OUTPUT}], id="missing"),
        pytest.param([assistant(call("")), result("", OUTPUT)], id="empty"),
        pytest.param([assistant(call("a")), result("b", OUTPUT)], id="orphan"),
    ],
)
def test_a_result_with_a_missing_an_empty_or_an_orphan_id_stays(
    messages: list[ChatMessage],
) -> None:
    answered = [*messages, CHAT_ANSWER]
    assert answered is redact_tool_results(answered, POLICY)


@pytest.mark.parametrize("template", ["{unknown}", " ", "{recall}"])
def test_a_template_is_checked_when_it_is_loaded(template: str) -> None:
    """`{recall}`, too: what is redacted is not kept anywhere."""
    with pytest.raises(ConfigError):
        RedactionPolicy(True, ("shell",), template)


@as_one_test
@pytest.mark.parametrize(
    ("value", "expected", "warns"),
    [
        (None, False, False),
        *((value, True, False) for value in ("1", "t", "T", "true", "TRUE", "True")),
        *((value, False, False) for value in ("0", "f", "F", "false", "FALSE", "False")),
        *((value, True, True) for value in ("yes", "on", "", "2")),
    ],
)
def test_a_variable_of_the_environment_overrides_the_file(
    value: str | None, expected: bool, warns: bool
) -> None:
    assert "STREAM_REDACTION_ENABLED" == REDACTION_VARIABLE
    policy, warning = apply_redaction_variable(RedactionPolicy(False, ("shell",)), value)
    assert expected is policy.enabled
    assert warns is (warning is not None and repr(value) in warning)
