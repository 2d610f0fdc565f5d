"""Recognising MCP's requests and responses, and the hooks, where no network is needed."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.net import encoding
from mitmproxy.test import tflow, tutils

from addon.proxy.mcp import (
    Answer,
    Delivery,
    EventStream,
    Mcp,
    find_delivery,
    find_methods,
    find_obstacle,
)
from addon.threads import Pool
from masking import ConfigError
from masking.config import Settings
from masking.config.settings import McpTable, Mode
from masking.mcp import UNKNOWN, McpSettings, Methods, mask_payload_bytes, read_methods
from tests.proxy.engines import StandIn
from tests.support.marks import as_one_test

_Result = TypeVar("_Result")

SETTINGS = McpSettings(enabled=True, max_chars=100, head_chars=3, tail_chars=2)
LONG = "abc" + "." * 195 + "yz"
ANSWER = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": LONG}}).encode()
MASKED = mask_payload_bytes(ANSWER, SETTINGS).body


def call(method: object = "tools/call", **fields: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, **fields}


def request(
    body: object = None, method: str = "POST", path: str = "/mcp", **headers: str
) -> http.Request:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    made = tutils.treq(method=method.encode(), path=path.encode(), content=content)
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return made


def response(
    body: bytes | None = ANSWER, kind: str | None = "application/json", **headers: str
) -> http.Response:
    """Make a response; `None` is a body that is still to come."""
    made = tutils.tresp(content=body, headers=http.Headers())
    if kind is not None:
        made.headers["content-type"] = kind
    return with_headers(made, headers)


def with_headers(made: http.Response, headers: dict[str, str]) -> http.Response:
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return made


def events(*data: bytes) -> bytes:
    return b"".join(b"event: message\r\ndata: %b\r\n\r\n" % line for line in data)


# What a client says


@as_one_test
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        *((method, True) for method in ("initialize", "ping", "tools/call", "tools/list")),
        *((method, True) for method in ("resources/read", "resources/templates/list")),
        *((method, True) for method in ("prompts/get", "completion/complete", "server/discover")),
        *((method, True) for method in ("notifications/initialized", "notifications/of/ours")),
        *((method, False) for method in ("eth_call", "message/send", "tasks/get", "Tools/Call")),
        *(
            (method, False)
            for method in ("tools/call/more", "notifications", "", None, 7, ["ping"])
        ),
    ],
)
def test_a_method_is_one_of_mcp(method: object, expected: bool) -> None:
    assert expected == (read_methods(json.dumps(call(method)).encode()) is not None)


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(call(), {1: "tools/call"}, id="a request"),
        pytest.param(call(id="a"), {"a": "tools/call"}, id="a name for an id"),
        pytest.param(call("notifications/progress", id=None), {}, id="a notification"),
        pytest.param(call(id=[1]), {}, id="an invalid id"),
        pytest.param(
            [call(), call("ping", id=2)], {1: "tools/call", 2: "ping"}, id="a batch of requests"
        ),
        pytest.param([7, call(), {}], {1: "tools/call"}, id="a batch with something else"),
        pytest.param(
            [call("x/y"), call("ping", id=2)],
            {1: "x/y", 2: "ping"},
            id="one of MCP's is enough",
        ),
        pytest.param([], None, id="an empty batch"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}}, None, id="an answer of the client"),
        pytest.param(call(jsonrpc="1.0"), None, id="another version"),
        pytest.param({"method": "ping", "id": 1}, None, id="another protocol"),
        pytest.param("jsonrpc", None, id="a text"),
        pytest.param(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', None, id="no JSON"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_what_a_client_asks_for(body: object, expected: Methods | None) -> None:
    source = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert expected == read_methods(source)


@given(st.binary())
def test_any_bytes_can_be_read(noise: bytes) -> None:
    for lead in (b"", b'{"jsonrpc":', b'[{"jsonrpc":"2.0","method":'):
        read_methods(lead + noise)


class Asked(NamedTuple):
    case: str
    request: http.Request
    expected: Methods | None
    endpoints: tuple[str, ...] = ()


GZIPPED = encoding.encode(json.dumps(call()).encode(), "gzip")
EVENTS = {"accept": "Application/JSON, Text/Event-Stream"}
UNREAD = request(call())
UNREAD.data.content = None

ASKED = [
    Asked("a call", request(call()), {1: "tools/call"}),
    Asked("a compressed call", request(GZIPPED, content_encoding="gzip"), {1: "tools/call"}),
    Asked("an unknown encoding", request(call(), content_encoding="x-own"), None),
    Asked("another JSON", request({"model": "gpt-4o", "messages": []}), None),
    Asked("an upload that streamed by", UNREAD, None),
    Asked("the same with a header",
          request(b"", mcp_protocol_version="2025-11-25"), UNKNOWN),
    Asked("a client's answer", request({"jsonrpc": "2.0", "id": 1, "result": {}},
                                       mcp_session_id="1"), UNKNOWN),
    Asked("a task", request(call("tasks/result"), mcp_method="tasks/result"), UNKNOWN),
    Asked("a call by another verb", request(call(), method="PUT"), None),
    Asked("a stream", request(b"", "GET", mcp_session_id="1", **EVENTS), UNKNOWN),
    Asked("a stream without a session",
          request(b"", "GET", mcp_protocol_version="2025-11-25", **EVENTS), UNKNOWN),
    Asked("a stream of someone else", request(b"", "GET", **EVENTS), None),
    Asked("no stream", request(b"", "GET", mcp_session_id="1"), None),
    Asked("the end of a session", request(b"", "DELETE", mcp_session_id="1", **EVENTS), None),
    Asked("an endpoint", request(b"", "GET", "/MCP/sse?key=1"), UNKNOWN, ("Address/mcp/*",)),
    Asked("an endpoint at a port", request({}), UNKNOWN, ("x/y", "*:22/mcp")),
    Asked("an endpoint and a call", request(call()), {1: "tools/call"}, ("*/mcp",)),
    Asked("another port", request({}), None, ("*:23/mcp",)),
    Asked("another path", request({}, path="/mcp/more?/mcp"), None, ("*/mcp",)),
    Asked("another host", request({}), None, ("example.org/mcp",)),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", ASKED, ids=lambda given: given.case)
def test_a_request_is_to_an_mcp_server(given: Asked) -> None:
    assert given.expected == find_methods(given.request, given.endpoints)


@as_one_test
@pytest.mark.parametrize(
    "pattern", ["", "host", "/path", "https://host/path", "host/path?a=b", "h ost/path", "[::1]/a"]
)
def test_what_cannot_be_an_endpoint_is_an_error(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"endpoints\[1\]"):
        McpSettings(endpoints=("host:8080/*", pattern))


# What a server says


@as_one_test
@pytest.mark.parametrize(
    ("kind", "length", "expected"),
    [
        ("application/json", None, "whole"),
        ("Application/JSON; charset=utf-8", "9", "whole"),
        ("text/event-stream", None, "stream"),
        ("Text/Event-Stream;charset=utf-8", None, "stream"),
        ("text/event-stream", "9", "whole"),
        ("text/html", None, None),
        ("application/jsonl", None, None),
        ("", None, None),
        (None, "0", None),
    ],
)
def test_how_a_response_would_be_masked(
    kind: str | None, length: str | None, expected: Delivery | None
) -> None:
    headers = {} if length is None else {"content-length": length}
    assert expected == find_delivery(with_headers(response(None, kind), headers))


@as_one_test
@pytest.mark.parametrize(
    ("delivery", "headers", "expected"),
    [
        ("whole", {}, None),
        ("stream", {}, None),
        ("stream", {"content_encoding": "Identity"}, None),
        ("whole", {"content_encoding": "gzip"}, None),
        *(
            ("stream", {"content_encoding": name}, "compressed event stream")
            for name in ("gzip", "br", "zstd", "deflate", "")
        ),
        *(
            ("whole", {name: "x"}, "signed")
            for name in (
                "content_md5",
                "Digest",
                "content_digest",
                "repr_digest",
                "signature",
                "x_amz_checksum_crc32",
                "x-goog-hash",
            )
        ),
        ("stream", {"digest": "x"}, "signed"),
        ("whole", {"content_length": "64000000"}, None),
        ("whole", {"content_length": "64000001"}, "too large"),
        ("whole", {"content_length": "9" * 5000}, "too large"),
        ("whole", {"content_length": "many"}, None),
    ],
)
def test_what_prevents_masking(
    delivery: Delivery, headers: dict[str, str], expected: str | None
) -> None:
    assert expected == find_obstacle(with_headers(response(), headers), delivery)


# The hooks


def flow_of(answered: http.Response | None, asked: http.Request | None = None) -> http.HTTPFlow:
    flow = tflow.tflow(req=asked or request(call()))
    flow.response = answered
    return flow


def with_settings(settings: McpSettings = SETTINGS, mode: Mode = "on") -> StandIn:
    table = McpTable(**asdict(settings))
    return StandIn(Settings(mcp=table, mode=mode))


def make(engine: StandIn | None = None) -> Mcp:
    return Mcp((engine or with_settings()).as_engine)


def is_taken(mcp: Mcp, flow: http.HTTPFlow) -> bool:
    """Let the headers of a response pass; whether the rest is taken charge of."""
    asyncio.run(mcp.responseheaders(flow))
    return flow in mcp


def run(mcp: Mcp, flow: http.HTTPFlow) -> tuple[bool, bytes]:
    """Let a response pass that is all there; whether it was taken charge of, and its body."""
    taken = is_taken(mcp, flow)
    asyncio.run(mcp.response(flow))
    assert flow.response is not None
    return taken, flow.response.raw_content or b""


def run_stream(mcp: Mcp, flow: http.HTTPFlow, *chunks: bytes) -> Sequence[object]:
    """Let a response stream by, as mitmproxy would; what goes on at each chunk, and at the end."""
    assert flow.response is not None
    assert is_taken(mcp, flow)
    assert callable(flow.response.stream)
    sent = [flow.response.stream(chunk) for chunk in (*chunks, b"")]
    asyncio.run(mcp.response(flow))
    return sent


@pytest.mark.parametrize("name", ["identity", "gzip", "deflate", "br", "zstd"])
def test_a_document_is_masked_in_its_encoding(name: str) -> None:
    mcp = make()
    flow = flow_of(response(encoding.encode(ANSWER, name), content_encoding=name))
    taken, body = run(mcp, flow)
    assert (taken, flow.response.stream if flow.response else None) == (True, False)
    assert MASKED == encoding.decode(body, name)
    assert flow.comment == "cut 1 strings of an MCP response: 200 -> 79 characters"
    assert str(mcp.totals) == (
        "1 MCP responses: 1 with 1 strings cut (200 -> 79 characters); untouched for a reason: none"
    )


@pytest.mark.parametrize("name", ["identity", "gzip"])
def test_an_event_stream_that_is_all_there_is_masked(name: str) -> None:
    """One that gives its length, or one of a recording, compressed or not."""
    body = encoding.encode(events(b"", ANSWER, b"{}"), name)
    flow = flow_of(response(body, "text/event-stream", content_encoding=name))
    taken, masked = run(make(), flow)
    assert taken
    assert events(b"", MASKED, b"{}") == encoding.decode(masked, name)
    assert flow.response is not None
    assert flow.response.headers["content-length"] == str(len(masked))


def test_an_event_stream_is_masked_while_it_streams_by() -> None:
    mcp = make()
    flow = flow_of(response(None, "text/event-stream"))
    whole = events(ANSWER)
    sent = run_stream(mcp, flow, b": ping\n\n", whole[:50], whole[50:] + whole[:30])
    masked = events(MASKED)
    assert sent == [[b": ping\n\n"], [b"event: message\r\n"], [masked[16:] + whole[:16]],
                    [whole[16:30]]]  # fmt: skip
    assert flow.response is not None
    assert flow.response.raw_content == b": ping\n\n" + masked + whole[:30]
    assert (mcp.totals.strings, mcp.totals.failures) == (1, Counter())


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_observed_answer_goes_on_as_it_came_and_is_counted(kind: str) -> None:
    observing = with_settings(mode="observe")
    mcp = make(observing)
    whole = ANSWER if kind == "application/json" else events(ANSWER)
    flow = flow_of(response(whole, kind))
    assert is_taken(mcp, flow)
    asyncio.run(mcp.response(flow))
    assert flow.response is not None
    assert whole == flow.response.raw_content
    assert ("1 MCP responses, 1 of them only observed", "") == (
        *(f"{mcp.totals}".partition(":")[0], flow.comment),
    )
    (record,) = observing.recorder.noted
    assert (True, 1) == (record["observed"], record["cut_strings"])


class _Watched(Pool):
    """A pool that says what it was given to work on."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def run(self, size: int, work: Callable[[], _Result]) -> _Result | None:
        self.sizes.append(size)
        return await super().run(size, work)


