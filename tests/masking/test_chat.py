from typing import NamedTuple

import pytest
from hypothesis import given

from masking import ChatMessage, WireError
from tests.support.builders import (
    IMAGE,
    SECRET,
    assistant,
    call,
    conversations,
    parts,
    read,
    read_body,
    result,
    turn,
    unanswered,
)
from tests.support.marks import as_one_test


@as_one_test
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (assistant(call("a")), 1),
        (assistant(call("a"), call("b")), 1),
        (assistant(call(None), call("b")), 1),
        (assistant({"id": "a"}), 1),
        (assistant(), 0),
        (assistant(call("")), 0),
        (assistant(call(None), call(7)), 0),
        (assistant({"type": "function"}), 0),
        ({"role": "assistant", "tool_calls": ["a", None]}, 0),
        ({"role": "assistant", "tool_calls": None}, 0),
        ({"role": "assistant", "tool_calls": {"id": "a"}}, 0),
        ({"role": "assistant", "tool_calls": "a"}, 0),
        ({"role": "assistant", "content": "a"}, 0),
        ({"role": "user", "tool_calls": [call("a")]}, 0),
        ({"tool_calls": [call("a")]}, 0),
        (None, 0),
        (["assistant"], 0),
    ],
)
def test_a_tool_turn_is_an_assistant_message_with_a_usable_call(
    message: ChatMessage, expected: int
) -> None:
    assert expected == read([message]).turns


class Binding(NamedTuple):
    case: str
    messages: list[ChatMessage]
    expected: list[tuple[int | None, str | None]]
    """Turn and tool of each result."""


BINDINGS = [
    Binding("a turn", turn("a"), [(0, "shell")]),
    Binding(
        "parallel calls, answered in another order",
        [assistant(call("a", "ls"), call("b", "cat")), result("b"), result("a")],
        [(0, "cat"), (0, "ls")],
    ),
    Binding("a late answer", [assistant(call("a")), *unanswered(2), result("a")], [(0, "shell")]),
    Binding(
        "a re-used id: the nearest earlier turn",
        [*turn("a", tool="ls"), *turn("a", tool="cat"), result("a")],
        [(0, "ls"), (1, "cat"), (1, "cat")],
    ),
    Binding(
        "ids numbered from call_0 in each turn",
        [
            *(assistant(call("call_0", "ls"), call("call_1", "cat")), result("call_0")),
            *(assistant(call("call_0", "rg")), result("call_1"), result("call_0")),
        ],
        [(0, "ls"), (0, "cat"), (1, "rg")],
    ),
    Binding(
        "a result before its call: the first later turn",
        [result("a"), *unanswered(), *turn("a", tool="ls"), *turn("a", tool="cat")],
        [(1, "ls"), (1, "ls"), (2, "cat")],
    ),
    Binding("two results before their call", [result("a"), result("a"), *turn("a")],
            [(0, "shell")] * 3),
    Binding("an orphan", [*turn("a"), result("b")], [(0, "shell"), (None, None)]),
    Binding("a name that is no text", turn("a", tool=3), [(0, None)]),
    Binding("an empty name", turn("a", tool=""), [(0, None)]),
    Binding("no function", [assistant({"id": "a"}), result("a")], [(0, None)]),
    Binding("a function that is no object", [assistant({"id": "a", "function": "ls"}), result("a")],
            [(0, None)]),
    Binding("a later name is not an earlier one's",
            [*turn("a", tool=None), *turn("a", tool="ls")], [(0, None), (1, "ls")]),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", BINDINGS, ids=lambda given: given.case)
def test_a_result_belongs_to_a_turn(given: Binding) -> None:
    found = read(given.messages).results
    assert given.expected == [(result.turn, result.tool) for result in found]


@as_one_test
@pytest.mark.parametrize("call_id", [None, "", 7, True, ["a"], {"id": "a"}])
def test_an_id_that_is_no_text_names_no_call(call_id: object) -> None:
    (found,) = read([assistant(call(call_id)), result(call_id)]).results
    assert (found.call_id, found.turn, found.tool) == (None, None, None)


@as_one_test
@pytest.mark.parametrize(
    ("content", "kind", "texts"),
    [
        ("text", "string", ("text",)),
        ("", "string", ("",)),
        (parts("a", "b"), "text_parts", ("a", "b")),
        ([{"type": "text", "text": "a", "cache_control": {}}], "text_parts", ("a",)),
        ([*parts("a"), IMAGE], "text_parts", ("a",)),
        ([IMAGE, *parts("a"), 7], "text_parts", ("a",)),
        ([], "other", ()),
        (["a"], "other", ()),
        ([None], "other", ()),
        ([{"type": "text", "text": 3}], "other", ()),
        ([{"type": "text"}], "other", ()),
        ([{"type": "refusal", "text": "a"}], "other", ()),
        ([{"text": "a"}], "other", ()),
        (None, "other", ()),
        (12, "other", ()),
        (True, "other", ()),
        ({"type": "text", "text": "a"}, "other", ()),
    ],
)
def test_what_a_content_is(content: object, kind: str, texts: tuple[str, ...]) -> None:
    (found,) = read([None, result("a", content)]).results
    assert found.element == 1
    assert (kind, texts, "".join(texts)) == (found.kind, found.texts, found.text)


def test_where_a_text_stands() -> None:
    messages = [result("a", "text"), result("a", parts("a", "b"))]
    string, listed = read(messages).results
    assert (0, ("content",)) == (string.element, string.replace(0, "").slot)
    assert (1, ("content", 1, "text")) == (listed.element, listed.replace(1, "").slot)


def test_a_result_without_content() -> None:
    (found,) = read([{"role": "tool", "tool_call_id": "a"}]).results
    assert (found.kind, found.texts) == ("other", ())


@as_one_test
@pytest.mark.parametrize(
    ("flag", "expected"), [(True, True), (False, False), ("true", False), (1, False), (None, False)]
)
def test_a_result_may_say_that_it_is_an_error(flag: object, expected: bool) -> None:
    (found,) = read([{**result(), "is_error": flag}]).results
    assert expected == found.is_error


@as_one_test
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "body"),
        ({"Messages": [SECRET]}, "body"),
        ({"messages": None}, "body.messages"),
        ({"messages": SECRET}, "body.messages"),
        ({"messages": {SECRET: 1}}, "body.messages"),
        ({"messages": 3}, "body.messages"),
        ({"messages": True}, "body.messages"),
    ],
)
def test_a_body_without_a_list_of_messages(body: dict[str, object], path: str) -> None:
    with pytest.raises(WireError) as caught:
        read_body(body)
    assert path == caught.value.path
    assert SECRET not in str(caught.value)


