"""A real MCP client, the proxy, and a real MCP server over streamable HTTP."""

import asyncio
import base64
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import mcp
import pytest
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import Completion, ErrorData, ImageContent, PromptReference, TextContent

from addon.proxy.mcp import EventStream
from addon.proxy.server import Proxy, running_proxy
from addon.recordings.flows import read_flows
from masking.mcp import McpSettings, cut_text, mask_payload_bytes
from tests.live.harness import HOST, SECONDS, environment, eventually, read_records, run_mitmdump
from tests.support.ports import hold_port

POLICY = McpSettings(enabled=True)
LINE = 'line {:07} of "output" — é\n'
PICTURE = bytes(range(256)) * 600
Server = tuple[str, threading.Event]
"""Its URL, and what a client sets once it has seen progress."""

_Value = TypeVar("_Value")


def text_of(chars: int) -> str:
    return "".join(LINE.format(n) for n in range(1 + chars // len(LINE.format(0))))[:chars]


def make_server(seen: threading.Event, *, json_response: bool, port: int) -> FastMCP:
    server = FastMCP("test", json_response=json_response, port=port)

    @server.tool()
    def read(chars: int) -> str:
        """Read so many characters."""
        return text_of(chars)

    @server.tool()
    def fail(chars: int) -> str:
        """Fail at length."""
        raise LookupError(text_of(chars))

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def refuse(*_: object) -> Completion | None:
        text = text_of(200_000)
        raise mcp.McpError(ErrorData(code=-32001, message=text, data={"trace": text}))

    @server.tool()
    def draw() -> Image:
        """Draw a picture."""
        return Image(data=PICTURE, format="png")

    @server.tool()
    async def wait(ctx: Context[Any, Any, Any]) -> str:
        """Report progress, and wait until somebody has seen it."""
        for step in range(3):
            await ctx.report_progress(step, 3, "going on")
        was_seen = await asyncio.to_thread(seen.wait, SECONDS / 3)
        return "in time" if was_seen else "held back"

    return server


@contextlib.contextmanager
def running_server(*, json_response: bool) -> Iterator[Server]:
    seen, port = threading.Event(), hold_port()
    app = make_server(seen, json_response=json_response, port=port).streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started or None)
    yield f"http://{HOST}:{port}/mcp", seen
    server.should_exit = True
    thread.join(SECONDS)


@pytest.fixture(scope="module", params=[True, False], ids=["documents", "event streams"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running_server(json_response=request.param) as running:
        yield running


OFF = "[observation_masking.schema1]\nenabled = false\n"


@contextlib.contextmanager
def addon_in(
    folder: Path, *arguments: str, enabled: str = "true", max_chars: int = 4_000
) -> Iterator[Proxy]:
    """Run the proxy with the addon, nothing but the strategy for MCP being on."""
    table = f"[observation_masking.mcp]\nenabled = {enabled}\nmax_chars = {max_chars}\n"
    path = folder / "config.toml"
    path.write_text(f"{OFF}{table}")
    env = environment(folder, OBSMASK_CONFIG=str(path))
    with running_proxy(folder, *arguments, env=env) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    with addon_in(folder) as running:
        yield running
        assert "Traceback" not in running.log


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("off")
    with addon_in(folder, enabled="false") as running:
        yield running


Use = Callable[[mcp.ClientSession], Coroutine[None, None, _Value]]


def in_session(server: Server, proxy: Proxy, use: Use[_Value]) -> _Value:
    """Use a client's session with the server, through the proxy."""

    async def run() -> _Value:
        client = httpx.AsyncClient(proxy=proxy.url, trust_env=False, timeout=SECONDS)
        async with (
            client,
            streamable_http_client(server[0], http_client=client) as (reading, writing, _),
            mcp.ClientSession(reading, writing) as session,
        ):
            await session.initialize()
            return await use(session)

    return asyncio.run(asyncio.wait_for(run(), SECONDS))


def read_text(result: mcp.types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("chars", [10, 4000, 4001, 200_000, 2_000_000])
def test_a_long_result_arrives_cut_and_a_short_one_as_it_is(
    server: Server, proxy: Proxy, chars: int
) -> None:
    """And the client, which validates structured content against the tool's schema, takes it."""
    result = in_session(server, proxy, lambda session: session.call_tool("read", {"chars": chars}))
    expected = cut_text(text_of(chars), POLICY)
    assert (expected == text_of(chars)) == (chars <= 4001)
    assert expected == read_text(result)
    assert result.structuredContent == {"result": expected}


def test_an_error_of_a_tool_is_cut_like_any_result(server: Server, proxy: Proxy) -> None:
    result = in_session(server, proxy, lambda session: session.call_tool("fail", {"chars": 9000}))
    assert result.isError
    assert "[KIMI_PROXY_OBSERVATION_MASKED original_chars=" in read_text(result)


def test_the_message_of_an_error_arrives_whole_and_its_data_cut(
    server: Server, proxy: Proxy
) -> None:
    async def refused(session: mcp.ClientSession) -> ErrorData:
        prompt = PromptReference(type="ref/prompt", name="p")
        with pytest.raises(mcp.McpError) as raised:
            await session.complete(prompt, {"name": "a", "value": "b"})
        return raised.value.error

    error = in_session(server, proxy, refused)
    assert (error.code, error.message) == (-32001, text_of(200_000))
    assert error.data == {"trace": cut_text(text_of(200_000), POLICY)}


def test_a_picture_arrives_whole(server: Server, proxy: Proxy) -> None:
    result = in_session(server, proxy, lambda session: session.call_tool("draw", {}))
    (block,) = result.content
    assert isinstance(block, ImageContent)
    assert base64.b64decode(block.data) == PICTURE


def test_progress_arrives_while_the_tool_is_running(proxy: Proxy) -> None:
    """It ends only when the client has seen its progress, or else says that it waited in vain."""
    steps: list[float] = []
    with running_server(json_response=False) as server:

        async def note(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)
            if len(steps) == 3:
                server[1].set()

        result = in_session(
            server,
            proxy,
            lambda session: session.call_tool("wait", {}, progress_callback=note),
        )
    assert (steps, read_text(result)) == ([0, 1, 2], "in time")


# Its bytes


@contextlib.contextmanager
def open_session(url: str, proxy: Proxy | None) -> Iterator[httpx.Client]:
    """A client without the library, in a session that has begun."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
    }
    with httpx.Client(
        proxy=proxy.url if proxy else None, trust_env=False, timeout=SECONDS, headers=headers
    ) as client:
        who = {"name": "test", "version": "1"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        response = client.post(url, json=asked("initialize", **start))
        client.headers["mcp-session-id"] = response.headers["mcp-session-id"]
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert client.post(url, json=notification).status_code == 202
        yield client


def asked(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def answer(url: str, proxy: Proxy | None) -> bytes:
    with open_session(url, proxy) as client:
        call = asked("tools/call", name="read", arguments={"chars": 200_000})
        return client.post(url, json=call).content


def mask(body: bytes) -> bytes:
    if body.startswith(b"{"):
        return mask_payload_bytes(body, POLICY).body
    return EventStream(lambda data: mask_payload_bytes(data, POLICY).body).feed(body)


def test_every_byte_outside_the_cut_strings_is_the_servers(
    server: Server, proxy: Proxy, off: Proxy
) -> None:
    direct = answer(server[0], None)
    assert direct == answer(server[0], off)
    assert mask(direct) == answer(server[0], proxy) != direct
    assert len(mask(direct)) < 10_000 < 400_000 < len(direct)


def test_the_list_of_tools_is_not_cut(server: Server, proxy: Proxy) -> None:
    def lists(through: Proxy | None) -> bytes:
        with open_session(server[0], through) as client:
            return client.post(server[0], json=asked("tools/list")).content

    assert lists(None) == lists(proxy)
    assert b"inputSchema" in lists(proxy)


# Recordings


def read_answer(recording: Path) -> bytes | None:
    """Return what was answered to the call of a tool."""
    (body,) = (
        flow.response.content if flow.response else None
        for flow in read_flows(recording)
        if b"tools/call" in (flow.request.content or b"")
    )
    return body


def test_a_recording_keeps_what_the_client_got_and_the_log_what_became_of_it(
    server: Server, tmp_path: Path
) -> None:
    with addon_in(tmp_path, "-w", str(tmp_path / "flows")) as proxy:
        got = answer(server[0], proxy)
    assert got == read_answer(tmp_path / "flows")
    assert "localhost: MCP response, cut 2 strings, 400,000 -> " in proxy.log
    assert "3 MCP responses: 1 with 2 strings cut (400,000 -> " in proxy.log
    records = [record for record in read_records(tmp_path) if record["kind"] == "mcp"]
    assert [0, 0, 2] == sorted(record["cut_strings"] for record in records)
    assert {"/mcp"} == {record["path"] for record in records}
    assert 1 == len({record["run"] for record in records})
    assert {len(record["run"]) for record in records} == {8}


def test_a_recording_of_what_was_not_cut_is_cut_when_it_is_replayed(
    server: Server, tmp_path: Path
) -> None:
    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    with addon_in(tmp_path, "-w", whole, max_chars=1_000_000) as proxy:
        got = answer(server[0], proxy)
    path = tmp_path / "config.toml"
    path.write_text(f"{OFF}[observation_masking.mcp]\nenabled = true\n")
    run_mitmdump(tmp_path, "-nr", whole, "-w", cut, OBSMASK_CONFIG=str(path))
    assert got == read_answer(Path(whole))
    assert mask(got) == read_answer(Path(cut))