def test_a_large_request_is_read_beside_the_event_loop() -> None:
    asked = [request(call()), request(call(params="x" * 50_000)), request(b"x" * 60_000)]
    pool = _Watched()
    watched = with_settings()
    watched.pool = pool
    mcp = make(watched)
    flows = [flow_of(response(), each) for each in asked]
    assert [True, True, False] == [is_taken(mcp, flow) for flow in flows]
    assert [len(each.raw_content or b"") for each in asked[1:]] == pool.sizes


def test_tiny_events_of_a_stream_are_not_looked_into() -> None:
    mcp, flow = make(), flow_of(response(None, "text/event-stream"))
    tiny = events(*[b"no JSON"] * 3)
    assert [[tiny + events(MASKED)], []] == run_stream(mcp, flow, tiny + events(ANSWER))
    assert Counter() == mcp.totals.failures


def test_an_observed_stream_is_not_held_back() -> None:
    mcp = make(with_settings(mode="observe"))
    flow = flow_of(response(None, "text/event-stream"))
    assert is_taken(mcp, flow)
    assert flow.response is not None
    stream = flow.response.stream
    assert callable(stream)
    whole = events(ANSWER)
    assert [[whole[:50]], [whole[50:]], []] == [
        stream(chunk) for chunk in (whole[:50], whole[50:], b"")
    ]
    flow.response.data.content = None
    asyncio.run(mcp.response(flow))
    assert (1, whole) == (mcp.totals.strings, flow.response.raw_content)


