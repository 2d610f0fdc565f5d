"""TLS: which connections the proxy opens, and which it passes on unopened and unmasked.

Unopened are the connections

- to hosts that the configuration excludes;
- of a program that has just refused the certificate which the proxy made for a host (`Trust`);
- to a server whose own certificate the proxy could not verify (`Unverified`).

The last two never hold for good: after a while a connection is opened again.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from mitmproxy import tls
from mitmproxy.connection import Server
from mitmproxy.proxy.mode_specs import ReverseMode
from OpenSSL import SSL

from addon.engine import Engine
from addon.proxy.health import NAME
from addon.request import is_intercepted, one_line

logger = logging.getLogger("observation_masking")

FIRST_DELAY = 5.0
"""Seconds until the first trial after a refusal; each further refusal doubles them."""

LONGEST_DELAY = 3600.0

PAIR_SECONDS = 60.0
"""Two handshakes that end without an alert within this time are a refusal. A single one, or two
that are further apart, may be connections that were no longer wanted."""

UNVERIFIED_SECONDS = 3600.0
"""How long connections pass to a server that could not be verified. Then one is opened again, and
fails if nothing has changed."""

_FORGET_SECONDS = 2 * LONGEST_DELAY
"""After this long without a refusal, the next one is treated as the first."""

_MAX_REMEMBERED = 1_000
"""Entries of each table below; a full one forgets its oldest."""

_OTHER_HOSTS = "other hosts"

Failure = Literal["refused", "closed", "failed"]
"""How a handshake ended: the client sent an alert about the certificate; it closed the connection
once it had the certificate; or there was another error, such as no cipher in common."""

_COMPLAINTS: dict[Failure, str] = {
    "refused": "does not trust the proxy's certificate",
    "closed": "hangs up when it gets the proxy's certificate",
    "failed": "cannot agree with the proxy on TLS",
}

_REFUSAL = re.compile(
    r"alert (unknown ca|bad certificate|unsupported certificate"
    r"|certificate (unknown|expired|revoked))"
)
"""The alerts of RFC 8446, section 6.2, about the peer's certificate, as OpenSSL names them."""

_UNVERIFIED = "Certificate verify failed: "
"""What mitmproxy says of a server's certificate, before OpenSSL's reason."""


