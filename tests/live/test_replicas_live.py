"""Three proxies behind a real HAProxy: the same bytes from each, and what one takes with it."""

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from addon.proxy.authorities import write_bundle
from tests.live.haproxy import NEEDS_HAPROXY, HAProxy, running_haproxy
from tests.live.harness import (
    ON,
    SECONDS,
    Live,
    Sink,
    Upstream,
    conversation,
    encoded,
    eventually,
    masked,
    running_addon,
    running_upstream,
    stream,
)
from tests.support.ports import hold_port
from tests.tools.studio.client import TOUR
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import Workspace, run_client
from tests.tools.studio.scenario import write_project
from tests.tools.studio.scripted_client import script_replies

pytestmark = NEEDS_HAPROXY

CONFIG = ON + b"[observation_masking.memory]\nenabled = false\n"
BODY = encoded(conversation())
SENT = masked(BODY, CONFIG)
AGENTS = 9
END = " 2\n\n"
PATHS = [f"/{place}/chat/completions" for place in range(AGENTS)]


@contextlib.contextmanager
def running_replicas(
    folder: Path, upstream: Upstream, behind: int
) -> Iterator[tuple[list[Live], HAProxy]]:
    """Run three proxies, each also in reverse mode before a port of the upstream, and HAProxy."""
    reverse_ports = [hold_port() for _ in "abc"]
    with contextlib.ExitStack() as stack:
        running: list[Live] = []
        for name, port in zip("abc", reverse_ports, strict=True):
            (folder / name).mkdir()
            target = f"reverse:https://localhost:{behind}@{port}"
            modes = ("--mode", "regular", "--mode", target)
            live = running_addon(folder / name, upstream, *modes, config=CONFIG)
            running.append(stack.enter_context(live))
        ports = [each.proxy.port for each in running]
        yield running, stack.enter_context(running_haproxy(folder, ports, reverse_ports))


@pytest.fixture(scope="module")
def running(
    upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[Live], HAProxy]]:
    folder = tmp_path_factory.mktemp("replicas")
    with running_replicas(folder, upstream, upstream.sink.port) as both:
        yield both


@pytest.fixture(scope="module")
def replicas(running: tuple[list[Live], HAProxy]) -> list[Live]:
    return running[0]


@pytest.fixture(scope="module")
def haproxy(running: tuple[list[Live], HAProxy]) -> HAProxy:
    return running[1]


@pytest.fixture
def clients(replicas: list[Live], haproxy: HAProxy) -> Iterator[list[httpx.Client]]:
    with contextlib.ExitStack() as stack:
        made = [replicas[0].client(proxy=haproxy.url) for _ in range(AGENTS)]
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


def count_records(replicas: list[Live]) -> list[int]:
    return [len(live.records()) for live in replicas]


def gained_records(replicas: list[Live], before: list[int]) -> list[int]:
    """Wait for four more records; return how many each replica has gained, the fewest first."""
    eventually(lambda: sum(count_records(replicas)) == sum(before) + 4 or None)
    return sorted(now - was for now, was in zip(count_records(replicas), before, strict=True))


def _has_heard(sink: Sink, count: int) -> bool | None:
    return len(sink.heard) >= count or None


@contextlib.contextmanager
def asking() -> Iterator[tuple[ThreadPoolExecutor, threading.Event]]:
    """Threads for the clients, and what their answers wait for; whatever happens, it comes."""
    gate = threading.Event()
    with ThreadPoolExecutor(AGENTS) as pool:
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
    assert [END] * AGENTS == ends
    for client in clients:  # an agent ends: until then it keeps its connection
        client.close()
    eventually(lambda: {n for _, n in haproxy.read_servers().values()} == {0} or None)
    haproxy.tell("set server proxies/a state ready")
    haproxy.await_states(["UP"] * 3)
    assert [SENT] * AGENTS == [heard.body for heard in upstream.sink.heard[start:]]