def test_nothing_is_sent_where_there_is_nothing_to_send() -> None:
    """An empty chunk would end the client's response."""
    assert run_stream(make(), flow_of(response(None, "text/event-stream")), b"data: 1") == [
        [],
        [b"data: 1"],
    ]


def test_a_stream_that_ends_with_its_headers_stays_empty() -> None:
    flow = flow_of(response(None, "text/event-stream"))
    mcp = make()
    assert is_taken(mcp, flow)
    assert flow.response is not None
    flow.response.data.content = b""
    asyncio.run(mcp.response(flow))
    assert (flow.response.raw_content, mcp.totals.responses) == (b"", 1)


@as_one_test
@pytest.mark.parametrize(
    ("asked", "answered", "settings"),
    [
        pytest.param(request(call()), response(), McpSettings(), id="off"),
        pytest.param(
            request(call()), response(), McpSettings(enabled=True, max_chars=0), id="no limit"
        ),
        pytest.param(request({"a": 1}), response(), SETTINGS, id="no MCP"),
        pytest.param(request(call()), response(kind="text/html"), SETTINGS, id="no JSON"),
        pytest.param(request(call()), None, SETTINGS, id="no response"),
    ],
)
def test_what_is_none_of_ours_is_left_to_others(
    asked: http.Request, answered: http.Response | None, settings: McpSettings
) -> None:
    mcp = make(with_settings(settings))
    flow = flow_of(answered, asked)
    assert not is_taken(mcp, flow)
    asyncio.run(mcp.response(flow))
    mcp.error(flow)
    assert str(mcp.totals).startswith("0 MCP responses")
    assert answered is None or answered.raw_content == ANSWER


