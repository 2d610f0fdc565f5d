"""Whose a flow is: what the proxy answers itself is nobody's, and each answer is one's."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy.layers.http._hooks import (
    HttpRequestHeadersHook,
    HttpRequestHook,
    HttpResponseHeadersHook,
    HttpResponseHook,
)
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons, tflow, tutils

from addon.mask import ObservationMasking
from masking.mcp import McpSettings, mask_payload_bytes
from tests.live.harness import ON, conversation, encoded, masked, read_records

BODY = encoded(conversation())
MORE = b"""
[observation_masking.websocket]
mode = "http"
[observation_masking.mcp]
enabled = true
max_chars = 100
head_chars = 3
tail_chars = 2
"""
CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}'
ANSWER = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * 200}}).encode()
CUT = mask_payload_bytes(
    ANSWER, McpSettings(enabled=True, max_chars=100, head_chars=3, tail_chars=2)
).body


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[taddons.context]:
    """A mitmproxy with the addon, before it starts; MCP is cut, and WebSockets are refused."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OBSMASK_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_bytes(ON + MORE)
    with taddons.context(Proxyserver(), ObservationMasking()) as context:
        yield context


def post(host: str, path: str, body: bytes = BODY) -> http.HTTPFlow:
    request = tutils.treq(method=b"POST", host=host, path=path.encode(), content=body)
    return tflow.tflow(req=request)


def let_pass(
    context: taddons.context, flow: http.HTTPFlow, response: http.Response | None = None
) -> http.Response:
    """Have a proxy take a request, and a server answer it if the proxy does not; the answer."""

    async def run() -> None:
        addons = context.master.addons
        server, addon = addons.get("proxyserver"), addons.get("observationmasking")
        context.configure(server, listen_host="127.0.0.1", listen_port=0, server=True)
        assert await server.setup_servers()
        context.configure(addon)
        addon.running()
        if flow.request.host == "127.0.0.1":
            flow.request.port = server.listen_addrs()[0][1]
            flow.client_conn.proxy_mode = ProxyMode.parse("regular")
        # What mitmproxy does with a flow, be it answered by a server or before it is sent.
        await addons.trigger_event(HttpRequestHeadersHook(flow))
        await addons.trigger_event(HttpRequestHook(flow))
        flow.response = flow.response or response
        await addons.trigger_event(HttpResponseHeadersHook(flow))
        await addons.trigger_event(HttpResponseHook(flow))
        await server.servers.update([])
        addons.remove(addon)  # which ends its run, so that all is recorded

    asyncio.run(run())
    assert flow.response is not None
    return flow.response


def answer(body: bytes) -> http.Response:
    return tutils.tresp(content=body, headers=http.Headers(content_type="application/json"))


def test_a_request_to_a_model_is_masked_and_recorded(
    context: taddons.context, tmp_path: Path
) -> None:
    flow = post("llm.example.com", "/v1/chat/completions")
    assert b"{}" == let_pass(context, flow, answer(b"{}")).content
    assert masked(BODY) == flow.request.content
    assert ["/v1/chat/completions"] == [each["path"] for each in read_records(tmp_path)]


OWN = {
    "its name": (post("obsmask.test", "/v1/chat/completions"), 404),
    "its name, of another format": (post("obsmask.test", "/v1/interactions"), 404),
    "its port, from another machine": (
        post("127.0.0.1", "/to/https/llm.example.com/v1/chat/completions"),
        403,
    ),
    "its port, with a mistake": (post("127.0.0.1", "/to/ftp/chat/completions"), 400),
}


@pytest.mark.parametrize(("flow", "status"), OWN.values(), ids=OWN)
def test_what_the_proxy_answers_itself_is_not_masked_recorded_or_counted(
    context: taddons.context, tmp_path: Path, flow: http.HTTPFlow, status: int
) -> None:
    flow.client_conn.sockname = ("192.0.2.1", 8080)
    response = let_pass(context, flow)
    assert (status, BODY) == (response.status_code, flow.request.content)
    assert not response.stream
    assert [] == read_records(tmp_path)


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("example.com", "/v1/files", True),
        ("llm.example.com", "/v1/chat/completions", False),
        ("127.0.0.1", "/to/ftp/chat/completions", False),
    ],
    ids=["an upload", "one to a model", "one that the proxy answers"],
)
def test_only_what_nobody_reads_goes_on_before_it_is_complete(
    context: taddons.context, host: str, path: str, expected: bool
) -> None:
    flow = post(host, path)
    flow.request.headers["content-length"] = "2000000"
    flow.client_conn.sockname = ("127.0.0.1", 8080)
    let_pass(context, flow, answer(b"{}"))
    assert bool(flow.request.stream) is expected


def test_what_a_model_answers_is_no_answer_of_an_mcp_server(context: taddons.context) -> None:
    flow = post("llm.example.com", "/v1/chat/completions", CALL)
    assert ANSWER == let_pass(context, flow, answer(ANSWER)).content


def test_it_counts_what_a_request_has_become(context: taddons.context, tmp_path: Path) -> None:
    """Other addons may send a request elsewhere once its head has come, as `map_remote` does."""

    class Elsewhere:
        def request(self, flow: http.HTTPFlow) -> None:
            flow.request.path = "/v1/chat/completions"

    addons = context.master.addons
    addons.add(Elsewhere())
    addons.chain.insert(0, addons.chain.pop())
    flow = post("llm.example.com", "/somewhere")
    let_pass(context, flow, answer(b"{}"))
    assert masked(BODY) == flow.request.content
    assert ["/v1/chat/completions"] == [each["path"] for each in read_records(tmp_path)]


def test_neither_is_a_websocket_that_is_refused(context: taddons.context, tmp_path: Path) -> None:
    flow = tflow.tflow(req=tutils.treq(host="api.openai.com", path=b"/v1/responses"))
    flow.request.headers["upgrade"] = "websocket"
    assert 426 == let_pass(context, flow).status_code
    assert [] == read_records(tmp_path)


def test_an_answer_of_an_mcp_server_is_collected_and_cut_before_it_is_recorded(
    context: taddons.context, tmp_path: Path
) -> None:
    """Of no known length, it would else stream by."""
    response = let_pass(context, post("mcp.example.com", "/mcp", CALL), answer(ANSWER))
    assert (False, CUT) == (response.stream, response.content)
    (record,) = read_records(tmp_path)
    assert ("mcp.example.com", 200, 1) == (
        *(record["host"], record["status"], record["cut_strings"]),
    )


def test_any_other_answer_streams_by(context: taddons.context, tmp_path: Path) -> None:
    response = let_pass(context, post("example.com", "/api", b"{}"), answer(ANSWER))
    assert (True, ANSWER) == (response.stream, response.content)
    assert [] == read_records(tmp_path)
