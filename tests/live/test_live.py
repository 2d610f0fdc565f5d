"""A client, the proxy and a server, all real: what arrives is what was meant to, byte for byte."""

import contextlib
import functools
import json
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import brotli
import httpx
import pytest
import zstandard
from mitmproxy.net import encoding

from addon.proxy.authorities import write_bundle
from addon.proxy.server import Proxy, running_proxy
from tests.live.harness import (
    OFF,
    ON,
    SECONDS,
    Answer,
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    running_addon,
    ssl_context,
    stream,
)
from tests.support.places import ROOT
from tests.support.ports import hold_port
from tests.tools.provider.script import Reply

if TYPE_CHECKING:
    import openai

CHAT = "/v1/chat/completions"
BODY = encoded(conversation())
USAGE = {
    "prompt_tokens": 90,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 64},
}


@pytest.fixture(params=["on", "off"])
def either(request: pytest.FixtureRequest) -> Live:
    """The proxy with masking on, then with masking off."""
    live: Live = request.getfixturevalue(request.param)
    return live


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A chat path of the test's own, to find its record by."""
    return f"/{abs(hash(request.node.nodeid))}{CHAT}"


def openai_client(live: Live, sent: list[bytes]) -> "openai.OpenAI":
    """Return a client behind the proxy that notes down every body it sends."""
    import openai  # takes two seconds

    client = live.client(on_request=lambda request: sent.append(request.read()))
    base_url = f"https://localhost:{live.upstream.provider.port}/v1"
    return openai.OpenAI(api_key="sk-none", base_url=base_url, max_retries=0, http_client=client)


# The openai client


@pytest.mark.parametrize("streaming", [False, True])
def test_the_openai_client_is_masked_upstream_and_sees_nothing_of_it(
    on: Live, streaming: bool
) -> None:
    sent: list[bytes] = []
    reply = openai_client(on, sent).chat.completions.create(**conversation(stream=streaming))
    if streaming:
        said = "".join(chunk.choices[0].delta.content or "" for chunk in reply)
    else:
        said = reply.choices[0].message.content
    assert said == on.upstream.replies[-1].content
    assert on.upstream.provider.requests[-1].body == masked(sent[0]) != sent[0]


def test_an_openai_client_needs_only_the_proxy_and_the_bundle_in_its_environment(
    on: Live, tmp_path: Path
) -> None:
    program = (
        "import json, openai, sys\n"
        "client = openai.OpenAI(api_key='sk-none', base_url=sys.argv[1], max_retries=0)\n"
        "reply = client.chat.completions.create(**json.load(sys.stdin))\n"
        "print(reply.choices[0].message.content)\n"
    )
    bundle = write_bundle(tmp_path / "bundle.pem", [on.proxy.ca])
    env = environment(tmp_path, HTTPS_PROXY=on.proxy.url, SSL_CERT_FILE=str(bundle))
    base_url = f"https://localhost:{on.upstream.provider.port}/v1"
    ended = subprocess.run(
        [sys.executable, "-c", program, base_url],
        input=BODY,
        capture_output=True,
        env=env,
        check=True,
    )
    arrived = on.upstream.provider.requests[-1]
    assert ended.stdout.decode().strip() == on.upstream.replies[-1].content
    assert arrived.request == json.loads(masked(BODY))


# Byte for byte


def test_nothing_but_the_masked_strings_and_the_length_differs_upstream(
    on: Live, path: str
) -> None:
    headers = {"Authorization": "Bearer x", "X_Odd": "two  blanks", "x_Stainless_OS": "Linux"}
    direct = on.send_directly(path, BODY, **headers)
    through = on.send(path, BODY, **headers)
    assert through.body == masked(BODY) != BODY
    assert through.head_but_length == direct.head_but_length
    assert f"Content-Length: {len(through.body)}".encode() in through.head


def test_switched_off_the_proxy_is_invisible_and_keeps_its_record(off: Live, path: str) -> None:
    query = "?api-version=2024-10-21&x=%C3%A9+%20"
    assert off.send(path + query, BODY) == off.send_directly(path + query, BODY)
    record = off.record(path)
    assert (record["masking"], record["masked"], record["tool_results"]) == ("off", 0, 5)
    assert record["bytes_before"] == record["bytes_after"] == len(BODY)


