"""Passes TLS on unopened where the addon must not interfere.

That is at hosts that the configuration excludes, and, for a while, where a client has just refused
the certificate that the proxy made for a host, or the server's own could not be verified.
"""

import logging
from collections import Counter
from collections.abc import Callable

from mitmproxy import tls
from mitmproxy.connection import Server
from mitmproxy.proxy.mode_specs import ReverseMode

from addon.proxy.handshake import Failure, read_failure, read_program
from addon.proxy.health import NAME
from addon.proxy.trust import Peer, Trust
from addon.proxy.unverified import SECONDS as UNVERIFIED_SECONDS
from addon.proxy.unverified import Place, Unverified
from addon.request import is_opened, one_line
from masking.config import HostSettings

logger = logging.getLogger("observation_masking")

_COMPLAINTS: dict[Failure, str] = {
    "refused": "does not trust the proxy's certificate",
    "closed": "hangs up when it gets the proxy's certificate",
    "failed": "cannot agree with the proxy on TLS",
}

_UNVERIFIED = "Certificate verify failed: "
"""What mitmproxy says of a server's certificate, before OpenSSL's reason."""

_MAX_CLIENTS = 1_000
_MAX_NAMED = 10
"""Hosts that the totals of a run name."""


class Passthrough:
    """The TLS hooks. A program that does not trust the proxy is told apart from others."""

    def __init__(self, hosts: Callable[[], HostSettings], trust: Trust | None = None) -> None:
        self._hosts = hosts
        self._trust = trust or Trust()
        self._unverified = Unverified()
        self._programs: dict[str, tuple[object, ...]] = {}

    @property
    def passed(self) -> dict[str, int]:
        """The connections that passed unopened for lack of trust, by host."""
        return {one_line(host): count for host, count in self._count_passed().items()}

    def render_total(self) -> str:
        """Return what the totals of a run say about it; nothing if there is nothing to say."""
        counts = self._count_passed().most_common()
        if not counts:
            return ""
        named = [f"{count} to {one_line(host)}" for host, count in counts[:_MAX_NAMED]]
        if rest := counts[_MAX_NAMED:]:
            named.append(f"{sum(count for _, count in rest)} to {len(rest)} more hosts")
        return f"; connections passed through unopened, for lack of trust: {', '.join(named)}"

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        self._programs[data.context.client.id] = read_program(data.client_hello)
        if len(self._programs) > _MAX_CLIENTS:
            del self._programs[next(iter(self._programs))]
        peer = self._read_peer(data, data.client_hello.sni)
        if peer is None:
            return
        is_wanted = is_opened(peer.host, self._hosts()) and self._trust.opens_next(peer)
        if not is_wanted or self._unverified.passes(_read_place(data.context.server)):
            data.ignore_connection = True

    def tls_failed_server(self, data: tls.TlsData) -> None:
        place, problem = _read_place(data.context.server), data.conn.error or ""
        # The certificate may be that of a proxy before the server, of which this says nothing.
        is_servers = isinstance(data.conn, Server) and _read_place(data.conn) == place
        # Who speaks no TLS, as by a base URL of ours, has nothing that could pass unopened.
        is_passable = is_servers and data.context.client.tls
        if not is_passable or not problem.startswith(_UNVERIFIED):
            return
        if self._unverified.note(place):
            logger.warning(
                f"the certificate of {one_line(place[0])} cannot be verified "
                f"({problem.removeprefix(_UNVERIFIED)}): for {UNVERIFIED_SECONDS:.0f} s its "
                "connections pass through unopened and UNMASKED. If its authority is to be "
                "trusted, name the file in SSL_CERT_FILE where the proxy starts"
            )

    def tls_established_client(self, data: tls.TlsData) -> None:
        peer = self._read_peer(data, data.conn.sni)
        if peer is not None and self._trust.accept(peer):
            logger.info(
                f"a program at {peer.address} accepts the proxy's certificate: masking is on again "
                f"for its connections to {one_line(peer.host)} ({self._trust.passed[peer.host]} "
                "passed through)"
            )

    def tls_failed_client(self, data: tls.TlsData) -> None:
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
        # Copies, as the page asks in a thread of its own, and these grow meanwhile.
        return self._trust.passed.copy() + self._unverified.passed.copy()

    def _read_peer(self, data: tls.ClientHelloData | tls.TlsData, sni: str | None) -> Peer | None:
        """Return who wants to reach whom; None if the client addresses the proxy itself."""
        client, server = data.context.client, data.context.server.address
        if server is None:
            return None
        names_us = isinstance(client.proxy_mode, ReverseMode)
        host = server[0] if names_us or not sni else sni
        if host == NAME:  # nobody is behind it, so that nothing could pass
            return None
        return Peer(
            address=str(client.peername[0]) if client.peername else "?",
            host=host,
            program=self._programs.get(client.id, ()),
        )


def _read_place(server: Server) -> Place:
    host, port, *_ = server.address or ("", 0)
    return host, port
