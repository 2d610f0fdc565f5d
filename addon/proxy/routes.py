"""Where requests go: to the server that the path names, or to the proxy behind ours.

`BaseUrlRouter` serves the base URLs of the proxy's own port (`addon/proxy/base_urls.py`), and
`UpstreamRoutes` sends requests on to another proxy (`addon/proxy/upstream.py`).
"""

import logging
import time
from asyncio import Semaphore
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from weakref import WeakSet

import orjson
from mitmproxy import ctx, http
from mitmproxy.connection import Client, Server
from mitmproxy.net.http import url
from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import HttpLayer
from mitmproxy.proxy.layers.http import HTTPMode
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from addon.network import Address, is_loopback, is_this_machine, reach
from addon.proxy.base_urls import read_behind
from addon.proxy.upstream import Upstream
from addon.request import one_line

logger = logging.getLogger("observation_masking")

METADATA = "observation_masking_base_url"
"""Marks a flow that came by a base URL of ours, and needs a route of its own."""

_LOOP = "this leads back to the proxy itself"
_MAX_SHOWN_CHARS = 200
_MAX_CONNECTIONS = 100
_AUTHORIZATION = "Proxy-Authorization"


class BaseUrlRouter:
    """Sends on what arrives at the proxy's own port for a server that the path names.

    `http://127.0.0.1:8080/to/https/llm.example.com/v1` is a base URL for clients that take no
    proxy. A request to it becomes one to that server, and is masked, recorded and sent on as if
    the client had asked the proxy for the server. So this comes first: every other addon goes by
    the server that it finds. Clients that know no `NO_PROXY` (qwen-code) ask for such a URL by way
    of the proxy itself, in absolute form or through a tunnel.

    Only clients of this machine may do so, and no page in a browser: all servers would have one
    origin there, so that a page of one could read what another says. `docs/security.md` has the
    reasons.

    It contains the flows that it has answered itself. Nobody is to mask, record or count those.
    """

    def __init__(self) -> None:
        self._answered: WeakSet[http.HTTPFlow] = WeakSet()
        self._loops: WeakSet[Server] = WeakSet()

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        return flow in self._answered

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Remember a connection of the proxy to itself, as by another name of this machine.

        mitmproxy refuses those that it recognizes by their host. Any other would go on for ever, as
        the request would be asked for again and again.
        """
        if _is_own(data.server.peername):
            self._loops.add(data.server)

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """Open a tunnel to our own port at once: it leads nowhere else.

        Through such a tunnel no other one goes: hundreds, one within the other, are a loop, too.
        """
        if self._refuse_loop(flow):
            return
        if _is_own(flow.server_conn.address):
            self._answer(flow, HTTPStatus.BAD_REQUEST, _LOOP)
            return
        if _is_own((flow.request.host, flow.request.port)):
            version, now = flow.request.data.http_version, time.time()
            established = (version, 200, b"Connection established", http.Headers(), b"", None)
            flow.response = http.Response(*established, now, now)

    def next_layer(self, data: layer.NextLayer) -> None:
        """Read what comes through such a tunnel as if it had come without."""
        sent = data.data_client()
        is_through_tunnel = _is_own(data.context.server.address)
        if is_through_tunnel and sent and not starts_like_tls_record(sent):
            is_chained = isinstance(data.context.client.proxy_mode, UpstreamMode)
            mode = HTTPMode.upstream if is_chained else HTTPMode.regular
            data.layer = HttpLayer(data.context, mode)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Make a request to a base URL one to the server behind it, or refuse it."""
        request, client = flow.request, flow.client_conn
        if self._refuse_loop(flow) or not _is_own((request.host, request.port)):
            return
        if not isinstance(client.proxy_mode, RegularMode | UpstreamMode):
            return
        try:
            server = read_behind(request.path)
        except ValueError as error:
            self._answer(flow, HTTPStatus.BAD_REQUEST, str(error))
            return
        if server is None:
            return  # mitmproxy says that it does not connect to itself
        if client.sockname is None or not is_loopback(client.sockname[0]):
            self._answer(flow, HTTPStatus.FORBIDDEN, "this is for clients on this machine")
        elif _is_for_page(request):
            self._answer(flow, HTTPStatus.FORBIDDEN, "this is not for pages in a browser")
        elif _is_own((server.host, server.port)):
            self._answer(flow, HTTPStatus.BAD_REQUEST, _LOOP)
        else:
            request.scheme, request.host, request.port = server.scheme, server.host, server.port
            request.path = server.path if server.path.startswith("/") else f"/{server.path}"
            request.host_header = server.authority
            # Of a plain request, the proxy behind ours reads the host in the first line.
            is_chained = isinstance(client.proxy_mode, UpstreamMode)
            is_plain = server.scheme == "http"
            request.authority = server.authority if is_chained and is_plain else ""
            flow.metadata[METADATA] = True

    def _refuse_loop(self, flow: http.HTTPFlow) -> bool:
        """Answer what the proxy has sent to itself; return whether it was that."""
        ours = {each.sockname for each in self._loops if each.connected}
        if flow.client_conn.peername not in ours:
            return False
        self._answer(flow, HTTPStatus.BAD_REQUEST, _LOOP)
        return True

    def _answer(self, flow: http.HTTPFlow, status: HTTPStatus, problem: str) -> None:
        """Answer in the form in which providers report a mistake, so that clients show it."""
        path = one_line(flow.request.path.partition("?")[0])[:_MAX_SHOWN_CHARS]
        kind = "permission_error" if status is HTTPStatus.FORBIDDEN else "invalid_request_error"
        error = {"type": kind, "message": f"obsmask: {path}: {problem}"}
        body = orjson.dumps({"type": "error", "error": error})
        flow.response = http.Response.make(status, body, {"content-type": "application/json"})
        self._answered.add(flow)


