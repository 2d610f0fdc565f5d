import copy
import dataclasses
import json
import re
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage, ConfigError, MaskPolicy, mask_old_tool_results, should_redact
from masking.config import apply_redaction_variable
from masking.conversation import Request
from masking.edit.json_text import decode
from masking.messages_api import redact_tool_results
from masking.model import Edits, replacements_of
from masking.redaction import RedactionPolicy, Redactions, decide_redactions
from masking.wire import CHAT
from tests.support.builders import (
    IMAGE,
    MASK_ALL,
    OLD,
    TEMPLATE,
    Spelling,
    assistant,
    call,
    conversations,
    documents,
    examples,
    parts,
    policy,
    read,
    result,
    spellings,
    turn,
    unanswered,
)
from tests.support.marks import as_one_test

NAMED: Final = RedactionPolicy(True, ("stream", "tail"), TEMPLATE)

ANSWER: Final[ChatMessage] = {"role": "assistant", "content": "It says so."}
USER: Final[ChatMessage] = {"role": "user", "content": "And then?"}
SYSTEM: Final[ChatMessage] = {"role": "system", "content": "Be brief."}

REDACTED: Final = "<a|stream|330>"
"""What is left of `streamed()`."""

Found = tuple[int | None, str]
"""A scenario of the decision matrix, and a reason."""


class Case(NamedTuple):
    """A conversation, and what becomes of its tool results.

    `contents` are those that change, by the position of their message.
    """

    case: str
    messages: list[Any]
    found: list[Found]
    contents: dict[int, object] = {}  # noqa: RUF012 - never changed
    policy: RedactionPolicy = NAMED
    malformed: tuple[int, ...] = ()


def streamed(
    call_id: str = "a", content: object = OLD, tool: object = "stream"
) -> list[ChatMessage]:
    return turn(call_id, content, tool)


def redaction(**changes: object) -> RedactionPolicy:
    return dataclasses.replace(NAMED, **changes)  # type: ignore[arg-type]


def decide(messages: list[Any], chosen: RedactionPolicy = NAMED) -> Redactions:
    return decide_redactions(read(messages), chosen)


MATRIX = [
    Case("1: an answer", [*streamed(), ANSWER], [(1, "redacted")], {1: REDACTED}),
    Case("2: only other tool calls", [*streamed(), *turn("b")],
         [(2, "in_use"), (None, "other_tool")]),
    Case("2: a call without its result", [*streamed(), *unanswered()], [(2, "in_use")]),
    Case("3: the end of the conversation", streamed(), [(3, "in_use")]),
    Case("4: the user, then tool calls", [*streamed(), USER, *unanswered()], [(4, "in_use")]),
    Case("5: tool calls, then an answer", [*streamed(), *turn("b"), ANSWER],
         [(5, "redacted"), (None, "other_tool")], {1: REDACTED}),
]  # fmt: skip

BETWEEN_THE_ROWS = [
    Case("an answer, then a tool call", [*streamed(), ANSWER, *unanswered()], [(1, "redacted")],
         {1: REDACTED}),
    Case("an answer, then the user", [*streamed(), ANSWER, USER], [(1, "redacted")], {1: REDACTED}),
    Case("the user, then an answer", [*streamed(), USER, ANSWER], [(1, "redacted")], {1: REDACTED}),
    Case("the user, tool calls, then an answer", [*streamed(), USER, *unanswered(), ANSWER],
         [(5, "redacted")], {1: REDACTED}),
    Case("an answer on both sides of a call: the first one counts",
         [*streamed(), ANSWER, *unanswered(), ANSWER], [(1, "redacted")], {1: REDACTED}),
    Case("only the user", [*streamed(), USER], [(3, "in_use")]),
    Case("tool calls, then the user", [*streamed(), *unanswered(), USER], [(2, "in_use")]),
    Case("tool calls on both sides of the user", [*streamed(), *unanswered(), USER, *unanswered()],
         [(4, "in_use")]),
    *(
        Case(f"a {role} message is as the user's",
             [*streamed(), {"role": role, "content": ""}, *unanswered()], [(4, "in_use")])
        for role in ("system", "developer")
    ),
    *(
        Case(f"a {role} message is no answer", [*streamed(), {"role": role, "content": ""}],
             [(3, "in_use")])
        for role in ("system", "developer", "user", "function")
    ),
    Case("an answer before it does not count", [ANSWER, *streamed()], [(3, "in_use")]),
    Case("an answer between the call and its result does not count",
         [assistant(call("a", "stream")), ANSWER, result("a")], [(3, "in_use")]),
]  # fmt: skip

