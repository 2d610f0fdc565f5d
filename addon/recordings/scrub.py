"""Makes recordings fit to be published: only what is known to be harmless stays in them.

A scrubbed flow is built anew from what may stay, so nothing that this module does not know of can
slip through. What becomes of the bodies is said in `scrubbed_text`.
"""

import json
import re
import secrets
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from mitmproxy import connection, flow, http
from mitmproxy.websocket import WebSocketData, WebSocketMessage

from addon.proxy.marks import (
    find_original,
    find_original_message,
    keep_original,
    keep_original_message,
)
from addon.proxy.websocket import find_socket_format
from addon.recordings.flows import read_flows, write_flows
from addon.recordings.leak_check import check
from addon.recordings.scrubbed_text import OwnRecording, scrub_request, scrub_response
from addon.request import path_of
from masking.mcp import read_methods

_BODY_HEADERS = ("content-type", "content-encoding", "content-length", "transfer-encoding")
_SOCKET_HEADERS = ("upgrade",)
_CLIENT_HEADERS = ("host", "accept", "accept-encoding", "user-agent")
REQUEST_HEADERS = frozenset((*_BODY_HEADERS, *_SOCKET_HEADERS, *_CLIENT_HEADERS))
RESPONSE_HEADERS = frozenset((*_BODY_HEADERS, *_SOCKET_HEADERS))

EPOCH = 1_735_689_600.0
"""When a scrubbed recording begins, in seconds: the first of January 2025."""

_COMMENT = re.compile(r"\s*\([^()]*\)")
_ERROR = "The exchange ended early."


def scrub_recording(source: Path, out: Path, own: OwnRecording | None = None) -> int:
    """Write `source` to `out`, scrubbed; return how many requests are in it.

    Only requests to a model (a POST of a JSON conversation) and to our own MCP server are kept.
    Without `own` no content is taken to be harmless. Raises ValueError, and writes nothing, if
    `source` is not a recording, or if something still looks like a secret; the error names the
    place.
    """
    # A name that nobody can guess: a link that lies there would be followed.
    part = out.with_name(f"part-{secrets.token_hex(8)}-{out.name}")
    flows = read_flows(source)
    kept = (
        each
        for each in flows
        if is_conversation(each.request) or _is_socket(each) or _asks_own_server(each.request, own)
    )
    try:
        count = write_flows(part, (_checked(each, n, own) for n, each in enumerate(kept)))
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count


def is_conversation(request: http.Request) -> bool:
    """Whether a request has a conversation with a model, in any of the usual forms."""
    try:
        body = json.loads(request.content or b"")
    except (ValueError, RecursionError):
        return False
    if request.method != "POST" or not isinstance(body, dict):
        return False
    inner = body.get("request")  # Code Assist's
    keys = body.keys() | (inner.keys() if isinstance(inner, dict) else set())
    return not keys.isdisjoint(("messages", "input", "contents"))


def scrub(
    recorded: http.HTTPFlow, number: int = 0, own: OwnRecording | None = None
) -> http.HTTPFlow:
    """Return a new flow with what may be published of `recorded`, the flow of that number.

    The client's own body of a masked request stays beside it, scrubbed as well.
    """
    start = EPOCH + number
    clean = http.HTTPFlow(_client(number), _server(recorded.request, number), live=False)
    clean.id = _id("flow", number)
    clean.timestamp_created = start
    clean.request = _request(recorded.request, start, own)
    if original := find_original(recorded):
        text = original.decode(errors="replace")
        keep_original(clean, scrub_request(text, own).encode())
    if recorded.websocket:
        clean.websocket = _socket(recorded.websocket, start + 0.5, own)
        for place in range(len(recorded.websocket.messages)):
            if original := find_original_message(recorded, place):
                text = original.decode(errors="replace")
                keep_original_message(clean, place, scrub_request(text, own).encode())
    if recorded.response:
        clean.response = _response(recorded.response, start + 0.25, own)
    if recorded.error:
        clean.error = flow.Error(_ERROR, start + 0.5)
    return clean


