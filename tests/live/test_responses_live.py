"""OpenAI Responses, over HTTP and WebSockets: whole sessions through a real proxy, before a strict
provider."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from mitmproxy.net import encoding
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from addon.network import Address
from addon.proxy.base_urls import Server, behind
from addon.skip_reasons import HELD
from tests.live.harness import (
    OFF,
    ON,
    SECONDS,
    Live,
    Upstream,
    eventually,
    running_addon,
    running_upstream,
    stream,
)
from tests.tools.provider.provider import Provider
from tests.tools.provider.responses import find_dropped
from tests.tools.provider.script import Received, Reply, Script, ScriptedReplies, call

TURNS = 26
WINDOW = 2
"""As in the harness's configuration."""

ANSWER = "All of it is done now, and nothing is left to do."
PATH = "/v1/responses"
OLDER, BINDING = "gpt-5.5", "gpt-5.6-sol"
TOOLS = [{"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False}]
TASK: dict[str, Any] = {"role": "user", "content": "Look at all of it."}
Item = dict[str, Any]


def calls_of(turn: int) -> list[str]:
    """The ids of the calls of a turn; every third has two."""
    return [f"call_{turn}_{n}" for n in range(2 if turn % 3 == 0 else 1)]


def output_of(call_id: str) -> str:
    return f"{call_id}\n" + "a line of output é, and nothing went wrong\n" * 150


SCRIPT = ScriptedReplies(
    (
        *(
            Reply(
                thinking=f"I should look at number {turn} next.",
                content="Let me look, then." if turn % 2 else None,
                calls=tuple(call(call_id, "shell", turn=turn) for call_id in calls_of(turn)),
            )
            for turn in range(TURNS)
        ),
        Reply(thinking="That was all.", content=ANSWER),
    )
)


def spell(request: object) -> bytes:
    return json.dumps(request, ensure_ascii=False, indent=1).encode()


def ask(items: list[Item], **fields: object) -> Item:
    return {"model": OLDER, "input": items, "tools": TOOLS, "store": False, **fields}


def results(output: list[Item]) -> list[Item]:
    return [
        {
            "type": "function_call_output",
            "call_id": item["call_id"],
            "output": output_of(item["call_id"]),
        }
        for item in output
        if item["type"] == "function_call"
    ]


def masked(body: bytes) -> bytes:
    """Return what is to arrive: all texts but those of the last turns are replaced, and no more."""
    text = body.decode()
    turns = sum(f'"{calls_of(turn)[0]}"' in text for turn in range(TURNS))
    for turn in range(turns - WINDOW):
        for call_id in calls_of(turn):
            old = output_of(call_id)
            new = f"<{call_id} shell {len(old)}>"
            assert json.dumps(old, ensure_ascii=False) in text
            text = text.replace(json.dumps(old, ensure_ascii=False), json.dumps(new))
    return text.encode()


@pytest.fixture(scope="module")
def script() -> Script:
    return SCRIPT


@pytest.fixture
def provider(upstream: Upstream) -> Iterator[Provider]:
    """The provider, which has refused nothing at the end."""
    upstream.provider.requests.clear()
    yield upstream.provider
    assert upstream.provider.refusals == []


# Over HTTP


def read_whole(response: httpx.Response) -> list[Item]:
    output: list[Item] = response.json()["output"]
    return output


def read_events(response: httpx.Response) -> list[Item]:
    lines = (line.removeprefix("data: ") for line in response.text.splitlines())
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


class Client(NamedTuple):
    path: str = PATH
    streams: bool = False
    coding: str = "identity"
    http2: bool = False
    model: str = OLDER


def play(
    client: httpx.Client, port: int, asking: Client, host: str = "https://localhost"
) -> tuple[list[bytes], list[Item]]:
    """Play a whole session; return what was sent, and the model's last items."""
    read: Callable[[httpx.Response], list[Item]] = read_events if asking.streams else read_whole
    items, sent = [TASK], list[bytes]()
    url = f"{host}:{port}{asking.path}"
    headers = {"Content-Type": "application/json", "Content-Encoding": asking.coding}
    while True:
        sent.append(spell(ask(items, stream=asking.streams, model=asking.model)))
        body = encoding.encode(sent[-1], asking.coding)
        response = client.post(url, content=body, headers=headers)
        assert 200 == response.status_code, response.text
        output = read(response)
        items = [*items, *output, *results(output)]
        if not results(output):
            return sent, output


def arrived(provider: Provider) -> list[bytes]:
    bodies = (
        encoding.decode(each.body, each.header("content-encoding") or "identity")
        for each in provider.requests
    )
    return [body for body in bodies if isinstance(body, bytes)]


@pytest.mark.parametrize(
    "asking",
    [
        pytest.param(Client(), id="whole answers"),
        pytest.param(Client(streams=True), id="streams"),
        *(
            pytest.param(client, id=name)
            for name, client in (
                ("over HTTP/2", Client(streams=True, http2=True)),
                ("zstd, as ChatGPT", Client("/backend-api/codex/responses", True, "zstd")),
                ("Azure, br", Client("/openai/v1/responses?api-version=1", coding="br")),
                ("Copilot, gzip", Client("/responses", coding="gzip")),
            )
        ),
    ],
)
def test_a_session_ends_alike_and_only_old_results_differ(
    on: Live, provider: Provider, asking: Client
) -> None:
    with on.client(proxy=None) as client:
        _, expected = play(client, provider.port, asking)
    provider.requests.clear()
    with on.client(http2=asking.http2) as client:
        sent, found = play(client, provider.port, asking)
    assert len(sent) == TURNS + 1
    assert arrived(provider) == [masked(body) for body in sent]
    assert arrived(provider)[-1] != sent[-1]
    assert said(expected) == said(found) == ANSWER


def said(output: list[Item]) -> str:
    texts = [item["content"][0]["text"] for item in output if item["type"] == "message"]
    return "".join(texts)


def test_a_stream_is_not_held_back(on: Live) -> None:
    wait = threading.Event()
    events = [b'data: {"type": "response.created"}\n\n', b'data: {"type": "response.done"}\n\n']
    on.sink.answers[PATH] = stream(*events, wait=wait)
    with on.client() as client, client.stream("POST", on.sink.url(PATH), json=ask([])) as response:
        chunks = response.iter_bytes()
        assert next(chunks) == events[0]
        wait.set()
        assert b"".join(chunks) == events[1]


@pytest.mark.parametrize(
    ("setting", "is_masked"), [("keep", False), ("drop", True)], ids=["keep", "drop"]
)
def test_bound_reasoning_is_dropped_only_if_a_user_wants_it(
    upstream: Upstream, provider: Provider, tmp_path: Path, setting: str, is_masked: bool
) -> None:
    config = ON + f'bound_reasoning = "{setting}"\n'.encode()
    asking = Client(model=BINDING)
    with running_addon(tmp_path, upstream, config=config) as live, live.client() as client:
        sent, found = play(client, provider.port, asking)
        record = eventually(lambda: live.records() if len(live.records()) == len(sent) else None)
    assert said(found) == ANSWER
    assert [masked(body) if is_masked else body for body in sent] == arrived(provider)
    assert is_masked == any(find_dropped(each.request) for each in provider.requests)
    assert is_masked == bool(record[-1]["masked"])


# Over WebSockets


class Interrupting:
    """The script, but for one answer that breaks off."""

    def __init__(self) -> None:
        self.breaks_at = -1

    def __call__(self, received: Received) -> Reply:
        reply = SCRIPT(received)
        if SCRIPT.place(received.said) == self.breaks_at:
            self.breaks_at = -1
            return Reply(content=reply.content, calls=reply.calls, dies_after=3)
        return reply


@contextlib.contextmanager
def running_socket(folder: Path, script: Script, config: bytes) -> Iterator[Live]:
    """Run the addon as a reverse proxy before a provider with that script."""
    (folder / "upstream").mkdir()
    with running_upstream(folder / "upstream", script) as upstream:
        target = f"reverse:https://localhost:{upstream.provider.port}"
        with running_addon(folder, upstream, "--mode", target, config=config) as live:
            yield live
            assert "Traceback" not in live.proxy.log
        assert upstream.provider.refusals == []


class Talk(NamedTuple):
    """What a client sent on all its connections, and the model's last items."""

    sent: list[bytes]
    last: list[Item]


async def talk(url: str, headers: dict[str, str] | None = None) -> Talk:
    """Speak as codex does: only what is new, or everything on a new connection."""
    items, fresh, sent = [TASK], [TASK], list[bytes]()
    socket, previous = await connect(url, headers), ""
    while True:
        if previous:
            message = ask(fresh, previous_response_id=previous, generate=True)
        else:
            message = ask(items, generate=bool(sent))
        sent.append(spell({"type": "response.create", **message}))
        await socket.write_message(sent[-1].decode())
        response = await read_answer(socket)
        if response is None:
            socket, previous = await connect(url, headers, tries=2), ""
            continue
        output, previous = response["output"], response["id"]
        fresh = results(output)
        items = [*items, *output, *fresh]
        if output and not fresh:
            socket.close()
            return Talk(sent, output)


async def connect(
    url: str, headers: dict[str, str] | None = None, tries: int = 1
) -> WebSocketClientConnection:
    """Ask for a WebSocket, `tries` times at most."""
    try:
        return await websocket_connect(HTTPRequest(url, headers=headers), compression_options={})
    except HTTPClientError:
        if tries == 1:
            raise
    return await connect(url, headers, tries - 1)


async def read_answer(socket: WebSocketClientConnection) -> Item | None:
    """Return the whole answer; None if the connection breaks off."""
    while (told := await asyncio.wait_for(socket.read_message(), SECONDS)) is not None:
        event = json.loads(told)
        if event["type"] == "response.completed":
            response: Item = event["response"]
            return response
    return None


def url_of(live: Live) -> str:
    return f"ws://127.0.0.1:{live.proxy.port}{PATH}"


def test_a_websocket_is_reached_by_a_base_url_of_ours(tmp_path: Path) -> None:
    (tmp_path / "upstream").mkdir()
    with (
        running_upstream(tmp_path / "upstream", script := Interrupting()) as upstream,
        running_addon(tmp_path, upstream, config=ON) as live,
    ):
        script.breaks_at = TURNS // 2
        server = Server("https", "localhost", upstream.provider.port, PATH)
        url = behind(Address("127.0.0.1", live.proxy.port), server)
        found = asyncio.run(talk(url.replace("http", "ws", 1)))
        bodies = [each.body for each in upstream.provider.requests]
        records = eventually(lambda: all_ if len(all_ := live.records()) == len(bodies) else None)
    assert ANSWER == said(found.last)
    changed = [at for at, body in enumerate(bodies) if body != found.sent[at]]
    assert [TURNS // 2 + 2] == changed
    assert masked(found.sent[changed[0]]) == bodies[changed[0]]
    assert {("localhost", PATH)} == {(each["host"], each["path"]) for each in records}


@pytest.mark.smoke
def test_over_a_websocket_only_a_whole_history_is_masked(tmp_path: Path) -> None:
    script = Interrupting()
    with running_socket(tmp_path, script, ON) as live:
        provider = live.upstream.provider
        smooth = asyncio.run(talk(url_of(live)))
        assert [each.body for each in provider.requests] == smooth.sent
        provider.requests.clear()
        script.breaks_at = TURNS // 2
        broken = asyncio.run(talk(url_of(live)))
        bodies = [each.body for each in provider.requests]
        total = len(smooth.sent) + len(broken.sent)
        records = eventually(lambda: found if len(found := live.records()) == total else None)
    assert said(smooth.last) == said(broken.last) == ANSWER
    assert len(smooth.sent) == TURNS + 2
    assert len(broken.sent) == TURNS + 3
    changed = [at for at, body in enumerate(bodies) if body != broken.sent[at]]
    assert changed == [TURNS // 2 + 2]
    assert bodies[changed[0]] == masked(broken.sent[changed[0]])
    of_broken = records[len(smooth.sent) :]
    assert [record["masked"] for record in of_broken if record["masked"]] == (
        [sum(len(calls_of(turn)) for turn in range(TURNS // 2 - WINDOW))]
    )
    held = [record["passed_through"] == HELD["unknown"] for record in of_broken]
    assert held == [at not in (0, changed[0]) for at in range(len(of_broken))]
    assert {record["error"] for record in of_broken} == {None, "provider failed"}
    assert all(record["prompt_tokens"] for record in of_broken if record["error"] is None)
    assert live.proxy.log.count("is not known to speak HTTP") == 1


def test_with_masking_off_a_websocket_carries_the_same(tmp_path: Path) -> None:
    script = Interrupting()
    script.breaks_at = TURNS // 2
    with running_socket(tmp_path, script, OFF) as live:
        found = asyncio.run(talk(url_of(live)))
        assert [each.body for each in live.upstream.provider.requests] == found.sent
    assert said(found.last) == ANSWER
    assert 'mode = "http"' not in live.proxy.log


def test_a_client_that_is_told_to_use_http_is_masked(tmp_path: Path) -> None:
    config = b'[observation_masking.websocket]\nmode = "http"\n' + ON
    with running_socket(tmp_path, SCRIPT, config) as live:
        with pytest.raises(HTTPClientError) as caught:
            asyncio.run(talk(url_of(live)))
        assert caught.value.code == 426
        provider = live.upstream.provider
        with httpx.Client(timeout=SECONDS, trust_env=False) as client:
            sent, found = play(client, live.proxy.port, Client(streams=True), "http://127.0.0.1")
    assert said(found) == ANSWER
    assert arrived(provider) == [masked(body) for body in sent]
    assert arrived(provider)[-1] != sent[-1]


CODEX = {
    "user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)",
    "originator": "codex_exec",
    "thread-id": "01a20e69-2d43-7e91-b86b-f4184b964be9",
}


async def ask_until_it_is_refused(url: str) -> list[int | None]:
    """Ask on one connection after another; how each ended, by the code or the refusal's status."""
    ends = list[int | None]()
    while len(ends) < 3:
        try:
            socket = await connect(url, CODEX)
        except HTTPClientError as error:
            return [*ends, error.code]
        message = {"type": "response.create", **ask([TASK], generate=False)}
        await socket.write_message(json.dumps(message))
        assert await read_answer(socket) is None
        ends.append(socket.close_code)
    return ends


def test_a_client_that_falls_back_is_sent_to_http_and_masked(tmp_path: Path) -> None:
    with running_socket(tmp_path, SCRIPT, ON) as live:
        provider, url = live.upstream.provider, "http://127.0.0.1"
        for _ in range(2):  # a session, and the same one resumed
            ends = asyncio.run(ask_until_it_is_refused(url_of(live)))
            assert [1000, 426] == ends
            assert [] == provider.requests
            with httpx.Client(timeout=SECONDS, trust_env=False, headers=CODEX) as client:
                sent, found = play(client, live.proxy.port, Client(streams=True), url)
            assert said(found) == ANSWER
            assert arrived(provider) == [masked(body) for body in sent]
            provider.requests.clear()
        records = eventually(
            lambda: found if len(found := live.records()) == 2 * len(sent) else None
        )
    assert {(None, 200)} == {(record["error"], record["status"]) for record in records}
    assert live.proxy.log.count("codex_exec is asked to speak HTTP") == 1


def test_a_client_that_does_not_fall_back_gets_its_websocket(tmp_path: Path) -> None:
    with running_socket(tmp_path, SCRIPT, ON) as live:
        found = asyncio.run(talk(url_of(live), CODEX))
        again = asyncio.run(talk(url_of(live), CODEX))
        bodies = [each.body for each in live.upstream.provider.requests]
        total = len(bodies)
        records = eventually(lambda: each if len(each := live.records()) == total else None)
    assert said(found.last) == said(again.last) == ANSWER
    assert [*found.sent[1:], *again.sent] == bodies
    assert {None, HELD["alone"]} == {record["passed_through"] for record in records}
    assert {(None, 200)} == {(record["error"], record["status"]) for record in records}
    assert live.proxy.log.count("did not speak HTTP when it was refused one") == 1


def test_an_answer_on_a_websocket_is_not_held_back(tmp_path: Path) -> None:
    async def hear_the_beginning(url: str) -> Item:
        socket = await connect(url)
        await socket.write_message(json.dumps({"type": "response.create", **ask([TASK])}))
        told = await asyncio.wait_for(socket.read_message(), SECONDS)
        event: Item = json.loads(told or b"")
        return event

    with running_socket(tmp_path, lambda _: Reply(content=ANSWER, pause=10 * SECONDS), ON) as live:
        event = asyncio.run(hear_the_beginning(url_of(live)))
    assert event["type"] == "response.created"
