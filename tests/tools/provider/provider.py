"""A scripted provider on loopback, for the tests and the studio.

A script (`script.py`) says what it answers, and a dialect (`dialects.py`) how that is written; one
port speaks them all. This is the server alone: HTTP or TLS, compression, pauses and connections
that break.
"""

import asyncio
import contextlib
import json
import re
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mitmproxy.net import encoding
from tornado import httpserver, httputil, iostream, netutil, routing, web
from tornado.http1connection import HTTP1Connection

from addon.recordings.replies import make_tls_context
from tests.tools.provider.dialects import DIALECTS, RESPONSES, Dialect
from tests.tools.provider.plan import Plan
from tests.tools.provider.responses_socket import ResponsesSocket
from tests.tools.provider.script import JsonDict, Received, Reply, Script, Spell

HOST = "127.0.0.1"
VENDORS = (
    *("api.openai.com", "chatgpt.com", "api.anthropic.com", "openrouter.ai"),
    *("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com"),
    *("aiplatform.googleapis.com", "us-central1-aiplatform.googleapis.com"),
    "bedrock-runtime.us-east-1.amazonaws.com",
    "ollama.com",
)
"""The hosts of the vendors that the provider can stand for."""

NAMES = (*VENDORS, "localhost")
"""The names in the provider's certificate, besides the loopback address."""


def is_old_account(received: Received) -> bool:
    """Whether the credential of a request is one of an old account."""
    return "old-account" in received.header("x-api-key") + received.header("authorization")


class Provider:
    """A provider that follows a script, within a `with` block, on a port of its own.

    script: what it answers.
    tls_folder: where its certificate authority is made on first use; without it the provider
        speaks plain HTTP.
    spell: the prompt caches'.
    strict: whether a request that the real provider would refuse gets a 400, as its dialect's
        `check` says.
    is_old: whether a request comes from an account that the vendor spares what is new; by default
        one with `old-account` in its credential.
    listening: the socket that it serves; by default one of its own on loopback.
    plan: what subscribers have; it is told with each of their answers.
    websockets: whether Responses can be had over a WebSocket; a client that asks is else told 426,
        to use HTTP.

    `requests` holds each request to a model that could be decoded, in order of arrival, and
    `refusals` what was said of those that were refused; `answers` holds the body of each answer
    over HTTP, as far as it was sent; `ca` is the authority's PEM file. `least_cleared`,
    `refuses_clearing` and `refuses_dropping` are the vendor's, as in `Received`, and may be set at
    any time. Raises OSError on entering the block if there is no free port.
    """

    def __init__(
        self,
        script: Script,
        *,
        tls_folder: Path | None = None,
        spell: Spell = str,
        strict: bool = False,
        is_old: Callable[[Received], bool] = is_old_account,
        websockets: bool = True,
        listening: socket.socket | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self.answers: list[bytes | bytearray] = []
        self.port = 0
        self.ca = tls_folder / "provider-ca-cert.pem" if tls_folder else None
        self._tls = make_tls_context(tls_folder, NAMES) if tls_folder else None
        self._script, self._strict, self._websockets = script, strict, websockets
        self._is_old = is_old
        self.plan = plan
        self.least_cleared, self.refuses_clearing, self.refuses_dropping = 0, False, False
        self._histories: dict[str, tuple[list[Any], JsonDict]] = {}
        self._caches = {each.name: each.make_cache(spell) for each in DIALECTS}
        self._listening = listening
        self._app = web.Application(list(self._routes()), log_function=_say_nothing)
        self._thread = threading.Thread(target=self._run, name="provider", daemon=True)
        self._running = threading.Event()
        self._stop: Callable[[], object] = _say_nothing

    @property
    def url(self) -> str:
        """The base URL for clients, with `/v1`."""
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}/v1"

    def __enter__(self) -> Self:
        self._sockets = [self._listening] if self._listening else netutil.bind_sockets(0, HOST)
        self._sockets[0].setblocking(False)
        self.port = self._sockets[0].getsockname()[1]
        self._thread.start()
        self._running.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        self._thread.join()

    def find_problem(self, received: Received, dialect: Dialect) -> str | None:
        """Note a request; say why it is refused, if it is."""
        self.requests.append(received)
        problem = dialect.check(received) if self._strict else None
        if problem is not None:
            self.refusals.append(problem)
        return problem

    def welcome(self, received: Received) -> Received:
        """Return a request with what the vendor knows of its account."""
        return replace(
            received,
            old_account=self._is_old(received),
            least_cleared=self.least_cleared,
            refuses_clearing=self.refuses_clearing,
            refuses_dropping=self.refuses_dropping,
        )

    def complete(self, request: JsonDict, dialect: Dialect) -> JsonDict:
        """Return a request with the history that it continues. Raises KeyError if none is known."""
        found = dialect.find_previous(request)
        if found is None:
            return request
        previous, others = found
        key = dialect.history_key
        before, tools = self._histories[previous]
        return {**tools, **others, key: [*before, *others[key]]}

    def remember(self, received: Received, answer: JsonDict, dialect: Dialect) -> None:
        """Remember a history, for a request that names the answer."""
        said, request = dialect.say_again(answer), received.request
        tools = {key: request[key] for key in ("tools",) if key in request}
        self._histories[answer["id"]] = [*request[dialect.history_key], *said], tools

    def reply(self, received: Received) -> tuple[Reply, JsonDict]:
        """Return what the script answers, and the usage to report."""
        reply = self._script(received)
        usage = self._caches[received.dialect].usage(received, reply)
        if self.plan is not None:
            self.plan.add(usage)
        return reply, usage

    def _routes(self) -> Iterator[Any]:
        socket = ResponsesSocket if self._websockets else _NoSocket
        about = {"provider": self, "dialect": RESPONSES}
        yield routing.Rule(_AsksForSocket(RESPONSES.path), socket, about)
        for dialect in DIALECTS:
            about = {"provider": self, "dialect": dialect}
            yield from ((path, _Other, about) for path in dialect.others)
            yield dialect.path, _Model, about

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stop.set)
        server = httpserver.HTTPServer(self._app, ssl_options=self._tls)
        server.add_sockets(self._sockets)
        self._running.set()
        await stop.wait()
        server.stop()
        await server.close_all_connections()