def test_the_answer_reaches_the_client_as_it_left(either: Live, path: str) -> None:
    packed = encoding.encode(b'{"said": "something \xc3\xa9"}', "gzip")
    either.sink.answers[path] = answer(
        packed, status=201, content_encoding="gzip", X_Request_Id="req 1", set_cookie="a=b"
    )
    with either.client() as through, either.client(proxy=None) as direct:
        seen = [raw_answer(c, either.sink.url(path)) for c in (through, direct)]
    assert seen[0] == seen[1]


def raw_answer(client: httpx.Client, url: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    with client.stream("POST", url, content=BODY) as response:
        return response.status_code, response.headers.raw, b"".join(response.iter_raw())


@pytest.mark.parametrize(
    "target",
    [
        "/v1/chat/completions",
        "/api/v1/chat/completions",
        "/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21&code=k3y",
    ],
)
def test_a_chat_request_is_known_by_the_end_of_its_path(on: Live, target: str) -> None:
    assert on.send(target, BODY).body == masked(BODY)
    assert on.record(target.partition("?")[0])["masked"] == 3


@pytest.mark.parametrize(
    ("method", "other"),
    [
        ("GET", "/other1/chat/completions"),
        ("PUT", "/other2/chat/completions"),
        ("POST", "/other3/chat/completions/chatcmpl-1"),
        ("POST", "/other4/embeddings?then=/chat/completions"),
        ("POST", "/other5/CHAT/completions"),
    ],
)
def test_any_other_request_is_neither_touched_nor_recorded(
    on: Live, path: str, method: str, other: str
) -> None:
    with on.client() as client:
        client.request(method, on.sink.url(other), content=BODY)
    on.send(path, BODY)
    on.record(path)
    assert on.sink.last(other.partition("?")[0]).body == BODY
    assert other.partition("?")[0] not in {record["path"] for record in on.records()}


# Encodings

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: encoding.encode(body, "gzip"),
    "GZIP": lambda body: encoding.encode(body, "gzip"),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_compressed_body_is_masked_and_compressed_again(on: Live, path: str, name: str) -> None:
    packed = ENCODERS[name](BODY)
    arrived = on.send(path, packed, content_encoding=name)
    direct = on.send_directly(path, packed, content_encoding=name)
    assert encoding.decode(arrived.body, name) == masked(BODY)
    assert arrived.head_but_length == direct.head_but_length


@pytest.mark.parametrize("name", ENCODERS)
def test_a_compressed_body_with_nothing_to_mask_stays_bit_for_bit(
    on: Live, path: str, name: str
) -> None:
    packed = ENCODERS[name](encoded(conversation(turns=2)))
    assert on.send(path, packed, content_encoding=name).body == packed


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("x-unheard-of", BODY),
        ("gzip, br", encoding.encode(BODY, "gzip")),
        ("utf-8", BODY),
        ("rot13", BODY),
        ("gzip", BODY),
        ("gzip", encoding.encode(BODY, "gzip")[:-200]),
        ("br", BODY),
        ("br", brotli.compress(BODY)[:-9]),
        ("zstd", BODY),
        ("zstd", zstandard.ZstdCompressor().compress(BODY)[:-9]),
        ("deflate", BODY),
        ("deflate", zlib.compress(BODY)[:-9]),
    ],
)
def test_a_body_that_cannot_be_decoded_goes_on_bit_for_bit(
    on: Live, path: str, name: str, body: bytes
) -> None:
    assert on.send(path, body, content_encoding=name) == on.send_directly(
        path, body, content_encoding=name
    )
    assert on.record(path)["passed_through"] is not None


@pytest.mark.parametrize("name", ["identity", "gzip"])
def test_a_chunked_body_is_masked_and_stays_chunked(on: Live, path: str, name: str) -> None:
    body = encoding.encode(BODY, name)
    with on.client() as client:
        chunks = (body[i : i + 1000] for i in range(0, len(body), 1000))
        client.post(on.sink.url(path), content=chunks, headers={"content-encoding": name})
    arrived = on.sink.last(path)
    assert encoding.decode(arrived.body, name) == masked(BODY)
    assert b"transfer-encoding: chunked" in arrived.head.lower()
    assert b"content-length" not in arrived.head.lower()


