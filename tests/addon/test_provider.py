import gzip
import json
import re
import ssl
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
import httpx
import openai
import pytest
import zstandard

from addon.recordings.provider.completions import read_said
from addon.recordings.provider.provider import Provider
from addon.recordings.provider.script import (
    AFTER_THE_END,
    SIDE_ANSWER,
    Call,
    Reply,
    ScriptedReplies,
    call,
)
from tests.live.harness import SECONDS

ENDING = "All of it is done now, and nothing is left to do in “this” folder."
SCRIPT = ScriptedReplies(
    (
        Reply(calls=(call("call_0", "shell", command="ls"), call("call_1", "read", file="a b/c"))),
        Reply(content="One more look.", calls=(Call(id="call_0", tool="shell", arguments="{no"),)),
        Reply(content=ENDING),
    )
)
TOOLS: Any = [{"type": "function", "function": {"name": "shell", "parameters": {}}}]
TASK = {"role": "user", "content": "Do it."}
SIDE_REQUEST = {"model": "gpt-4o", "messages": [TASK]}
REQUEST: dict[str, Any] = {**SIDE_REQUEST, "tools": TOOLS}
BODY = json.dumps(REQUEST).encode()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(SCRIPT) as running:
        yield running


def post(provider: Provider, request: object = REQUEST, **headers: str) -> httpx.Response:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    url = f"{provider.url}/chat/completions"
    return httpx.post(url, content=body, headers=headers, timeout=SECONDS)


def streamed_request(provider: Provider, *, stream: bool = True) -> httpx.Request:
    url = f"{provider.url}/chat/completions"
    return httpx.Request("POST", url, json={**REQUEST, "stream": stream})


def message(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = response.json()["choices"][0]["message"]
    return found


def said(reply: Reply, **changes: object) -> dict[str, Any]:
    """What the agent sends back of a reply."""
    calls = [
        {
            "id": each.id,
            "type": "function",
            "function": {"name": each.tool, "arguments": each.arguments},
        }
        for each in reply.calls
    ]
    return {"role": "assistant", "content": reply.content, "tool_calls": calls, **changes}


def chunks(provider: Provider, **options: object) -> list[Any]:
    response = post(provider, {**REQUEST, "stream": True, **options})
    events = response.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def put_together(pieces: list[Any]) -> tuple[str, list[list[str]]]:
    deltas = [piece["choices"][0]["delta"] for piece in pieces if piece["choices"]]
    content = "".join(delta.get("content") or "" for delta in deltas)
    calls: dict[int, list[str]] = {}
    for each in (each for delta in deltas for each in delta.get("tool_calls", ())):
        found = calls.setdefault(each["index"], [each.get("id", ""), "", ""])
        found[1] += each["function"].get("name", "")
        found[2] += each["function"]["arguments"]
    return content, list(calls.values())


def test_follows_its_script_with_the_openai_client_over_tls(tmp_path: Path) -> None:
    with Provider(SCRIPT, tls_folder=tmp_path) as provider:
        context = ssl.create_default_context(cafile=provider.ca)
        client = openai.OpenAI(
            api_key="any",
            base_url=provider.url,
            http_client=httpx.Client(verify=context, timeout=SECONDS),
        )
        messages: list[Any] = [TASK]
        heard = []
        for _ in SCRIPT.replies:
            answer = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)
            spoken = answer.choices[0].message.model_dump(exclude_none=True)
            calls = spoken.get("tool_calls", ())
            heard.append([(each["id"], each["function"]["name"]) for each in calls])
            messages += [spoken]
            messages += [
                {"role": "tool", "tool_call_id": each["id"], "content": ""} for each in calls
            ]
    assert heard == [[("call_0", "shell"), ("call_1", "read")], [("call_0", "shell")], []]
    assert messages[-1]["content"] == ENDING
    assert [len(each.request["messages"]) for each in provider.requests] == [1, 4, 6]


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([TASK], 0, id="the task alone"),
        pytest.param([{"role": "assistant", "content": "Got it."}, TASK], 0, id="a greeting"),
        pytest.param([said(SCRIPT.replies[0])], 1, id="the first turn"),
        pytest.param([said(SCRIPT.replies[0], content="")], 1, id="null became empty"),
        pytest.param([said(SCRIPT.replies[1])], 0, id="a turn out of order"),
        pytest.param([said(each) for each in SCRIPT.replies[:2]], 2, id="two turns"),
        pytest.param([said(each, tool_calls=None) for each in SCRIPT.replies], 0, id="calls lost"),
        pytest.param(
            [
                *(said(each) for each in SCRIPT.replies[:2]),
                said(SCRIPT.replies[2], content=[{"type": "text", "text": ENDING}]),
            ],
            3,
            id="text in parts",
        ),
    ],
)
def test_place_in_the_script(messages: list[dict[str, Any]], place: int) -> None:
    assert SCRIPT.place(read_said({"messages": messages})) == place


