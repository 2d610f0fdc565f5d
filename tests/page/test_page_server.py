"""The page's server, asked over loopback as a browser asks it."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import httpx
import pytest

from addon.look.pages import ASSETS, render_page
from addon.network import is_loopback
from addon.page import web
from addon.page.server import PageServer
from addon.page.web import is_our_host
from masking.config import PageSettings
from tests.support.made_up_records import bill, record
from tests.support.marks import as_one_test
from tests.support.page_parts import find_table

RUN = {"name": "5eed0001", "state": "ON"}
HOSTILE = "<img src=x onerror=alert(1)></script>"


@pytest.fixture
def server() -> Iterator[PageServer]:
    lines: list[str] = []
    server = PageServer(PageSettings(), lambda: RUN, lambda _, line: lines.append(line))
    server.add(record(conversation_id="a", model=HOSTILE, **bill(4, 3)))
    yield server
    server.close()
    assert [] == lines


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    return httpx.request(method, server.url + path, headers=headers, trust_env=False)


def read_event(lines: Iterator[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(next(lines).removeprefix("data: "))
    assert "" == next(lines)
    return told


def test_the_page_names_only_what_is_served_beside_it(server: PageServer) -> None:
    named = set()
    for page in (ask(server, "").text, render_page("history", is_live=True)):
        named |= {*re.findall(r'(?:src|href)="([^"]*)"', page)}
        assert not re.search(r"\s(?:on\w+|style)=|<style", page), "nothing inline"
    (icon,) = {name for name in named if name.startswith("data:image/svg+xml,")}
    assert {icon, "/", "/history", *(f"/assets/{name}" for name in ASSETS)} == named
    for name, kind in ASSETS.items():
        answer = ask(server, f"assets/{name}")
        assert (200, f"{kind}; charset=utf-8") == (
            answer.status_code, answer.headers["content-type"],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("host", "metrics", "status"),
    [
        ("127.0.0.1", "auto", 200),
        ("127.0.0.1", False, 404),
        ("0.0.0.0", "auto", 404),
        ("0.0.0.0", True, 200),
    ],
    ids=["loopback", "switched off", "anywhere", "anywhere and asked for"],
)
def test_prometheus_scrapes_loopback_and_else_where_it_was_asked_for(
    host: str, metrics: bool | Literal["auto"], status: int
) -> None:
    server = PageServer(PageSettings(host=host, metrics=metrics), lambda: RUN, lambda *_: None)
    server.add(record(model="m", masked=1))
    answer = httpx.get(f"http://127.0.0.1:{server.port}/metrics", trust_env=False)
    server.close()
    assert status == answer.status_code
    assert (status == 200) == ('outcome="masked"} 1.0' in answer.text)


@pytest.mark.parametrize(
    "odd",
    [{"prompt_tokens": 10**24}, {"model": "\ud800"}],
    ids=["a huge count", "half a character"],
)
def test_what_others_report_is_told_however_odd(server: PageServer, odd: dict[str, Any]) -> None:
    server.add(record(conversation_id="odd", **odd))
    with httpx.stream("GET", f"{server.url}events", trust_env=False) as answer:
        told = read_event(answer.iter_lines())
    assert ["a", "odd"] == [each["key"] for each in told["conversations"]]
    one = ask(server, "conversations/odd").json()
    ((_, _, _, _, _, prompt, _, _),) = find_table(one["parts"], "Every request")
    assert (f"{odd['prompt_tokens']:,}" if "prompt_tokens" in odd else "") == prompt


def test_every_answer_keeps_others_out(server: PageServer) -> None:
    for path in ("", "assets/live.js", "conversations/a", "nowhere"):
        headers = ask(server, path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert ("nosniff", "no-store", "same-origin") == (
            headers["x-content-type-options"],
            headers["cache-control"],
            headers["cross-origin-resource-policy"],
        )
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 200),
        ("HEAD", "", 200),
        ("HEAD", "events", 200),
        ("POST", "", 405),
        ("DELETE", "conversations/a", 405),
        ("GET", "conversations/a", 200),
        ("GET", "conversations/b", 404),
        ("GET", "assets/live.html.jinja", 404),
        ("GET", "assets/..%2f..%2f..%2fpyproject.toml", 404),
        ("GET", "nowhere", 404),
    ],
)
def test_it_is_read_only(server: PageServer, method: str, path: str, status: int) -> None:
    assert status == ask(server, path, method).status_code


@pytest.mark.parametrize("path", ["", "events", "conversations/a", "assets/live.js", "nowhere"])
def test_a_stranger_s_name_for_this_address_is_refused(server: PageServer, path: str) -> None:
    assert 421 == ask(server, path, host=f"evil.example:{server.port}").status_code
    assert 421 == ask(server, path, host="127.0.0.1").status_code


def test_names_are_data_and_never_markup(server: PageServer) -> None:
    assert HOSTILE not in ask(server, "").text
    told = ask(server, "conversations/a")
    assert "application/json" == told.headers["content-type"]
    assert f"{HOSTILE}, h" == told.json()["parts"][0]["text"]


def test_events_tell_everything_and_then_what_is_new(server: PageServer) -> None:
    with httpx.stream("GET", server.url + "events", trust_env=False, timeout=None) as stream:
        assert "text/event-stream" == stream.headers["content-type"]
        lines = stream.iter_lines()
        first = read_event(lines)
        assert ("ON. This run is 5eed0001.", True, ["a"]) == (
            first["texts"]["state"],
            first["is_whole"],
            [each["key"] for each in first["conversations"]],
        )
        server.add(record(conversation_id="b"))
        second = read_event(lines)
        assert (False, ["b"], "2 conversations, the newest first.") == (
            second["is_whole"],
            [each["key"] for each in second["conversations"]],
            second["texts"]["counted"],
        )


def test_readers_are_told_that_the_proxy_has_stopped(server: PageServer) -> None:
    with httpx.stream("GET", server.url + "events", trust_env=False, timeout=None) as stream:
        lines = stream.iter_lines()
        read_event(lines)
        ending = threading.Thread(target=server.close)
        ending.start()
        assert ["event: stopped", "data:", ""] == list(lines)
        ending.join()


def test_a_silent_reader_is_asked_whether_it_is_there(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_SECONDS_OF_SILENCE", 0.0)
    with httpx.stream("GET", server.url + "events", trust_env=False, timeout=None) as stream:
        lines = stream.iter_lines()
        read_event(lines)
        assert ["event: still-there", "data:", ""] == [next(lines) for _ in range(3)]


def test_a_reader_that_does_not_read_is_dropped(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_SECONDS_OF_PATIENCE", 0.1)
    many = [record(conversation_id=f"client-{n}", client="c" * 200) for n in range(200)]
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        for _ in range(10_000):  # until no buffer holds it any more
            for one in many:
                server.add(one)
            if is_closed(slow):
                return
            time.sleep(0.05)
    pytest.fail("it was not dropped")


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up, as a write to it tells; nothing is read."""
    try:
        connection.send(b"x")
    except OSError:
        return True
    return False


