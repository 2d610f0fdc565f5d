"""Gemini, Code Assist and Ollama: whole sessions through a real proxy, before a strict provider."""

import json
import threading
from collections.abc import Sequence

import httpx
import pytest

from tests.live.harness import (
    Live,
    encoded,
    eventually,
    stream,
)
from tests.live.scripted_sessions import (
    SCRIPT,
    Client,
    Item,
    Step,
    check_session,
    output_of,
    play,
)
from tests.tools.provider.script import Script

MODEL = "gemini-3-pro-preview"


def read_gemini(chunks: Sequence[Item]) -> Step:
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    called = [part["functionCall"] for part in parts if "functionCall" in part]
    return Step(
        [{"role": "model", "parts": parts}],
        [(each["id"], each["args"]["command"]) for each in called],
        "".join(part.get("text", "") for part in parts if not part.get("thought")),
    )


def read_events(response: httpx.Response) -> Step:
    events = response.text.removesuffix("\r\n\r\n").split("\r\n\r\n")
    return read_gemini([json.loads(event.removeprefix("data: ")) for event in events])


def read_code_assist(response: httpx.Response) -> Step:
    events = response.text.removesuffix("\r\n\r\n").split("\r\n\r\n")
    return read_gemini([json.loads(e.removeprefix("data: "))["response"] for e in events])


def read_in_contents(response: httpx.Response) -> Step:
    """As the Python SDK does: each piece of the stream becomes a content of its own."""
    step = read_events(response)
    step.items = [{"role": "model", "parts": [part]} for part in step.items[0]["parts"]]
    return step


def read_lines(response: httpx.Response) -> Step:
    messages = [json.loads(line)["message"] for line in response.text.splitlines()]
    called = [each for message in messages for each in message.get("tool_calls", ())]
    text = "".join(message["content"] for message in messages)
    return Step(
        [{"role": "assistant", "content": text, "tool_calls": called}],
        [("", each["function"]["arguments"]["command"]) for each in called],
        text,
    )


def answer_gemini(calls: Sequence[tuple[str, str]]) -> list[Item]:
    responses = (
        {"id": call_id, "name": "shell", "response": {"output": output_of(command)}}
        for call_id, command in calls
    )
    return [{"role": "user", "parts": [{"functionResponse": each} for each in responses]}]


def answer_ollama(calls: Sequence[tuple[str, str]]) -> list[Item]:
    return [
        {"role": "tool", "tool_name": "shell", "content": output_of(command)}
        for _, command in calls
    ]


def ask_gemini(items: list[Item]) -> Item:
    return {"contents": items, "tools": [{"functionDeclarations": [{"name": "shell"}]}]}


def ask_code_assist(items: list[Item]) -> Item:
    return {"model": MODEL, "project": "p", "request": ask_gemini(items)}


def ask_ollama(items: list[Item], **others: object) -> Item:
    tools = [{"type": "function", "function": {"name": "shell"}}]
    return {"model": "qwen3", "messages": items, "tools": tools, **others}


SAID = {"role": "user", "parts": [{"text": "Look at all of it."}]}
ASKED = {"role": "user", "content": "Look at all of it."}
GENERATE = f"/v1beta/models/{MODEL}:generateContent"
STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent"
VERTEX = f"/v1/projects/p/locations/global/publishers/google/models/{MODEL}:streamGenerateContent"

CLIENTS = [
    Client("events", f"{STREAM}?alt=sse", SAID, ask_gemini, read_events, answer_gemini),
    Client("an array", STREAM, SAID, ask_gemini, lambda r: read_gemini(r.json()), answer_gemini),
    Client("whole answers", GENERATE, SAID, ask_gemini, lambda r: read_gemini([r.json()]),
           answer_gemini),
    Client("Vertex over HTTP/2", f"{VERTEX}?alt=sse", SAID, ask_gemini, read_events, answer_gemini,
           http2=True),
    Client("pieces as contents", f"{STREAM}?alt=sse", SAID, ask_gemini, read_in_contents,
           answer_gemini),
    Client("Code Assist", "/v1internal:streamGenerateContent?alt=sse", SAID, ask_code_assist,
           read_code_assist, answer_gemini),
    Client("Ollama's lines", "/api/chat", ASKED, ask_ollama, read_lines, answer_ollama),
    Client("Ollama's whole answers", "/api/chat", ASKED, lambda m: ask_ollama(m, stream=False),
           read_lines, answer_ollama),
]  # fmt: skip


@pytest.fixture(scope="module")
def script() -> Script:
    return SCRIPT


