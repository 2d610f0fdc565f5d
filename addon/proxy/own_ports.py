"""Sends on what arrives at the proxy's own port for a server that the path names.

`http://127.0.0.1:8080/to/https/llm.example.com/v1` is a base URL for clients that take no proxy. A
request to it becomes one to that server before anything else looks at it, and is masked, recorded
and sent on as if the client had asked the proxy for the server. Clients that know no `NO_PROXY`
(qwen-code) ask for such a URL by way of the proxy itself, in absolute form or through a tunnel.

Only clients of this machine may do so, and no page in a browser: all servers would have one origin
there, so that a page of one could read what another says. `docs/security.md` has the reasons.
"""

import time
from collections.abc import Iterator
from http import HTTPStatus
from weakref import WeakSet

import orjson
from mitmproxy import ctx, http
from mitmproxy.connection import Address, Client, Server
from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import layer
from mitmproxy.proxy.layers import HttpLayer
from mitmproxy.proxy.layers.http import HTTPMode
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from addon.network import is_loopback, is_this_machine
from addon.proxy import base_urls
from addon.request import one_line

METADATA = "observation_masking_base_url"
"""Marks a flow that came by a base URL of ours: the route of its request is still to be found."""

_LOOP = "this leads back to the proxy itself"
_MAX_PLACE = 200


class OwnPorts:
    """The hooks. What is asked for elsewhere is left alone.

    It contains the flows that it has answered itself.
    """

    def __init__(self) -> None:
        self._answered: WeakSet[http.HTTPFlow] = WeakSet()
        self._loops: WeakSet[Server] = WeakSet()

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        return flow in self._answered

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Note a connection of the proxy to itself, as by another name of this machine.

        mitmproxy refuses those that it recognizes by their host. Any other would go on for ever, as
        the request would be asked for again and again.
        """
        if _is_own(data.server.peername):
            self._loops.add(data.server)

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """Open a tunnel to our own port at once: it leads nowhere else."""
        if self._refuse_loop(flow):
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
        request, client = flow.request, flow.client_conn
        if self._refuse_loop(flow) or not _is_own((request.host, request.port)):
            return
        if not isinstance(client.proxy_mode, RegularMode | UpstreamMode):
            return
        try:
            server = base_urls.read_behind(request.path)
        except ValueError as error:
            self._answer(flow, HTTPStatus.BAD_REQUEST, str(error))
            return
        if server is None:
            return  # mitmproxy says that it does not connect to itself
        if not _is_here(client):
            self._answer(flow, HTTPStatus.FORBIDDEN, "this is for clients on this machine")
        elif _is_for_page(request):
            self._answer(flow, HTTPStatus.FORBIDDEN, "this is not for pages in a browser")
        elif _is_own((server.host, server.port)):
            self._answer(flow, HTTPStatus.BAD_REQUEST, _LOOP)
        else:
            _send_to(flow, server)

    def _refuse_loop(self, flow: http.HTTPFlow) -> bool:
        """Answer what the proxy has sent to itself; return whether it was that."""
        ours = {each.sockname for each in self._loops if each.connected}
        if flow.client_conn.peername not in ours:
            return False
        self._answer(flow, HTTPStatus.BAD_REQUEST, _LOOP)
        return True

    def _answer(self, flow: http.HTTPFlow, status: HTTPStatus, problem: str) -> None:
        """Answer in the form in which providers name a mistake, so that clients show it."""
        place = one_line(flow.request.path.partition("?")[0])[:_MAX_PLACE]
        kind = "permission_error" if status is HTTPStatus.FORBIDDEN else "invalid_request_error"
        error = {"type": kind, "message": f"obsmask: {place}: {problem}"}
        body = orjson.dumps({"type": "error", "error": error})
        flow.response = http.Response.make(status, body, {"content-type": "application/json"})
        self._answered.add(flow)


def _send_to(flow: http.HTTPFlow, server: base_urls.Server) -> None:
    """Lead a request to a server. The proxy behind ours reads the host of a plain one in it."""
    request = flow.request
    is_told = isinstance(flow.client_conn.proxy_mode, UpstreamMode) and server.scheme == "http"
    request.scheme, request.host, request.port = server.scheme, server.host, server.port
    request.path = server.path if server.path.startswith("/") else f"/{server.path}"
    request.host_header = server.authority
    request.authority = server.authority if is_told else ""
    flow.metadata[METADATA] = True


def _is_for_page(request: http.Request) -> bool:
    """Whether a browser sends it for a page, or shows the answer as one."""
    headers = request.headers
    if headers.get("Sec-Fetch-Mode") == "navigate" or "text/html" in headers.get("Accept", ""):
        return True  # the latter of older browsers
    if headers.get("Sec-Fetch-Site", "none") != "none":
        return True
    own = f"http://{request.host_header or ''}"
    return bool(headers.get("Origin", own) != own)


def _is_here(client: Client) -> bool:
    """Whether a client has connected on loopback, and so from this machine."""
    return client.sockname is not None and is_loopback(client.sockname[0])


def _is_own(address: Address | None) -> bool:
    """Whether an address is one at which we are asked as a proxy, on loopback."""
    if address is None:
        return False
    host, port, *_ = address
    return is_this_machine(host) and port in _find_ports()


def _find_ports() -> Iterator[int]:
    """Yield the ports on which we are asked as a proxy."""
    proxyserver = ctx.master.addons.get("proxyserver")
    for instance in proxyserver.servers if proxyserver else ():
        if isinstance(instance.mode, RegularMode | UpstreamMode):
            yield from (address[1] for address in instance.listen_addrs)
