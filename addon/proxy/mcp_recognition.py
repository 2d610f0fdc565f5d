"""Which responses come from MCP servers, how one can be masked, and what prevents it."""

from fnmatch import fnmatchcase
from typing import Literal

from mitmproxy import http

from addon.content import decode_message
from addon.request import is_event_stream, path_of
from masking.mcp import UNKNOWN, Methods, read_methods

_MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method")
"""Headers that only MCP clients send (modelcontextprotocol.io, Streamable HTTP)."""

_SIGNATURES = ("content-md5", "digest", "content-digest", "repr-digest", "signature")
"""Headers by which a server signs the body."""

_MAX_BYTES = 64_000_000
"""A longer body is not collected."""

Delivery = Literal["whole", "stream"]
"""How a response is masked: once it is complete, or as a stream."""


def find_methods(request: http.Request, endpoints: tuple[str, ...]) -> Methods | None:
    """Return what an MCP client asks for, by id as far as known; None if it is not an MCP client.

    A client is recognised by its JSON-RPC, by an MCP header, or by the endpoint it talks to.
    """
    if request.method == "POST":
        methods = read_methods(_read_body(request))
        if methods is not None:
            return methods
    is_mcp = _has_mcp_header(request) or _is_endpoint(request, endpoints)
    return UNKNOWN if is_mcp else None


def find_delivery(response: http.Response) -> Delivery | None:
    """Return how a response would be masked; None if it cannot have an MCP server's answer.

    An event stream is not collected, unless that has already happened, as in a recording, or the
    response gives its length, which must then be given anew.
    """
    if is_event_stream(response):
        is_there = response.raw_content is not None or "content-length" in response.headers
        return "whole" if is_there else "stream"
    return "whole" if _media_type(response) == "application/json" else None


def find_obstacle(response: http.Response, delivery: Delivery) -> str | None:
    """Return why a response must pass unchanged; None if it need not.

    A compressed stream would have to be decompressed and sent in another form, from its first byte
    on, before it is known whether anything in it is to be cut; and asking the server for an
    uncompressed one would change the request.
    """
    headers = response.headers
    if any(name in headers for name in _SIGNATURES):
        return "signed"
    if delivery == "stream" and headers.get("content-encoding", "identity").lower() != "identity":
        return "compressed event stream"
    size: str = headers.get("content-length", "")
    return "too large" if size.isdecimal() and int(size[:20]) > _MAX_BYTES else None


def _read_body(request: http.Request) -> bytes:
    """Return a request's body; nothing if it was streamed or cannot be decoded."""
    try:
        return decode_message(request) or b""
    except ValueError:
        return b""


def _has_mcp_header(request: http.Request) -> bool:
    if not any(name in request.headers for name in _MCP_HEADERS):
        return False
    accepted: str = request.headers.get("accept", "")
    return request.method == "POST" or (
        request.method == "GET" and "text/event-stream" in accepted.lower()
    )


def _is_endpoint(request: http.Request, endpoints: tuple[str, ...]) -> bool:
    host, path = request.pretty_host.lower(), path_of(request).lower()
    places = (f"{host}{path}", f"{host}:{request.port}{path}")
    return any(fnmatchcase(place, name.lower()) for place in places for name in endpoints)


def _media_type(response: http.Response) -> str:
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()
