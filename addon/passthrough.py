"""Leaves alone whom we must not disturb: their TLS is passed on unopened.

That is a host the configuration excludes, and a host whose certificate, made by the proxy, a
client has just refused: that client's next connections to it are its own again.
"""

import logging
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase

from mitmproxy import tls

from masking.config import HostSettings

logger = logging.getLogger("observation_masking")

_DISTRUST = "does not trust the proxy's certificate"
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

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        peer = _read_peer(data.context.client.peername, data.client_hello.sni, data)
        if peer in self.refused or not is_ours(peer[1], self._hosts()):
            data.ignore_connection = True

    def tls_established_client(self, data: tls.TlsData) -> None:
        self._hangups.pop(_read_peer(data.context.client.peername, data.conn.sni, data), None)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        peer = _read_peer(data.context.client.peername, data.conn.sni, data)
        self._hangups[peer] += 1
        distrusted = _DISTRUST in (data.conn.error or "")
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


def _read_peer(
    peername: tuple[str, ...] | tuple[str, int] | None,
    sni: str | None,
    data: tls.ClientHelloData | tls.TlsData,
) -> _Peer:
    address = data.context.server.address
    return (str(peername[0]) if peername else "?", sni or (address[0] if address else "?"))