ANSWERS = [
    *(
        Case(f"an answer with {key} {value!r}",
             [*streamed(), {"role": "assistant", "content": "", key: value}],
             [(1, "redacted")], {1: REDACTED})
        for key, value in (
            ("tool_calls", None), ("tool_calls", []), ("content", None), ("content", ""),
            ("content", []), ("content", parts("x")), ("refusal", "no"), ("tool_calls", {"id": 1}),
        )
    ),
    Case("an answer with nothing", [*streamed(), {"role": "assistant"}], [(1, "redacted")],
         {1: REDACTED}),
    Case("calls with a content are no answer", [*streamed(), {**ANSWER, "tool_calls": [call("b")]}],
         [(2, "in_use")]),
    Case("calls without a usable id are no answer", [*streamed(), assistant(call(None), call(7))],
         [(2, "in_use")]),
    Case("calls that are no object are no answer",
         [*streamed(), {"role": "assistant", "tool_calls": [None]}], [(2, "in_use")]),
    Case("another role with no calls is no answer", [*streamed(), {**USER, "tool_calls": []}],
         [(3, "in_use")]),
]  # fmt: skip

NO_MESSAGES: list[object] = [
    None, 3, "assistant", [], ["role", "assistant"], {}, {"content": "x"}, {"role": None},
    {"role": 7}, {"role": ["user"]}, {"role": {}}, {"role": ""}, {"role": "Assistant"},
    {"role": "model", "tool_calls": [call("b")]},
]  # fmt: skip

MALFORMED = [
    *(
        Case(f"counts as an answer: {message!r}", [*streamed(), message], [(1, "redacted")],
             {1: REDACTED}, malformed=(2,))
        for message in NO_MESSAGES
    ),
    Case("after calls", [*streamed(), *unanswered(), None], [(5, "redacted")], {1: REDACTED},
         malformed=(3,)),
    Case("beside an answer", [*streamed(), None, ANSWER, {}], [(1, "redacted")], {1: REDACTED},
         malformed=(2, 4)),
    Case("before the result it decides nothing", [None, *streamed()], [(3, "in_use")]),
    Case("between two results it decides the first", [*streamed(), None, *streamed("b")],
         [(1, "redacted"), (3, "in_use")], {1: REDACTED}, malformed=(2,)),
    Case("without a named tool it decides nothing", [*turn(), None], [(None, "other_tool")]),
    Case("off, it decides nothing", [*streamed(), None], [(None, "off")],
         policy=redaction(enabled=False)),
]  # fmt: skip