class _Handler(web.RequestHandler):
    """What all requests in one dialect have in common."""

    def initialize(self, provider: Provider, dialect: Dialect) -> None:
        self._provider, self._dialect = provider, dialect

    def _accepted(self) -> Received | None:
        """Return the request, decoded; None if it is already refused."""
        try:
            received = self._received()
        except ValueError:
            self._refuse(400)
            return None
        problem = self._provider.find_problem(received, self._dialect)
        if problem is not None:
            self._refuse(400, problem)
        return None if problem else received

    def _received(self) -> Received:
        """Return the request, decompressed and decoded. Raises ValueError if it cannot be read."""
        body = self.request.body
        name = self.request.headers.get("Content-Encoding", "identity")
        request = json.loads(encoding.decode(body, name) or b"")
        if not isinstance(request, dict):
            raise ValueError("the body is no JSON object")
        try:
            request = self._provider.complete(request, self._dialect)
        except KeyError:
            raise ValueError("it continues what is not known") from None
        headers = self.request.headers.get_all()
        asked = self.request
        received = self._dialect.receive(request, asked.path, headers, body, asked.query)
        return self._provider.welcome(received)

    def _refuse(self, status: int, problem: str | None = None) -> None:
        self.set_status(status)
        self.finish(self._dialect.error(status, problem))


class _AsksForSocket(routing.PathMatches):
    """Matches a request for a WebSocket."""

    def match(self, request: httputil.HTTPServerRequest) -> dict[str, Any] | None:
        asks = request.headers.get("Upgrade", "").lower() == "websocket"
        return super().match(request) if asks else None


class _NoSocket(_Handler):
    """Refuses a WebSocket."""

    def get(self) -> None:
        self.set_status(426)
        self.finish()


class _Other(_Handler):
    """Requests for something else than an answer."""

    def get(self) -> None:
        self._finish(Received(request={}, path=self.request.path))

    def post(self) -> None:
        if received := self._accepted():
            self._finish(received)

    def _finish(self, received: Received) -> None:
        others = self._dialect.others.items()
        answer = next(answer for path, answer in others if re.fullmatch(path, received.path))
        self.finish(answer(received))


class _Model(_Handler):
    """Requests that the model answers."""

    async def post(self) -> None:
        received = self._accepted()
        if received is None:
            return
        reply, usage = self._provider.reply(received)
        for name, value in self._provider.plan.headers(received) if self._provider.plan else ():
            self.set_header(name, value)
        if reply.status != 200:
            self._refuse(reply.status)
            return
        if self._dialect.history_key and isinstance(
            received.request[self._dialect.history_key], list
        ):
            answer = self._dialect.answer(received, reply, usage)
            self._provider.remember(received, answer, self._dialect)
        send = self._stream if self._dialect.streams(received) else self._answer
        # Leaving the block cancels the answers that are still under way.
        with contextlib.suppress(iostream.StreamClosedError, asyncio.CancelledError):
            await send(received, reply, usage)

    async def _answer(self, received: Received, reply: Reply, usage: JsonDict) -> None:
        await asyncio.sleep(reply.pause)
        pack = self._packing(reply)
        answer = json.dumps(self._dialect.answer(received, reply, usage)).encode()
        body = pack(answer) + pack(None)
        self._provider.answers.append(body)
        self.set_header("Content-Type", "application/json")
        if reply.dies_after is None:
            self.finish(body)
            return
        if reply.dies_after:
            self.set_header("Content-Length", str(len(body)))
            self.write(body[: len(body) // 2])
            await self.flush()
        self._die()

    async def _stream(self, received: Received, reply: Reply, usage: JsonDict) -> None:
        self.set_header("Content-Type", self._dialect.stream_type(received))
        pack = self._packing(reply)
        sent = bytearray()
        self._provider.answers.append(sent)
        for number, event in enumerate(self._dialect.events(received, reply, usage)):
            if number == reply.dies_after:
                self._die()
                return
            await asyncio.sleep(reply.pause if number else 0)
            sent += (piece := pack(event))
            self.write(piece)
            await self.flush()
        sent += (end := pack(None))
        self.finish(end)

    def _packing(self, reply: Reply) -> Callable[[bytes | None], bytes]:
        """Set the header, and return how each piece of the body is packed; None is its end."""
        if not reply.gzip:
            return lambda piece: piece or b""
        self.set_header("Content-Encoding", "gzip")
        packer = zlib.compressobj(wbits=31)
        return lambda piece: (
            packer.flush()
            if piece is None
            else packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
        )

    def _die(self) -> None:
        """Close the connection under the client's feet."""
        connection = self.request.connection
        if isinstance(connection, HTTP1Connection):
            connection.stream.close()


def _say_nothing(*_: object) -> None:
    """In place of tornado's access log."""