NAMES_A_CONVERSATION = pytest.mark.parametrize(
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
"""What a load balancer goes by, so that a conversation stays with a replica."""


@NAMES_A_CONVERSATION
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
            for n in range(AGENTS)
        ]
    assert [1] * AGENTS == [*map(len, runs)]
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
    before = count_records(replicas)
    for _ in range(4):
        with replicas[0].client(proxy=url) as client:
            assert (
                200 == client.post(upstream.sink.url("/chat/completions"), content=BODY).status_code
            )
    assert [0, 0, 4] == gained_records(replicas, before)


def test_a_client_with_a_base_url_is_masked_and_keeps_its_replica(
    replicas: list[Live], haproxy: HAProxy, upstream: Upstream
) -> None:
    """As claude-code is run: over plain HTTP to the balancer, with its session in a header."""
    haproxy.await_states(["UP"] * 3)
    start, before = len(upstream.sink.heard), count_records(replicas)
    headers = {"x-claude-code-session-id": "one"}
    for _ in range(4):  # a connection each
        url = f"http://127.0.0.1:{haproxy.reverse_port}/base/chat/completions"
        assert 200 == httpx.post(url, content=BODY, headers=headers, trust_env=False).status_code
    assert [SENT] * 4 == [heard.body for heard in upstream.sink.heard[start:]]
    assert [0, 0, 4] == gained_records(replicas, before)
    record = next(r for live in replicas for r in live.records() if r["path"].startswith("/base"))
    assert "localhost" == record["host"]  # the provider's, whose prices hold


def test_claude_code_is_masked_behind_the_balancer(tmp_path: Path) -> None:
    client = replace(CLIENTS["claude-code"], scenario=TOUR)
    package = find_installed(client)
    if package is None:
        pytest.skip(
            f"{client.packages[0]} is not installed: python -m tests.tools.studio installs it"
        )
    workspace = Workspace(tmp_path / "agent")
    write_project(client.scenario.project, workspace.work)
    replies = script_replies(client, workspace.work)
    with (
        running_upstream(tmp_path / "upstream", replies) as upstream,
        running_replicas(tmp_path, upstream, upstream.provider.port) as (replicas, haproxy),
    ):
        base_url = f"http://127.0.0.1:{haproxy.reverse_port}"
        own = {**(client.environment or {}), "ANTHROPIC_BASE_URL": base_url}
        del own["CLAUDE_CODE_ATTRIBUTION_HEADER"]  # a user's has the hash, but not with a base URL
        write_bundle(workspace.bundle, [upstream.ca])
        run_client(replace(client, environment=own), package, workspace, None, SECONDS)
        provider = upstream.provider
        assert [] == provider.refusals
        last = len(replies.replies) - 1
        assert last == max(replies.place(each.said) for each in provider.requests)
        eventually(lambda: sum(count_records(replicas)) >= last or None)
        counts = [[record["masked"] for record in live.records()] for live in replicas]
    assert 1 == len([each for each in counts if len(each) > 2]), counts  # a session, one replica
    assert max(map(max, filter(None, counts))) > 0


def test_a_replica_that_is_killed_takes_nothing_but_its_own_requests_with_it(
    upstream: Upstream, tmp_path: Path
) -> None:
    start = len(upstream.sink.heard)
    with contextlib.ExitStack() as stack:
        behind = upstream.sink.port
        replicas, haproxy = stack.enter_context(running_replicas(tmp_path, upstream, behind))
        clients = [
            stack.enter_context(replicas[0].client(proxy=haproxy.url)) for _ in range(AGENTS)
        ]
        pool, gate = stack.enter_context(asking())
        asked = ask_all(clients, upstream, pool, gate)
        servers = haproxy.read_servers()
        os.kill(replicas[0].proxy.pid, signal.SIGKILL)
        haproxy.await_states(["DOWN", "UP", "UP"])
        gate.set()
        ends = [each.result() for each in asked]
        assert [("UP", AGENTS // 3)] * 3 == [*servers.values()]
        assert (AGENTS // 3, 2 * AGENTS // 3) == (ends.count(None), ends.count(END))
        urls = [upstream.sink.url(path) for path in PATHS]
        again = [ask(client, url) for client, url in zip(clients, urls, strict=True)]
        assert [END] * AGENTS == again
        assert [SENT] * 2 * AGENTS == [heard.body for heard in upstream.sink.heard[start:]]
