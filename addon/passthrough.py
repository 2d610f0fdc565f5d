"""Leaves alone whom we must not disturb: their TLS is passed on unopened.

That is a host the configuration excludes, and a host whose certificate, made by the proxy, a
client has just refused: that client's next connections to it are its own again.
"""

import logging
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from mitmproxy import tls
from mitmproxy.proxy.mode_specs import ReverseMode

from addon.handshake import read_failure, read_program
from masking.config import HostSettings

logger = logging.getLogger("observation_masking")

_HANGUP_SECONDS = 60.0
"""Two handshakes broken off within this time, without a word, are distrust; one, or two that are
further apart, may be connections that were no longer wanted."""

_MAX_REMEMBERED = 1_000

_Program = tuple[object, ...]
"""What tells one client program from another at the same address: the TLS that it offers."""


class _Peer(NamedTuple):
    address: str
    host: str
    program: _Program


def is_ours(host: str, hosts: HostSettings) -> bool:
    """Whether requests to a host are looked at, by the configuration."""
    name = host.lower().rstrip(".")
    if any(fnmatchcase(name, pattern) for pattern in hosts.never):
        return False
    return not hosts.only or any(fnmatchcase(name, pattern) for pattern in hosts.only)


class Passthrough:
    """The TLS hooks. A program that distrusts the proxy is told from others at its address."""

    def __init__(self, hosts: Callable[[], HostSettings]) -> None:
        self._hosts = hosts
        self._programs: dict[str, _Program] = {}
        self._hangups: dict[_Peer, float] = {}
        self._refused: dict[_Peer, None] = {}

    def render_total(self) -> str:
        """Return what the totals of a run say of it, nothing where there is nothing to say."""
        count = len({(peer.address, peer.host) for peer in self._refused})
        return f"; hosts passed through unopened, for want of trust: {count}" if count else ""

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        _remember(self._programs, data.context.client.id, read_program(data.client_hello))
        peer = self._read_peer(data, data.client_hello.sni)
        if peer is not None and (peer in self._refused or not is_ours(peer.host, self._hosts())):
            data.ignore_connection = True

    def tls_established_client(self, data: tls.TlsData) -> None:
        if peer := self._read_peer(data, data.conn.sni):
            self._hangups.pop(peer, None)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        peer = self._read_peer(data, data.conn.sni)
        if peer is None or peer in self._refused:
            return
        failure = read_failure(data.conn.error or "", data.ssl_conn)
        if failure is None:
            return
        now = time.monotonic()
        hung_up = self._hangups.pop(peer, None)
        if failure == "refused" or (hung_up is not None and now - hung_up < _HANGUP_SECONDS):
            self._give_up(peer)
        else:
            _remember(self._hangups, peer, now)

    def _give_up(self, peer: _Peer) -> None:
        _remember(self._refused, peer, None)
        logger.warning(
            f"a program at {peer.address} does not trust the proxy's certificate: until the proxy "
            f"is restarted, its connections to {peer.host} pass through unopened and UNMASKED"
        )

    def _read_peer(self, data: tls.ClientHelloData | tls.TlsData, sni: str | None) -> _Peer | None:
        """Return who wants to reach whom; None where it is the proxy itself that is spoken to."""
        client, server = data.context.client, data.context.server.address
        if server is None:
            return None
        names_us = isinstance(client.proxy_mode, ReverseMode)
        return _Peer(
            address=str(client.peername[0]) if client.peername else "?",
            host=server[0] if names_us or not sni else sni,
            program=self._programs.get(client.id, ()),
        )


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _remember(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Enter something into a table that forgets its oldest entries."""
    table[key] = value
    if len(table) > _MAX_REMEMBERED:
        del table[next(iter(table))]
