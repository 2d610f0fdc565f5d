"""What an answer calls, for a next request that names it in place of the history."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from masking.conversation import Request
from masking.wire import MESSAGES, RESPONSES, AnsweredCalls, ServerHistory, read_calls
from tests.support.marks import as_one_test

FUNCTION = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": '{"n": 1}'}
CUSTOM = {"type": "custom_tool_call", "call_id": "call_2", "name": "exec", "input": "ls"}
OWN = {"type": "web_search_call", "id": "ws_1"}
OUTPUT = [{"type": "reasoning"}, FUNCTION, CUSTOM, OWN, None]
USE = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"n": 1}}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "content": [{"type": "text", "text": "Well."}, USE, {**USE, "id": 7}, "?"],
}


def spell(value: object) -> bytes:
    return json.dumps(value).encode()


def stream(*events: object) -> bytes:
    return b"".join(b"data: %b\n\n" % spell(event) for event in events)


def names(told: AnsweredCalls) -> tuple[str | None, dict[str, tuple[str | None, object]]]:
    return told.answer_id, {key: (each.tool, each.arguments) for key, each in told.calls.items()}


BOTH = {"call_1": ("bash", '{"n": 1}'), "call_2": ("exec", "ls")}


@as_one_test
@pytest.mark.parametrize(
    "bodies",
    [
        [spell({"id": "resp_1", "output": OUTPUT})],
        [spell({"type": "response.completed", "response": {"id": "resp_1", "output": OUTPUT}})],
        [stream({"type": "response.incomplete", "response": {"id": "resp_1", "output": OUTPUT}})],
        [
            stream(
                *({"type": "response.output_item.done", "item": item} for item in OUTPUT),
                {"type": "response.completed", "response": {"id": "resp_1", "output": []}},
            )
        ],
        [
            *(spell({"type": "response.output_item.done", "item": item}) for item in OUTPUT),
            spell({"type": "response.completed", "response": {"id": "resp_1", "output": []}}),
        ],
    ],
    ids=["whole", "event", "stream", "items of a stream", "messages of a socket"],
)
def test_a_response_tells_its_id_and_calls(bodies: list[bytes]) -> None:
    assert ("resp_1", BOTH) == names(read_calls(bodies))


def delta(index: object, piece: object) -> dict[str, object]:
    part = {"type": "input_json_delta", "partial_json": piece}
    return {"type": "content_block_delta", "index": index, "delta": part}


def opening(index: object, block: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


STREAM = stream(
    {"type": "message_start", "message": {"type": "message", "id": "msg_1", "content": []}},
    opening(0, {"type": "text", "text": "content"}),
    opening(1, {**USE, "input": {}}),
    opening(2, {**USE, "id": "toolu_2", "input": {}}),
    opening(3, {**USE, "id": "toolu_3", "input": {}}),
    opening([4], USE),
    opening(5, None),
    delta(1, '{"n"'),
    delta(1, ": 1}"),
    delta(2, "{"),
    delta(6, "{}"),
    delta([1], "input_json_delta"),
    {"type": "content_block_delta", "index": 1, "delta": "input_json_delta"},
)


def test_a_message_tells_its_id_and_calls() -> None:
    expected = {"toolu_1": ("shell", {"n": 1})}
    assert ("msg_1", expected) == names(read_calls([spell(MESSAGE)]))
    # A call whose arguments do not come to their end is none; one without any has none.
    expected["toolu_3"] = ("shell", {})
    assert ("msg_1", expected) == names(read_calls([STREAM]))


@as_one_test
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"output", b'{"output": 7}', b'[{"output": []}]', b'["output"]'),
        *(b'{"type": "message_start", "message": "content"}', b'data: ["response.completed"]\n\n'),
    ],
)
def test_what_is_no_answer_tells_nothing(body: bytes) -> None:
    assert (None, {}) == names(read_calls([body]))


@as_one_test
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"previous_response_id": "resp_1"}, ServerHistory("resp_1")),
        ({"conversation": "conv_1"}, ServerHistory(None, "conv_1")),
        ({"conversation": {"id": "conv_1"}}, ServerHistory(None, "conv_1")),
        ({}, None),
        ({"previous_response_id": 7}, None),
        (
            {
                "previous_response_id": "resp_1",
                "context_management": [{"type": "compaction"}],
            },
            None,
        ),
    ],
)
def test_a_response_names_the_history_that_it_continues(
    document: Mapping[str, Any], expected: ServerHistory | None
) -> None:
    assert expected == Request({"input": [], **document}, RESPONSES).held


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"thread": {"type": "create"}}, ServerHistory()),
        ({"thread": {"type": "continue", "previous_message_id": "msg_1"}}, ServerHistory("msg_1")),
        ({}, None),
        ({"thread": {"type": "create"}, "compaction": {"type": "auto"}}, None),
    ],
)
def test_a_message_names_the_thread_that_it_continues(
    document: Mapping[str, Any], expected: ServerHistory | None
) -> None:
    assert expected == Request({"messages": [], **document}, MESSAGES).held


def test_which_answers_a_later_request_can_name() -> None:
    assert RESPONSES.may_be_continued({})
    assert not RESPONSES.may_be_continued({"store": False})
    assert RESPONSES.may_be_continued({"store": False, "type": "response.create"})
    assert MESSAGES.may_be_continued({"thread": {"type": "create"}})
    assert not MESSAGES.may_be_continued({})
