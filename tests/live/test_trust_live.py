"""Clients that do not trust the proxy, and clients that only seem not to; every process is real."""

import contextlib
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.live.harness import (
    SECONDS,
    Live,
    Sink,
    Upstream,
    conversation,
    encoded,
    eventually,
    masked,
    running_addon,
    ssl_context,
)

CHAT = "/v1/chat/completions"
BODY = encoded(conversation())
UNOPENED = "connections passed undecrypted, as a certificate isn't trusted"


@pytest.fixture
def live(upstream: Upstream, tmp_path: Path) -> Iterator[Live]:
    """A proxy as it is, which tries a refusal again after five seconds."""
    with running_addon(tmp_path, upstream) as running:
        yield running
    assert "Traceback" not in running.proxy.log


@pytest.fixture
def patience(tmp_path: Path) -> tuple[str, str]:
    """Arguments that let no time of the proxy pass within a test, however slow the machine is."""
    script = tmp_path / "patience.py"
    script.write_text(
        "from addon.proxy import tls\n\ntls.FIRST_DELAY = tls.PAIR_SECONDS = 3600.0\n"
    )
    return "-s", str(script)


@pytest.fixture
def patient(upstream: Upstream, tmp_path: Path, patience: tuple[str, str]) -> Iterator[Live]:
    with running_addon(tmp_path, upstream, *patience) as running:
        yield running
    assert "Traceback" not in running.proxy.log


class SlowSink(Sink):
    """A server that keeps every client waiting in its handshake until it is told to go on."""

    def __init__(self, leaf: Path) -> None:
        self.may_answer = threading.Event()
        super().__init__(leaf)

    def finish_request(self, request: object, client_address: object) -> None:
        self.may_answer.wait(SECONDS)
        super().finish_request(request, client_address)  # type: ignore[arg-type]


@pytest.fixture
def slow(upstream: Upstream) -> Iterator[SlowSink]:
    with SlowSink(upstream.ca.with_name("provider-leaf.pem")) as sink:
        threading.Thread(target=sink.serve_forever, args=(0.02,), daemon=True).start()
        yield sink
        sink.may_answer.set()
        sink.shutdown()


def post(client: httpx.Client, sink: Sink) -> bytes:
    """Send a request over a connection of its own; what arrived."""
    with client:
        client.post(sink.url(CHAT), content=BODY)
    return sink.last(CHAT).body


def refuse(live: Live) -> None:
    """Have a client without the proxy's authority fail."""
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        post(live.distrusting_client(), live.sink)
    eventually(lambda: "does not trust" in live.proxy.log or None)


def hang_up(live: Live) -> None:
    """Say hello to a server behind the proxy as httpx does, and close at the certificate."""
    context = ssl_context(live.bundle)
    context.set_alpn_protocols(["http/1.1"])
    answers, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = context.wrap_bio(answers, hello, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    with live.tunnel() as connection:
        connection.sendall(hello.read())
        connection.recv(1)
        port = connection.getsockname()[1]
    eventually(lambda: f":{port}] client disconnect" in live.proxy.log or None)


def test_clients_that_wait_in_vain_for_a_slow_provider_are_masked_afterwards(
    live: Live, slow: SlowSink
) -> None:
    for _ in range(3):
        client = live.client()
        client.timeout = httpx.Timeout(SECONDS, connect=0.5)
        with pytest.raises(httpx.ConnectTimeout):
            post(client, slow)
    slow.may_answer.set()
    eventually(lambda: live.proxy.log.count("client disconnect") == 3 or None)
    assert post(live.client(), slow) == masked(BODY)
    assert CHAT == live.record(CHAT)["path"]
    assert "trust" not in live.proxy.log
    assert "UNMASKED" not in live.proxy.log


def test_a_client_that_distrusts_the_proxy_fails_once_and_then_passes_through(
    upstream: Upstream, tmp_path: Path, patience: tuple[str, str]
) -> None:
    with running_addon(tmp_path, upstream, *patience) as live:
        refuse(live)
        assert [post(live.distrusting_client(), live.sink) for _ in range(2)] == [BODY, BODY]
        assert 1 == live.proxy.log.count("UNMASKED")
        assert "to localhost pass through unopened and UNMASKED (0 so far)" in live.proxy.log
        assert post(live.client(http2=True), live.sink) == masked(BODY)  # another program
    assert "1 request: 1 with masking on" in live.proxy.log
    assert f"{UNOPENED}: 2 to localhost" in live.proxy.log
    assert 1 == len(live.records())
    assert "Traceback" not in live.proxy.log


def test_a_client_that_forgot_the_authority_does_not_unmask_the_next_for_good(live: Live) -> None:
    def is_masked_again() -> bool | None:
        if post(live.client(), live.sink) == masked(BODY):
            return True
        time.sleep(0.5)  # a short log is easier to read
        return None

    refuse(live)
    eventually(is_masked_again)
    assert 1 == live.proxy.log.count("masking is on again for its connections to localhost")
    assert post(live.client(), live.sink) == masked(BODY)


def test_a_client_that_trusts_the_proxy_elsewhere_is_tried_again_at_once(
    patient: Live, slow: SlowSink
) -> None:
    slow.may_answer.set()
    refuse(patient)
    assert post(patient.client(), patient.sink) == BODY
    with patient.client() as client:
        client.post(f"https://127.0.0.1:{slow.port}{CHAT}", content=BODY)
    assert post(patient.client(), patient.sink) == masked(BODY)


def test_hanging_up_at_the_certificate_is_distrust_the_second_time_in_a_row(
    patient: Live,
) -> None:
    """Some clients close without a word when they distrust."""
    for _ in range(2):
        hang_up(patient)
        assert post(patient.client(), patient.sink) == masked(BODY)
    hang_up(patient)
    hang_up(patient)
    eventually(lambda: "hangs up when it gets the proxy's" in patient.proxy.log or None)
    assert post(patient.client(), patient.sink) == BODY


def test_a_tunnel_opened_in_advance_and_never_used_is_no_distrust(live: Live) -> None:
    for _ in range(3):
        with live.tunnel():
            pass
    eventually(lambda: live.proxy.log.count("client disconnect") == 3 or None)
    assert post(live.client(), live.sink) == masked(BODY)


def test_the_proxys_own_name_is_answered_whoever_refused_it_before(
    upstream: Upstream, tmp_path: Path
) -> None:
    """Nothing could pass to it unopened, and a program may be asked again whom it trusts."""
    with running_addon(tmp_path, upstream, "--set", "connection_strategy=lazy") as live:
        for _ in range(2):
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                live.distrusting_client().get("https://obsmask.test/health")
        with live.client() as client:
            assert client.get("https://obsmask.test/health").json()["unopened"] == {}
    assert "UNMASKED" not in live.proxy.log
