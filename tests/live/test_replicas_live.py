"""Three proxies behind a real HAProxy: the same bytes from each, and what one takes with it."""

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from tests.live.haproxy import NEEDS_HAPROXY, HAProxy, running_haproxy
from tests.live.harness import (
    ON,
    Live,
    Sink,
    Upstream,
    conversation,
    encoded,
    eventually,
    masked,
    running_addon,
    stream,
)

pytestmark = [NEEDS_HAPROXY, pytest.mark.thorough]

CONFIG = ON + b"[observation_masking.memory]\nenabled = false\n"
BODY = encoded(conversation())
SENT = masked(BODY, CONFIG)
CLIENTS = 9
END = " 2\n\n"
PATHS = [f"/{place}/chat/completions" for place in range(CLIENTS)]


@pytest.fixture(scope="module")
def replicas(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Live]]:
    folders = [tmp_path_factory.mktemp(name) for name in "abc"]
    with contextlib.ExitStack() as stack:
        running = [running_addon(folder, upstream, config=CONFIG) for folder in folders]
        yield [stack.enter_context(each) for each in running]


@pytest.fixture(scope="module")
def haproxy(replicas: list[Live], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HAProxy]:
    folder = tmp_path_factory.mktemp("haproxy")
    with running_haproxy(folder, [each.proxy.port for each in replicas]) as running:
        yield running


@pytest.fixture
def clients(replicas: list[Live], haproxy: HAProxy) -> Iterator[list[httpx.Client]]:
    with contextlib.ExitStack() as stack:
        made = [replicas[0].client(proxy=haproxy.url) for _ in range(CLIENTS)]
        yield [stack.enter_context(each) for each in made]


def ask(client: httpx.Client, url: str) -> str | None:
    """Return the end of a streamed answer; None if it did not come to its end."""
    try:
        return client.post(url, content=BODY).text[-len(END) :]
    except httpx.TransportError:
        return None


def ask_all(
    clients: list[httpx.Client], upstream: Upstream, pool: ThreadPoolExecutor, gate: threading.Event
) -> list["Future[str | None]"]:
    """Have each client ask; return once all requests have arrived, and none is answered."""
    sink, asked = upstream.sink, []
    for client, path in zip(clients, PATHS, strict=False):
        wanted = len(sink.heard) + 1
        sink.answers[path] = stream(b"data: 1\n\n", b"data: 2\n\n", wait=gate)
        asked.append(pool.submit(ask, client, sink.url(path)))
        eventually(functools.partial(_has_heard, sink, wanted))
    return asked


def _has_heard(sink: Sink, count: int) -> bool | None:
    return len(sink.heard) >= count or None


@contextlib.contextmanager
def asking() -> Iterator[tuple[ThreadPoolExecutor, threading.Event]]:
    """Threads for the clients, and what their answers wait for; whatever happens, it comes."""
    gate = threading.Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        try:
            yield pool, gate
        finally:
            gate.set()


def test_a_replica_that_is_drained_gets_nothing_new_and_loses_nothing(
    haproxy: HAProxy, clients: list[httpx.Client], upstream: Upstream
) -> None:
    start = len(upstream.sink.heard)
    with asking() as (pool, gate):
        asked = ask_all(clients[:6], upstream, pool, gate)
        haproxy.tell("set server proxies/a state drain")
        before = haproxy.read_servers()["a"]
        asked += ask_all(clients[6:], upstream, pool, gate)
        after = haproxy.read_servers()["a"]
        gate.set()
        ends = [each.result() for each in asked]
    assert [("DRAIN", 2)] * 2 == [before, after]
    assert [END] * CLIENTS == ends
    for client in clients:  # an agent ends: until then it keeps its connection
        client.close()
    eventually(lambda: {n for _, n in haproxy.read_servers().values()} == {0} or None)
    haproxy.tell("set server proxies/a state ready")
    haproxy.await_states(["UP"] * 3)
    assert [SENT] * CLIENTS == [heard.body for heard in upstream.sink.heard[start:]]


@pytest.mark.parametrize(
    "header",
    [
        "x-claude-code-session-id",  # claude-code
        "session-id",  # codex
        "session_id",  # pi
        "x-session-id",  # opencode
        "authorization",
        "x-api-key",
        "x-goog-api-key",
    ],
)
def test_what_names_the_same_conversation_comes_to_one_replica(
    haproxy: HAProxy, header: str
) -> None:
    """The question how a proxy is, is a request like any other; its answer names the run."""
    haproxy.await_states(["UP"] * 3)
    with httpx.Client(proxy=haproxy.url) as client:
        runs = [
            {
                client.get("http://obsmask.test/health", headers={header: f"{n}"}).json()["run"]
                for _ in range(3)
            }
            for n in range(CLIENTS)
        ]
    assert [1] * CLIENTS == [*map(len, runs)]
    assert 3 == len(set.union(*runs))


def test_a_base_url_of_the_balancer_is_refused_and_leads_into_no_circle(haproxy: HAProxy) -> None:
    haproxy.await_states(["UP"] * 3)
    assert 400 == httpx.get(f"{haproxy.url}/to/https/api.example.com/v1").status_code
    with httpx.Client(proxy=haproxy.url) as client:
        assert 200 == client.get("http://obsmask.test/health").status_code


def test_tunnels_with_the_same_credential_for_the_proxy_come_to_one_replica(
    replicas: list[Live], haproxy: HAProxy, upstream: Upstream
) -> None:
    haproxy.await_states(["UP"] * 3)
    url = haproxy.url.replace("://", "://agent:x@")
    before = [len(live.records()) for live in replicas]
    for _ in range(4):
        with replicas[0].client(proxy=url) as client:
            assert (
                200 == client.post(upstream.sink.url("/chat/completions"), content=BODY).status_code
            )
    eventually(lambda: sum(len(live.records()) for live in replicas) == sum(before) + 4 or None)
    gained = [len(live.records()) - was for live, was in zip(replicas, before, strict=True)]
    assert [0, 0, 4] == sorted(gained)


def test_a_replica_that_is_killed_takes_nothing_but_its_own_requests_with_it(
    replicas: list[Live], haproxy: HAProxy, clients: list[httpx.Client], upstream: Upstream
) -> None:
    start = len(upstream.sink.heard)
    with asking() as (pool, gate):
        asked = ask_all(clients, upstream, pool, gate)
        servers = haproxy.read_servers()
        os.kill(replicas[0].proxy.pid, signal.SIGKILL)
        haproxy.await_states(["DOWN", "UP", "UP"])
        gate.set()
        ends = [each.result() for each in asked]
    assert [("UP", CLIENTS // 3)] * 3 == [*servers.values()]
    assert (CLIENTS // 3, 2 * CLIENTS // 3) == (ends.count(None), ends.count(END))
    urls = [upstream.sink.url(path) for path in PATHS]
    again = [ask(client, url) for client, url in zip(clients, urls, strict=True)]
    assert [END] * CLIENTS == again
    assert [SENT] * 2 * CLIENTS == [heard.body for heard in upstream.sink.heard[start:]]