def test_side_requests_and_retries_do_not_move_the_script(provider: Provider) -> None:
    first = post(provider).json()
    assert message(post(provider, SIDE_REQUEST))["content"] == SIDE_ANSWER
    again = post(provider).json()
    assert first["choices"] == again["choices"]


def test_after_the_end_the_script_says_so(provider: Provider) -> None:
    everything = [TASK, *(said(each) for each in SCRIPT.replies)]
    answer = message(post(provider, {**REQUEST, "messages": everything}))
    assert answer["content"] == AFTER_THE_END


@pytest.mark.parametrize("place", range(3))
def test_stream_adds_up_to_the_whole_answer(provider: Provider, place: int) -> None:
    messages = [TASK, *(said(each) for each in SCRIPT.replies[:place])]
    reply = SCRIPT.replies[place]
    expected = [[each.id, each.tool, each.arguments] for each in reply.calls]
    pieces = chunks(provider, messages=messages)
    assert put_together(pieces) == (reply.content or "", expected)
    assert pieces[-1]["choices"][0]["finish_reason"] == ("tool_calls" if reply.calls else "stop")


def test_no_piece_of_a_stream_ends_inside_a_word(provider: Provider) -> None:
    messages = [TASK, *(said(each) for each in SCRIPT.replies[:2])]
    deltas = [piece["choices"][0]["delta"] for piece in chunks(provider, messages=messages)]
    pieces = [delta["content"] for delta in deltas if delta.get("content")]
    assert len(pieces) > 2
    assert all(piece.endswith(" ") for piece in pieces[:-1])


def test_usage_ends_a_stream_only_where_it_is_asked_for(provider: Provider) -> None:
    last = chunks(provider, stream_options={"include_usage": True})[-1]
    assert (last["choices"], last["usage"]["prompt_tokens"] > 0) == ([], True)
    assert all("usage" not in each for each in chunks(provider))


