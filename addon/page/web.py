"""What the page's address answers: the page, its parts, its events, one conversation, metrics.

Read only. Nobody but a browser that was led here by its address is answered: the `Host` that it
names must be ours, as a name that a stranger's page has turned to this address (DNS rebinding) is
not. Policies keep the page to what is served here, and others from framing or reading it.
"""

import asyncio
import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import orjson
from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from addon.look.pages import ASSETS, read_asset, render_page
from addon.network import LOOPBACK_NAMES, bracket, is_loopback, read_ip
from addon.page.board import Board, Described
from addon.page.describe import describe_conversation, describe_view
from addon.page.history import History, read_wanted
from addon.page.prometheus import Counters, expose
from addon.store import StoreError

_MAX_CONNECTIONS = 64
_MAX_HEADER_BYTES = 16_384
_IDLE_SECONDS = 60.0

_SECONDS_BETWEEN_EVENTS = 0.25
"""What happens in between is sent together, so that a busy proxy costs a reader little."""

_SECONDS_OF_SILENCE = 15.0
"""After which a line is sent all the same: it shows whether the reader is still there."""

_SECONDS_OF_PATIENCE = 30.0
"""A reader that takes longer for what was sent is dropped. No more than that ever waits for it."""

_POLICY = "; ".join(
    (
        "default-src 'none'",
        *("script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src data:"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Served:
    """What is shown, and where; `ending` is set when the proxy ends.

    counters: what Prometheus may scrape; None if it may not.
    describe_run: how the proxy is; None if there is none, and only the history is shown.
    history: None if none is shown.
    """

    board: Board
    counters: Counters | None
    describe_run: Callable[[], Described] | None
    history: History | None
    host: str
    port: int
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    def describe(self, since: int) -> tuple[int, bytes]:
        """Return the version of the board, and what has changed since another, as JSON."""
        run = self.describe_run() if self.describe_run else {}
        with self.board.lock:
            view = self.board.look(since)
            data = to_json(describe_view(view, run))
        return view.version, data


def to_json(data: Described) -> bytes:
    """Return data as JSON, on one line."""
    try:
        return orjson.dumps(data)
    except TypeError:  # a provider's count beyond 64 bits, a model's name with a lone surrogate
        return json.dumps(data).encode()


async def serve(served: Served, listening: socket.socket, waker: socket.socket) -> None:
    """Serve at a socket until another one is at its end."""
    logging.getLogger("tornado.general").addFilter(_is_of_another_thread)
    server = _Server(
        Application(
            [
                (r"/", _Page, {"served": served}),
                (r"/history", _HistoryPage, {"served": served}),
                (r"/sessions", _Sessions, {"served": served}),
                (r"/sessions/([^/]{1,300})", _Session, {"served": served}),
                (r"/events", _Events, {"served": served}),
                (r"/conversations/([^/]{1,300})", _Conversation, {"served": served}),
                (r"/metrics", _Metrics, {"served": served}),
                (r"/assets/([\w.]{1,40})", _Asset, {"served": served}),
            ],
            default_handler_class=_Handler,
            default_handler_args={"served": served},
            log_function=lambda _: None,
        ),
        max_header_size=_MAX_HEADER_BYTES,
        max_body_size=0,
        idle_connection_timeout=_IDLE_SECONDS,
    )
    listening.setblocking(False)
    waker.setblocking(False)
    server.add_socket(listening)
    await asyncio.get_running_loop().sock_recv(waker, 1)
    served.ending.set()
    server.stop()
    await asyncio.sleep(_SECONDS_BETWEEN_EVENTS)  # for the last events
    await server.close_all_connections()


def _is_of_another_thread(record: logging.LogRecord) -> bool:
    """Whether a log line is not the page's own: what a stray client sends is worth no line."""
    return record.threadName != threading.current_thread().name


class _Server(HTTPServer):
    """Hangs up on connections beyond a number, so that the proxy never lacks descriptors."""

    open_connections = 0

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if self.open_connections >= _MAX_CONNECTIONS:
            stream.close()
            return
        self.open_connections += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self.open_connections -= 1
        super().on_close(server_conn)


class _Handler(RequestHandler):
    """Answers GET and HEAD at our own names."""

    def initialize(self, served: Served) -> None:
        self.served = served

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        if not is_our_host(self.request.host, self.served.host, self.served.port):
            raise HTTPError(421)

    async def answer(self, *arguments: str) -> None:
        raise HTTPError(404)

    async def get(self, *arguments: str) -> None:
        await self.answer(*arguments)

    head = get  # tornado leaves the body out

    def write_error(self, status_code: int, **_: object) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code} {self._reason}\n")

    def log_exception(self, *_: object) -> None:
        """Say nothing: whoever asked got a status."""


class _Page(_Handler):
    """The live page; where there is no proxy, that of the history."""

    async def answer(self, *_: str) -> None:
        if self.served.describe_run is None:
            self.redirect("/history")
            return
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write(render_page("live", has_history=self.served.history is not None))


class _HistoryPage(_Handler):
    async def answer(self, *_: str) -> None:
        if self.served.history is None:
            raise HTTPError(404)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write(render_page("history", is_live=self.served.describe_run is not None))


class _Sessions(_Handler):
    """All sessions. To read thousands takes a moment, in which live events go on."""

    async def answer(self, *_: str) -> None:
        known, wanted = self.ask("known"), read_wanted(self.ask)
        await self.answer_with(lambda history: history.describe(known, wanted))

    def ask(self, name: str) -> str:
        return self.get_query_argument(name, "") or ""

    async def answer_with(self, describe: Callable[[History], Described]) -> None:
        history = self.served.history
        if history is None:
            raise HTTPError(404)
        try:
            data = await asyncio.to_thread(lambda: to_json(describe(history)))
        except (OSError, RuntimeError, StoreError):
            raise HTTPError(503) from None
        self.set_header("Content-Type", "application/json")
        self.write(data)


class _Session(_Sessions):
    async def answer(self, *arguments: str) -> None:
        (key,) = arguments
        wanted = read_wanted(self.ask)
        await self.answer_with(lambda history: history.describe_session(key, wanted))


class _Asset(_Handler):
    async def answer(self, *arguments: str) -> None:
        (name,) = arguments
        if name not in ASSETS:
            raise HTTPError(404)
        self.set_header("Content-Type", f"{ASSETS[name]}; charset=utf-8")
        self.write(read_asset(name))


class _Conversation(_Handler):
    async def answer(self, *arguments: str) -> None:
        (key,) = arguments
        with self.served.board.lock:
            if (found := self.served.board.find(key)) is None:
                raise HTTPError(404)
            data = to_json(describe_conversation(found))
        self.set_header("Content-Type", "application/json")
        self.write(data)


class _Metrics(_Handler):
    async def answer(self, *_: str) -> None:
        if self.served.counters is None:
            raise HTTPError(404)
        data, kind = expose(self.served.counters, self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", kind)
        self.write(data)


class _Events(_Handler):
    """Sends what has changed, for as long as somebody listens and keeps up."""

    async def answer(self, *_: str) -> None:
        self.set_header("Content-Type", "text/event-stream")
        if self.request.method == "HEAD":
            return
        with contextlib.suppress(StreamClosedError):
            try:
                await self._send_events()
            except TimeoutError:
                cast(HTTP1Connection, self.request.connection).stream.close()

    async def _send_events(self) -> None:
        seen, silent = -1, 0.0
        while not self.served.ending.is_set():
            silent += _SECONDS_BETWEEN_EVENTS
            if self.served.board.version != seen:
                seen, data = self.served.describe(max(0, seen))
                await self._send(b"data: " + data)
                silent = 0.0
            elif silent >= _SECONDS_OF_SILENCE:
                await self._send(b"event: still-there\ndata:")
                silent = 0.0
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.served.ending.wait(), _SECONDS_BETWEEN_EVENTS)
        await self._send(b"event: stopped\ndata:")

    async def _send(self, event: bytes) -> None:
        self.write(event + b"\n\n")
        await asyncio.wait_for(self.flush(), _SECONDS_OF_PATIENCE)


# Which Host is answered


_NAMES = tuple(map(bracket, LOOPBACK_NAMES))
"""Names that always lead to this machine. `obsmask.test` is none: without the proxy, whoever
answers a browser's DNS queries could serve a page by that name, and then lead the name here."""


def is_our_host(header: str, host: str, port: int) -> bool:
    """Whether a `Host` header is a name of the page that is served at `host` and `port`.

    On loopback it must name the port, too. Elsewhere every address will do, as an address cannot
    be turned to another one, whatever port it was reached by.
    """
    name, given = _split(header.lower())
    if is_loopback(host):
        return name in _NAMES and given == str(port)
    return name in _NAMES or read_ip(name) is not None


def _split(header: str) -> tuple[str, str]:
    """Return name and port; the port is empty if there is none."""
    name, colon, port = header.rpartition(":")
    return (name, port) if colon and not port.endswith("]") else (header, "")