class Passthrough:
    """The TLS hooks.

    They look at nothing but handshakes, and stand in no other addon's way: the order does not
    matter.
    """

    def __init__(self, engine: Engine, trust: "Trust | None" = None) -> None:
        self._engine = engine
        self._trust = trust or Trust()
        self._unverified = Unverified()
        self._programs: dict[str, tuple[object, ...]] = {}

    @property
    def passed(self) -> dict[str, int]:
        """The connections that passed undecrypted for lack of trust, by host."""
        return {one_line(host): count for host, count in self._count_passed().items()}

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Decide whether a connection is opened."""
        program = fingerprint_program(data.client_hello)
        _remember(self._programs, data.context.client.id, program)
        peer = self._read_peer(data, data.client_hello.sni)
        if peer is None:
            return
        # Both tables count what they let pass: each is asked only if it decides.
        is_wanted = is_intercepted(peer.host, self._engine.settings.hosts)
        is_trusted = is_wanted and self._trust.opens_next(peer)
        if not is_trusted or self._unverified.passes(_read_place(data, peer)):
            data.ignore_connection = True

    def tls_failed_server(self, data: tls.TlsData) -> None:
        """Let later connections pass to a server whose certificate could not be verified."""
        peer = self._read_peer(data, data.context.client.sni)
        if peer is None:
            return
        place, problem = _read_place(data, peer), data.conn.error or ""
        # The certificate may be that of a proxy before the server, which proves nothing about the
        # server.
        is_servers = (
            isinstance(data.conn, Server) and data.conn.address == data.context.server.address
        )
        # A client without TLS, as at a base URL of ours, has nothing that could pass unopened.
        is_passable = is_servers and data.context.client.tls
        if not is_passable or not problem.startswith(_UNVERIFIED):
            return
        if self._unverified.add(place):
            logger.warning(
                f"the certificate of {one_line(place[0])} cannot be verified "
                f"({problem.removeprefix(_UNVERIFIED)}): for {UNVERIFIED_SECONDS:.0f} s its "
                "connections pass through unopened and UNMASKED. If its authority is to be "
                "trusted, name the file in SSL_CERT_FILE where the proxy starts"
            )

    def tls_established_client(self, data: tls.TlsData) -> None:
        """Lift the refusal of a program that has accepted the certificate."""
        peer = self._read_peer(data, data.conn.sni)
        if peer is not None and self._trust.accept(peer):
            logger.info(
                f"a program at {peer.address} accepts the proxy's certificate: masking is on again "
                f"for its connections to {one_line(peer.host)} ({self._trust.passed[peer.host]} "
                "passed through)"
            )

    def tls_failed_client(self, data: tls.TlsData) -> None:
        """Let later connections of a program pass if it has refused the certificate."""
        peer = self._read_peer(data, data.conn.sni)
        failure = read_failure(data.conn.error or "", data.ssl_conn)
        if peer is None or failure is None:
            return
        delay = self._trust.refuse(peer, failure)
        if delay is not None:
            # As the delay doubles, so do the intervals at which the log repeats this.
            logger.warning(
                f"a program at {peer.address} {_COMPLAINTS[failure]}: for {delay:.0f} s its "
                f"connections to {one_line(peer.host)} pass through unopened and UNMASKED "
                f"({self._trust.passed[peer.host]} so far)"
            )

    def _count_passed(self) -> Counter[str]:
        # Copies: the page asks in a thread of its own while these grow.
        return self._trust.passed.copy() + self._unverified.passed.copy()

    def _read_peer(self, data: tls.ClientHelloData | tls.TlsData, sni: str | None) -> "Peer | None":
        """Return who wants to reach whom; None if the client addresses the proxy itself."""
        client, server = data.context.client, data.context.server.address
        if server is None:
            return None
        names_us = isinstance(client.proxy_mode, ReverseMode)
        host = server[0] if names_us or not sni else sni
        if host == NAME:  # no server has this name, so nothing could pass
            return None
        return Peer(
            address=str(client.peername[0]) if client.peername else "?",
            host=host,
            program=self._programs.get(client.id, ()),
        )


# What a client's handshake says. Only what the client does after it has the certificate tells
# anything about its trust: mitmproxy lets it wait for the handshake with the server first, so a
# client that hangs up before may just have waited too long.


def fingerprint_program(hello: tls.ClientHello) -> tuple[object, ...]:
    """Return what tells programs at the same address apart: the TLS that they offer."""
    # Values of GREASE mean nothing, and change every time (RFC 8701).
    ciphers = (suite for suite in hello.cipher_suites if suite & 0x0F0F != 0x0A0A)
    return (*ciphers, *hello.alpn_protocols)


def read_failure(error: str, handshake: SSL.Connection | None) -> Failure | None:
    """Return how a handshake failed, or None if that says nothing about the client's trust.

    `error` is mitmproxy's message, which quotes OpenSSL's.
    """
    if handshake is None:
        return None  # there was no complete ClientHello
    state = handshake.get_state_string()
    if state == b"error":
        return "refused" if _REFUSAL.search(error) else "failed"
    # Has the client got the certificate? In TLS 1.3 the server's Finished goes out with it, and a
    # HelloRetryRequest with neither. In TLS 1.2 the server waits right after its certificate.
    is_certificate_sent = (
        state == b"SSLv3/TLS write server done" or handshake.get_finished() is not None
    )
    return "closed" if is_certificate_sent else None


class Peer(NamedTuple):
    """A program, as far as it can be told from others, and the host it wants to reach."""

    address: str
    host: str
    program: tuple[object, ...]

    def is_same_program(self, other: "Peer") -> bool:
        """Whether both are the same program, whatever the host."""
        return (self.address, self.program) == (other.address, other.program)


@dataclass(slots=True)
class _Refusal:
    """A refusal by one program for one host. Times are in seconds on the clock.

    `due` is when the next trial comes by itself; `retry_at` is earlier if it was brought forward.
    A refusal is "on trial" from when a connection is opened until it is renewed or lifted. A
    lifted one is kept only for its delay.
    """

    since: float
    delay: float
    due: float
    retry_at: float
    is_brought_forward: bool = False
    state: Literal["stands", "on trial", "lifted"] = "stands"


class Trust:
    """Which programs refuse the proxy's certificate, and when each is tried again.

    Programs are told apart by the TLS that they offer, so a program without the CA must not switch
    masking off for good for a later one that offers the same TLS. The price is that a program
    which still refuses fails once more at every trial. Its own retries mostly hide that, the
    intervals between trials grow, and of several connections at once only one is a trial.

    `passed` counts the connections that passed undecrypted for lack of trust, by host.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals: dict[Peer, _Refusal] = {}
        self._failures: dict[Peer, float] = {}
        self.passed: Counter[str] = Counter()

    def opens_next(self, peer: Peer) -> bool:
        """Return whether to open a new connection of a peer; if not, count it."""
        refusal = self._refusals.get(peer)
        if refusal is None or refusal.state == "lifted":
            return True
        now = self._clock()
        if now < refusal.retry_at:
            is_named = peer.host in self.passed or len(self.passed) < _MAX_REMEMBERED
            self.passed[peer.host if is_named else _OTHER_HOSTS] += 1
            return False
        refusal.state = "on trial"
        refusal.is_brought_forward = now < refusal.due
        refusal.due = refusal.retry_at = now + refusal.delay
        return True

    def accept(self, peer: Peer) -> bool:
        """Record that a peer accepted the certificate; return whether that lifted a refusal."""
        self._failures.pop(peer, None)
        # The same program's refusals of other hosts are tried at once, but only once for each
        # trial that comes by itself. Otherwise a program that trusts the proxy, except for a host
        # whose certificate it knows, would fail there after each success elsewhere.
        for other, refusal in self._refusals.items():
            is_past = refusal.state == "lifted" or refusal.is_brought_forward
            if other != peer and other.is_same_program(peer) and not is_past:
                refusal.is_brought_forward = True
                refusal.retry_at = min(refusal.retry_at, self._clock())
        own = self._refusals.get(peer)
        if own is None or own.state == "lifted":
            return False
        own.state = "lifted"
        return True

    def refuse(self, peer: Peer, failure: Failure) -> float | None:
        """Record a failed handshake of a peer.

        Returns the seconds until the next trial if this is a refusal, new or renewed; None if it
        says too little, or nothing new.
        """
        now, last = self._clock(), self._refusals.get(peer)
        if last is not None and last.state == "stands":
            return None  # this connection was opened before the refusal
        is_trial = last is not None and last.state == "on trial"
        if not is_trial and failure != "refused" and not self._is_second_failure(peer, now):
            return None
        delay, is_brought_forward = FIRST_DELAY, False
        # A lifted refusal counts, too. Otherwise, of two programs that offer the same TLS, one
        # without the CA would fail each time that the other succeeds.
        if last is not None and now - last.since < _FORGET_SECONDS:
            delay, is_brought_forward = min(2 * last.delay, LONGEST_DELAY), last.is_brought_forward
        due = now + delay
        _remember(self._refusals, peer, _Refusal(now, delay, due, due, is_brought_forward))
        return delay

    def _is_second_failure(self, peer: Peer, now: float) -> bool:
        """Return whether this is the second failed handshake in a row; remember a first."""
        first = self._failures.pop(peer, None)
        if first is not None and now - first < PAIR_SECONDS:
            return True
        _remember(self._failures, peer, now)
        return False