def _is_for_page(request: http.Request) -> bool:
    """Whether a browser sends it for a page, or shows the answer as one."""
    headers = request.headers
    if headers.get("Sec-Fetch-Mode") == "navigate" or "text/html" in headers.get("Accept", ""):
        return True  # the latter of older browsers
    if headers.get("Sec-Fetch-Site", "none") != "none":
        return True
    own = f"http://{request.host_header or ''}"
    return bool(headers.get("Origin", own) != own)


def _is_own(address: tuple[str, int] | None) -> bool:
    """Whether an address is one at which clients reach us as a proxy, on this machine."""
    if address is None:
        return False
    host, port, *_ = address
    ports = (each.port for each in find_listening())
    return port in ports and is_this_machine(host)  # few have the port


def find_listening() -> Iterator[Address]:
    """Yield where mitmproxy listens as a proxy, for clients on this machine."""
    proxyserver = ctx.master.addons.get("proxyserver")
    for instance in proxyserver.servers if proxyserver else ():
        if isinstance(instance.mode, RegularMode | UpstreamMode):
            for host, port, *_ in instance.listen_addrs:
                yield reach(host, port)


class UpstreamRoutes:
    """Sends requests to the proxy behind ours, or past it where the environment says so.

    mitmproxy sends everything that arrives in upstream mode to one proxy, and sends the user's
    name to every server that gets a plain request. Here both are decided by host: for a tunnel
    when mitmproxy chooses how to read the connection, for a plain request when its head is there.

    It comes after mitmproxy's own addons, whose decisions it changes.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def running(self) -> None:
        logger.info(str(self._upstream))

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
        """Name the user to the other proxy when it is asked for a tunnel."""
        if self._upstream.authorization:
            flow.request.headers[_AUTHORIZATION] = self._upstream.authorization

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Route a plain request, and one that came by a base URL of ours.

        What comes through a tunnel goes where the tunnel does.
        """
        mode, request = flow.client_conn.proxy_mode, flow.request
        is_plain = request.first_line_format == "absolute" and not flow.client_conn.tls
        if not isinstance(mode, UpstreamMode) or not (is_plain or METADATA in flow.metadata):
            return
        if self._upstream.serves(request.scheme, request.host, request.port):
            # All requests on one connection of a client share this object, so it is set anew.
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