def test_requests_at_the_same_time_do_not_mix(on: Live, path: str) -> None:
    names = ["identity", "gzip", "br", "zstd"] * 6
    bodies = [encoded(conversation(text=f"text {n} " * 2_000)) for n in range(len(names))]

    def send(n: int) -> bytes:
        packed = encoding.encode(bodies[n], names[n])
        return on.send(f"/{n}{path}", packed, content_encoding=names[n]).body

    with ThreadPoolExecutor(len(names)) as threads:
        arrived = [*threads.map(send, range(len(names)))]
    unpacked = [encoding.decode(body, name) for body, name in zip(arrived, names, strict=True)]
    assert unpacked == [masked(body) for body in bodies]


# Bodies that are not what they should be

ODD_BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"not JSON",
    "truncated": BODY[:-3],
    "more than one document": BODY + BODY,
    "UTF-16": json.dumps(conversation()).encode("utf-16"),
    "latin-1": json.dumps(conversation(), ensure_ascii=False).encode("latin-1"),
    "nothing but a byte-order mark": b"\xef\xbb\xbf",
    "no object": b"[1, 2]",
    "null": b"null",
    "no messages": b'{"model": "gpt-4o"}',
    "messages null": b'{"messages": null}',
    "messages a string": b'{"messages": "hello"}',
    "messages an object": b'{"messages": {"role": "tool"}}',
    "messages a number": b'{"messages": 1e400}',
    "deeply nested": b'{"messages": [], "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deeply nested messages": b'{"messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "nested and cut off": b'{"messages": ' + b'{"x":' * 50_000,
}


@pytest.mark.parametrize("name", ODD_BODIES)
def test_what_is_no_chat_request_goes_on_bit_for_bit_and_is_counted(
    on: Live, path: str, name: str
) -> None:
    body = ODD_BODIES[name]
    assert on.send(path, body) == on.send_directly(path, body)
    record = on.record(path)
    assert record["passed_through"] is not None
    assert "internal error" not in record["passed_through"]
    assert record["model"] == ("gpt-4o" if name == "no messages" else None)


BRACES = BODY.partition(b"{")[2].rpartition(b"}")[0]
ODD_NUMBERS = b'"a": NaN, "b": -Infinity, "c": 1e400, "d": 10000000000000000000000000, "e": 1.10'
NESTED = b'"tools": ' + b"[" * 900 + b"]" * 900

MASKABLE_BODIES: dict[str, bytes] = {
    "a byte-order mark": b"\xef\xbb\xbf" + BODY,
    "NaN and other numbers": b"{%b, %b}" % (ODD_NUMBERS, BRACES),
    "lone surrogates": json.dumps(conversation(text="\ud800 alone " * 20)).encode(),
    "duplicate keys": b'{"messages": 1, "model": "x", "model": "y", %b}' % BRACES,
    "odd blanks": b"\r\n\t {\r%b }\n\n" % BRACES,
    "other escapes": BODY.replace(b"output", b"\\u006futput\\/"),
    "messages that are no objects": BODY.replace(b'"messages": [', b'"messages": [1, null, [], '),
    "rather deeply nested": b"{%b, %b}" % (NESTED, BRACES),
}


@pytest.mark.parametrize("name", MASKABLE_BODIES)
def test_an_odd_chat_request_is_masked_all_the_same(on: Live, path: str, name: str) -> None:
    body = MASKABLE_BODIES[name]
    assert on.send(path, body).body == masked(body) != body
    assert on.record(path)["masked"] == 3


def test_a_body_of_45_megabytes_is_masked(on: Live, path: str) -> None:
    body = encoded(conversation(text="0123456789" * 900_000))
    assert len(body) > 45_000_000
    assert on.send(path, body).body == masked(body)


# Signed requests


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("authorization", "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=0"),
        ("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ=="),
        ("digest", "sha-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="),
        ("content-digest", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"),
        ("repr-digest", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        ("query", "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0"),
    ],
)
def test_a_signed_request_goes_on_bit_for_bit(on: Live, path: str, header: str, value: str) -> None:
    target = path + value if header == "query" else path
    headers = {} if header == "query" else {header: value}
    assert on.send(target, BODY, **headers) == on.send_directly(target, BODY, **headers)
    assert on.record(path)["passed_through"] == "signed"