EVERYWHERE = replace(SETTINGS, endpoints=("*/*",))

OTHERS: dict[str, Callable[[http.HTTPFlow], object]] = {
    "a host that is left alone": lambda flow: setattr(flow.request, "host", "github.com"),
    "an answer that streams already": lambda flow: setattr(flow.response, "stream", True),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_so_is_an_answer_of_another_even_at_an_endpoint(
    change: Callable[[http.HTTPFlow], object],
) -> None:
    mcp, flow = make(with_settings(EVERYWHERE)), flow_of(response())
    change(flow)
    assert not is_taken(mcp, flow)
    assert 0 == mcp.totals.responses


@pytest.mark.parametrize(
    ("answered", "taken", "reason"),
    [
        (response(digest="x"), False, "signed"),
        (response(content_length="99999999"), False, "too large"),
        (response(ANSWER * 2), True, "not JSON"),
        (response(b"\xff" * 200), True, "not UTF-8"),
        (response(content_encoding="x-own"), True, "unknown or broken content encoding"),
        (response(content_encoding="gzip"), True, "unknown or broken content encoding"),
    ],
)
def test_a_document_that_cannot_be_masked_goes_on_untouched(
    answered: http.Response, taken: bool, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    mcp = make()
    before = answered.raw_content
    assert (taken, before) == run(mcp, flow_of(answered))
    assert (mcp.totals.responses, mcp.totals.failures) == (1, {reason: 1})
    assert caplog.messages == [f"address: MCP response, passed through untouched, {reason}"]


def test_a_compressed_stream_is_left_to_others() -> None:
    mcp = make()
    flow = flow_of(response(None, "text/event-stream", content_encoding="gzip"))
    assert not is_taken(mcp, flow)
    assert mcp.totals.failures == {"compressed event stream": 1}


def test_a_surprise_in_a_stream_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = make()
    flow = flow_of(response(None, "text/event-stream"))
    broken = events(b"." * 200, ANSWER)
    assert run_stream(mcp, flow, broken) == [[events(b"." * 200, MASKED)], []]
    assert mcp.totals.failures == {"not JSON": 1}
    monkeypatch.setattr(Answer, "mask", lambda *_: 1 / 0)
    flow = flow_of(response(None, "text/event-stream"))
    assert run_stream(mcp, flow, broken, broken) == [[broken], [broken], []]
    assert mcp.totals.failures == {"not JSON": 1, "internal error (ZeroDivisionError)": 1}


def test_an_event_that_is_too_large_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.proxy.mcp.EventStream", partial(EventStream, max_bytes=9))
    mcp = make()
    source = events(ANSWER, ANSWER)
    assert run_stream(mcp, flow_of(response(None, "text/event-stream")), source) == [[source], []]
    assert mcp.totals.failures == {"event too large": 2}


def test_an_event_of_too_many_values_passes_uncut_and_the_next_one_does_not() -> None:
    mcp = make()
    crowd = json.dumps({"jsonrpc": "2.0", "id": 1, "result": [LONG, [[]] * 100_000]}).encode()
    source = events(crowd, ANSWER)
    sent = run_stream(mcp, flow_of(response(None, "text/event-stream")), source)
    assert [[events(crowd, MASKED)], []] == sent
    assert mcp.totals.failures == {"more than 100,000 values": 1}


def test_a_whole_answer_is_cut_outside_the_event_loop_and_may_have_as_many() -> None:
    crowd = json.dumps({"jsonrpc": "2.0", "id": 1, "result": [LONG, [[]] * 100_000]}).encode()
    taken, sent = run(make(), flow_of(response(crowd)))
    assert (True, mask_payload_bytes(crowd, SETTINGS).body) == (taken, sent)
    assert len(sent) < len(crowd)


def test_a_surprise_in_a_document_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answer, "mask", lambda *_: 1 / 0)
    mcp = make()
    assert (True, ANSWER) == run(mcp, flow_of(response()))
    assert mcp.totals.failures == {"internal error (ZeroDivisionError)": 1}


def test_a_surprise_in_the_headers_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.proxy.mcp.find_methods", lambda *_: 1 / 0)
    mcp = make()
    assert (False, ANSWER) == run(mcp, flow_of(response()))
    assert mcp.totals.failures == {"internal error (ZeroDivisionError)": 1}


def test_what_comes_to_no_end_is_counted() -> None:
    mcp = make()
    flows = [flow_of(response(None, "text/event-stream")) for _ in range(2)]
    for flow in flows:
        assert flow.response is not None
        assert is_taken(mcp, flow)
        assert callable(flow.response.stream)
        flow.response.stream(events(ANSWER))
    mcp.error(flows[0])
    assert mcp.totals.responses == 1
    mcp.done()
    mcp.done()
    assert (mcp.totals.responses, mcp.totals.strings) == (2, 2)


def test_the_totals_name_every_reason() -> None:
    mcp = make()
    for answered in (
        response(),
        response(signature="x"),
        response(b"." * 200),
        response(digest=""),
    ):
        run(mcp, flow_of(answered))
    assert str(mcp.totals) == (
        "4 MCP responses: 1 with 1 strings cut (200 -> 79 characters)"
        "; untouched for a reason: 1 not JSON, 2 signed"
    )