KEPT = [
    Case("off", [*streamed(), ANSWER], [(None, "off")], policy=redaction(enabled=False)),
    Case("no names, no tool", [*streamed(), ANSWER], [(None, "off")],
         policy=redaction(tool_names=())),
    *(
        Case(f"another tool: {tool!r}", [*streamed(tool=tool), ANSWER], [(None, "other_tool")])
        for tool in ("shell", "Stream", "stream ", "streams", "strea", "", None, 3)
    ),
    Case("an empty name is no tool's", [*streamed(tool=""), ANSWER], [(None, "other_tool")],
         policy=redaction(tool_names=("",))),
    Case("the second name", [*streamed(tool="tail"), ANSWER], [(1, "redacted")],
         {1: "<a|tail|330>"}),
    Case("no id", [assistant(call("a", "stream")), {"role": "tool", "content": OLD}, ANSWER],
         [(None, "bad_id")]),
    *(
        Case(f"bad id {call_id!r}", [assistant(call(call_id, "stream")), result(call_id), ANSWER],
             [(None, "bad_id")])
        for call_id in (None, "", 7, True, ["a"])
    ),
    Case("orphan", [assistant(call("b", "stream")), result("a"), ANSWER], [(None, "orphan")]),
    *(
        Case(f"content {content!r}", [*streamed(content=content), ANSWER], [(1, "not_string")])
        for content in (None, 12, True, {"text": OLD}, [], [OLD], [None], [IMAGE])
    ),
    Case("no content",
         [assistant(call("a", "stream")), {"role": "tool", "tool_call_id": "a"}, ANSWER],
         [(1, "not_string")]),
    Case("what follows comes before the content", streamed(content=None), [(3, "in_use")]),
    Case("already redacted", [*streamed(content="<a|stream|5186>"), ANSWER],
         [(1, "already_masked")]),
    Case("another result's placeholder", [*streamed(content="<b|stream|5186>"), ANSWER],
         [(1, "redacted")], {1: "<a|stream|15>"}),
]  # fmt: skip

EDGES: list[Case] = [
    Case("no messages", [], []),
    Case("one message", [USER], []),
    Case("an answer alone", [ANSWER], []),
    Case("a call without its result", [assistant(call("a", "stream")), ANSWER], []),
    Case("a result alone", [result("a")], [(None, "orphan")]),
    Case("short or empty, redacted regardless",
         [*streamed(content=""), *streamed("b", "x"), ANSWER], [(5, "redacted"), (1, "redacted")],
         {1: "<a|stream|0>", 3: "<b|stream|1>"}),
    Case("an error is redacted as well", [*streamed(content="Error: timeout"), ANSWER],
         [(1, "redacted")], {1: "<a|stream|14>"}),
    Case("length in code points", [*streamed(content="😀é\ud800" * 9), ANSWER], [(1, "redacted")],
         {1: "<a|stream|27>"}),
    Case("parallel calls are judged one by one",
         [assistant(call("a", "stream"), call("b", "shell"), call("c", "tail")),
          result("c"), result("b"), result("a"), ANSWER],
         [(1, "redacted"), (None, "other_tool"), (1, "redacted")],
         {1: "<c|tail|330>", 3: REDACTED}),
    Case("of parallel calls one result comes only after the answer",
         [assistant(call("a", "stream"), call("b", "stream")), result("a"), ANSWER, result("b")],
         [(1, "redacted"), (3, "in_use")], {1: REDACTED}),
    Case("the last of parallel calls are all at the end",
         [assistant(call("a", "stream"), call("b", "stream")), result("a"), result("b")],
         [(3, "in_use"), (3, "in_use")]),
    Case("a re-used id belongs to the nearest earlier call",
         [*streamed("call_0"), *turn("call_0"), *streamed("call_0", "new"), ANSWER],
         [(5, "redacted"), (None, "other_tool"), (1, "redacted")],
         {1: "<call_0|stream|330>", 5: "<call_0|stream|3>"}),
    Case("before its call: the first later one",
         [result("a"), assistant(call("a", "stream")), ANSWER], [(5, "redacted")], {0: REDACTED}),
    Case("several rounds: the last one is still in use",
         [SYSTEM, USER, *streamed(), ANSWER, USER, *streamed("b"), *streamed("c")],
         [(1, "redacted"), (2, "in_use"), (3, "in_use")], {3: REDACTED}),
    Case("several rounds: all answered",
         [SYSTEM, USER, *streamed(), ANSWER, USER, *streamed("b"), *streamed("c"), ANSWER],
         [(1, "redacted"), (5, "redacted"), (1, "redacted")],
         {3: REDACTED, 7: "<b|stream|330>", 9: "<c|stream|330>"}),
    Case("each text part is redacted, whatever its length",
         [*streamed(content=parts(OLD, "x", "")), ANSWER], [(1, "redacted")],
         {1: parts(REDACTED, "<a|stream|1>", "<a|stream|0>")}),
    Case("text parts, one of them redacted before",
         [*streamed(content=parts("<a|stream|9>", OLD)), ANSWER], [(1, "redacted")],
         {1: parts("<a|stream|9>", REDACTED)}),
    Case("text parts, all redacted before", [*streamed(content=parts(REDACTED, REDACTED)), ANSWER],
         [(1, "already_masked")]),
    Case("other keys of a part stay",
         [*streamed(content=[{"text": OLD, "cache_control": 1, "type": "text"}]), ANSWER],
         [(1, "redacted")], {1: [{"text": REDACTED, "cache_control": 1, "type": "text"}]}),
]  # fmt: skip