# Streams

EVENTS = [b'data: {"choices": [], "usage": null}\n\n'] * 4
LAST = b'data: {"choices": [], "usage": ' + json.dumps(USAGE).encode() + b"}\n\n"


def receive(live: Live, path: str, seen: threading.Event, body: bytes | None = None) -> bytes:
    """Return what arrives at the client, which says when it has seen the first piece of it."""
    with live.client() as client:
        method = "GET" if body is None else "POST"
        with client.stream(method, live.sink.url(path), content=body) as response:
            pieces = response.iter_raw()
            first = next(pieces)
            seen.set()
            return first + b"".join(pieces)


@pytest.mark.parametrize("target", [CHAT, "/mcp/stream"])
def test_the_first_event_is_not_held_back(either: Live, target: str) -> None:
    """The others are sent only when it has arrived."""
    seen = threading.Event()
    either.sink.answers[target] = stream(*EVENTS, LAST, wait=seen)
    arrived = receive(either, target, seen, encoded(conversation(stream=True)))
    either.sink.answers.pop(target)
    assert arrived == b"".join((*EVENTS, LAST))


def test_a_download_is_not_held_back(either: Live) -> None:
    """The second half is sent only when some of the first has arrived."""
    half, seen = b"0123456789" * 100_000, threading.Event()
    head = b"HTTP/1.1 200 So\r\ncontent-length: %d\r\n\r\n" % (2 * len(half))
    either.sink.answers["/download"] = [head + half, seen, half]
    assert receive(either, "/download", seen) == half * 2


@pytest.mark.parametrize("size", [900_000, 3_000_000])
def test_an_upload_arrives_as_it_was_sent(either: Live, size: int) -> None:
    body = b"0123456789" * (size // 10)
    assert either.send("/v1/files", body) == either.send_directly("/v1/files", body)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(stream(*EVENTS, LAST), id="a stream"),
        pytest.param(stream(*EVENTS, LAST[:-2]), id="a stream without its last blank line"),
        pytest.param(
            stream(encoding.encode(b"".join((*EVENTS, LAST)), "gzip"), content_encoding="gzip"),
            id="a compressed stream",
        ),
        pytest.param(answer(json.dumps({"usage": USAGE}).encode()), id="a plain answer"),
        pytest.param(
            answer(brotli.compress(json.dumps({"usage": USAGE}).encode()), content_encoding="br"),
            id="a compressed answer",
        ),
    ],
)
def test_the_usage_is_read_on_the_way(either: Live, path: str, reply: Answer) -> None:
    either.sink.answers[path] = reply
    either.send(path, encoded(conversation(stream=len(reply) > 1)))
    record = either.record(path)
    said = {name: record[f"{name}_tokens"] for name in ("prompt", "cached", "completion")}
    assert said == {"prompt": 90, "cached": 64, "completion": 7}
    assert (record["status"], record["error"], record["stream"]) == (200, None, len(reply) > 1)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_client_that_hangs_up_is_no_failure_of_the_provider(
    either: Live, path: str, streaming: bool
) -> None:
    recorded = threading.Event()
    waiting = stream(*EVENTS, LAST, wait=recorded) if streaming else [recorded, *answer()]
    either.sink.answers[path] = waiting
    body = encoded(conversation(stream=streaming))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    tls = ssl_context(either.bundle)
    with either.tunnel() as raw, tls.wrap_socket(raw, server_hostname="localhost") as connection:
        connection.sendall(head.encode() + body)
        either.sink.last(path)
        if streaming:
            connection.recv(1)
    record = either.record(path)
    recorded.set()
    assert (record["error"], record["status"]) == ("client left", 200 if streaming else None)


# Providers that fail


@pytest.mark.parametrize("status", [400, 429, 500])
def test_a_refusal_is_recorded_and_reaches_the_client(either: Live, path: str, status: int) -> None:
    either.sink.answers[path] = answer(b'{"error": {}}', status=status)
    with either.client() as client:
        response = client.post(either.sink.url(path), content=BODY)
    record = either.record(path)
    assert (response.status_code, response.content) == (status, b'{"error": {}}')
    assert (record["status"], record["error"]) == (status, None)