Place = tuple[str, int]
"""A server's host and port."""


class Unverified:
    """Servers whose certificate the proxy could not verify: the client is to judge them itself.

    A client may trust what the proxy does not know: an authority of its own, or everything, as
    `curl -k` does. So after a failure, connections to that server pass through unopened for
    `UNVERIFIED_SECONDS`. `passed` counts them, by host.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[Place, float] = {}
        self.passed: Counter[str] = Counter()

    def add(self, place: Place) -> bool:
        """Record that a certificate could not be verified; return whether that is new."""
        now = self._clock()
        is_new = now >= self._until.pop(place, 0.0)
        _remember(self._until, place, now + UNVERIFIED_SECONDS)
        return is_new

    def passes(self, place: Place) -> bool:
        """Return whether to pass a connection on unopened; if so, count it."""
        if self._clock() >= self._until.get(place, 0.0):
            return False
        self.passed[place[0]] += 1
        return True


def _read_place(data: tls.ClientHelloData | tls.TlsData, peer: "Peer") -> Place:
    """Return where a peer wants to go: many hosts may have one address."""
    address = data.context.server.address
    return peer.host, address[1] if address else 0


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _remember(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Add an entry to a table, which forgets its oldest one if it is full."""
    table[key] = value
    if len(table) > _MAX_REMEMBERED:
        del table[next(iter(table))]