CASES = [*MATRIX, *BETWEEN_THE_ROWS, *ANSWERS, *MALFORMED, *KEPT, *EDGES]
every_case = pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)


@as_one_test
@every_case
def test_decisions_their_scenarios_and_reasons(given: Case) -> None:
    found = decide(given.messages, given.policy)
    assert given.found == [(decision.scenario, decision.reason) for decision in found.decisions]
    assert given.malformed == found.malformed
    assert [*given.contents] == [
        decision.result.element for decision in found.decisions if decision.replacements
    ]


@as_one_test
@every_case
def test_redacts_nothing_but_those_contents(given: Case) -> None:
    before = copy.deepcopy(given.messages)
    after = redact_tool_results(given.messages, given.policy)
    assert before == given.messages
    assert (after is given.messages) == (not given.contents)
    assert len(before) == len(after)
    for position, (old, new) in enumerate(zip(given.messages, after, strict=True)):
        if position in given.contents:
            assert {**old, "content": given.contents[position]} == new
        else:
            assert old is new


@as_one_test
@every_case
def test_redacting_twice_equals_once(given: Case) -> None:
    once = redact_tool_results(given.messages, given.policy)
    assert once is redact_tool_results(once, given.policy)


# The policy.


def test_the_contracts_fields_and_their_defaults() -> None:
    expected = RedactionPolicy(False, (), MaskPolicy().placeholder_template)
    assert expected == RedactionPolicy()
    assert not RedactionPolicy().redacts


