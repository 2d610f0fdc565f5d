"""A scripted Chat Completions provider on loopback, for the demo, the tests and the recorder.

A script (`script.py`) says what it answers, and `completions.py` how that is written. This is the
server alone: HTTP or TLS, compression, pauses and connections that break.
"""

import asyncio
import contextlib
import ipaddress
import json
import ssl
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from mitmproxy.certs import CertStore
from mitmproxy.net import encoding
from tornado import httpserver, iostream, netutil, web
from tornado.http1connection import HTTP1Connection

from addon.recordings.provider import completions
from addon.recordings.provider.completions import JsonDict, Spell
from addon.recordings.provider.script import Reply, Script

HOST = "127.0.0.1"
NAMES = ("api.openai.com", "localhost")
"""The names in the provider's certificate, besides the loopback address."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived: `body` is still compressed, `request` is decoded from it."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    request: JsonDict


class Provider:
    """A provider that follows a script, within a `with` block, on a port of its own.

    script: what it answers.
    tls_folder: where its certificate authority is made on first use; without it the provider
        speaks plain HTTP.
    spell: the prompt cache's.

    `requests` holds each chat request that could be decoded, in order of arrival; `ca` is the
    authority's PEM file. Raises OSError on entering the block if there is no free port.
    """

    def __init__(
        self, script: Script, *, tls_folder: Path | None = None, spell: Spell = str
    ) -> None:
        self.requests: list[Received] = []
        self.port = 0
        self.ca = tls_folder / "provider-ca-cert.pem" if tls_folder else None
        self._tls = _tls_context(tls_folder) if tls_folder else None
        routes: list[Any] = [
            (r"/.*chat/completions", _Chat, {"provider": self, "script": script}),
            (r"/.*models", _Models),
        ]
        self._app = web.Application(routes, log_function=_say_nothing)
        self._cache = completions.PromptCache(spell)
        self._thread = threading.Thread(target=self._run, name="provider", daemon=True)
        self._running = threading.Event()
        self._stop: Callable[[], object] = _say_nothing

    @property
    def url(self) -> str:
        """The base URL for clients, with `/v1`."""
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}/v1"

    def __enter__(self) -> Self:
        self._sockets = netutil.bind_sockets(0, HOST)
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

    def reply(self, received: Received, script: Script) -> tuple[Reply, JsonDict]:
        """Note a request; return what the script answers, and the usage to report."""
        self.requests.append(received)
        reply = script(received.request)
        return reply, self._cache.usage(received.request, reply)

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


class _Models(web.RequestHandler):
    def get(self) -> None:
        self.finish(completions.models())


class _Chat(web.RequestHandler):
    def initialize(self, provider: Provider, script: Script) -> None:
        self._provider, self._script = provider, script

    async def post(self) -> None:
        try:
            received = self._received()
        except ValueError:
            self._refuse(400)
            return
        reply, usage = self._provider.reply(received, self._script)
        if reply.status != 200:
            self._refuse(reply.status)
            return
        send = self._stream if received.request.get("stream") else self._answer
        # Leaving the block cancels the answers that are still under way.
        with contextlib.suppress(iostream.StreamClosedError, asyncio.CancelledError):
            await send(received.request, reply, usage)

    def _received(self) -> Received:
        """Return the request, decompressed and decoded. Raises ValueError if it cannot be read."""
        body = self.request.body
        name = self.request.headers.get("Content-Encoding", "identity")
        request = json.loads(encoding.decode(body, name) or b"")
        if not isinstance(request, dict):
            raise ValueError("the body is no JSON object")
        headers = tuple(self.request.headers.get_all())
        return Received(self.request.path, headers, body, request)

    def _refuse(self, status: int) -> None:
        self.set_status(status)
        self.finish(completions.error(status))

    async def _answer(self, request: JsonDict, reply: Reply, usage: JsonDict) -> None:
        await asyncio.sleep(reply.pause)
        pack = self._packing(reply)
        answer = json.dumps(completions.completion(request, reply, usage)).encode()
        body = pack(answer) + pack(None)
        self.set_header("Content-Type", "application/json")
        if reply.dies_after is None:
            self.finish(body)
            return
        if reply.dies_after:
            self.set_header("Content-Length", str(len(body)))
            self.write(body[: len(body) // 2])
            await self.flush()
        self._die()

    async def _stream(self, request: JsonDict, reply: Reply, usage: JsonDict) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        pack = self._packing(reply)
        for number, event in enumerate(completions.events(request, reply, usage)):
            if number == reply.dies_after:
                self._die()
                return
            await asyncio.sleep(reply.pause if number else 0)
            self.write(pack(event))
            await self.flush()
        self.finish(pack(None))

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


def _tls_context(folder: Path) -> ssl.SSLContext:
    store = CertStore.from_store(folder, "provider", 2048)
    entry = store.get_cert(NAMES[0], [x509.DNSName(name) for name in NAMES] + _loopback())
    pem = entry.privatekey.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    leaf = folder / "provider-leaf.pem"
    leaf.touch(mode=0o600)
    leaf.write_bytes(pem + entry.cert.to_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf)
    return context


def _loopback() -> list[x509.GeneralName]:
    return [x509.IPAddress(ipaddress.ip_address(HOST))]


def _say_nothing(*_: object) -> None:
    """In place of tornado's access log."""
