"""A client asks the proxy's own port for a server that the path names."""

import contextlib
import http.client
import threading
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from mitmproxy import http as mitmproxy_http
from mitmproxy.io import FlowReader

from addon.network import Address
from addon.proxy.base_urls import Server, behind
from tests.live.harness import (
    SECONDS,
    Live,
    Upstream,
    conversation,
    encoded,
    masked,
    running_addon,
    stream,
)

CHAT = "/v1/chat/completions"
BODY = encoded(conversation())


def base_url(live: Live) -> str:
    """Return the proxy's own base URL in front of the sink."""
    sink = Server("https", "localhost", live.sink.port)
    return behind(Address("127.0.0.1", live.proxy.port), sink)


def client(live: Live) -> httpx.Client:
    """Return a client that takes no proxy, and trusts no authority of ours."""
    return httpx.Client(timeout=SECONDS, trust_env=False)


def test_a_request_arrives_as_if_the_server_had_been_asked(on: Live) -> None:
    rest = f"/a%2Fb%c3%A9//..{CHAT}"
    lines = {"X-One": "1", "Host": f"127.0.0.1:{on.proxy.port}", "content-length": str(len(BODY))}
    path = base_url(on).partition(str(on.proxy.port))[2]
    asked = http.client.HTTPConnection("127.0.0.1", on.proxy.port, timeout=SECONDS)
    with contextlib.closing(asked):
        asked.putrequest(
            "POST", f"{path}{rest}?x=%20+y&z", skip_host=True, skip_accept_encoding=True
        )
        for name, value in lines.items():
            asked.putheader(name, value)
        asked.endheaders(BODY)
        assert 200 == asked.getresponse().status
    heard = on.sink.last(rest)
    there = f"localhost:{on.sink.port}"
    expected = f"POST {rest}?x=%20+y&z HTTP/1.1\r\nX-One: 1\r\nHost: {there}\r\n\r\n"
    assert (expected.encode(), masked(BODY)) == (heard.head_but_length, heard.body)
    record = on.record(rest)
    assert ("localhost", 3) == (record["host"], record["masked"])


def test_an_answer_is_not_held_back(on: Live) -> None:
    path, arrived = f"/streaming{CHAT}", threading.Event()
    on.sink.answers[path] = stream(b"data: 1\n\n", b"data: 2\n\n", wait=arrived)
    with client(on) as asking, asking.stream("POST", base_url(on) + path, content=BODY) as said:
        pieces = said.iter_raw()
        assert b"data: 1\n\n" == next(pieces)
        arrived.set()
        assert b"data: 2\n\n" == b"".join(pieces)


def test_an_upload_that_is_no_request_to_a_model_passes_at_once(on: Live) -> None:
    upload = b"x" * 3_000_000
    with client(on) as asking:
        asking.post(f"{base_url(on)}/upload", content=upload).raise_for_status()
    assert upload == on.sink.last("/upload").body


def test_one_connection_leads_to_several_servers(on: Live) -> None:
    other = Server("https", "localhost", on.upstream.provider.port)
    with client(on) as asking:
        for _ in range(2):
            asking.post(f"{base_url(on)}{CHAT}", content=BODY).raise_for_status()
            url = behind(Address("localhost", on.proxy.port), other)
            asking.post(f"{url}{CHAT}", content=BODY).raise_for_status()
    assert masked(BODY) == on.sink.last(CHAT).body == on.upstream.provider.requests[-1].body


class Wrong(NamedTuple):
    """A path on our own port, and what is said of it."""

    path: str
    status: int
    problem: str