def test_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RedactionPolicy().enabled = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"placeholder_template": "{nope}"}, "placeholder_template"),
        ({"placeholder_template": " "}, "placeholder_template"),
        ({"tool_names": "stream"}, "tool_names"),
    ],
    ids=["an unknown field", "a blank template", "a string for the names"],
)
def test_a_bad_value_is_a_configuration_error(changes: dict[str, object], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        redaction(**changes)
    assert path == caught.value.path


# The environment's switch.


class Switch(NamedTuple):
    value: str
    expected: bool | None


SWITCHES = [
    *(Switch(value, True) for value in ("1", "t", "T", "TRUE", "true", "True", "tRuE")),
    *(Switch(value, False) for value in ("0", "f", "F", "FALSE", "false", "False", "fALSe")),
    *(
        Switch(value, None)
        for value in ("", " ", "yes", "no", "on", "off", "2", "-1", "01", " true", "false ", "tr",
                      "false\n", "None", "\uff54\uff52\uff55\uff45", "\u0661")
    ),
]  # fmt: skip
every_switch = pytest.mark.parametrize("given", SWITCHES, ids=lambda given: repr(given.value))


@as_one_test
@every_switch
@pytest.mark.parametrize("enabled", [True, False])
def test_the_switch_overrides_the_file(given: Switch, enabled: bool) -> None:
    switched, warning = apply_redaction_variable(redaction(enabled=enabled), given.value)
    assert redaction(enabled=given.expected is not False) == switched
    assert (warning is None) == (given.expected is not None)
    assert warning is None or repr(given.value) in warning


@pytest.mark.parametrize("enabled", [True, False])
def test_an_unset_switch_leaves_the_files_value(enabled: bool) -> None:
    chosen = redaction(enabled=enabled)
    assert (chosen, None) == apply_redaction_variable(chosen, None)


def test_a_mistaken_value_is_named_on_one_line_and_not_at_length() -> None:
    _, warning = apply_redaction_variable(NAMED, "no\n\x1b" + "x" * 1_000)
    assert warning is not None
    assert "STREAM_REDACTION_ENABLED" in warning
    assert "\\n\\x1bxxx" in warning
    assert warning.isprintable()
    assert len(warning) < 140


# Its measures.


def test_lengths_of_text_parts_and_of_what_is_kept() -> None:
    content = parts(OLD, "x")
    found = decide([*streamed(content=content), ANSWER, *streamed("b", content)])
    expected = [(331, len("<a|stream|330><a|stream|1>")), (331, 331)]
    assert expected == [(d.chars_before, d.chars_after) for d in found.decisions]


def test_a_result_is_newly_redacted_in_one_request_of_its_conversation() -> None:
    whole = [USER, *streamed(), *streamed("b"), ANSWER, USER, *streamed("c"), ANSWER, ANSWER, USER]
    whole += [*unanswered(), USER]
    ends = [n for n, message in enumerate(whole) if message["role"] == "assistant"] + [len(whole)]
    new = [
        (end, d.result.call_id) for end in ends for d in decide(whole[:end]).decisions if d.is_new
    ]
    assert new == [(7, "a"), (7, "b"), (10, "c")]


def test_a_malformed_message_at_the_end_makes_a_new_redaction() -> None:
    assert [d.is_new for d in decide([*streamed(), None]).decisions] == [True]
    assert [d.is_new for d in decide([*streamed(), None, ANSWER]).decisions] == [False]
    assert [d.is_new for d in decide([*streamed(content=REDACTED), ANSWER]).decisions] == [False]


@as_one_test
@pytest.mark.parametrize("given", [*MATRIX, *MALFORMED], ids=lambda given: given.case)
def test_measures_of_a_request(given: Case) -> None:
    scenarios = [scenario for scenario, _ in given.found]
    expected = (
        len(given.found),
        len(given.contents),
        tuple(scenarios.count(scenario) for scenario in (1, 2, 3, 4, 5)),
    )
    found = decide(given.messages, given.policy)
    redacted = sum(decision.reason == "redacted" for decision in found.decisions)
    assert expected == (len(found.decisions), redacted, found.scenarios)


# Beside Schéma 1.


def find_settled(found: Redactions) -> list[int]:
    reasons = [decision.reason for decision in found.decisions]
    return [at for at, reason in enumerate(reasons) if reason in ("redacted", "already_masked")]


def test_what_is_settled_is_not_for_the_window() -> None:
    messages = [
        *streamed(), *streamed("b", "<b|stream|7>"), *streamed("c", None), *turn("d"), ANSWER,
        *streamed("e"),
    ]  # fmt: skip
    assert [0, 1] == find_settled(decide(messages))


@given(conversations(), st.sampled_from([TEMPLATE, MaskPolicy().placeholder_template]))
def test_with_one_template_the_window_leaves_redacted_results_alone(
    messages: list[ChatMessage], template: str
) -> None:
    chosen = RedactionPolicy(True, ("shell", "read"), template)
    redacted = redact_tool_results(messages, chosen)
    windowed = policy(MASK_ALL, placeholder_template=template, mask_text_parts=True)
    after = mask_old_tool_results(redacted, windowed)
    for decision in decide(messages, chosen).decisions:
        if decision.reason in ("redacted", "already_masked"):
            assert redacted[decision.result.element] is after[decision.result.element]


# How much of a request is looked at.


# For every conversation: the contract once more, said naively.

redactions = st.builds(
    RedactionPolicy,
    st.sampled_from([True, True, True, False]),
    st.sampled_from([("shell",), ("shell", "read"), ("read", "é"), ("", "nowhere"), ()]),
    st.sampled_from([TEMPLATE, MaskPolicy().placeholder_template, "{original_chars}0", "…", '"\\']),
)

_answers = st.sampled_from(
    [ANSWER, {"role": "assistant"}, {**ANSWER, "tool_calls": None}, {**ANSWER, "tool_calls": []}]
)
chats = st.one_of(
    conversations(),
    st.builds(
        lambda first, then, last: [*first, *then, *last],
        conversations(),
        st.lists(st.one_of(_answers, st.just(USER)), max_size=2),
        conversations(),
    ),
)


def _is_answer(message: object) -> bool:
    if not isinstance(message, dict):
        return True
    if message.get("role") in ("system", "developer", "user", "tool", "function"):
        return False
    return message.get("role") != "assistant" or not _has_calls(message)


def _has_calls(message: object) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") == "assistant"
        and isinstance(message.get("tool_calls"), list)
        and message["tool_calls"] != []
    )