def test_a_pause_holds_back_all_but_the_first_piece_and_leaving_the_block_ends_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would last an hour."""
    with httpx.Client(timeout=SECONDS) as client:
        with Provider(lambda _: Reply(content=ENDING, pause=3600)) as provider:
            url = provider.url
            response = client.send(streamed_request(provider), stream=True)
            first = next(response.iter_raw())
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/models")
    assert first.count(b"data: ") == 1
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_failing_status(status: int, expected: type[openai.APIStatusError]) -> None:
    with Provider(lambda _: Reply(status=status)) as provider:
        client = openai.OpenAI(api_key="any", base_url=provider.url, max_retries=0)
        with pytest.raises(expected) as caught:
            client.chat.completions.create(model="gpt-4o", messages=[], tools=TOOLS)
    assert caught.value.status_code == status
    assert caught.value.body


@pytest.mark.parametrize(
    ("stream", "after", "received"),
    [
        pytest.param(False, 0, 0, id="before the answer"),
        pytest.param(False, 1, 1, id="in the middle of the body"),
        pytest.param(True, 0, 0, id="before the first event"),
        pytest.param(True, 2, 2, id="between two events"),
    ],
)
def test_dies(stream: bool, after: int, received: int) -> None:
    pieces: list[bytes] = []
    with (
        Provider(lambda _: Reply(content=ENDING, dies_after=after)) as provider,
        httpx.Client(timeout=SECONDS) as client,
    ):
        request = streamed_request(provider, stream=stream)
        with pytest.raises(httpx.RemoteProtocolError):
            pieces.extend(client.send(request, stream=True).iter_raw())
    events = b"".join(pieces).count(b"data: ") if stream else len(pieces)
    assert events == received


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("identity", BODY),
        ("gzip", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("br", brotli.compress(BODY)),
        ("zstd", zstandard.compress(BODY)),
    ],
)
def test_compressed_request(provider: Provider, name: str, body: bytes) -> None:
    assert post(provider, body, **{"content-encoding": name}).status_code == 200
    (received,) = provider.requests
    assert (received.body, received.request) == (body, REQUEST)
    assert received.path == "/v1/chat/completions"
    assert ("Content-Encoding", name) in received.headers


@pytest.mark.parametrize(
    ("body", "name"),
    [
        pytest.param(b"{", "identity", id="no JSON"),
        pytest.param(b"[]", "identity", id="no object"),
        pytest.param(b"", "identity", id="empty"),
        pytest.param(b"\xff", "identity", id="no text"),
        pytest.param(BODY, "gzip", id="not compressed"),
        pytest.param(BODY, "snappy", id="unknown encoding"),
    ],
)
def test_request_that_cannot_be_read(provider: Provider, body: bytes, name: str) -> None:
    response = post(provider, body, **{"content-encoding": name})
    assert (response.status_code, provider.requests) == (400, [])
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [False, True])
def test_compressed_answer(stream: bool) -> None:
    with Provider(lambda _: Reply(content=ENDING, gzip=True)) as provider:
        response = post(provider, {**REQUEST, "stream": stream})
    assert response.headers["content-encoding"] == "gzip"
    assert "All of it is" in response.text


def usage(provider: Provider, *texts: str, model: str = "gpt-4o") -> tuple[int, int]:
    messages = [{"role": "user", "content": text} for text in texts]
    found = post(provider, {**REQUEST, "model": model, "messages": messages}).json()["usage"]
    assert found["total_tokens"] == found["prompt_tokens"] + found["completion_tokens"]
    return found["prompt_tokens"], found["prompt_tokens_details"]["cached_tokens"]


def test_cached_tokens_are_those_of_the_longest_prefix_seen(provider: Provider) -> None:
    first, second = "a" * 6_000, "b" * 6_000
    one, cached_of_one = usage(provider, first)
    two, cached_of_two = usage(provider, first, second)
    assert (cached_of_one, cached_of_two) == (0, one // 128 * 128)
    assert usage(provider, first, second, first)[1] == two // 128 * 128
    assert usage(provider, first, first)[1] == one // 128 * 128
    assert usage(provider, second, first)[1] == 0
    assert usage(provider, first, second, model="other")[1] == 0


def test_short_prefixes_are_not_cached(provider: Provider) -> None:
    assert [usage(provider, "a" * 3_500)[1] for _ in range(2)] == [0, 0]


def test_what_differs_from_run_to_run_can_be_counted_as_the_same() -> None:
    def spell(text: str) -> str:
        return re.sub(r"PID \d+", "PID 1", text)

    found = []
    for pid in (7, 12_345_678):
        with Provider(SCRIPT, spell=spell) as provider:
            found.append(usage(provider, f"{'a' * 6_000} PID {pid}"))
    assert found[0] == found[1]


def test_lists_its_model(provider: Provider) -> None:
    client = openai.OpenAI(api_key="any", base_url=provider.url)
    assert [each.id for each in client.models.list()] == ["gpt-4o"]


def test_same_conversation_gets_the_same_bytes() -> None:
    answers = []
    for _ in range(2):
        with Provider(SCRIPT) as provider:
            answers.append(post(provider, {**REQUEST, "stream": True}).content)
    assert answers[0] == answers[1]