EXPECTED = "expected /to/SCHEME/HOST[:PORT]/PATH, as /to/https/llm.example.com/v1"
LOOP = "this leads back to the proxy itself"
WRONG = {
    "no server": Wrong("/to/", 400, EXPECTED),
    "another scheme": Wrong(f"/to/ftp/a.test{CHAT}", 400, EXPECTED),
    "no port": Wrong(f"/to/https/a.test:0{CHAT}", 400, EXPECTED),
    "the proxy itself": Wrong(f"/to/http/127.0.0.1:PORT{CHAT}", 400, LOOP),
    "the proxy itself by name": Wrong(f"/to/http/LocalHost.:PORT{CHAT}", 400, LOOP),
    "the proxy itself over TLS": Wrong(f"/to/https/localhost:PORT{CHAT}", 400, LOOP),
    "the proxy itself twice": Wrong(
        f"/to/http/127.0.0.1:PORT/to/http/127.0.0.1:PORT{CHAT}", 400, LOOP
    ),
    "another address of this machine": Wrong(f"/to/http/127.0.0.9:PORT{CHAT}", 400, LOOP),
    "the unspecified address": Wrong(f"/to/http/0.0.0.0:PORT{CHAT}", 400, LOOP),
    "an address in IPv6": Wrong(f"/to/http/[::1]:PORT{CHAT}", 400, LOOP),
    "an address in both": Wrong(f"/to/http/[::ffff:127.0.0.1]:PORT{CHAT}", 400, LOOP),
}


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["small", "large"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_names_no_other_server_is_refused(on: Live, wrong: Wrong, size: int) -> None:
    path = wrong.path.replace("PORT", str(on.proxy.port))
    before = len(on.records())
    with client(on) as asking:
        said = asking.post(f"{on.proxy.url}{path}?key=secret", content=b"x" * size)
    problem = (
        wrong.problem.replace("PORT", str(on.proxy.port)) if wrong.problem is LOOP else EXPECTED
    )
    error = {"type": "invalid_request_error", "message": f"obsmask: {path}: {problem}"}
    assert (wrong.status, {"type": "error", "error": error}) == (said.status_code, said.json())
    assert before == len(on.records())


@pytest.mark.parametrize("path", ["/", CHAT, "/to", "/To/https/localhost/"])
def test_another_path_of_our_own_port_leads_nowhere(on: Live, path: str) -> None:
    with client(on) as asking:
        said = asking.post(f"{on.proxy.url}{path}", content=BODY)
    assert (502, True) == (said.status_code, "Request destination unknown" in said.text)


PAGES = {
    "another site's request": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "a request of the same site": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    "a page that a server sent through here": {"Sec-Fetch-Site": "same-origin"},
    "a link that is followed": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    "an address that is typed": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
    "a link that is followed in an older browser": {"Accept": "text/html,*/*;q=0.8"},
    "another origin": {"Origin": "https://evil.test"},
    "a sandboxed frame": {"Origin": "null"},
}
CLIENTS = {
    "Node's fetch": {"Sec-Fetch-Mode": "cors"},
    "Electron's net": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "no-cors"},
    "its own origin": {"Origin": "http://127.0.0.1:PORT"},
}


@pytest.mark.parametrize("headers", PAGES.values(), ids=PAGES)
def test_a_page_in_a_browser_is_refused(on: Live, headers: dict[str, str]) -> None:
    path = f"/of-a-page{CHAT}"
    with client(on) as asking:
        said = asking.post(f"{base_url(on)}{path}", content=BODY, headers=headers)
    assert (403, "permission_error") == (said.status_code, said.json()["error"]["type"])
    assert all(path != heard.path for heard in on.sink.heard)


@pytest.mark.parametrize("headers", CLIENTS.values(), ids=CLIENTS)
def test_a_client_that_speaks_as_a_browser_is_served(on: Live, headers: dict[str, str]) -> None:
    told = {name: value.replace("PORT", str(on.proxy.port)) for name, value in headers.items()}
    with client(on) as asking:
        asking.post(f"{base_url(on)}{CHAT}", content=BODY, headers=told).raise_for_status()


def test_another_name_that_leads_to_us_is_no_base_url(on: Live) -> None:
    """As where a page has its own name lead here: DNS rebinding."""
    path = f"/rebound{CHAT}"
    headers = {"Host": f"page.invalid:{on.proxy.port}"}
    with client(on) as asking:
        said = asking.post(f"{base_url(on)}{path}", content=BODY, headers=headers)
    assert 502 == said.status_code
    assert all(path != heard.path for heard in on.sink.heard)


def test_a_recording_names_the_server_and_can_be_replayed(
    tmp_path: Path, upstream: Upstream
) -> None:
    saved = tmp_path / "saved.flow"
    with running_addon(tmp_path, upstream, "-w", str(saved)) as live, client(live) as asking:
        asking.post(f"{base_url(live)}{CHAT}", content=BODY).raise_for_status()
    with saved.open("rb") as file:
        (flow,) = FlowReader(file).stream()
    assert isinstance(flow, mitmproxy_http.HTTPFlow)
    url = f"https://localhost:{upstream.sink.port}{CHAT}"
    assert (url, url) == (flow.request.url, flow.request.pretty_url)
    upstream.sink.heard.clear()
    (tmp_path / "again").mkdir()
    again = ("-C", str(saved), "--set", "client_replay_concurrency=1")
    with running_addon(tmp_path / "again", upstream, *again):
        assert masked(BODY) == upstream.sink.last(CHAT).body


def test_health_says_that_there_are_base_urls(on: Live) -> None:
    with on.client() as asking:
        health = asking.get("http://obsmask.test/health").json()
    assert health["base_urls"] is True