def _find_tool(messages: list[Any], at: int) -> object:
    """The name in the nearest earlier turn that declares the result's id, or the first later."""
    call_id = messages[at].get("tool_call_id")
    if not isinstance(call_id, str) or not call_id:
        return None
    turns = [
        (n, [c for c in m["tool_calls"] if isinstance(c, dict) and c.get("id") == call_id])
        for n, m in enumerate(messages)
        if _has_calls(m)
    ]
    named = [(n, calls[-1].get("function")) for n, calls in turns if calls]
    earlier = [function for n, function in named if n < at]
    later = [function for n, function in named if n > at]
    (function,) = earlier[-1:] or later[:1] or [None]
    return function.get("name") or None if isinstance(function, dict) else None


def _should_be_redacted(messages: list[Any], at: int, chosen: RedactionPolicy) -> bool:
    """Whether the contract has this message's content replaced, whatever it is."""
    message = messages[at]
    return (
        chosen.enabled
        and isinstance(message, dict)
        and message.get("role") == "tool"
        and _find_tool(messages, at) in chosen.tool_names
        and any(_is_answer(later) for later in messages[at + 1 :])
    )


def _redact(message: dict[str, Any], tool: object, template: str) -> dict[str, Any]:
    """Return the message with its texts replaced, but for those that are its placeholder."""
    known = {"{tool_call_id}": message["tool_call_id"], "{tool_name}": tool}
    pieces = [str(known.get(piece, piece)) for piece in re.split(r"(\{\w+\})", template)]
    number = "(0|[1-9][0-9]{0,19})"
    rendered = "".join(number if p == "{original_chars}" else re.escape(p) for p in pieces)

    def redact(text: str) -> str:
        count = str(len(text))
        placeholder = "".join(count if p == "{original_chars}" else p for p in pieces)
        return text if re.fullmatch(rendered, text) else placeholder

    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": redact(content)}
    if isinstance(content, list):
        redacted = [{**p, "text": redact(p["text"])} if _is_text(p) else p for p in content]
        return {**message, "content": redacted}
    return message


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and type(part.get("text")) is str


def _find_scenario(later: list[Any]) -> int:
    answers = [n for n, message in enumerate(later) if _is_answer(message)]
    calls = [n for n, message in enumerate(later) if _has_calls(message)]
    if answers:
        return 5 if calls and calls[0] < answers[0] else 1
    speakers = [n for n, m in enumerate(later) if m["role"] in ("system", "developer", "user")]
    if not calls:
        return 3
    return 4 if speakers and speakers[0] < calls[-1] else 2


