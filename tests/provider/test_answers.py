"""What the scripted provider answers and counts, in each format, and how it follows its script."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from tornado.httpclient import HTTPClientError
from tornado.websocket import websocket_connect

from masking.wire import Usage, read_usage
from tests.live.harness import SECONDS
from tests.provider.talks import (
    CHAT,
    CLIENTS,
    ENDING,
    GEMINI,
    MESSAGES,
    PATCH,
    PROGRAM,
    RESPONSES,
    SCRIPT,
    TASK,
    Body,
    Client,
    follow_responses,
)
from tests.support.marks import as_one_test
from tests.tools.provider.completions import read_said
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import AFTER_THE_END, SIDE_ANSWER, Reply

BOUND_CLAUDE, BOUND_GPT = "claude-opus-5-5", "gpt-5.6-sol"
EVERY = pytest.mark.parametrize("client", CLIENTS.values(), ids=[*CLIENTS])


# The script


def said(reply: Reply, **changes: object) -> Body:
    """What an agent sends back of a reply, in Chat Completions."""
    calls = [
        {
            "id": each.id,
            "type": "function",
            "function": {"name": each.tool, "arguments": each.arguments},
        }
        for each in reply.calls
    ]
    return {"role": "assistant", "content": reply.content, "tool_calls": calls, **changes}


FIRST, SECOND, LAST = SCRIPT.replies


@as_one_test
@pytest.mark.parametrize(
    ("messages", "place"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([{"role": "assistant", "content": "Got it."}, TASK], 0, id="a greeting"),
        pytest.param([said(FIRST)], 1, id="the first turn"),
        pytest.param([said(FIRST, content="")], 1, id="null became empty"),
        pytest.param([said(SECOND)], 0, id="a turn out of order"),
        pytest.param([said(each, tool_calls=None) for each in SCRIPT.replies], 0, id="calls lost"),
        pytest.param(
            [said(FIRST), said(SECOND), said(LAST, content=[{"type": "text", "text": ENDING}])],
            3,
            id="text in parts",
        ),
    ],
)
def test_the_place_in_the_script(messages: list[Body], place: int) -> None:
    assert place == SCRIPT.place(read_said({"messages": messages}))


@EVERY
def test_the_script_is_followed_to_its_end_whatever_is_asked_aside(client: Client) -> None:
    with Provider(client.script, strict=True) as provider:
        body = client.play(provider, 2)
        assert SIDE_ANSWER in client.post(provider, body | {"tools": []}).text
        last, again = (client.post(provider, body) for _ in "ab")
    answers = [json.dumps(each.json(), ensure_ascii=False) for each in (last, again)]
    assert [True, True] == [
        json.dumps(ENDING, ensure_ascii=False)[1:-1] in each for each in answers
    ]
    assert {0, 1, 2} <= {len(each.said) for each in provider.requests}


def test_after_the_end_the_script_says_so() -> None:
    with Provider(SCRIPT, strict=True) as provider:
        assert AFTER_THE_END in CHAT.post(provider, CHAT.play(provider, 3)).text


@pytest.mark.parametrize("spells", [True, False])
def test_what_differs_from_run_to_run_can_be_counted_as_the_same(spells: bool) -> None:
    counts = set()
    for pid in (7, 12_345_678):
        spell = (lambda words: re.sub(r"PID \d+", "PID 1", words)) if spells else str
        with Provider(SCRIPT, spell=spell) as provider:
            messages = [{"role": "user", "content": f"{'a' * 6_000} PID {pid}"}]
            answer = CHAT.post(provider, CHAT.opening | {"messages": messages})
            counts.add(answer.json()["usage"]["prompt_tokens"])
    assert (1 if spells else 2) == len(counts)


# Streams


def find_texts(value: object) -> str:
    """Return what a stream's events add: texts, thoughts, and the arguments of calls."""
    if isinstance(value, list):
        return "".join(map(find_texts, value))
    if not isinstance(value, dict) or value.get("type", "").endswith((".done", ".completed")):
        return ""
    added = ""
    for key, each in value.items():
        if isinstance(each, str) and key in ADDED:
            added += each
        elif key == "args" or (key == "arguments" and isinstance(each, dict)):
            added += json.dumps(each, ensure_ascii=False)
        else:
            added += find_texts(each)
    return added


ADDED = (*("content", "arguments", "text", "thinking", "partial_json", "delta"), "input")


