"""Bedrock's Converse: what is read of a message, a request and a path."""

import json
from typing import Any

import pytest

from masking.conversation import Request
from masking.model import UNKNOWN, Call, Element, ElementSize
from masking.rewrite import read_request
from masking.tokens import estimate_tokens
from masking.wire.converse import CONVERSE
from masking.wire.format import HeadSize, Marks
from tests.support.builders import MASK_ALL, OLD
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request

POINT = {"cachePoint": {"type": "default"}}
HOUR = {"cachePoint": {"type": "default", "ttl": "1h"}}
IMAGE = {"image": {"format": "png", "source": {"bytes": "aaaa"}}}
TOOL = {"toolSpec": {"name": "shell", "inputSchema": {"json": {"type": "object"}}}}
CLAUDE = "us.anthropic.claude-opus-5-5-v1:0"


def result(*parts: object, **others: object) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": "a", "content": [*parts], **others}}


def said(*blocks: object, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [*blocks]}


AT = ("content", 1, "toolResult", "content")


@as_one_test
@pytest.mark.parametrize(
    ("parts", "kind", "texts", "slots", "wrap"),
    [
        pytest.param([{"text": "out"}], "string", ("out",), ((0, "text"),), None, id="a text"),
        pytest.param(
            [{"text": "a"}, {"text": "b"}],
            *("text_parts", ("a", "b"), ((0, "text"), (1, "text")), None),
            id="two texts",
        ),
        pytest.param(
            [IMAGE, {"text": "a"}, {"json": {}}],
            *("text_parts", ("a",), ((1, "text"),), None),
            id="a text between others",
        ),
        pytest.param(
            [{"json": {"code": 0}}],
            *("string", ('{"code":0}',), ((0, "json"),), "text"),
            id="an object",
        ),
        pytest.param(
            [{"json": {"text": "<a>"}}],
            *("string", ("<a>",), ((0, "json", "text"),), None),
            id="an object with a text alone",
        ),
        pytest.param(
            [{"json": "out"}], "string", ("out",), ((0, "json"),), None, id="a JSON string"
        ),
        pytest.param([{"json": [1]}], "other", (), (), None, id="a JSON list"),
        pytest.param([{"json": {"a": "\ud800"}}], "other", (), (), None, id="a lone surrogate"),
        pytest.param([{"json": {}}, {"json": {}}], "other", (), (), None, id="two objects"),
        pytest.param([IMAGE], "other", (), (), None, id="an image alone"),
        pytest.param([{"text": 7}, None], "other", (), (), None, id="odd parts"),
        pytest.param([], "other", (), (), None, id="nothing"),
    ],
)
def test_what_a_result_is(
    parts: list[object],
    kind: str,
    texts: tuple[str, ...],
    slots: tuple[tuple[object, ...], ...],
    wrap: str | None,
) -> None:
    found = CONVERSE.read_element(said({"text": "before"}, result(*parts))).results[0]
    assert (found.call_id, found.kind, found.texts, found.wrap) == ("a", kind, texts, wrap)
    assert found.slots == tuple((*AT, *slot) for slot in slots)


@as_one_test
@pytest.mark.parametrize(
    ("others", "call_id", "is_error"),
    [
        ({}, "a", False),
        ({"status": "success"}, "a", False),
        ({"status": "error"}, "a", True),
        ({"toolUseId": ""}, None, False),
        ({"content": None}, "a", False),
    ],
)
def test_ids_and_errors(others: dict[str, object], call_id: str | None, is_error: bool) -> None:
    found = CONVERSE.read_element(said(result({"text": "out"}, **others))).results[0]
    assert (found.call_id, found.is_error) == (call_id, is_error)


def test_an_answer_has_texts_calls_and_bound_reasoning() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
    use = {"toolUse": {"toolUseId": "a", "name": "shell", "input": {"command": "ls"}}}
    found = CONVERSE.read_element(
        said(thought, {"text": "I look."}, use, POINT, None, result(), role="assistant")
    )
    assert found == Element(
        "assistant", ("I look.",), (Call("a", "shell", {"command": "ls"}),), (), is_bound=True
    )
    assert CONVERSE.read_element(said(use)).calls == ()


@pytest.mark.parametrize(
    ("message", "speaker"),
    [
        ({"role": "user", "content": "Go."}, "user"),
        ({"role": "tool"}, "unknown"),
        ({"role": ["user"]}, "unknown"),
    ],
)
def test_who_speaks(message: object, speaker: str) -> None:
    assert CONVERSE.read_element(message) == Element(speaker)  # type: ignore[arg-type]
    assert CONVERSE.read_element("Go.") == UNKNOWN


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/model/us.anthropic.claude-opus-5-v1%3A0/converse", "us.anthropic.claude-opus-5-v1:0"),
        ("/model/arn%3Aaws%3Abedrock%3Ax%2Fy/converse-stream", "arn:aws:bedrock:x/y"),
        ("/model/arn:aws:bedrock:x/y/count-tokens", "arn:aws:bedrock:x/y"),
        ("/v1/messages", None),
    ],
)
def test_the_model_is_in_the_path(path: str, expected: str | None) -> None:
    assert CONVERSE.find_model({}, path) == expected


def test_the_path_says_whether_to_stream() -> None:
    assert CONVERSE.streams({}, "/model/m/converse-stream")
    assert not CONVERSE.streams({}, "/model/m/converse")


def test_what_the_provider_trims_goes_out_whole() -> None:
    trims = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    expected = "the provider trims the history (clear_tool_uses_20250919)"
    assert CONVERSE.find_obstacle({"additionalModelRequestFields": trims}) == expected
    assert CONVERSE.find_obstacle({"additionalModelRequestFields": 7}) is None


