import json
from typing import Any

import pytest

from masking.tokens import TokenCounter, estimate_tokens
from masking.window import lay_out
from masking.window.boundary import RequestSize
from masking.wire.chat import CHAT
from masking.wire.format import measure_tools, render_tools
from tests.support.builders import read, read_body
from tests.support.kinds import KINDS, make_text, make_tools
from tests.support.marks import as_one_test

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
LOW = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}


def measure_message(message: dict[str, Any]) -> int:
    return CHAT.measure_element(message).total


MESSAGES: list[tuple[str, dict[str, Any], int]] = [
    ("nothing", {}, 4),
    ("no content", {"role": "assistant", "content": None}, 4),
    ("a text", {"role": "user", "content": "hello world"}, 4 + 2),
    ("text parts", {"content": [{"type": "text", "text": "hello world"}] * 2}, 4 + 2 + 2),
    ("a refusal", {"content": [{"type": "refusal", "refusal": "hello world"}]}, 4 + 2),
    ("an image", {"content": [IMAGE]}, 4 + 1_600),
    ("an image of low detail", {"content": [LOW]}, 4 + 85),
    ("an image without its object", {"content": [{"type": "image_url", "image_url": "x"}]}, 1_604),
    ("audio", {"content": [{"type": "input_audio", "input_audio": {"data": ""}}]}, 1_604),
    ("a part that is no object", {"content": [7]}, 1_604),
    ("a text part without text", {"content": [{"type": "text", "text": 7}]}, 1_604),
    ("content that is an object", {"content": {"text": "hello"}}, 4),
    ("a call", {"tool_calls": [CALL]}, 4 + 8 + estimate_tokens("shell{}")),
    ("two calls", {"tool_calls": [CALL, CALL]}, 4 + 2 * (8 + estimate_tokens("shell{}"))),
    ("odd calls", {"tool_calls": [3, {}, {"function": 3}, {"function": {"name": 3}}]}, 4 + 4 * 8),
    ("calls that are no list", {"tool_calls": {}}, 4),
]


def _count(message: object) -> int:
    texts, others = CHAT.count_parts(message)
    return others + sum(map(TokenCounter().count, texts))


@as_one_test
@pytest.mark.parametrize(
    ("message", "expected"), [(m, e) for _, m, e in MESSAGES], ids=[name for name, _, _ in MESSAGES]
)
def test_size_of_a_message(message: dict[str, Any], expected: int) -> None:
    assert expected == measure_message(message)


@as_one_test
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_measured_as_its_tokens_are_counted(kind: str) -> None:
    function = {"name": "write_file", "arguments": json.dumps({"text": make_text(kind, 2_000)})}
    message = {"content": make_text(kind, 9_000), "tool_calls": [{"function": function}]}
    assert measure_message(message) == pytest.approx(_count(message), rel=0.3)


@pytest.mark.parametrize("chars", [1_000, 10_000, 100_000])
def test_tool_schemas_are_measured_as_their_tokens_are_counted(chars: int) -> None:
    tools = make_tools(chars)
    assert measure_tools(tools) == pytest.approx(TokenCounter().count(render_tools(tools)), rel=0.1)


def test_no_tool_schemas_have_no_size() -> None:
    assert 0 == measure_tools(None)


@as_one_test
@pytest.mark.parametrize("schema", ["\ud800", "é" * 100, float("nan"), 10**400, {1: 2}], ids=repr)
def test_any_tool_schema_has_a_size(schema: object) -> None:
    assert measure_tools([schema]) > 1


def test_a_schema_nested_too_deeply_counts_as_nothing() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert 0 == measure_tools(deep)


def test_each_message_of_the_assistant_was_a_request() -> None:
    messages = [
        {"role": "user", "content": "hello world"},
        7,
        {"role": "assistant", "content": "hello world", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": [IMAGE]},
        {"role": "assistant", "tool_calls": {}},
    ]
    tools = make_tools(1_000)
    first = measure_tools(tools) + 4 + 2
    result = first + 4 + 2 + 8 + estimate_tokens("shell{}")
    layout = lay_out(read_body({"messages": messages, "tools": tools}))
    assert ((result,), (1_600,)) == (layout.offsets, layout.sizes)
    assert layout.requests == (
        RequestSize(first, 0, 0),
        RequestSize(result + 1_604, 1, 1),
        RequestSize(result + 1_604 + 4, 1, 1),
    )


@as_one_test
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool", "function", None])
def test_a_message_of_any_role_counts_with_its_content_and_its_calls(role: object) -> None:
    message = {"role": role, "content": "hello world", "tool_calls": [CALL]}
    assert lay_out(read([message])).requests[-1].size == measure_message(message)
