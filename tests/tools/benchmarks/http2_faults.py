"""Faults of HTTP/2 providers and clients: streams that are reset, connections that are given up.

Both sides speak HTTP/2 over TLS with the proxy between them. What they do wrong is said in frames,
by the `h2` library as far as it lets them.
"""

import contextlib
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError

from addon.proxy.server import HOST
from addon.recordings.replies import make_tls_context
from tests.tools.benchmarks.fault_list import BODY, PATH
from tests.tools.provider.provider import NAMES

_SECONDS = 20.0
_STALL_SECONDS = 1.0
_FRAME = 16_384

Act = Callable[[H2Connection, int], object] | bytes | str
"""What is done to a stream; or bytes that are no frames; or a stall, or a reset of TCP."""

STALL, RESET, CLOSE = "stall", "reset", "close"

_EVENT = b'data: {"choices": []}\n\n'


def head(status: int = 200, kind: str = "application/json", **fields: str) -> Act:
    named = {":status": str(status), "content-type": kind, **fields}
    spelled = [(name.replace("_", "-"), value) for name, value in named.items()]
    return lambda peer, stream: peer.send_headers(stream, spelled)


def say(data: bytes, *, end: bool = False) -> Act:
    def act(peer: H2Connection, stream: int) -> None:
        for at in range(0, len(data), _FRAME):
            is_last = at + _FRAME >= len(data)
            peer.send_data(stream, data[at : at + _FRAME], end_stream=end and is_last)

    return act


def reset(code: ErrorCodes) -> Act:
    return lambda peer, stream: peer.reset_stream(stream, code)


def give_up(code: ErrorCodes, last: int | None = None) -> Act:
    return lambda peer, _: peer.close_connection(code, last_stream_id=last)


_STREAM = head(kind="text/event-stream")
_INTERNAL, _REFUSED = ErrorCodes.INTERNAL_ERROR, ErrorCodes.REFUSED_STREAM
_CANCEL, _NO_ERROR = ErrorCodes.CANCEL, ErrorCodes.NO_ERROR
_CALM, _FLOW = ErrorCodes.ENHANCE_YOUR_CALM, ErrorCodes.FLOW_CONTROL_ERROR
_GARBAGE = b"\0\0\4\xff\0\0\0\0\1oops" + b"\0\1\0\0\0\0\0\0\0"

ANSWERS: Mapping[str, Sequence[Act]] = {
    "a whole answer": [head(), say(b"{}", end=True)],
    "a reset instead of an answer": [reset(_INTERNAL)],
    "a refusal instead of an answer": [reset(_REFUSED)],
    "a cancellation instead of an answer": [reset(_CANCEL)],
    "a reset without an error": [reset(_NO_ERROR)],
    "a stall, then a reset": [STALL, reset(_CALM)],
    "a reset after the head": [head(), STALL, reset(_INTERNAL)],
    "a reset within a body": [head(content_length="100"), say(b"{"), STALL, reset(_INTERNAL)],
    "a body that is too short": [head(content_length="100"), say(b"{}", end=True)],
    "an end of the connection instead of an answer": [CLOSE],
    "a reset of the connection instead of an answer": [RESET],
    "a reset of the connection within a body": [head(), say(b"{"), STALL, RESET],
    "the connection is given up": [give_up(_NO_ERROR, 0), STALL, CLOSE],
    "the connection is given up with an error": [give_up(_CALM), STALL, CLOSE],
    "an answer, then the connection is given up": [
        head(),
        say(b"{}", end=True),
        give_up(_NO_ERROR),
    ],
    "garbage instead of frames": [b"HTTP/1.1 200 OK\r\n\r\n"],
    "a broken frame within a body": [head(), say(b"{"), STALL, _GARBAGE],
    "400": [head(400), say(b'{"error": {}}', end=True)],
    "429": [head(429, retry_after="1"), say(b'{"error": {}}', end=True)],
    "500": [head(500, "text/plain"), say(b"oops", end=True)],
    "500, and a reset": [head(500), say(b"{"), STALL, reset(_INTERNAL)],
    "stream: whole": [_STREAM, say(_EVENT), say(_EVENT, end=True)],
    "stream: a reset after the head": [_STREAM, STALL, reset(_INTERNAL)],
    "stream: a reset after an event": [_STREAM, say(_EVENT), STALL, reset(_INTERNAL)],
    "stream: a cancellation after an event": [_STREAM, say(_EVENT), STALL, reset(_CANCEL)],
    "stream: a stall, then a reset within an event": [
        *(_STREAM, say(_EVENT), STALL, say(_EVENT[:9]), STALL, reset(_FLOW)),
    ],
    "stream: the connection is given up": [_STREAM, say(_EVENT), STALL, give_up(_INTERNAL), CLOSE],
    "stream: an end of the connection": [_STREAM, say(_EVENT), STALL, CLOSE],
    "stream: a reset of the connection": [_STREAM, say(_EVENT), STALL, RESET],
    "early: a reset before the body is read": [reset(_REFUSED)],
    "early: an answer before the body is read": [head(413), say(b"{}", end=True)],
    "early: the connection is given up before the body is read": [give_up(_CALM), STALL, CLOSE],
}
"""What a provider does upon a whole request, or as soon as it has its head."""

