"""Which responses are those of MCP servers, how one could be masked, and what is in the way."""

from fnmatch import fnmatchcase
from typing import Literal

from mitmproxy import http

from addon.proxy.requests import is_event_stream, path_of
from masking.strategies.mcp_payload import UNKNOWN, Methods
from masking.strategies.mcp_requests import read_methods

_MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method")
"""Headers that only a client of MCP sends (modelcontextprotocol.io, Streamable HTTP)."""

_SIGNATURES = ("content-md5", "digest", "content-digest", "repr-digest", "signature")
"""Headers by which a server vouches for the body, byte by byte."""

_MAX_BYTES = 64_000_000
"""A longer body is not collected."""

Delivery = Literal["whole", "stream"]
"""How a response is masked: once it is there, or while it streams by."""


def find_methods(request: http.Request, endpoints: tuple[str, ...]) -> Methods | None:
    """Return what an MCP client asks for, by id as far as is known; None where it is no such one.

    It is one by what it says in JSON-RPC, by a header of MCP's, or by the endpoint it talks to.
    """
    if request.method == "POST":
        methods = read_methods(_read_body(request))
        if methods is not None:
            return methods
    is_mcp = _has_mcp_header(request) or _is_endpoint(request, endpoints)
    return UNKNOWN if is_mcp else None


def find_delivery(response: http.Response) -> Delivery | None:
    """Return how a response would be masked; None where it can hold no answer of an MCP server.

    An event stream is not collected, but where that has been done, as in a recording, or where it
    gives its length, which must be given anew.
    """
    if is_event_stream(response):
        is_there = response.raw_content is not None or "content-length" in response.headers
        return "whole" if is_there else "stream"
    return "whole" if _media_type(response) == "application/json" else None


def find_obstacle(response: http.Response, delivery: Delivery) -> str | None:
    """Return why a response must go on as it comes; None where nothing is in the way.

    A compressed stream would have to be decompressed and sent in another form, from its first
    byte on, before it is known whether anything in it is to be cut; and asking the server for
    none would change the request.
    """
    headers = response.headers
    if any(name in headers for name in _SIGNATURES):
        return "signed"
    if delivery == "stream" and headers.get("content-encoding", "identity").lower() != "identity":
        return "compressed event stream"
    size: str = headers.get("content-length", "")
    return "too large" if size.isdecimal() and int(size[:20]) > _MAX_BYTES else None


def _read_body(request: http.Request) -> bytes:
    """Return a request's body, and nothing where it streamed by or cannot be decoded."""
    try:
        return request.content or b""
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