@pytest.mark.smoke
def test_a_session_ends_as_it_does_without_a_proxy(on: Live) -> None:
    check_session(on, play(on, CLIENTS[0], directly=True), CLIENTS[0])


@pytest.mark.parametrize("asking", CLIENTS, ids=lambda client: client.name)
def test_a_session_ends_as_it_does_without_masking(on: Live, off: Live, asking: Client) -> None:
    check_session(on, play(off, asking), asking)


def test_a_count_of_tokens_is_of_what_would_be_sent(on: Live) -> None:
    """And is no request of the conversation."""
    session = play(on, CLIENTS[0])
    path = f"/v1beta/models/{MODEL}:countTokens"
    with on.client() as client:
        url = f"https://localhost:{on.upstream.provider.port}{path}"
        count = client.post(url, content=session.sent[-1]).json()["totalTokens"]
    assert session.arrived[-1] == on.upstream.provider.requests[-1].body
    record = on.record(path)
    assert ("count", 25) == (record["purpose"], record["tool_turns"] - 1)
    assert count > 0


def test_a_request_whose_prefix_the_provider_holds_goes_out_whole(on: Live) -> None:
    body = encoded(
        {**json.loads(play(on, CLIENTS[0]).sent[-1]), "cachedContent": "cachedContents/7"}
    )
    path = f"/v1/models/{MODEL}:generateContent"
    assert body == on.send(path, body).body
    assert "the provider holds the history (cachedContent)" == on.record(path)["passed_through"]


def test_the_answer_to_a_request_that_cannot_be_read_is_not_held_back(on: Live) -> None:
    seen, path = threading.Event(), "/v1/models/unread:streamGenerateContent"
    pieces = [b"[" + CHUNK, b"," + USED + b"]"]
    on.sink.answers[path] = stream(*pieces, wait=seen, content_type="application/json")
    headers = {"content-encoding": "unknown"}
    url = on.sink.url(path)
    with on.client() as client, client.stream("POST", url, content=b"?", headers=headers) as got:
        found = got.iter_raw()
        first = next(found)
        seen.set()
        assert b"".join(pieces) == first + b"".join(found)
    assert "unknown or broken content encoding" == on.record(path)["passed_through"]


LINE = b'{"message": {"role": "assistant", "content": ""}, "done": false}\n'
LAST_LINE = b'{"done": true, "prompt_eval_count": 7, "eval_count": 3}\n'
CHUNK = b'{"candidates": []}\r\n'
USED = b'{"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3}}'

STREAMS: list[tuple[str, str, Item, list[bytes]]] = [
    (
        "an array",
        STREAM,
        ask_gemini([SAID]),
        [b"[" + CHUNK, b"," + CHUNK, b"," + USED + b"]"],
    ),
    ("events", STREAM, ask_gemini([SAID]), [b"data: " + CHUNK * 2, b"data: " + USED + b"\r\n\r\n"]),
    (
        "Code Assist's events",
        "/v1internal:streamGenerateContent",
        ask_code_assist([SAID]),
        [b"data: " + CHUNK * 2, b'data: {"response": ' + USED + b"}\r\n\r\n"],
    ),
    ("Ollama's lines", "/api/chat", ask_ollama([ASKED]), [LINE, LINE, LAST_LINE]),
]
KINDS = {"events": "text/event-stream", "Ollama's lines": "application/x-ndjson"}


@pytest.mark.parametrize(("name", "path", "body", "pieces"), STREAMS, ids=[s[0] for s in STREAMS])
@pytest.mark.parametrize("which", ["on", "off"])
def test_the_first_piece_of_a_stream_is_not_held_back(
    request: pytest.FixtureRequest,
    which: str,
    name: str,
    path: str,
    body: Item,
    pieces: list[bytes],
) -> None:
    """The others are sent only when it has arrived."""
    live: Live = request.getfixturevalue(which)
    seen = threading.Event()
    kind = KINDS.get(name, "application/json")
    live.sink.answers[path] = stream(*pieces, wait=seen, content_type=kind)
    count = len(live.records())
    with (
        live.client() as client,
        client.stream("POST", live.sink.url(path), content=encoded(body)) as response,
    ):
        found = response.iter_raw()
        first = next(found)
        seen.set()
        assert b"".join(pieces) == first + b"".join(found)
    live.sink.answers.pop(path)
    record = eventually(
        lambda: next((r for r in live.records()[count:] if r["path"] == path), None)
    )
    assert (7, 3) == (record["prompt_tokens"], record["completion_tokens"])
    assert record["stream"]
