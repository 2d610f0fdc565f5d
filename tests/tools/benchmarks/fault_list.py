"""Faults of providers and clients, as bytes that are sent, stalls, and resets."""

import gzip
import socket
import struct
import time
from collections.abc import Mapping, Sequence

from tests.live.harness import conversation, encoded

BODY = encoded(conversation(turns=30))
PATH = "/v1/chat/completions"
RESET, STALL, HALF_CLOSE = "reset", "stall", "half-close"
_STALL_SECONDS = 1.0

Action = bytes | str


def answer(body: bytes = b"{}", status: str = "200 OK", **headers: str) -> bytes:
    fields = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'17\r\ndata: {"choices": []}\n\n\r\n'.replace(
    b"17", b"%x" % len('data: {"choices": []}\n\n')
)
LAST = b"0\r\n\r\n"
UNTIL_END = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"

ANSWERS: Mapping[str, Sequence[Action]] = {
    "a whole answer": [answer()],
    "a reset instead of an answer": [RESET],
    "an end instead of an answer": [],
    "a stall, then an answer": [STALL, answer()],
    "half a status line": [b"HTTP/1.1 20"],
    "garbage": [b"\0\1\2 garbage\r\n\r\n"],
    "a status line that speaks of the client": [b"HTTP/1.1 reset by client (CANCEL)\r\n\r\n"],
    "headers without an end": [b"HTTP/1.1 200 OK\r\ncontent-type: te"],
    "a body that is too short": [answer(b"{}", content_length="100")],
    "a body that is too long": [answer(b"{}{}{}", content_length="2")],
    "two lengths": [answer(b"{}", content_length="2\r\ncontent-length: 3")],
    "a length that is no number": [answer(b"{}", content_length="two")],
    "a reset within a body": [answer(b"{}", content_length="100"), STALL, RESET],
    "a body that is not compressed as it says": [answer(b"{}", content_encoding="gzip")],
    "a compressed body that is cut": [
        answer(gzip.compress(b"{}" * 99, mtime=0)[:20], content_encoding="gzip")
    ],
    "a compressed bomb": [
        answer(gzip.compress(bytes(10**6), mtime=0) * 70, content_encoding="gzip")
    ],
    "a stall within the head": [answer()[:30], STALL, answer()[30:]],
    "a stall within a body": [answer(b"{}")[:-1], STALL, b"}"],
    "a reset within the head": [answer()[:30], STALL, RESET],
    "an early hint": [b"HTTP/1.1 103 Early Hints\r\n\r\n", answer()],
    "a half-close instead of an answer": [HALF_CLOSE, STALL],
    "a half-close that ends a body": [UNTIL_END + b"{}", HALF_CLOSE, STALL],
    "400": [answer(b'{"error": {}}', "400 Bad Request")],
    "429": [answer(b'{"error": {}}', "429 Too Many Requests", retry_after="1")],
    "408, and an end": [answer(b"", "408 Request Timeout", connection="close")],
    "429, cut": [answer(b'{"error": {}}', "429 Too Many Requests", content_length="100")],
    "429 after a stall": [STALL, answer(b'{"error": {}}', "429 Too Many Requests")],
    "500 after a stall, and a reset": [STALL, answer(b"o", "500 So", content_length="9"), RESET],
    "500": [answer(b"oops", "500 Internal Server Error", content_type="text/plain")],
    "stream: whole": [STREAM, EVENT, EVENT, LAST],
    "stream: a stall": [STREAM, EVENT, STALL, EVENT, LAST],
    "stream: an end after an event": [STREAM, EVENT],
    "stream: a half-close after an event": [STREAM, EVENT, HALF_CLOSE, STALL],
    "stream: a reset after an event": [STREAM, EVENT, STALL, RESET],
    "stream: a chunk that is cut": [STREAM, EVENT, EVENT[:9]],
    "stream: a chunk without a length": [STREAM, EVENT, b"zz\r\n"],
    "stream: a stall within an event": [STREAM, EVENT[:9], STALL, EVENT[9:], LAST],
    "stream: 429": [STREAM.replace(b"200 OK", b"429 Too Many Requests"), EVENT, LAST],
    "stream: 500, and a reset": [STREAM.replace(b"200 OK", b"500 So"), EVENT, STALL, RESET],
    "stream: 500 within": [STREAM, EVENT, answer(status="500 Internal Server Error")],
}
"""What a provider says to a whole request, by the name of the fault."""

HEAD = f"POST {PATH} HTTP/1.1\r\nhost: provider\r\n".encode()
LENGTH = b"content-length: %d\r\n\r\n" % len(BODY)

REQUESTS: Mapping[str, Sequence[Action]] = {
    "client: leaves within the head": [HEAD],
    "client: leaves within the body": [HEAD, LENGTH, BODY[:500]],
    "client: a reset within the body": [HEAD, LENGTH, BODY[:500], RESET],
    "client: leaves before the answer": [HEAD, LENGTH, BODY],
    "client: a reset before the answer": [HEAD, LENGTH, BODY, RESET],
    "client: two lengths": [HEAD, b"content-length: 3\r\n", LENGTH, BODY],
    "client: a chunk without a length": [HEAD, b"transfer-encoding: chunked\r\n\r\nzz\r\n"],
    "client: a chunk that is cut": [HEAD, b"transfer-encoding: chunked\r\n\r\nff\r\n{"],
    "client: garbage": [b"\0\1\2\r\n\r\n"],
    "client: a body in stalls": [HEAD, LENGTH, BODY[:500], STALL, BODY[500:]],
}
"""What a client sends before it leaves."""

WHOLE = HEAD + b"connection: close\r\n" + LENGTH + BODY

HALVES: Mapping[str, Sequence[Action]] = {
    "client: a half-close within the head": [HEAD, HALF_CLOSE],
    "client: a half-close within the body": [HEAD, LENGTH, BODY[:500], HALF_CLOSE],
    "client: a half-close before the answer": [WHOLE, HALF_CLOSE],
}
"""What a client sends before it waits for an answer, and sends no more."""

PHASES: Mapping[str, Sequence[Action]] = {
    "within the head": [HEAD],
    "within the body": [HEAD, LENGTH, BODY[:500]],
    "before the answer": [HEAD, LENGTH, BODY],
    "within the answer": [HEAD + LENGTH + BODY],
}
"""How far a request is when its client or the proxy ends."""


def act(connection: socket.socket, actions: Sequence[Action]) -> None:
    """Send, stall, half-close and reset as the actions say."""
    for action in actions:
        if isinstance(action, bytes):
            connection.sendall(action)
        elif action == STALL:
            time.sleep(_STALL_SECONDS)
        elif action == HALF_CLOSE:
            connection.shutdown(socket.SHUT_WR)
        else:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            return
