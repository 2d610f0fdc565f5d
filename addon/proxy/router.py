"""Whose flow it is: found once, by its request, and only who reads such a flow hears of it."""

from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import http, tcp
from mitmproxy.connection import Client

from addon.proxy.flows import Flows
from addon.proxy.health import HealthEndpoint, is_for_proxy
from addon.proxy.mcp import Mcp
from addon.proxy.routes import BaseUrlRouter
from addon.proxy.unsupported import UnsupportedTraffic
from addon.proxy.websocket import Websockets, find_socket_format
from addon.request import find_wire_format
from masking.wire import Match

Kind = Literal["own", "health", "model", "socket", "other"]
"""own: answered by `BaseUrlRouter`; nobody is to mask, record or count it. health: sent to the
proxy itself. model: asks a model over HTTP. socket: asks for a WebSocket on which a model is asked.
"""


class Route(NamedTuple):
    """What a flow is, and the format in which a model is asked.

    seen: the parts of the request that say so; other addons of mitmproxy may still change them.
    """

    seen: tuple[str, ...]
    kind: Kind
    match: Match | None = None


class Router:
    """The hooks for HTTP and WebSockets, and the parts that read what each kind of flow says."""

    def __init__(
        self,
        own_ports: BaseUrlRouter,
        health: HealthEndpoint,
        websockets: Websockets,
        mcp: Mcp,
        flows: Flows,
        unsupported: UnsupportedTraffic,
    ) -> None:
        self._own_ports, self._health, self._websockets = own_ports, health, websockets
        self._mcp, self._flows, self._unsupported = mcp, flows, unsupported
        self._routes: WeakKeyDictionary[http.HTTPFlow, Route] = WeakKeyDictionary()

    def find(self, flow: http.HTTPFlow) -> Route:
        """Return what a flow is; found anew where its request has changed since."""
        request = flow.request
        seen = (request.method, request.host, request.path, request.headers.get("upgrade", ""))
        route = self._routes.get(flow)
        if flow in self._own_ports:
            return Route(seen, "own")
        if route is None or route.seen != seen:
            if is_for_proxy(request):
                route = Route(seen, "health")
            elif match := find_wire_format(request):
                route = Route(seen, "model", match)
            elif match := find_socket_format(request):
                route = Route(seen, "socket", match)
            else:
                route = Route(seen, "other")
            self._routes[flow] = route
        return route

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Stream uploads that nobody reads."""
        if self.find(flow).kind not in ("own", "model"):
            self._unsupported.requestheaders(flow)

    async def request(self, flow: http.HTTPFlow) -> None:
        """Answer what is for the proxy, mask what is for a model, and count what nobody masks."""
        route = self.find(flow)
        if route.kind == "health":
            await self._health.request(flow)
        elif route.kind == "socket":
            self._websockets.request(flow)
        elif route.kind == "other":
            self._unsupported.request(flow)
        elif route.match is not None:
            self._websockets.note_http(flow)
            await self._flows.request(flow, route.match)

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Settle how an answer streams: an MCP server's before it is read by the model's reader.

        What neither reads streams if it may be long.
        """
        kind = self.find(flow).kind
        if kind == "model":
            self._flows.responseheaders(flow)
        elif kind in ("other", "socket"):
            await self._mcp.responseheaders(flow)
        if flow not in self._flows and flow not in self._mcp:
            self._unsupported.responseheaders(flow)

    async def response(self, flow: http.HTTPFlow) -> None:
        """Cut what an MCP server has answered, or record what a model has."""
        if flow in self._mcp:
            await self._mcp.response(flow)
        elif flow in self._flows:
            await self._flows.response(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """Record what has broken off."""
        self._mcp.error(flow)
        self._flows.error(flow)

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Take the latest message of a connection, whichever side it comes from."""
        route = self.find(flow)
        if route.kind == "socket" and route.match is not None:
            await self._websockets.message(flow, route.match)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """Record what has had no answer when a connection ends."""
        self._websockets.end(flow)

    def client_disconnected(self, client: Client) -> None:
        """Give up what is sent again for a client that has left."""
        self._flows.client_disconnected(client)

    def tcp_start(self, flow: tcp.TCPFlow) -> None:
        """Say that mitmproxy takes a connection for raw TCP."""
        self._unsupported.tcp_start(flow)