def test_connections_beyond_a_number_are_hung_up_on(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_MAX_CONNECTIONS", 1)
    with httpx.Client(trust_env=False) as first:
        assert 200 == first.get(server.url).status_code
        with pytest.raises(httpx.HTTPError):
            ask(server, "")
        assert 200 == first.get(server.url).status_code


def test_what_is_no_request_is_refused_without_a_line(
    server: PageServer, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as stray:
        stray.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b"400" in stray.recv(100)
    assert [] == caplog.messages


def test_two_have_ports_of_their_own_and_a_port_that_is_taken_is_an_error(
    server: PageServer,
) -> None:
    with pytest.raises(OSError, match="in use"):
        PageServer(PageSettings(port=server.port), lambda: RUN, lambda *_: None)
    other = PageServer(PageSettings(), lambda: RUN, lambda *_: None)
    assert other.port != server.port
    other.close()


def test_a_page_that_fails_says_so_and_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    said: list[str] = []
    monkeypatch.setattr(web, "serve", fail)
    server = PageServer(PageSettings(), lambda: RUN, lambda _, line: said.append(line))
    with pytest.raises(httpx.HTTPError):
        ask(server, "")
    server.close()
    assert ["the page is not served any more: ZeroDivisionError"] == said


def test_a_server_on_the_other_protocol_has_its_address_in_brackets() -> None:
    server = PageServer(PageSettings(host="::1"), lambda: RUN, lambda *_: None)
    assert f"http://[::1]:{server.port}/" == server.url
    assert 200 == ask(server, "").status_code
    server.close()


_LOADED = """
import sys, addon.page.server, addon.page.board
print({"tornado", "jinja2", "addon.page.web"} & {*sys.modules})
"""


def test_what_serves_is_loaded_only_when_somebody_looks() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, check=True)
    assert b"set()" == done.stdout.strip()


# Which Host is answered


@as_one_test
@pytest.mark.parametrize(
    ("header", "is_ours"),
    [
        ("127.0.0.1:8100", True),
        ("localhost:8100", True),
        ("LOCALHOST:8100", True),
        ("[::1]:8100", True),
        ("obsmask.test:8100", False),
        ("127.0.0.1", False),
        ("127.0.0.1:8101", False),
        ("[::1]", False),
        ("obsmask.test", False),
        ("evil.example:8100", False),
        ("127.0.0.1.evil.example:8100", False),
        ("evil.example", False),
        ("10.0.0.1:8100", False),
        (":8100", False),
        ("", False),
    ],
)
def test_on_loopback_only_its_own_names_with_the_port_are_answered(
    header: str, is_ours: bool
) -> None:
    assert is_ours == is_our_host(header, "127.0.0.1", 8100)


@as_one_test
@pytest.mark.parametrize(
    ("header", "is_ours"),
    [
        ("10.0.0.1:8100", True),
        ("10.0.0.1", True),
        ("[fe80::1]:80", True),
        ("[fe80::1]", True),
        ("localhost:9", True),
        ("obsmask.test:8100", False),
        ("evil.example:8100", False),
        ("evil.example", False),
        ("", False),
    ],
)
def test_elsewhere_every_address_is_answered_and_no_strange_name(
    header: str, is_ours: bool
) -> None:
    assert is_ours == is_our_host(header, "0.0.0.0", 8100)


@as_one_test
@pytest.mark.parametrize(
    ("host", "is_so"),
    [("localhost", True), ("127.8.8.8", True), ("::1", True), ("0.0.0.0", False), ("x", False)],
)
def test_loopback_is_known(host: str, is_so: bool) -> None:
    assert is_so == is_loopback(host)
