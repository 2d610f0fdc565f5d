"""The requests in a recorded flow, above all in one that is a WebSocket."""

import json
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.test import tflow, tutils
from mitmproxy.websocket import WebSocketMessage
from wsproto.frame_protocol import Opcode

from addon.proxy.marks import keep_original_message
from addon.recordings.exchanges import find_exchanges
from addon.recordings.flow_session import open_recording
from addon.recordings.flows import read_flows, write_flows
from addon.recordings.scrub import scrub, scrub_recording
from addon.recordings.scrubbed_text import FILLER, OwnRecording

TASK = {"role": "user", "content": "Find s3cr3t words."}
CALL = {"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "out"}
DONE = {"role": "assistant", "content": "Done."}
USAGE = {"input_tokens": 9, "output_tokens": 1}


def ask(*items: object, **fields: object) -> bytes:
    message = {"type": "response.create", "model": "gpt-5", "input": [*items], **fields}
    return json.dumps(message).encode()


def after(number: int) -> str:
    return f"resp_{number}"


def answer(number: int, *items: object) -> bytes:
    response = {"id": after(number), "output": [*items], "usage": USAGE}
    return json.dumps({"type": "response.completed", "response": response}).encode()


CREATED = b'{"type": "response.created", "response": {"id": "resp_1"}}'
LIMIT = b'{"type": "error", "status": 429}'


def connection(*messages: bytes, path: str = "/v1/responses") -> http.HTTPFlow:
    """Return a recorded connection; requests are told by what they hold."""
    flow = tflow.twebsocketflow(messages=False)
    flow.request.path = path
    assert flow.websocket is not None
    flow.websocket.messages = [
        WebSocketMessage(Opcode.TEXT, b"response.create" in content[:30], content, 7.0)
        for content in messages
    ]
    return flow


SESSION = (
    ask(generate=False),
    answer(0),
    ask(TASK, previous_response_id=after(0)),
    CREATED,
    answer(1, CALL),
    ask(RESULT, previous_response_id=after(1)),
    answer(2, DONE),
)


def histories(flow: http.HTTPFlow) -> list[Any]:
    return [json.loads(each.body or b"").get("input") for each in find_exchanges(flow)]


def test_a_history_is_put_together_from_what_was_sent_bit_by_bit() -> None:
    flow = connection(*SESSION)
    assert [[], [TASK], [TASK, CALL, RESULT]] == histories(flow)
    exchanges = list(find_exchanges(flow))
    assert ["count", "answer", "answer"] == [each.match.purpose for each in exchanges]
    assert [SESSION[0], SESSION[2], SESSION[5]] == [each.sent for each in exchanges]
    assert [SESSION[1], SESSION[4], SESSION[6]] == [each.answer for each in exchanges]
    assert {"model", "input"} == json.loads(exchanges[-1].body or b"").keys()


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [ask(RESULT, previous_response_id=after(7)), answer(8, DONE)],
            ["previous_response_id"],
            id="joined late",
        ),
        pytest.param(
            [
                ask(RESULT, previous_response_id=after(7)),
                answer(8, DONE),
                ask(TASK, previous_response_id=after(8)),
            ],
            ["previous_response_id", "previous_response_id"],
            id="joined late, and went on",
        ),
        pytest.param(
            [*SESSION, ask(TASK), answer(3, CALL), ask(RESULT, previous_response_id=after(3))],
            [None] * 5,
            id="began anew",
        ),
        pytest.param([b'{"type": "response.create", "input": "Go."'], [None], id="not JSON"),
        pytest.param([ask(TASK), b'["error"]'], [None], id="no answer"),
    ],
)
def test_a_history_whose_beginning_is_not_known_stays_a_part(
    messages: list[bytes], expected: list[str | None]
) -> None:
    bodies = [each.body or b"" for each in find_exchanges(connection(*messages))]
    key = "previous_response_id"
    assert expected == [key if key.encode() in body else None for body in bodies]


def test_a_failure_is_an_obstacle() -> None:
    flow = connection(ask(TASK), LIMIT, ask(TASK))
    assert ["status 429", None] == [each.obstacle for each in find_exchanges(flow)]


def test_after_a_masked_history_the_answers_are_to_another_one() -> None:
    flow = connection(ask(TASK, CALL, RESULT), answer(1, DONE), *SESSION[:2])
    keep_original_message(flow, 0, ask(TASK, CALL, RESULT | {"output": "long"}))
    first, second = find_exchanges(flow)
    assert [TASK, CALL, RESULT | {"output": "long"}] == json.loads(first.body or b"")["input"]
    assert (None, SESSION[1]) == (first.answer, second.answer)


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/chat/completions"])
def test_other_connections_have_none(path: str) -> None:
    assert [] == [*find_exchanges(connection(*SESSION, path=path))]


def test_a_request_over_http_is_one() -> None:
    flow = tflow.tflow(req=tutils.treq(method=b"POST", path=b"/v1/responses", content=ask(TASK)))
    (found,) = find_exchanges(flow)
    assert (ask(TASK), ask(TASK)) == (found.body, found.sent)


def test_a_connection_can_be_scrubbed_and_replayed(tmp_path: Path) -> None:
    flow = connection(*SESSION)
    keep_original_message(flow, 0, SESSION[0])
    write_flows(tmp_path / "in.flow", [flow, connection(path="/v1/responses")])
    assert scrub_recording(tmp_path / "in.flow", tmp_path / "out.flow") == 1
    (scrubbed,) = read_flows(tmp_path / "out.flow")
    assert scrubbed.websocket is not None
    text = b"".join(message.content for message in scrubbed.websocket.messages).decode()
    assert ("s3cr3t" in text, "out" in text, FILLER[:4] in text) == (False, True, True)
    assert [0, 1, 3] == [len(history) for history in histories(scrubbed)]
    (first, second) = open_recording(tmp_path / "out.flow").requests()
    assert (None, None) == (first.usage, first.passed_over)
    assert second.path == "/v1/responses"


def test_of_our_own_recording_our_own_texts_stay() -> None:
    own = OwnRecording(texts=frozenset((TASK["content"],)))
    assert histories(connection(*SESSION)) == histories(scrub(connection(*SESSION), own=own))