@pytest.mark.parametrize(
    ("more", "model", "expected"),
    [
        ({}, CLAUDE, "may_refuse"),
        ({}, "us.anthropic.claude-sonnet-4-5-v1:0", None),
        ({}, "amazon.nova-pro-v1:0", None),
        ({"block_binding": {"prefix_mismatch_behavior": "drop_block"}}, CLAUDE, None),
    ],
)
def test_what_becomes_of_bound_reasoning(
    more: dict[str, Any], model: str, expected: str | None
) -> None:
    document = {"additionalModelRequestFields": {"thinking": more}}
    assert CONVERSE.on_history_edit(document, model, ()) == expected


BODY: dict[str, Any] = {
    "messages": [said({"text": "Go."}, POINT), said(HOUR, role="assistant"), 7],
    "system": [{"text": "Be brief."}, POINT, {"text": "Really."}],
    "toolConfig": {"tools": [TOOL, POINT]},
}


@pytest.mark.parametrize("wrapped", [False, True], ids=["a request", "a count of its tokens"])
def test_cache_points_are_marks(wrapped: bool) -> None:
    document = {"input": {"converse": BODY}} if wrapped else BODY
    assert Request(document, CONVERSE).marks == Marks(True, True, ("5m", "5m", "5m", "1h"))


def test_without_cache_points_there_is_no_mark() -> None:
    document = {"messages": [{"content": [{"cachePoint": 7}]}, {}]}
    assert Request(document, CONVERSE).marks == Marks()


def test_a_message_without_its_cache_points() -> None:
    assert CONVERSE.unmark(BODY["messages"][0]) == said({"text": "Go."})
    assert [CONVERSE.unmark(each) for each in (7, {"content": "x"})] == [7, {"content": "x"}]


def test_tools_and_texts_before_the_list() -> None:
    assert CONVERSE.find_tools(BODY) == [TOOL]
    assert [CONVERSE.find_tools(each) for each in ({}, {"toolConfig": {"tools": [POINT]}})] == [
        None,
        None,
    ]
    assert CONVERSE.find_head_texts(BODY) == ("Be brief.", "Really.")


def test_the_head_is_measured_up_to_its_last_cache_point() -> None:
    tools = estimate_tokens(json.dumps([TOOL], separators=(",", ":")))
    brief, really = estimate_tokens("Be brief."), estimate_tokens("Really.")
    assert CONVERSE.measure_head(BODY) == HeadSize(tools + brief + really, tools + brief)
    plain = BODY | {"system": "no list"}
    assert CONVERSE.measure_head(plain) == HeadSize(tools, tools)
    assert CONVERSE.measure_head({"system": [{"text": "Be brief."}]}) == HeadSize(brief)


def test_a_message_is_measured_by_its_blocks() -> None:
    out = estimate_tokens("out")
    thought = {"reasoningContent": {"reasoningText": {"text": "out"}}}
    use = {"toolUse": {"toolUseId": "a", "name": "ou", "input": "t"}}
    assert CONVERSE.measure_element(
        said({"text": "out"}, result({"text": "out"}), POINT)
    ) == ElementSize(4 + out + 8 + out, ((4 + out + 8, out),))
    assert CONVERSE.measure_element(said(thought)) == ElementSize(4 + out)
    assert CONVERSE.measure_element(said(use)) == ElementSize(4 + 8 + estimate_tokens('ou"t"'))
    assert CONVERSE.measure_element(said(IMAGE)) == CONVERSE.measure_element(said(None))
    assert CONVERSE.measure_element(said(result(content=None))) == ElementSize(12, ((12, 0),))
    assert (CONVERSE.measure_element(7), CONVERSE.measure_element({})) == (
        ElementSize(0),
        ElementSize(4),
    )


def test_texts_that_are_tokens() -> None:
    use = {"toolUse": {"name": "shell", "input": {"a": 1}}}
    given = result({"text": "out"}, {"json": [1]}, IMAGE)
    assert CONVERSE.count_parts(said({"text": "Go."}, use, given)) == (
        ["Go.", "shell", '{"a":1}', "out", "[1]"],
        4 + 2 * 8 + 1_600,
    )
    assert CONVERSE.count_parts(7) == ([], 0)


def test_an_old_object_gives_way_to_a_placeholder_and_stays_so() -> None:
    turns = [
        message
        for number in range(3)
        for message in (
            said({"toolUse": {"toolUseId": f"{number}", "name": "shell", "input": {}}},
                 role="assistant"),
            said({"toolResult": {"toolUseId": f"{number}", "content": [{"json": {"out": OLD}}]}}),
        )
    ]  # fmt: skip
    body = json.dumps({"messages": [said({"text": "Go."}), *turns]}).encode()
    once = rewrite_request(body, MASK_ALL, CONVERSE)
    masked = json.loads(once.body)["messages"][2]["content"][0]["toolResult"]["content"]
    assert [*masked[0]["json"]] == ["text"]
    assert masked[0]["json"]["text"].startswith("<0|shell|")
    assert rewrite_request(once.body, MASK_ALL, CONVERSE).body == once.body


def test_a_count_is_read_like_the_request() -> None:
    body = json.dumps({"input": {"converse": BODY}}).encode()
    found = read_request(body, CONVERSE, "/model/m/count-tokens")
    assert (found.list_path, len(found.elements)) == (("input", "converse", "messages"), 3)
    assert found.body == BODY
