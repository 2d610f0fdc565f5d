"""Leads to the server what a client sends to our own port in reverse mode, by way of the proxy.

Some clients know no `NO_PROXY` (qwen-code), and so ask the proxy for what they could reach
themselves. mitmproxy refuses to connect to itself; it can go straight to the server instead.
"""

from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, ctx, http
from mitmproxy.proxy.mode_specs import ReverseMode

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Server(NamedTuple):
    """A server behind a port of ours."""

    scheme: str
    host: str
    port: int


class OwnPorts:
    """The hooks. What is asked for elsewhere is left alone."""

    def __init__(self) -> None:
        self._tunnels: WeakKeyDictionary[connection.Client, _Server] = WeakKeyDictionary()

    def http_connect(self, flow: http.HTTPFlow) -> None:
        if server := _find_server(flow.request):
            self._tunnels[flow.client_conn] = server
            flow.request.host, flow.request.port = server.host, server.port

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        if isinstance(flow.client_conn.proxy_mode, ReverseMode):
            return
        server = self._tunnels.get(flow.client_conn) or _find_server(flow.request)
        if server is not None:
            flow.request.scheme, flow.request.host, flow.request.port = server


def _find_server(request: http.Request) -> _Server | None:
    """Return the server behind the port of ours that a request is for, if it is for one."""
    if request.host not in _LOOPBACK:
        return None
    return next((server for port, server in _find_own() if port == request.port), None)


def _find_own() -> Iterator[tuple[int, _Server]]:
    """Yield our ports in reverse mode, each with the server behind it."""
    for instance in ctx.master.addons.get("proxyserver").servers:
        if isinstance(instance.mode, ReverseMode):
            server = _Server(instance.mode.scheme, *instance.mode.address)
            yield from ((address[1], server) for address in instance.listen_addrs)
