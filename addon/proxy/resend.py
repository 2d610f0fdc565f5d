"""Sends a request once more with another body, the way that it went the first time.

mitmproxy's own machinery sends it, as for a recording that is played against a server, so that
certificates, HTTP/2 and a proxy behind ours are what they were. The request has been through the
hooks of all addons, so none sees it a second time. Its connection is a new one, and those of its
hooks are called.
"""

import asyncio
import logging
from collections import defaultdict
from types import TracebackType
from typing import Literal

from mitmproxy import ctx, http
from mitmproxy.addons.clientplayback import MockServer
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, server
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.mode_specs import UpstreamMode

from addon.proxy.marks import drop_original, mark_resent
from addon.request import BETAS

logger = logging.getLogger("observation_masking")


SECONDS = 600.0
"""How long an answer may take. mitmproxy lets a connection be idle for as long."""

_ExcInfo = Literal[True] | tuple[type[BaseException], BaseException, TracebackType | None]


class SecondTries:
    """The requests that are sent again just now, by their clients' connections.

    Whatever goes wrong with one, its client gets the first answer.
    """

    def __init__(self) -> None:
        self._tasks: defaultdict[str, set[asyncio.Task[http.Response | None]]] = defaultdict(set)

    async def send(
        self,
        flow: http.HTTPFlow,
        body: bytes,
        *,
        is_own: bool,
        betas: tuple[str, ...] | None = None,
    ) -> int | None:
        """Send a flow's request with another body; return the answer's status, None if none began.

        is_own: whether the body is the client's own.
        betas: the values of the header `anthropic-beta` to send with it; None for the request's.

        On return the flow has the answer, if it is complete, and the request with the body if
        the provider took it: a recording, and the record, are of the request that was taken.
        """
        tried = SecondTry(flow, body, ctx.options, betas)
        task, client = asyncio.create_task(tried.send()), flow.client_conn.id
        self._tasks[client].add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._tasks[client].discard(task)
            if not self._tasks[client]:
                del self._tasks[client]
        response = None
        if not task.cancelled():
            if error := task.exception():
                logger.warning(f"a request could not be sent again ({type(error).__name__})")
            else:
                response = task.result()
        if response is not None:
            flow.response = response
        status = tried.status
        if status is not None and 200 <= status < 300:
            _set_wire_body(flow.request, body, betas)
            if is_own:
                drop_original(flow)
                mark_resent(flow)
        return status

    def give_up(self, client: Client) -> None:
        """Give up what is sent again for a client that has left."""
        for task in tuple(self._tasks.get(client.id, ())):
            task.cancel()

    def give_up_all(self) -> None:
        """Give up everything that is sent again."""
        for tasks in tuple(self._tasks.values()):
            for task in tuple(tasks):
                task.cancel()


class SecondTry(server.ConnectionHandler):
    """A request that is sent again; `status` is that of its answer, as soon as this begins."""

    def __init__(
        self,
        first: http.HTTPFlow,
        body: bytes,
        options: Options,
        betas: tuple[str, ...] | None = None,
    ) -> None:
        client = first.client_conn.copy()
        client.state = ConnectionState.OPEN
        context = Context(client, options)
        there = first.server_conn
        context.server = Server(address=there.address, tls=there.tls, sni=there.sni, via=there.via)
        super().__init__(context)
        self.status: int | None = None
        self._answer: http.Response | None = None
        self._ended = asyncio.Event()
        self._flow = http.HTTPFlow(client, context.server)
        self._flow.request = _copy_request(first.request, body, betas)
        layer = HttpLayer(context, _find_mode(client, there))
        layer.connections[client] = MockServer(self._flow, context.fork())
        self.layer = layer

    async def send(self, seconds: float = SECONDS) -> http.Response | None:
        """Return the answer, whole; None if none is complete."""
        try:
            await self.server_event(events.Start())
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return None
        finally:
            await self._hang_up()
        return self._answer

    async def handle_hook(self, hook: commands.StartHook) -> None:
        match hook.name:
            case "requestheaders" | "request":
                pass
            case "responseheaders":
                response = self._flow.response
                self.status = response.status_code if response else None
            case "response":
                self._answer = self._flow.response
                self._ended.set()
            case "error":
                self._ended.set()
            case _:
                await ctx.master.addons.handle_lifecycle(hook)

    def log(
        self, message: str, level: int = logging.INFO, exc_info: _ExcInfo | None = None
    ) -> None:
        super().log(message, level, exc_info)
        if exc_info:  # a fault of mitmproxy's, after which no hook is called
            self._ended.set()

    async def _hang_up(self) -> None:
        handlers = [each.handler for each in self.transports.values() if each.handler]
        for task in (*handlers, *self.wakeup_timer):
            task.cancel()
        if handlers:
            await asyncio.wait(handlers)


def _set_wire_body(request: http.Request, body: bytes, betas: tuple[str, ...] | None) -> None:
    """Give a request a body as it is on the wire, encoded as its headers say."""
    if betas is not None:
        request.headers.set_all(BETAS, betas)
    request.raw_content = body
    if "content-length" in request.headers:
        request.headers["content-length"] = str(len(body))


def _copy_request(
    request: http.Request, body: bytes, betas: tuple[str, ...] | None
) -> http.Request:
    copy: http.Request = request.copy()
    _set_wire_body(copy, body, betas)
    return copy


def _find_mode(client: Client, there: Server) -> HTTPMode:
    """Return how the server is spoken to: only a proxy is told the host of a plain request."""
    is_plain = there.via is not None and not there.tls
    in_upstream_mode = isinstance(client.proxy_mode, UpstreamMode)
    return HTTPMode.upstream if is_plain and in_upstream_mode else HTTPMode.transparent