DYING: dict[str, Answer] = {
    "before the answer": [],
    "amid its head": [b"HTTP/1.1 200 So\r\nconte"],
    "amid the body": [b"HTTP/1.1 200 So\r\ncontent-length: 100\r\n\r\n{"],
    "amid the stream": stream(*EVENTS)[:-3],
}


@pytest.mark.parametrize("when", DYING)
def test_a_provider_that_dies_is_a_failure(either: Live, path: str, when: str) -> None:
    either.sink.answers[path] = DYING[when]
    streams = when == "amid the stream"
    with either.client() as client, contextlib.suppress(httpx.RemoteProtocolError):
        response = client.post(either.sink.url(path), content=encoded(conversation(stream=streams)))
        assert response.status_code == 502
    record = either.record(path)
    assert record["error"] == "provider failed"
    assert either.sink.last(path).body


def test_a_provider_that_cannot_be_reached_is_a_failure(either: Live, path: str) -> None:
    with either.client() as client:
        response = client.post(f"http://localhost:{hold_port()}{path}", content=BODY)
    assert (response.status_code, either.record(path)["error"]) == (502, "provider failed")


def test_the_scripted_provider_fails_in_all_its_ways(on: Live) -> None:
    """A program sees its own library's errors, as it would without the proxy."""
    import openai

    replies: tuple[tuple[Reply, type[Exception]], ...] = (
        (Reply(status=400), openai.BadRequestError),
        (Reply(status=429), openai.RateLimitError),
        (Reply(status=500), openai.InternalServerError),
        (Reply(content="x", dies_after=0), openai.APIError),
        (Reply(content="x", dies_after=1), openai.APIError),
    )
    client = openai_client(on, [])
    for reply, error in replies:
        on.upstream.replies.append(reply)
        with pytest.raises(error):
            client.chat.completions.create(**conversation())
        on.upstream.replies.pop()


# Other versions of HTTP, other modes of the proxy


class Modes(NamedTuple):
    """The addon in three modes of one proxy, in front of another proxy without it."""

    live: Live
    reverse: str
    upstream: str
    beyond: Proxy
    http2: str


@pytest.fixture(scope="module")
def modes(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Modes]:
    folder, beyond_folder = tmp_path_factory.mktemp("modes"), tmp_path_factory.mktemp("beyond")
    script = beyond_folder / "stream.py"
    script.write_text("def responseheaders(flow): flow.response.stream = True\n")
    behind, reverse, chained = hold_port(), hold_port(), hold_port()
    target = f"reverse:https://localhost:{upstream.sink.port}"
    beyond_arguments = (
        *("--mode", "regular", "--mode", f"{target}@{behind}"),
        *("--set", "connection_strategy=lazy", "--set", "flow_detail=2"),
        *("--set", f"ssl_verify_upstream_trusted_ca={upstream.ca}"),
    )
    with running_proxy(
        beyond_folder, *beyond_arguments, script=script, env=environment(beyond_folder)
    ) as beyond:
        arguments = (
            *("--mode", "regular", "--mode", f"{target}@{reverse}"),
            *("--mode", f"upstream:{beyond.url}@{chained}"),
        )
        with running_addon(folder, upstream, *arguments, trust=(beyond.ca,)) as live:
            yield Modes(
                live,
                f"https://localhost:{reverse}",
                f"http://127.0.0.1:{chained}",
                beyond,
                f"https://localhost:{behind}",
            )


def test_http2_on_both_sides_is_masked(modes: Modes, path: str) -> None:
    with modes.live.client(http2=True) as client:
        response = client.post(modes.http2 + path, content=BODY)
    assert response.http_version == "HTTP/2"
    assert modes.live.sink.last(path).body == masked(BODY)
    assert modes.live.record(path)["status"] == 200
    assert eventually(lambda: f"{path} HTTP/2.0" in modes.beyond.log or None)