@given(chats, redactions)
def test_is_what_the_contract_says(messages: list[Any], chosen: RedactionPolicy) -> None:
    expected = [
        _redact(message, _find_tool(messages, at), chosen.placeholder_template)
        if _should_be_redacted(messages, at, chosen)
        else message
        for at, message in enumerate(messages)
    ]
    assert expected == redact_tool_results(messages, chosen)


@given(chats, redactions)
def test_one_decision_per_result_with_its_scenario(
    messages: list[Any], chosen: RedactionPolicy
) -> None:
    found = decide(messages, chosen)
    results = [n for n, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "tool"]
    assert results == [decision.result.element for decision in found.decisions]
    assistants = [
        n for n, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "assistant"
    ]
    for at, decision in zip(results, found.decisions, strict=True):
        if decision.scenario is not None:
            assert _find_scenario(messages[at + 1 :]) == decision.scenario
        answered = decision.scenario in (1, 5)
        assert _should_be_redacted(messages, at, chosen) == answered
        before = messages[at + 1 : max(assistants, default=0)]
        is_new = decision.reason == "redacted" and not any(map(_is_answer, before))
        assert is_new == decision.is_new


@given(chats, redactions)
def test_no_input_is_mutated(messages: list[ChatMessage], chosen: RedactionPolicy) -> None:
    before = copy.deepcopy(messages)
    redact_tool_results(messages, chosen)
    assert before == messages


@given(chats, redactions)
def test_only_contents_of_named_tools_change(messages: list[Any], chosen: RedactionPolicy) -> None:
    after = redact_tool_results(messages, chosen)
    assert len(messages) == len(after)
    for at, (old, new) in enumerate(zip(messages, after, strict=True)):
        if old is not new:
            assert old["role"] == "tool"
            assert _find_tool(messages, at) in chosen.tool_names
            assert [*old] == [*new]
            assert {**old, "content": None} == {**new, "content": None}


@given(chats, redactions)
def test_twice_equals_once(messages: list[ChatMessage], chosen: RedactionPolicy) -> None:
    once = redact_tool_results(messages, chosen)
    assert once is redact_tool_results(once, chosen)
    before, after = decide(messages, chosen), decide(once, chosen)
    assert find_settled(before) == find_settled(after)
    assert [d.scenario for d in before.decisions] == [d.scenario for d in after.decisions]


@examples(0.4)
@given(chats, redactions)
def test_a_growing_conversation_never_takes_a_redaction_back(
    messages: list[ChatMessage], chosen: RedactionPolicy
) -> None:
    redacted: dict[int, ChatMessage] = {}
    for n in range(len(messages) + 1):
        after = redact_tool_results(messages[:n], chosen)
        assert redacted == {at: after[at] for at in redacted}
        redacted = {at: new for at, new in enumerate(after) if new is not messages[at]}


@given(documents(), spellings, redactions)
def test_its_replacements_can_be_spliced(
    document: dict[str, Any], spelling: Spelling, chosen: RedactionPolicy
) -> None:
    body = spelling.spell(document).encode()
    decoded: Any = decode(body)
    edits = Edits(replacements_of(decide(decoded["messages"], chosen).decisions))
    spliced = Request(decoded, CHAT, body=body).edit(edits) if edits.replacements else body
    before, after = json.loads(body), json.loads(spliced)
    assert {**before, "messages": redact_tool_results(before["messages"], chosen)} == after


@pytest.mark.parametrize(
    ("tool", "chosen", "expected"),
    [
        ("shell", RedactionPolicy(True, ("ls", "shell")), True),
        ("shells", RedactionPolicy(True, ("shell",)), False),
        ("shell", RedactionPolicy(False, ("shell",)), False),
        ("shell", RedactionPolicy(True, ()), False),
    ],
)
def test_a_tool_is_redacted_by_its_exact_name(
    tool: str, chosen: RedactionPolicy, expected: bool
) -> None:
    assert expected == should_redact(tool, chosen)
