"""Leaves alone whom we must not disturb: their TLS is passed on unopened.

That is a host the configuration excludes, and a host whose certificate, made by the proxy, a
client has just refused: that client's next connections to it are its own again.
"""

import logging
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase

from mitmproxy import tls
from mitmproxy.proxy.mode_specs import ReverseMode

from masking.config import HostSettings

logger = logging.getLogger("observation_masking")

_DISTRUST = "The client does not trust"
"""How mitmproxy begins when the client said so; of one that hangs up it only supposes it."""

_MAX_HANGUPS = 2
"""Handshakes in a row that a client broke off without saying why; one may be a cancelled one."""

_Peer = tuple[str, str]
"""A client's address and the host it wants."""


def is_ours(host: str, hosts: HostSettings) -> bool:
    """Whether requests to a host are looked at, by the configuration."""
    name = host.lower().rstrip(".")
    if any(fnmatchcase(name, pattern) for pattern in hosts.never):
        return False
    return not hosts.only or any(fnmatchcase(name, pattern) for pattern in hosts.only)


class Passthrough:
    """The TLS hooks; `refused` counts the hosts that a client's distrust put out of reach."""

    def __init__(self, hosts: Callable[[], HostSettings]) -> None:
        self._hosts = hosts
        self._hangups: Counter[_Peer] = Counter()
        self.refused: set[_Peer] = set()

    def render_total(self) -> str:
        """Return what the totals of a run say of it, nothing where there is nothing to say."""
        count = len(self.refused)
        return f"; hosts passed through unopened, for want of trust: {count}" if count else ""

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        peer = _read_peer(data, data.client_hello.sni)
        if peer is not None and (peer in self.refused or not is_ours(peer[1], self._hosts())):
            data.ignore_connection = True

    def tls_established_client(self, data: tls.TlsData) -> None:
        if peer := _read_peer(data, data.conn.sni):
            self._hangups.pop(peer, None)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        peer = _read_peer(data, data.conn.sni)
        if peer is None:
            return
        self._hangups[peer] += 1
        distrusted = (data.conn.error or "").startswith(_DISTRUST)
        if distrusted or self._hangups[peer] >= _MAX_HANGUPS:
            self._give_up(peer)

    def _give_up(self, peer: _Peer) -> None:
        if peer in self.refused:
            return
        self.refused.add(peer)
        client, host = peer
        logger.warning(
            f"{client} does not trust the proxy's certificate: its connections to {host} are now "
            "passed through unopened and UNMASKED. Give it the CA and restart the proxy."
        )


def _read_peer(data: tls.ClientHelloData | tls.TlsData, sni: str | None) -> _Peer | None:
    """Return who wants to reach whom; None where it is the proxy itself that is spoken to."""
    client, server = data.context.client, data.context.server.address
    if server is None:
        return None
    names_us = isinstance(client.proxy_mode, ReverseMode)
    return (
        str(client.peername[0]) if client.peername else "?",
        server[0] if names_us or not sni else sni,
    )