@EVERY
@pytest.mark.parametrize("turns", range(3))
def test_a_stream_says_what_the_whole_answer_says_and_ends_with_its_usage(
    client: Client, turns: int
) -> None:
    with Provider(client.script, strict=True) as provider:
        body = client.play(provider, turns)
        asked = body | ({"stream_options": {"include_usage": True}} if client is CHAT else {})
        streamed = client.stream(provider, asked)
    with Provider(client.script, strict=True) as provider:
        whole = client.post(provider, client.play(provider, turns))
    usage = read_usage(whole.content)
    assert usage
    assert usage == read_usage(streamed.content)
    lines = (line.removeprefix("data: ") for line in streamed.text.splitlines())
    added = "".join(find_texts(json.loads(line)) for line in lines if line.startswith("{"))
    reply = client.script.replies[turns]
    place = added.find(reply.content) if reply.content else 0
    assert place >= 0
    for each in reply.calls:
        if client is RESPONSES and each.tool in ("shell", "apply_patch"):
            continue  # whole, in an item
        place = added.find(each.arguments, place)
        assert place >= 0, (each.arguments, added)


def test_no_piece_of_a_stream_ends_inside_a_word() -> None:
    with Provider(SCRIPT) as provider:
        streamed = CHAT.stream(provider, CHAT.play(provider, 2))
    pieces = re.findall(r'"content":"([^"]+)"', streamed.text)
    assert len(pieces) > 2
    assert all(piece.endswith(" ") for piece in pieces[:-1])


def test_leaving_the_block_ends_an_answer_that_is_under_way() -> None:
    """It would last an hour."""
    with Provider(lambda _: Reply(content=ENDING, pause=3600)) as provider:
        url = f"http://127.0.0.1:{provider.port}{CHAT.path}"
        with httpx.stream("POST", url, json=CHAT.opening | {"stream": True}) as response:
            first = next(response.iter_raw())
    assert 1 == first.count(b"data: ")


# What is counted and cached

LONG = "word " * 2_000
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words: str = "a" * 8_000, mark: Body | None = None) -> Body:
    return {"type": "text", "text": words, **(mark or {})}


def counted(client: Client, provider: Provider, entries: list[Body], **fields: object) -> Usage:
    answer = client.post(provider, client.opening | {client.entries: entries} | fields)
    usage = read_usage(answer.content)
    assert usage
    return usage