LEFT = (
    "a cancellation instead of an answer",
    "a reset without an error",
    "stream: a cancellation after an event",
    "garbage instead of frames",
)
"""Those after which the record says that the client left. mitmproxy does not tell which side reset
a stream, and these are the codes of a client; after the last one, ours has waited long enough."""

_FIELDS = ((":method", "POST"), (":scheme", "https"), (":authority", "provider"), (":path", PATH))


def _ask(peer: H2Connection, stream: int) -> None:
    fields = [*_FIELDS, ("content-type", "application/json"), ("content-length", str(len(BODY)))]
    peer.send_headers(stream, fields)


WHOLE: Sequence[Act] = (_ask, say(BODY, end=True))

REQUESTS: Mapping[str, Sequence[Act]] = {
    "client: a reset after the head": [_ask, reset(_CANCEL)],
    "client: a reset within the body": [_ask, say(BODY[:500]), STALL, reset(_CANCEL)],
    "client: a reset with an error within the body": [_ask, say(BODY[:500]), reset(_INTERNAL)],
    "client: a reset before the answer": [*WHOLE, STALL, reset(_CANCEL)],
    "client: gives up the connection before the answer": [*WHOLE, give_up(_NO_ERROR), CLOSE],
    "client: an end of the connection within the body": [_ask, say(BODY[:500]), CLOSE],
    "client: a reset of the connection within the body": [_ask, say(BODY[:500]), STALL, RESET],
    "client: a reset of the connection before the answer": [*WHOLE, STALL, RESET],
    "client: a body that is too short": [_ask, say(BODY[:500], end=True)],
    "client: a broken frame within the body": [_ask, say(BODY[:500]), _GARBAGE],
}
"""What a client sends before it leaves."""


class Seen(NamedTuple):
    """What a client gets of an answer: its head, its body, and how it ended."""

    head: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    end: str = "closed"


class Provider(socketserver.ThreadingTCPServer):
    """Speaks HTTP/2, and does `actions` upon each request; `early`, before its body is there."""

    daemon_threads = True
    actions: Sequence[Act] = ()
    early = False

    def __init__(self, folder: Path) -> None:
        self._tls = make_tls_context(folder, NAMES)
        self._tls.set_alpn_protocols(["h2"])
        super().__init__((HOST, 0), _Connection)

    def get_request(self) -> tuple[ssl.SSLSocket, object]:
        connection, address = super().get_request()
        wrapped = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who hang up."""


class _Connection(socketserver.BaseRequestHandler):
    server: Provider

    def handle(self) -> None:
        peer = _open(self.request, client=False)
        kind = RequestReceived if self.server.early else StreamEnded
        for event in _receive(self.request, peer):
            if isinstance(event, kind) and event.stream_id:
                _act(self.request, peer, event.stream_id, self.server.actions)


@contextlib.contextmanager
def running_provider(folder: Path) -> Iterator[Provider]:
    with Provider(folder) as provider:
        threading.Thread(target=provider.serve_forever, args=(0.02,), daemon=True).start()
        yield provider
        provider.shutdown()


def exchange(port: int, actions: Sequence[Act] = WHOLE, *, leaves: bool = False) -> Seen:
    """Send something; return what comes. If it `leaves`, the client does not wait for that."""
    seen = Seen()
    with contextlib.suppress(OSError), _connect(port) as client:
        peer = _open(client, client=True)
        _act(client, peer, 1, actions)
        for event in () if leaves else _receive(client, peer):
            seen = _see(seen, event)
            if seen.end != Seen().end:
                break
    return seen


def _see(seen: Seen, event: Event) -> Seen:
    match event:
        case ResponseReceived():
            # They are text, by the connection's `header_encoding`; its types allow bytes, too.
            fields = ((str(name), str(value)) for name, value in event.headers or ())
            return seen._replace(head=tuple(fields))
        case DataReceived():
            return seen._replace(body=seen.body + (event.data or b""))
        case StreamEnded():
            return seen._replace(end="whole")
        case StreamReset():
            return seen._replace(end=f"reset: {event.error_code!r}")
        case ConnectionTerminated():
            return seen._replace(end=f"given up: {event.error_code!r}")
    return seen


def _connect(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    connection = socket.create_connection((HOST, port), _SECONDS)
    return context.wrap_socket(connection, server_hostname="localhost")


def _open(connection: ssl.SSLSocket, *, client: bool) -> H2Connection:
    peer = H2Connection(H2Configuration(client_side=client, header_encoding="utf-8"))
    peer.initiate_connection()
    connection.sendall(peer.data_to_send())
    return peer


def _receive(connection: ssl.SSLSocket, peer: H2Connection) -> Iterator[Event]:
    """Yield what the other side says, until it hangs up or says what is no HTTP/2."""
    with contextlib.suppress(OSError, ProtocolError):
        while data := connection.recv(65_536):
            for event in peer.receive_data(data):
                if isinstance(event, DataReceived) and event.stream_id:
                    peer.acknowledge_received_data(
                        event.flow_controlled_length or 0, event.stream_id
                    )
                yield event
            connection.sendall(peer.data_to_send())


def _act(
    connection: ssl.SSLSocket, peer: H2Connection, stream: int, actions: Sequence[Act]
) -> None:
    for action in actions:
        if isinstance(action, bytes):
            connection.sendall(action)
        elif action == STALL:
            time.sleep(_STALL_SECONDS)
        elif isinstance(action, str):
            if action == RESET:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
            return
        else:
            action(peer, stream)
            connection.sendall(peer.data_to_send())
