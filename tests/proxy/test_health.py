"""How a proxy says how it is, and how it is told from whatever else listens at an address."""

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from addon.config import ConfigFile
from addon.network import Address
from addon.proxy import health as health_module
from addon.proxy.health import Health, HealthEndpoint, check_health, is_for_proxy
from tests.live.harness import ON
from tests.proxy.engines import StandIn


@contextmanager
def answering(answer: bytes) -> Iterator[Address]:
    """Listen once, and say this to whatever is asked."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nno!",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{",
    ],
    ids=["no HTTP", "another proxy", "another's health", "cut off"],
)
def test_what_is_no_proxy_of_ours_has_no_health(answer: bytes) -> None:
    with answering(answer) as address:
        assert check_health(address) is None


def test_a_port_that_nobody_listens_on_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        check_health(Address("127.0.0.1", port))


# The proxy's side.

HEALTH = "http://obsmask.test/health"
NONE: Mapping[str, str] = MappingProxyType({})


class Counts:
    passed: Mapping[str, int] = {"a.example": 2}

    def __init__(self) -> None:
        self.unserved = Counter({("Interactions", "b.example"): 3})


@pytest.fixture
def engine(tmp_path: Path) -> StandIn:
    (tmp_path / "config.toml").write_bytes(ON)
    config = ConfigFile(tmp_path / "config.toml")
    return StandIn(config.settings, config)


def ask(
    engine: StandIn,
    url: str,
    method: str = "GET",
    page: str | None = None,
    headers: Mapping[str, str] = NONE,
) -> http.HTTPFlow:
    endpoint = HealthEndpoint(engine.as_engine, Counts(), Counts())
    endpoint.page_url = page
    flow = tflow.tflow(req=http.Request.make(method, url))
    flow.request.headers.update(headers)
    flow.client_conn.sockname = ("127.0.0.1", 8080)
    asyncio.run(endpoint.request(flow))
    return flow


def answer_to(
    engine: StandIn, url: str, method: str = "GET", page: str | None = None
) -> http.Response:
    response = ask(engine, url, method, page).response
    assert response is not None
    return response


def test_a_command_reads_what_the_proxy_answers(engine: StandIn) -> None:
    assert engine.config is not None
    health = Health.model_validate_json(answer_to(engine, HEALTH).content or b"")
    assert ("3f2a81c0", True, True) == (health.run, health.is_masking, health.base_urls)
    assert (str(engine.config.path), "requests.jsonl") == (health.config, health.records)
    assert ("1 request", {"a.example": 2}, 3) == (
        *(health.summary, health.unopened, health.unserved),
    )
    assert {*Health.model_fields} <= {*json.loads(answer_to(engine, HEALTH).content or b"")}


ANSWERS = {
    "how it is": (HEALTH, "GET", 200, True),
    "whether it is there": (HEALTH, "HEAD", 200, False),
    "the page": ("http://obsmask.test/", "GET", 307, False),
    "nothing that there is": ("http://obsmask.test/nowhere", "GET", 404, False),
    "to be changed": (HEALTH, "POST", 405, False),
}


@pytest.mark.parametrize(("url", "method", "status", "waits"), ANSWERS.values(), ids=ANSWERS)
def test_only_who_is_shown_records_waits_for_them(
    engine: StandIn, url: str, method: str, status: int, waits: bool
) -> None:
    response = answer_to(engine, url, method, page="http://127.0.0.1:1/")
    assert status == response.status_code
    assert waits == bool(engine.recorder.settled)
    assert (status == 307) == ("http://127.0.0.1:1/" == response.headers.get("location"))


@pytest.mark.parametrize(
    ("url", "headers", "status"),
    [
        (HEALTH, {}, 200),
        (HEALTH, {"Sec-Fetch-Site": "none"}, 200),
        (HEALTH, {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil"}, 403),
        (HEALTH, {"Sec-Fetch-Site": "same-origin"}, 403),
        ("http://obsmask.test:8443/health", {}, 200),
        ("http://obsmask.test:8080/health", {}, 403),
        ("http://obsmask.test:8080/", {}, 403),
    ],
)
def test_no_page_is_told_how_it_is(
    engine: StandIn, url: str, headers: Mapping[str, str], status: int
) -> None:
    response = ask(engine, url, headers=headers).response
    assert response is not None
    assert status == response.status_code
    assert (status == 200) == (b"3f2a81c0" in (response.content or b""))


def test_records_that_do_not_get_on_hold_no_answer_back_for_ever(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_module, "_SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(engine.recorder, "settle", Future)
    assert "" == json.loads(answer_to(engine, HEALTH).content or b"")["summary"]


def test_without_a_page_there_is_nothing_at_its_place(engine: StandIn) -> None:
    assert 404 == answer_to(engine, "http://obsmask.test/").status_code


def test_a_request_is_for_the_proxy_by_the_address_that_it_is_sent_to() -> None:
    for url, expected in (
        (HEALTH, True),
        ("http://OBSMASK.TEST.:81/x", True),
        ("http://example.test/health", False),
    ):
        request = http.Request.make("GET", url, headers=http.Headers(host="obsmask.test"))
        assert is_for_proxy(request) is expected


def test_without_a_configuration_it_does_not_answer() -> None:
    assert ask(StandIn(), HEALTH).response is None