def thousands(provider: Provider, *blocks: Body, **fields: object) -> tuple[int, int, int]:
    """What Anthropic's cache reads and writes, and the rest, in thousands of tokens."""
    usage = counted(MESSAGES, provider, [{"role": "user", "content": [*blocks]}], **fields)
    read, written = usage.cached or 0, usage.written or 0
    rest = (usage.prompt or 0) - read - written
    one, two, three = (round(count, -3) // 1_000 for count in (read, written, rest))
    return one, two, three


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(SCRIPT, strict=True) as running:
        yield running


def test_anthropic_writes_what_is_marked_once_and_then_reads_it(provider: Provider) -> None:
    assert [(0, 0, 2)] * 2 == [thousands(provider, text()) for _ in range(2)]
    assert (0, 2, 2) == thousands(provider, text(mark=MARK), text())
    assert (2, 2, 2) == thousands(provider, text(), text(mark=MARK), text())
    assert (0, 2, 0) == thousands(provider, text("b"), text(mark=MARK))


def test_a_mark_at_the_top_level_of_a_request_stands_at_its_end(provider: Provider) -> None:
    assert (0, 4, 0) == thousands(provider, text(), text(), **MARK)
    assert (4, 2, 0) == thousands(provider, text(), text(), text(), **MARK)


@pytest.mark.parametrize(("more", "expected"), [(19, (2, 0, 0)), (20, (0, 2, 0))])
def test_a_mark_looks_back_over_twenty_blocks(
    provider: Provider, more: int, expected: tuple[int, int, int]
) -> None:
    thousands(provider, text(mark=MARK))
    later = [text("b") for _ in range(more - 1)]
    assert expected == thousands(provider, text(), *later, text("c", MARK))


def test_models_of_anthropics_differ_in_what_is_too_short_to_cache(provider: Provider) -> None:
    short = text("a" * 3_000, MARK)
    assert (0, 0, 1) == thousands(provider, short)
    assert (0, 1, 0) == thousands(provider, short, model=BOUND_CLAUDE)
    assert (0, 0, 2) == thousands(provider, text(mark=MARK), model="claude-haiku-4-5")


def test_written_tokens_are_told_by_lifetime(provider: Provider) -> None:
    entries = [{"role": "user", "content": [text(mark=HOUR), text(mark=MARK)]}]
    usage = counted(MESSAGES, provider, entries)
    assert (4_000, 2_000) == (round(usage.written or 0, -3), round(usage.written_long or 0, -3))


def test_openai_caches_the_longest_prefix_seen_in_steps_of_128(provider: Provider) -> None:
    one, two = ({"role": "user", "content": letter * 6_000} for letter in "ab")

    def ask(*messages: Body, model: str = "gpt-4o") -> tuple[int, int]:
        usage = counted(CHAT, provider, [*messages], model=model)
        return usage.prompt or 0, usage.cached or 0

    (first, cached), (second, cached_then) = ask(one), ask(one, two)
    assert (0, first // 128 * 128) == (cached, cached_then)
    assert second // 128 * 128 == ask(one, two, one)[1]
    assert first // 128 * 128 == ask(one, one)[1]
    assert [0, 0] == [ask(two, one)[1], ask(one, two, model="other")[1]]
    short = {"role": "user", "content": "c" * 3_500}
    assert [0, 0] == [ask(short)[1] for _ in range(2)]


@pytest.mark.parametrize(("model", "step"), [("gpt-5.1-codex", 128), (BOUND_GPT, 1)])
def test_openais_newer_models_write_and_find_only_the_ends_of_earlier_prompts(
    model: str, step: int
) -> None:
    writes, long = step == 1, {"role": "user", "content": LONG}
    with Provider(RESPONSES.script) as provider:
        first = counted(RESPONSES, provider, [long, TASK], model=model)
        again = counted(RESPONSES, provider, [long, TASK, TASK], model=model)
        other = counted(RESPONSES, provider, [long, {**TASK, "content": "Other."}], model=model)
    before, now = first.prompt or 0, again.prompt or 0
    cached = before // step * step
    assert 2_000 < before < now
    assert (0, cached) == (first.cached, again.cached)
    if writes:
        assert (before, now - cached) == (first.written, again.written)
    assert writes == (other.cached == 0)


@pytest.mark.parametrize(
    ("model", "chars", "expected"),
    [
        ("gemini-3-pro-preview", 20_000, True),
        ("gemini-3-pro-preview", 12_000, False),
        ("gemini-2.5-pro", 12_000, True),
        ("gemini-2.5-pro", 6_000, False),
    ],
)
def test_google_caches_a_prefix_that_is_long_enough(
    model: str, chars: int, expected: bool, provider: Provider
) -> None:
    client = replace(GEMINI, path=f"/v1beta/models/{model}:generateContent")
    entries = [{"role": "user", "parts": [{"text": "word " * (chars // 5)}]}]
    first, again = (counted(client, provider, entries) for _ in range(2))
    assert (0, first.prompt if expected else 0) == (first.cached or 0, again.cached or 0)


# Other requests


@pytest.mark.parametrize(
    ("client", "path", "drops", "wrap", "key"),
    [
        (MESSAGES, "/v1/messages/count_tokens", "max_tokens", None, "input_tokens"),
        (RESPONSES, "/v1/responses/input_tokens", "", None, "input_tokens"),
        (GEMINI, "/v1beta/models/gemini-3-pro-preview:countTokens", "", None, "totalTokens"),
        (
            GEMINI,
            "/v1beta/models/gemini-3-pro-preview:countTokens",
            *("", "generateContentRequest", "totalTokens"),
        ),
    ],
    ids=["messages", "responses", "gemini", "gemini whole"],
)
def test_tokens_are_counted_as_they_are_billed(
    client: Client, path: str, drops: str, wrap: str | None, key: str
) -> None:
    with Provider(client.script, strict=True) as provider:
        body = client.play(provider, 1)
        usage = read_usage(client.post(provider, body).content)
        asked = {name: value for name, value in body.items() if name != drops}
        found = replace(client, path=path).post(provider, {wrap: asked} if wrap else asked)
    assert usage
    assert usage.prompt == found.json()[key]


@pytest.mark.parametrize(
    ("path", "streams"),
    [
        ("/projects/p/locations/l/publishers/anthropic/models/claude:rawPredict", False),
        ("/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict", True),
        ("/model/anthropic.claude/invoke", False),
    ],
)
def test_other_clouds_are_known_by_their_paths(
    path: str, streams: bool, provider: Provider
) -> None:
    response = replace(MESSAGES, path=path).post(provider, MESSAGES.opening)
    assert streams is response.headers["content-type"].startswith("text/event-stream")
    assert "call_1" in response.text
    assert "messages" == provider.requests[0].dialect


def test_code_assist_is_one_level_deeper(provider: Provider) -> None:
    def ask(method: str, body: Body) -> Body:
        path = f"/v1internal:{method}"
        return dict(replace(GEMINI, path=path).post(provider, body).json())

    request = GEMINI.play(provider, 1)
    whole = GEMINI.post(provider, request).json()
    model = {"model": "gemini-3-pro-preview", "project": "p"}
    deeper = ask("generateContent", {**model, "request": request})["response"]
    assert (whole["candidates"], whole["modelVersion"]) == (
        *(deeper["candidates"], deeper["modelVersion"]),
    )
    assert ask("loadCodeAssist", {})["cloudaicompanionProject"]
    assert {} == ask("retrieveUserQuota", {})


def test_google_signs_only_the_first_of_parallel_calls(provider: Provider) -> None:
    parts = GEMINI.post(provider, GEMINI.opening).json()["candidates"][0]["content"]["parts"]
    assert [False, True, False] == ["thoughtSignature" in part for part in parts]


def test_a_call_of_openais_is_spelled_as_its_tool_wants_it() -> None:
    with Provider(RESPONSES.script, strict=True) as provider:
        body = RESPONSES.play(provider, 1)
        _, _, custom, shell, patch = RESPONSES.post(provider, body).json()["output"]
        offered = {"type": "additional_tools", "role": "developer", "tools": body["tools"]}
        asked = RESPONSES.opening | {"input": [TASK, offered], "tools": []}
        assert "run" == RESPONSES.post(provider, asked).json()["output"][1]["name"]
        asked = RESPONSES.opening | {"input": "Do it."}
        assert "run" == RESPONSES.post(provider, asked).json()["output"][1]["name"]
        short = replace(RESPONSES, path="/v1/responses/compact").post(provider, body)
    assert ("exec", "functions", PROGRAM) == (*map(custom.get, ("name", "namespace", "input")),)
    assert {"commands": ["ls", "false"]} == shell["action"]
    assert PATCH == patch["operation"]
    assert [TASK, "compaction"] == [(out := short.json()["output"])[0], out[1]["type"]]


# WebSockets


def talk(provider: Provider, *messages: Body) -> list[list[Body]]:
    """Send messages one after the other; return the events that each gets."""

    async def send_all() -> list[list[Body]]:
        url = provider.url.replace("http", "ws", 1) + "/responses"
        socket = await websocket_connect(url, compression_options={})
        heard = []
        for message in messages:
            await socket.write_message(json.dumps({"type": "response.create", **message}))
            events: list[Body] = []
            while not events or events[-1]["type"] not in ("response.completed", "error"):
                told = await socket.read_message()
                if told is None:
                    break
                events.append(json.loads(told))
            heard.append(events)
        socket.close()
        return heard

    return asyncio.run(asyncio.wait_for(send_all(), SECONDS))


def ask(*items: Body, **fields: object) -> Body:
    return RESPONSES.opening | {"input": [TASK, *items]} | fields


def test_a_connection_remembers_the_latest_response() -> None:
    with Provider(RESPONSES.script, strict=True) as provider:
        first = RESPONSES.post(provider, ask()).json()
    output, results = first["output"], follow_responses(first)[len(first["output"]) :]
    with Provider(RESPONSES.script, strict=True) as provider:
        heard = talk(
            provider,
            ask(generate=False),
            ask(input=[], previous_response_id="resp_scripted_1"),
            ask(input=results, previous_response_id=first["id"]),
        )
        assert [[], output] == [each[-1]["response"]["output"] for each in heard[:2]]
        assert [TASK, *output, *results] == provider.requests[-1].request["input"]
        whole = RESPONSES.post(provider, ask(*output, *results)).json()
    found = heard[2][-1]["response"]
    assert whole | {"usage": found["usage"]} == found


def test_what_goes_wrong_on_a_websocket_is_an_event() -> None:
    messages = (ask(previous_response_id="resp_0"), ask(), ask(max_tokens=5))
    with Provider(RESPONSES.script, strict=True) as provider:
        unknown, after, refused = talk(provider, *messages)
        ((cancelled,),) = talk(provider, {"type": "response.cancel"})
    error = unknown[0]
    assert (400, "previous_response_not_found") == (error["status"], error["error"]["code"])
    assert "response.completed" == after[-1]["type"]
    assert "Unknown parameter: 'max_tokens'." == refused[0]["error"]["message"]
    assert "Unknown event type." == cancelled["error"]["message"]
    with Provider(lambda _: Reply(status=429)) as provider:
        assert [["error"]] == [[each["type"] for each in told] for told in talk(provider, ask())]


def test_a_provider_without_websockets_wants_http() -> None:
    with Provider(RESPONSES.script, websockets=False) as provider:
        with pytest.raises(HTTPClientError) as caught:
            talk(provider, ask())
        assert 426 == caught.value.code
        assert 200 == RESPONSES.post(provider, ask()).status_code
