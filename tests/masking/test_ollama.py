from typing import Any

import pytest

from masking.conversation import Request
from masking.model import UNKNOWN, Call, Element
from masking.tokens import estimate_tokens
from masking.wire import find_format
from masking.wire.format import HeadSize, Marks
from masking.wire.ollama import OLLAMA
from tests.support.marks import as_one_test


def call(name: object = "read", **others: object) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": {"path": "a.py"}}, **others}


def assistant(*calls: object) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [*calls]}


def result(content: object = "out", **others: object) -> dict[str, Any]:
    return {"role": "tool", "content": content, **others}


@as_one_test
@pytest.mark.parametrize(
    ("called", "expected"),
    [
        pytest.param(call(), Call("", "read", {"path": "a.py"}), id="no id"),
        pytest.param(call(id="a"), Call("a", "read", {"path": "a.py"}), id="an id"),
        pytest.param(call(id=7), Call("", "read", {"path": "a.py"}), id="a number as id"),
        pytest.param(call(None), Call(None, None, {"path": "a.py"}), id="no name"),
        pytest.param({}, Call(None, None, None), id="no function"),
        pytest.param(None, Call(None, None, None), id="null"),
    ],
)
def test_what_a_call_is(called: object, expected: Call) -> None:
    assert (expected,) == OLLAMA.read_element(assistant(called)).calls


@as_one_test
@pytest.mark.parametrize(
    ("message", "call_id", "tool", "kind"),
    [
        pytest.param(result(tool_name="read"), "", "read", "string", id="its tool"),
        pytest.param(result(name="read"), "", "read", "string", id="its tool in the old spelling"),
        pytest.param(result(tool_call_id="a"), "a", None, "string", id="an id"),
        pytest.param(result(tool_name=7), "", None, "string", id="neither"),
        pytest.param(result(None, tool_name="read"), "", "read", "other", id="no content"),
    ],
)
def test_what_a_result_is(
    message: dict[str, Any], call_id: str, tool: str | None, kind: str
) -> None:
    (found,) = OLLAMA.read_element(message).results
    assert (call_id, tool, kind) == (found.call_id, found.tool, found.kind)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "Go."}, Element("user", ("Go.",))),
        ({"role": "system", "content": "Be brief."}, Element("system", ("Be brief.",))),
        ({"role": "assistant", "content": "Done."}, Element("assistant", ("Done.",))),
        (None, UNKNOWN),
    ],
)
def test_who_speaks(message: object, expected: Element) -> None:
    assert expected == OLLAMA.read_element(message)


ARGUMENTS = estimate_tokens('{"path":"a.py"}')
SIZES: list[tuple[str, object, int, tuple[tuple[int, int], ...]]] = [
    ("a text", {"role": "user", "content": "hello world"}, 4 + 2, ()),
    ("images", {"role": "user", "content": "", "images": ["aGk=", "aGk="]}, 4 + 3_200, ()),
    ("a call", assistant(call()), 4 + 8 + estimate_tokens("read") + ARGUMENTS, ()),
    ("odd calls", assistant({}, {"function": {"arguments": 7}}, None), 4 + 3 * 8, ()),
    ("a thought", {"role": "assistant", "thinking": "hello world"}, 4 + 2, ()),
    ("a result", result("hello world"), 4 + 2, ((0, 2),)),
    ("no message", None, 0, ()),
]


@as_one_test
@pytest.mark.parametrize(
    ("message", "total", "results"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES]
)
def test_size_of_a_message(
    message: object, total: int, results: tuple[tuple[int, int], ...]
) -> None:
    assert (total, results) == OLLAMA.measure_element(message)


def test_texts_that_are_tokens() -> None:
    message = {**assistant(call()), "content": "I look.", "thinking": "Hm."}
    assert (["I look.", "read", '{"path":"a.py"}', "Hm."], 4 + 8) == OLLAMA.count_parts(message)
    assert ([], 0) == OLLAMA.count_parts(None)


def test_tools_are_all_of_the_head() -> None:
    tools = [{"type": "function", "function": {"name": "read"}}]
    expected = HeadSize(estimate_tokens('[{"type":"function","function":{"name":"read"}}]'))
    assert expected == OLLAMA.measure_head({"tools": tools})


def test_a_server_of_ones_own_has_neither_marks_nor_bound_reasoning() -> None:
    message = assistant() | {"cache_control": {"type": "ephemeral"}, "thinking_blocks": [{}]}
    request = Request({"messages": [message], "model": "claude-fable-5"}, OLLAMA)
    assert (Marks(), None) == (request.marks, request.binding)


@pytest.mark.parametrize(
    ("document", "expected"), [({}, True), ({"stream": True}, True), ({"stream": False}, False)]
)
def test_an_answer_is_streamed_unless_the_request_says_no(
    document: dict[str, object], expected: bool
) -> None:
    assert expected == OLLAMA.streams(document, "/api/chat")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/chat", (OLLAMA, "answer")),
        ("/ollama/api/chat", (OLLAMA, "answer")),
        ("/api/generate", None),
    ],
)
def test_which_paths_are_its_own(path: str, expected: object) -> None:
    assert expected == find_format("POST", path)
