"""Which connections are opened: trust, handshakes, and hosts that are left alone."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.certs import CertStore
from mitmproxy.options import CONF_BASENAME
from mitmproxy.proxy.layers.tls import parse_client_hello
from mitmproxy.tls import ClientHello
from OpenSSL import SSL

from addon.proxy import tls
from addon.proxy.tls import (
    FIRST_DELAY,
    LONGEST_DELAY,
    UNVERIFIED_SECONDS,
    Failure,
    Peer,
    Trust,
    Unverified,
    fingerprint_program,
    read_failure,
)
from addon.request import is_intercepted
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
from tests.support.clock import Clock
from tests.support.marks import as_one_test
from tests.support.ports import hold_port

# When a program that refuses the certificate is tried again; the clock is the test's.


AGENT = Peer("127.0.0.1", "api.openai.com", ("TLS of an agent",))
ELSEWHERE = AGENT._replace(host="pypi.org")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trust(clock: Clock) -> Trust:
    return Trust(clock)


def refuse_again(trust: Trust, clock: Clock, peer: Peer = AGENT) -> float | None:
    """Have a refused peer come back as late as it is tried again, and refuse."""
    while not trust.opens_next(peer):
        clock.now += 1.0
    return trust.refuse(peer, "refused")


def test_a_program_is_opened_until_it_refuses(trust: Trust) -> None:
    assert trust.opens_next(AGENT)
    assert FIRST_DELAY == trust.refuse(AGENT, "refused")
    assert not trust.opens_next(AGENT)


@pytest.mark.parametrize(
    "other",
    [
        AGENT._replace(address="10.0.0.7"),
        AGENT._replace(host="pypi.org"),
        AGENT._replace(program=("TLS of another",)),
    ],
    ids=["another address", "another host", "another program"],
)
def test_a_refusal_is_that_of_one_program_for_one_host(trust: Trust, other: Peer) -> None:
    trust.refuse(AGENT, "refused")
    assert trust.opens_next(other)


def test_each_further_refusal_doubles_the_time_to_the_next_trial(
    trust: Trust, clock: Clock
) -> None:
    trust.refuse(AGENT, "refused")
    delays = [refuse_again(trust, clock) for _ in range(12)]
    doubled = [10, 20, 40, 80, 160, 320, 640, 1280, 2560]
    assert [*doubled, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY] == delays


def test_of_connections_at_the_same_time_one_is_the_trial(trust: Trust, clock: Clock) -> None:
    trust.refuse(AGENT, "refused")
    clock.now = FIRST_DELAY
    assert [True, False, False] == [trust.opens_next(AGENT) for _ in range(3)]


def test_a_trial_without_an_outcome_is_followed_by_another(trust: Trust, clock: Clock) -> None:
    trust.refuse(AGENT, "refused")
    clock.now = FIRST_DELAY
    assert trust.opens_next(AGENT)
    clock.now = 2 * FIRST_DELAY
    assert trust.opens_next(AGENT)


def test_connections_opened_before_a_refusal_renew_nothing(trust: Trust, clock: Clock) -> None:
    answers = [trust.refuse(AGENT, "refused") for _ in range(5)]
    assert [FIRST_DELAY, None, None, None, None] == answers
    clock.now = FIRST_DELAY
    assert trust.opens_next(AGENT)


def test_a_success_lifts_the_refusal(trust: Trust, clock: Clock) -> None:
    trust.refuse(AGENT, "refused")
    clock.now = FIRST_DELAY
    assert trust.opens_next(AGENT)
    assert [True, False] == [trust.accept(AGENT) for _ in range(2)]
    assert [True] * 3 == [trust.opens_next(AGENT) for _ in range(3)]


@pytest.mark.parametrize(
    ("pause", "delay"), [(0.0, 2 * FIRST_DELAY), (2 * LONGEST_DELAY, FIRST_DELAY)]
)
def test_a_refusal_soon_after_a_lifted_one_continues_from_its_delay(
    trust: Trust, clock: Clock, pause: float, delay: float
) -> None:
    """Two programs with the same TLS, one of which trusts: the other must not fail each time."""
    trust.refuse(AGENT, "refused")
    trust.accept(AGENT)
    clock.now += pause
    assert delay == trust.refuse(AGENT, "refused")


def test_a_success_with_another_host_brings_the_trial_forward(trust: Trust) -> None:
    trust.refuse(AGENT, "refused")
    assert not trust.accept(ELSEWHERE)
    assert [True, False] == [trust.opens_next(AGENT) for _ in range(2)]


@pytest.mark.parametrize("change", [{"address": "10.0.0.7"}, {"program": ()}], ids=str)
def test_a_success_of_another_program_brings_no_trial_forward(
    trust: Trust, change: dict[str, object]
) -> None:
    trust.refuse(AGENT, "refused")
    trust.accept(ELSEWHERE._replace(**change))  # type: ignore[arg-type]
    assert not trust.opens_next(AGENT)


def test_a_trial_is_brought_forward_once_until_one_comes_by_itself(
    trust: Trust, clock: Clock
) -> None:
    """A program may trust the proxy, but never for a host whose certificate it knows."""
    trust.refuse(AGENT, "refused")
    trust.accept(ELSEWHERE)
    assert trust.opens_next(AGENT)
    trust.refuse(AGENT, "refused")
    trust.accept(ELSEWHERE)
    assert not trust.opens_next(AGENT)
    assert 4 * FIRST_DELAY == refuse_again(trust, clock)
    trust.accept(ELSEWHERE)
    assert trust.opens_next(AGENT)


@pytest.mark.parametrize("failure", ["closed", "failed"])
class TestWithoutAWord:
    """Handshakes that end without an alert on the certificate."""

    def test_the_second_in_a_row_is_a_refusal(self, trust: Trust, failure: Failure) -> None:
        assert [None, FIRST_DELAY] == [trust.refuse(AGENT, failure) for _ in range(2)]

    def test_two_failures_far_apart_are_no_refusal(
        self, trust: Trust, clock: Clock, failure: Failure
    ) -> None:
        assert trust.refuse(AGENT, failure) is None
        clock.now += 60.0
        assert trust.refuse(AGENT, failure) is None
        assert FIRST_DELAY == trust.refuse(AGENT, failure)

    def test_a_success_between_two_failures_makes_them_no_refusal(
        self, trust: Trust, failure: Failure
    ) -> None:
        trust.refuse(AGENT, failure)
        trust.accept(AGENT)
        assert trust.refuse(AGENT, failure) is None

    def test_one_is_enough_in_a_trial(self, trust: Trust, clock: Clock, failure: Failure) -> None:
        trust.refuse(AGENT, "refused")
        clock.now = FIRST_DELAY
        trust.opens_next(AGENT)
        assert 2 * FIRST_DELAY == trust.refuse(AGENT, failure)


def test_what_passes_is_counted_by_host(trust: Trust) -> None:
    for peer in (AGENT, AGENT._replace(program=()), ELSEWHERE):
        trust.refuse(peer, "refused")
        for _ in range(2):
            trust.opens_next(peer)
    assert {"api.openai.com": 4, "pypi.org": 2} == trust.passed


def test_the_tables_are_bounded(trust: Trust) -> None:
    peers = [AGENT._replace(host=f"host-{number}") for number in range(1_100)]
    for peer in peers:
        trust.refuse(peer, "refused")
        trust.opens_next(peer)
    assert trust.opens_next(peers[99])  # forgotten
    assert not trust.opens_next(peers[100])
    assert {"other hosts": 100} == {k: n for k, n in trust.passed.items() if n > 2}
    assert 1_101 == trust.passed.total()


waits = st.lists(st.integers(0, int(LONGEST_DELAY)), max_size=60)


@given(waits)
def test_a_program_that_never_trusts_fails_ever_more_rarely(pauses: list[int]) -> None:
    clock = Clock()
    trust = Trust(clock)
    trust.refuse(AGENT, "refused")
    failures = 0
    for pause in pauses:
        clock.now += pause
        if trust.opens_next(AGENT):
            trust.refuse(AGENT, "refused")
            failures += 1
    delays = [min(FIRST_DELAY * 2**number, LONGEST_DELAY) for number in range(failures)]
    assert sum(delays) <= clock.now


@given(waits)
def test_no_refusal_outlasts_an_hour(pauses: list[int]) -> None:
    clock = Clock()
    trust = Trust(clock)
    trust.refuse(AGENT, "refused")
    for pause in pauses:
        clock.now += pause
        if trust.opens_next(AGENT):
            trust.refuse(AGENT, "refused")
    clock.now += LONGEST_DELAY
    assert trust.opens_next(AGENT)


# For how long, and how many, servers without a certificate that can be verified pass.


PLACE = ("host.test", 443)


def test_a_server_passes_for_a_while_and_is_then_tried_again() -> None:
    now = 100.0
    servers = Unverified(lambda: now)
    assert not servers.passes(PLACE)
    assert [True, False] == [servers.add(PLACE), servers.add(PLACE)]
    assert [True, True] == [servers.passes(PLACE), servers.passes(PLACE)]
    assert not servers.passes(("host.test", 8443))
    now += UNVERIFIED_SECONDS
    assert not servers.passes(PLACE)
    assert servers.add(PLACE)
    assert {"host.test": 2} == servers.passed


def test_the_oldest_of_many_servers_is_forgotten() -> None:
    servers = Unverified()
    for number in range(tls._MAX_REMEMBERED + 1):
        servers.add((f"{number}.test", 443))
    assert [False, True] == [servers.passes((f"{number}.test", 443)) for number in (0, 1)]


# What the end of a handshake says: a real client and the proxy's side of TLS, in memory.


CLOSED = "The client disconnected during the handshake."


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    CertStore.from_store(folder, CONF_BASENAME, 2048)
    return folder / f"{CONF_BASENAME}-ca.pem"


class Client:
    """A client that trusts nobody."""

    def __init__(
        self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, ciphers: str = "DEFAULT"
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.maximum_version = version
        context.set_ciphers(ciphers)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def answer(self, heard: bytes = b"") -> bytes:
        """Return what the client says to what it heard; at first its ClientHello."""
        self._incoming.write(heard)
        with contextlib.suppress(ssl.SSLError):
            self._tls.do_handshake()
        return self._outgoing.read()


def server_side(authority: Path, curve: ec.EllipticCurve | None = None) -> SSL.Connection:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate_file(str(authority))
    context.use_privatekey_file(str(authority))
    if curve is not None:
        context.set_tmp_ecdh(curve)
    handshake = SSL.Connection(context)
    handshake.set_accept_state()
    return handshake


def hear(handshake: SSL.Connection, said: bytes) -> bytes:
    """Take what a client said; return the answer. Raises SSL.Error where it ends the handshake."""
    handshake.bio_write(said)
    with contextlib.suppress(SSL.WantReadError):
        handshake.do_handshake()
    return handshake.bio_read(65_535)


def failure_after(handshake: SSL.Connection, said: bytes) -> str:
    """Return mitmproxy's account of a handshake that a client's words end."""
    with pytest.raises(SSL.Error) as caught:
        hear(handshake, said)
    return f"The client may not trust the proxy's certificate (OpenSSL {caught.value!r})"


def test_a_close_before_a_complete_hello_says_nothing() -> None:
    assert read_failure(CLOSED, None) is None


def test_a_close_while_the_server_is_waited_for_says_nothing(authority: Path) -> None:
    assert read_failure("connection closed early", server_side(authority)) is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_close_after_the_certificate_is_one(authority: Path, version: ssl.TLSVersion) -> None:
    handshake = server_side(authority)
    assert len(hear(handshake, Client(version).answer())) > 1_000
    assert "closed" == read_failure(CLOSED, handshake)


def test_a_close_after_a_hello_retry_request_says_nothing(authority: Path) -> None:
    """It asks for another key share, and the certificate follows only the second hello."""
    handshake, client = server_side(authority, ec.SECP384R1()), Client()
    request = hear(handshake, client.answer())
    assert read_failure(CLOSED, handshake) is None
    hear(handshake, client.answer(request))
    assert "closed" == read_failure(CLOSED, handshake)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_authority_refuses(authority: Path, version: ssl.TLSVersion) -> None:
    handshake, client = server_side(authority), Client(version)
    error = failure_after(handshake, client.answer(hear(handshake, client.answer())))
    assert "refused" == read_failure(error, handshake)


@pytest.mark.parametrize(
    ("alert", "expected"),
    [
        pytest.param(40, "failed", id="handshake_failure"),
        pytest.param(42, "refused", id="bad_certificate"),
        pytest.param(43, "refused", id="unsupported_certificate"),
        pytest.param(44, "refused", id="certificate_revoked"),
        pytest.param(45, "refused", id="certificate_expired"),
        pytest.param(46, "refused", id="certificate_unknown"),
        pytest.param(48, "refused", id="unknown_ca"),
        pytest.param(80, "failed", id="internal_error"),
    ],
)
def test_an_alert_on_the_certificate_is_a_refusal(
    authority: Path, alert: int, expected: str
) -> None:
    handshake = server_side(authority)
    hear(handshake, Client(ssl.TLSVersion.TLSv1_2).answer())
    error = failure_after(handshake, bytes([21, 3, 3, 0, 2, 2, alert]))  # a fatal alert's record
    assert expected == read_failure(error, handshake)


def test_a_client_with_no_cipher_in_common_fails(authority: Path) -> None:
    handshake = server_side(authority)
    hello = Client(ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA").answer()
    assert "failed" == read_failure(failure_after(handshake, hello), handshake)


def parsed(hello: bytes) -> ClientHello:
    found = parse_client_hello(hello)
    assert found is not None
    return found


def test_a_program_is_known_by_the_tls_that_it_offers() -> None:
    one, again = (fingerprint_program(parsed(Client().answer())) for _ in range(2))
    other = fingerprint_program(parsed(Client(ciphers="ECDHE+AESGCM").answer()))
    assert one == again
    assert one != other


def test_ciphers_that_stand_for_nothing_do_not_tell_programs_apart() -> None:
    """Some clients name one at random each time (RFC 8701)."""
    hello = Client().answer()
    first = parsed(hello).cipher_suites[0].to_bytes(2)
    greased = [hello.replace(first, value, 1) for value in (b"\x1a\x1a", b"\xda\xda")]
    one, other = (fingerprint_program(parsed(changed)) for changed in greased)
    assert one == other


# Hosts that are left alone: their TLS is passed on unopened, and so nothing is masked.


CHAT = "/v1/chat/completions"
BODY = encoded(conversation())


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running_upstream(tmp_path_factory.mktemp("upstream")) as running:
        yield running


@as_one_test
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
    assert is_intercepted(host, HostSettings(only=only, never=never)) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("git.corp.example", False), ("github.com", False), ("api.openai.com", True)],
)
def test_more_hosts_are_closed_beside_the_shipped_ones(host: str, expected: bool) -> None:
    hosts = HostSettings(never_more=("*.corp.example",))
    assert is_intercepted(host, hosts) is expected


def post(client: httpx.Client, live: Live, path: str = CHAT) -> bytes:
    """Send a request; what arrived."""
    with client:
        client.post(live.sink.url(path), content=BODY)
    return live.sink.last(path).body


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
    reverse, behind = hold_port(), f"https://127.0.0.1:{upstream.sink.port}"
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
