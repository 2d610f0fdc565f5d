"""Leads requests to the proxy behind ours, or past it where the environment says so.

mitmproxy sends everything that arrives in upstream mode to one proxy, and names the user to whoever
gets a plain request. Here both are decided by host: of a tunnel when mitmproxy chooses how to read
the connection, of a plain request when its head is there.
"""

import logging
from asyncio import Semaphore
from collections import defaultdict

from mitmproxy import ctx, http
from mitmproxy.connection import Client
from mitmproxy.net.http import url
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import HttpLayer
from mitmproxy.proxy.layers.http import HTTPMode
from mitmproxy.proxy.mode_specs import UpstreamMode

from addon.proxy.network import describe
from addon.proxy.own_ports import METADATA
from addon.proxy.upstream import Upstream

logger = logging.getLogger("observation_masking")

_MAX_CONNECTIONS = 100
_AUTHORIZATION = "Proxy-Authorization"


class UpstreamRoutes:
    """The hooks. It comes after mitmproxy's own addons, whose decisions it changes."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def running(self) -> None:
        logger.info(describe(self._upstream))

    def client_connected(self, client: Client) -> None:
        """Let a client ask for plain requests to many hosts on one connection.

        Each host gets a connection of its own to the other proxy. After five to one address, which
        all have here, mitmproxy lets the sixth wait until one is closed, and none may ever be.
        """
        handler = ctx.master.addons.get("proxyserver").connections[client.id]
        handler.max_conns = defaultdict(lambda: Semaphore(_MAX_CONNECTIONS))

    def next_layer(self, data: layer.NextLayer) -> None:
        """Open a tunnel to a host that is reached directly as in regular mode."""
        chosen = data.layer
        if not isinstance(chosen, HttpLayer) or chosen.mode is not HTTPMode.upstream:
            return
        target = _read_target(data.data_client())
        if target and not self._upstream.serves("https", *target):
            chosen.mode = HTTPMode.regular

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        if self._upstream.authorization:
            flow.request.headers[_AUTHORIZATION] = self._upstream.authorization

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Lead a plain request, and one that came by a base URL of ours.

        What comes through a tunnel goes where the tunnel does.
        """
        mode, request = flow.client_conn.proxy_mode, flow.request
        is_plain = request.first_line_format == "absolute" and not flow.client_conn.tls
        if not isinstance(mode, UpstreamMode) or not (is_plain or METADATA in flow.metadata):
            return
        if self._upstream.serves(request.scheme, request.host, request.port):
            # Requests on one connection of the client begin with the same object.
            flow.server_conn.via = mode.scheme, mode.address
            if self._upstream.authorization and request.scheme == "http":
                request.headers[_AUTHORIZATION] = self._upstream.authorization
        else:
            flow.server_conn.via = None
            request.authority = ""  # a server is asked for a path alone


def _read_target(data: bytes) -> tuple[str, int] | None:
    """Return the host and the port that a connection's first line asks a tunnel to."""
    method, _, rest = data.partition(b" ")
    authority, space, _ = rest.partition(b" ")
    if method.upper() != b"CONNECT" or not space:
        return None
    try:
        host, port = url.parse_authority(authority, check=True)
    except ValueError:
        return None
    return host, port or 443
