"""Hosts that are left alone: their TLS is passed on unopened, and so nothing is masked."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from addon.network import find_free_port
from addon.proxy.tls_passthrough import Passthrough
from addon.proxy.trust import Trust
from addon.request import is_opened
from masking.config import HostSettings
from tests.live.harness import (
    ON,
    Live,
    Upstream,
    conversation,
    encoded,
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
    assert is_opened(host, HostSettings(only=only, never=never)) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("git.corp.example", False), ("github.com", False), ("api.openai.com", True)],
)
def test_more_hosts_are_closed_beside_the_shipped_ones(host: str, expected: bool) -> None:
    hosts = HostSettings(never_more=("*.corp.example",))
    assert is_opened(host, hosts) is expected


def post(client: httpx.Client, live: Live, path: str = CHAT) -> bytes:
    """Send a request; what arrived."""
    with client:
        client.post(live.sink.url(path), content=BODY)
    return live.sink.last(path).body


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ({}, ""),
        ({"a.example": 1, "b.example": 3}, ": 3 to b.example, 1 to a.example"),
        (
            {f"{n}.example": 99 - n for n in range(12)},
            f": {', '.join(f'{99 - n} to {n}.example' for n in range(10))}, 177 to 2 more hosts",
        ),
    ],
    ids=["none", "some", "many"],
)
def test_the_totals_name_the_hosts_with_the_most_unopened_connections(
    passed: dict[str, int], expected: str
) -> None:
    trust = Trust()
    trust.passed.update(passed)
    total = Passthrough(HostSettings, trust).render_total()
    assert expected == total.removeprefix(
        "; connections passed through unopened, for lack of trust"
    )


@pytest.mark.live
@pytest.mark.parametrize(
    ("hosts", "is_left_alone"),
    [
        ('never = ["localhost"]', True),
        ('never_more = ["localhost"]', True),
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
            assert post(live.distrusting_client(), live) == BODY
        else:
            assert post(live.client(), live) == masked(BODY)
    assert len(live.records()) == (0 if is_left_alone else 1)


@pytest.mark.live
def test_hosts_are_those_behind_the_proxy_not_the_proxy_itself(
    upstream: Upstream, tmp_path: Path
) -> None:
    """A client that speaks TLS with the proxy, or with its reverse mode, names the proxy there."""
    config = ON + b'[observation_masking.hosts]\nonly = ["127.0.0.1"]\n'
    reverse, behind = find_free_port(), f"https://127.0.0.1:{upstream.sink.port}"
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


@pytest.mark.live
def test_an_edit_of_the_hosts_is_taken_up_although_no_request_is_seen(
    upstream: Upstream, tmp_path: Path
) -> None:
    closed = ON + b'[observation_masking.hosts]\nonly = ["api.opnai.com"]\n'
    with running_addon(tmp_path, upstream, config=closed) as live:
        assert post(live.distrusting_client(), live) == BODY
        live.configure(ON)
        assert post(live.client(), live) == masked(BODY)