def _is_socket(recorded: http.HTTPFlow) -> bool:
    """Whether a flow is a WebSocket on which a client speaks with a model."""
    is_ours = find_socket_format(recorded.request) is not None
    return is_ours and bool(recorded.websocket and recorded.websocket.messages)


def _asks_own_server(request: http.Request, own: OwnRecording | None) -> bool:
    """Whether a request is to our own MCP server.

    Requests to others never stay: an MCP server's path may be all that keeps strangers out.
    """
    if own is None or request.host != own.server or request.method != "POST":
        return False
    return read_methods(request.content or b"") is not None


def _checked(recorded: http.HTTPFlow, number: int, own: OwnRecording | None) -> http.HTTPFlow:
    clean = scrub(recorded, number, own)
    check(clean, number)
    return clean


def _request(old: http.Request, start: float, own: OwnRecording | None) -> http.Request:
    new = http.Request(
        host=old.host,
        port=old.port,
        method=old.data.method,
        scheme=old.data.scheme,
        authority=old.data.authority,
        path=path_of(old).encode(),
        http_version=old.data.http_version,
        headers=_headers(old, REQUEST_HEADERS),
        content=None,
        trailers=None,
        timestamp_start=start,
        timestamp_end=start + 0.125,
    )
    edit = scrub_response if _asks_own_server(old, own) else scrub_request
    _write(new, old, partial(edit, own=own))
    return new


def _socket(old: WebSocketData, start: float, own: OwnRecording | None) -> WebSocketData:
    edits = {True: scrub_request, False: scrub_response}
    return WebSocketData(
        messages=[
            WebSocketMessage(
                message.type,
                message.from_client,
                edits[message.from_client](message.content.decode(errors="replace"), own).encode(),
                start + number / 1_000,
            )
            for number, message in enumerate(old.messages)
        ],
        closed_by_client=old.closed_by_client,
        close_code=old.close_code,
        timestamp_end=start + len(old.messages) / 1_000,
    )


def _response(old: http.Response, start: float, own: OwnRecording | None) -> http.Response:
    new = http.Response(
        http_version=old.data.http_version,
        status_code=old.status_code,
        reason=b"",
        headers=_headers(old, RESPONSE_HEADERS),
        content=None,
        trailers=None,
        timestamp_start=start,
        timestamp_end=start + 0.125,
    )
    _write(new, old, partial(scrub_response, own=own))
    return new


def _write(new: http.Message, old: http.Message, edit: Callable[[str], str]) -> None:
    """Give the new message the old one's body, edited, in the old one's encoding."""
    if old.raw_content is None:
        return
    try:
        body = (old.content or b"").decode()
    except ValueError:  # not a text, or not in the encoding that the header names
        new.headers.pop("content-encoding", None)
        body = old.raw_content.decode("latin-1")
    edited = edit(body).encode()
    if edited == old.get_content(strict=False):
        new.raw_content = old.raw_content
    else:
        new.content = edited


def _headers(message: http.Message, allowed: Iterable[str]) -> http.Headers:
    """Return the allowed headers, without what a user agent says of its machine in brackets."""
    return http.Headers(
        [
            (name, _COMMENT.sub("", value.decode("latin-1")).encode("latin-1"))
            for name, value in message.headers.fields
            if name.decode("latin-1").lower() in allowed
        ]
    )


def _client(number: int) -> connection.Client:
    return connection.Client(
        id=_id("client", number),
        peername=("127.0.0.1", 50000),
        sockname=("127.0.0.1", 8080),
        timestamp_start=EPOCH + number,
    )


def _server(request: http.Request, number: int) -> connection.Server:
    return connection.Server(id=_id("server", number), address=(request.host, request.port))


def _id(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))