def test_no_messages_at_all() -> None:
    found = read([])
    assert (found.turns, found.results) == (0, ())


def _expected_turn(messages: list[ChatMessage], at: int, call_id: object) -> int | None:
    """Schéma 1 by the letter: look back for the turn that declares the id, then forward."""
    turns = [(i, ids) for i, message in enumerate(messages) if (ids := _declared_ids(message))]
    before = [n for n, (i, ids) in enumerate(turns) if i < at and call_id in ids]
    after = [n for n, (i, ids) in enumerate(turns) if i > at and call_id in ids]
    return next(iter([*reversed(before), *after]), None)


def _declared_ids(message: object) -> list[str]:
    match message:
        case {"role": "assistant", "tool_calls": list(calls)}:
            return [c["id"] for c in calls if isinstance(c, dict) and _is_id(c.get("id"))]
    return []


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value != ""


PATH = ("file_path", "path")


@as_one_test
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"name": "read", "arguments": '{"path": "a.py"}'}, ("read", "a.py")),
        ({"name": "read", "arguments": '{"path": "b", "file_path": "a.py"}'}, ("read", "a.py")),
        ({"name": "read", "arguments": {"path": "a.py"}}, ("read", "a.py")),
        ({"arguments": '{"path": "a.py"}'}, (None, "a.py")),
        ({"name": "read", "arguments": '{"path": 7}'}, None),
        ({"name": "read", "arguments": '{"path": "a.py"'}, None),
        ({"name": "read", "arguments": '["path"]'}, None),
        ({"name": "read", "arguments": '{"command": "cat a.py"}'}, None),
        ({"name": "read"}, None),
        (None, None),
    ],
)
def test_a_call_has_a_target(function: object, expected: object) -> None:
    calls = [{"id": "a", "function": function}]
    messages = [{"role": "assistant", "tool_calls": calls}, result("a")]
    body = {"messages": messages}
    assert [expected] == [found.target for found in read_body(body, PATH).results]
    assert [None] == [found.target for found in read_body(body).results]


@given(messages=conversations())
def test_every_result_is_found_once_and_bound_by_the_letter(messages: list[ChatMessage]) -> None:
    expected = [
        (i, _expected_turn(messages, i, m.get("tool_call_id")))
        for i, m in enumerate(messages)
        if isinstance(m, dict) and m.get("role") == "tool"
    ]
    found = read(messages).results
    assert expected == [(result.element, result.turn) for result in found]


THOUGHT = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]


@as_one_test
@pytest.mark.parametrize(
    ("model", "message", "expected"),
    [
        pytest.param("claude-opus-5-5", {"thinking_blocks": THOUGHT}, "may_refuse", id="LiteLLM's"),
        pytest.param("claude-opus-5-5", {"thinking_blocks": []}, None, id="no block"),
        pytest.param("anthropic/claude-opus-5.5", {"reasoning_details": [{}]}, None, id="others"),
        pytest.param("claude-opus-5", {"thinking_blocks": THOUGHT}, None, id="an older model"),
        pytest.param("gpt-5.6", {"thinking_blocks": THOUGHT}, None, id="another maker's model"),
    ],
)
def test_bound_thinking_that_litellm_passes_on(
    model: str, message: dict[str, object], expected: str | None
) -> None:
    answer = {"role": "assistant", "content": "I look.", **message}
    found = read_body({"model": model, "messages": [answer]})
    assert expected == found.binding
    assert found.elements[0].is_bound == bool(message.get("thinking_blocks"))