def test_an_http2_client_that_hangs_up_is_no_failure(modes: Modes, path: str) -> None:
    recorded = threading.Event()
    modes.live.sink.answers[path] = stream(*EVENTS, LAST, wait=recorded)
    body = encoded(conversation(stream=True))
    with modes.live.client(http2=True) as client:
        answering = client.stream("POST", modes.http2 + path, content=body)
        next(answering.__enter__().iter_raw())
    assert modes.live.record(path)["error"] == "client left"
    recorded.set()


def test_reverse_mode_masks(modes: Modes, path: str) -> None:
    with modes.live.client(proxy=None) as client:
        response = client.post(modes.reverse + path, content=BODY)
    assert (response.status_code, modes.live.sink.last(path).body) == (200, masked(BODY))
    assert modes.live.record(path)["host"] == "localhost"


def test_upstream_mode_masks(modes: Modes, path: str) -> None:
    with modes.live.client(proxy=modes.upstream) as client:
        response = client.post(modes.live.sink.url(path), content=BODY)
    assert (response.status_code, modes.live.sink.last(path).body) == (200, masked(BODY))
    assert modes.live.record(path)["masked"] == 3


# One proxy after another


def test_a_second_proxy_and_a_restart_send_the_same_bytes(
    on: Live, modes: Modes, path: str, tmp_path: Path
) -> None:
    sent = [live.send(path, BODY).body for live in (on, modes.live)]
    with running_addon(tmp_path, on.upstream) as restarted:
        sent.append(restarted.send(path, BODY).body)
    assert sent == [masked(BODY)] * 3


def test_the_end_of_the_proxy_ends_what_is_on_its_way(upstream: Upstream, tmp_path: Path) -> None:
    ended = threading.Event()
    upstream.sink.answers[f"/end{CHAT}"] = stream(*EVENTS, wait=ended)
    body = encoded(conversation(stream=True))
    with contextlib.ExitStack() as clients, running_addon(tmp_path, upstream) as live:
        client = clients.enter_context(live.client())
        answering = client.stream("POST", live.sink.url(f"/end{CHAT}"), content=body)
        chunks = clients.enter_context(answering).iter_raw()
        next(chunks)
    ended.set()
    (record,) = live.records()
    assert (record["error"], record["status"], record["masked"]) == ("proxy ended", 200, 3)
    assert "Addon error" not in live.proxy.log
    assert "1 request: 1 with masking on (0 failed); 3 results masked" in live.proxy.log


def test_the_totals_tell_failures_with_masking_on_and_off_apart(
    upstream: Upstream, tmp_path: Path
) -> None:
    """And the rollback takes effect while the proxy runs."""
    upstream.sink.answers[f"/bad{CHAT}"] = answer(status=500)
    with running_addon(tmp_path, upstream) as live:
        paths = [CHAT, f"/bad{CHAT}"]
        with_masking = [live.send(path, BODY).body for path in paths]
        live.send(CHAT, b"{}")
        live.configure(OFF)
        without = [live.send(path, BODY).body for path in (*paths, *paths)]
        live.configure(ON)
        again = live.send(CHAT, BODY).body
    assert (with_masking, without) == ([masked(BODY)] * 2, [BODY] * 4)
    assert again == masked(BODY)
    assert (
        "8 requests: 4 with masking on (1 failed), 4 with masking off (2 failed); 9 results masked"
        in live.proxy.log
    )
    assert "passed through: 1 no messages" in live.proxy.log


@pytest.mark.smoke
def test_a_user_switches_it_off_and_on_at_a_running_proxy(
    upstream: Upstream, tmp_path: Path
) -> None:
    """By the command of the documentation, which makes the user's first file of settings."""
    command = (sys.executable, "-m", "addon.commands.main", "config", "set")

    def set_mode(mode: str) -> None:
        own = environment(tmp_path)
        subprocess.run([*command, f"mode={mode}"], check=True, timeout=SECONDS, cwd=ROOT, env=own)

    slides = ("schema1.window_turns=2", "schema1.cache_pricing=none")
    options = [word for each in slides for word in ("--set", f"mask_set={each}")]
    with running_addon(tmp_path, upstream, *options, config=None) as live:
        left = [live.send(CHAT, BODY).body]
        for mode in ("off", "on"):
            live.reconfigure(functools.partial(set_mode, mode))
            left.append(live.send(CHAT, BODY).body)
    assert BODY == left[1] != left[0] == left[2]
