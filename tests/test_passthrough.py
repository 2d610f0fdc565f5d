"""Hosts that are left alone: their TLS is passed on unopened, and so nothing is masked."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from addon.passthrough import is_ours
from masking.config import HostSettings
from tests.live import (
    ON,
    SECONDS,
    Live,
    Upstream,
    conversation,
    encoded,
    eventually,
    free_port,
    masked,
    running_addon,
    running_upstream,
    ssl_context,
)

CHAT = "/v1/chat/completions"
BODY = encoded(conversation())


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running_upstream(tmp_path_factory.mktemp("upstream")) as running:
        yield running


@pytest.mark.parametrize(
    ("host", "only", "never", "expected"),
    [
        ("api.openai.com", (), (), True),
        ("api.openai.com", ("api.openai.com",), (), True),
        ("API.OpenAI.com.", ("api.openai.com",), (), True),
        ("api.openai.com", ("*.openai.com",), (), True),
        ("openai.com", ("*.openai.com",), (), False),
        ("evil-openai.com", ("openai.com",), (), False),
        ("pypi.org", (), ("pypi.org",), False),
        ("pypi.org", ("pypi.org",), ("pypi.org",), False),
        ("deb.debian.org", (), ("*.debian.org",), False),
        ("127.0.0.1", ("127.0.0.*",), (), True),
    ],
)
def test_a_host_is_ours_by_its_name(
    host: str, only: tuple[str, ...], never: tuple[str, ...], expected: bool
) -> None:
    assert is_ours(host, HostSettings(only=only, never=never)) is expected


def distrusting(live: Live, proxy: str | None = None) -> httpx.Client:
    """Return a client that trusts the servers, but not the proxy."""
    return httpx.Client(
        proxy=proxy or live.proxy.url,
        verify=ssl_context(live.upstream.ca),
        timeout=SECONDS,
        trust_env=False,
    )


def post(client: httpx.Client, live: Live, path: str = CHAT) -> bytes:
    """Send a request; what arrived."""
    with client:
        client.post(live.sink.url(path), content=BODY)
    return live.sink.last(path).body


def test_a_client_that_distrusts_the_proxy_fails_once_and_then_passes_through(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream) as live:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            post(distrusting(live), live)
        eventually(lambda: "UNMASKED" in live.proxy.log or None)
        assert [post(distrusting(live), live) for _ in range(2)] == [BODY, BODY]
        assert live.proxy.log.count("UNMASKED") == 1
        assert "its connections to localhost pass through unopened" in live.proxy.log
        assert post(live.client(http2=True), live) == masked(BODY)  # another program
    assert "1 requests: 1 with masking on" in live.proxy.log
    assert "hosts passed through unopened, for want of trust: 1" in live.proxy.log
    assert len(live.records()) == 1
    assert "Traceback" not in live.proxy.log


@pytest.mark.parametrize(
    ("hosts", "is_left_alone"),
    [
        ('never = ["localhost"]', True),
        ('only = ["api.openai.com"]', True),
        ('only = ["localhost"]\nnever = ["*.org"]', False),
    ],
)
def test_the_configuration_says_whose_tls_is_opened(
    upstream: Upstream, tmp_path: Path, hosts: str, is_left_alone: bool
) -> None:
    config = ON + f"[observation_masking.hosts]\n{hosts}\n".encode()
    with running_addon(tmp_path, upstream, config=config) as live:
        if is_left_alone:
            assert post(distrusting(live), live) == BODY
        else:
            assert post(live.client(), live) == masked(BODY)
    assert len(live.records()) == (0 if is_left_alone else 1)


def break_off_a_handshake(live: Live) -> None:
    """Say hello to a server behind the proxy, wait for its answer, and hang up."""
    with live.tunnel() as connection:
        answers, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
        half = ssl_context(live.bundle).wrap_bio(answers, hello, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            half.do_handshake()
        connection.sendall(hello.read())
        connection.recv(1)


def test_hanging_up_in_one_handshake_is_no_distrust(upstream: Upstream, tmp_path: Path) -> None:
    """A second one in a row is: some clients close without a word when they distrust."""
    with running_addon(tmp_path, upstream) as live:
        break_off_a_handshake(live)
        eventually(lambda: "client disconnected during the handshake" in live.proxy.log or None)
        assert post(live.client(), live) == masked(BODY)
        break_off_a_handshake(live)
        assert post(live.client(), live) == masked(BODY)
        break_off_a_handshake(live)
        break_off_a_handshake(live)
        eventually(lambda: "UNMASKED" in live.proxy.log or None)
        assert post(live.client(), live) == masked(BODY)  # another program


def test_a_tunnel_opened_in_advance_and_never_used_is_no_distrust(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream) as live:
        for _ in range(3):
            with live.tunnel():
                pass
        eventually(lambda: live.proxy.log.count("client disconnect") == 3 or None)
        assert post(live.client(), live) == masked(BODY)


def test_hosts_are_those_behind_the_proxy_not_the_proxy_itself(
    upstream: Upstream, tmp_path: Path
) -> None:
    """A client that speaks TLS with the proxy, or with its reverse mode, names the proxy there."""
    config = ON + b'[observation_masking.hosts]\nonly = ["127.0.0.1"]\n'
    reverse, behind = free_port(), f"https://127.0.0.1:{upstream.sink.port}"
    modes = ("--mode", "regular", "--mode", f"reverse:{behind}@{reverse}")
    with running_addon(tmp_path, upstream, *modes, config=config) as live:
        with live.client(proxy=None) as client:
            client.post(f"https://localhost:{reverse}/reverse{CHAT}", content=BODY)
        secure = f"https://localhost:{live.proxy.port}"
        proxy = httpx.Proxy(secure, ssl_context=ssl_context(live.bundle))
        with live.client(proxy=proxy) as client:
            client.post(f"{behind}/secure{CHAT}", content=BODY)
    arrived = [live.sink.last(f"/{prefix}{CHAT}").body for prefix in ("reverse", "secure")]
    assert arrived == [masked(BODY)] * 2


def test_an_edit_of_the_hosts_is_taken_up_although_no_request_is_seen(
    upstream: Upstream, tmp_path: Path
) -> None:
    closed = ON + b'[observation_masking.hosts]\nonly = ["api.opnai.com"]\n'
    with running_addon(tmp_path, upstream, config=closed) as live:
        assert post(distrusting(live), live) == BODY
        live.configure(ON)
        assert post(live.client(), live) == masked(BODY)
