"""Cuts long strings out of what MCP servers answer; whatever goes wrong, their own bytes go on."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Literal
from weakref import WeakKeyDictionary

from mitmproxy import http

from addon.metrics.names import printable
from addon.proxy.mcp_answer import Answer, AnswerStream, mask_whole
from addon.proxy.requests import is_event_stream, path_of
from masking.strategies.mcp_payload import UNKNOWN, Methods
from masking.strategies.mcp_requests import McpSettings, read_methods

logger = logging.getLogger("observation_masking")

_MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method")
"""Headers that only a client of MCP sends (modelcontextprotocol.io, Streamable HTTP)."""

_SIGNATURES = ("content-md5", "digest", "content-digest", "repr-digest", "signature")
"""Headers by which a server vouches for the body, byte by byte."""

_MAX_BYTES = 64_000_000
"""A longer body is not collected."""

Road = Literal["whole", "stream"]
"""How a response is masked: once it is there, or while it streams by."""


@dataclass(slots=True)
class McpTotals:
    """What became of the responses of MCP servers: those seen, what was cut, what failed and why.

    Characters are code points of the strings that were cut, before and after.
    """

    responses: int = 0
    cut_responses: int = 0
    strings: int = 0
    chars_before: int = 0
    chars_after: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Answer) -> None:
        """Count a response that has come to its end."""
        self.responses += 1
        self.cut_responses += answer.strings > 0
        self.strings += answer.strings
        self.chars_before += answer.chars_before
        self.chars_after += answer.chars_after
        self.failures += answer.failures

    def __str__(self) -> str:
        failures = (f"{count} {reason}" for reason, count in sorted(self.failures.items()))
        return (
            f"{self.responses} MCP responses: {self.cut_responses} with {self.strings} strings cut"
            f" ({self.chars_before:,} -> {self.chars_after:,} characters)"
            f"; untouched for a reason: {', '.join(failures) or 'none'}"
        )


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


def find_road(response: http.Response) -> Road | None:
    """Return how a response would be masked; None where it can hold no answer of an MCP server.

    An event stream is not collected, but where that has been done, as in a recording, or where it
    gives its length, which must be given anew.
    """
    if is_event_stream(response):
        is_there = response.raw_content is not None or "content-length" in response.headers
        return "whole" if is_there else "stream"
    return "whole" if _media_type(response) == "application/json" else None


def find_obstacle(response: http.Response, road: Road) -> str | None:
    """Return why a response must go on as it comes; None where nothing is in the way.

    A compressed stream would have to be decompressed and sent in another form, from its first
    byte on, before it is known whether anything in it is to be cut; and asking the server for
    none would change the request.
    """
    headers = response.headers
    if any(name in headers for name in _SIGNATURES):
        return "signed"
    if road == "stream" and headers.get("content-encoding", "identity").lower() != "identity":
        return "compressed event stream"
    size: str = headers.get("content-length", "")
    return "too large" if size.isdecimal() and int(size[:20]) > _MAX_BYTES else None


Record = dict[str, object]


class Mcp:
    """The hooks for responses; `totals` counts what has come to its end, and `record` gets it."""

    def __init__(self, record: Callable[[Record], object] = lambda _: None) -> None:
        self.totals = McpTotals()
        self._record = record
        self._open: WeakKeyDictionary[http.HTTPFlow, Answer | AnswerStream] = WeakKeyDictionary()

    def responseheaders(self, flow: http.HTTPFlow, settings: McpSettings) -> bool:
        """Return whether the response is taken charge of, and how it streams is settled."""
        try:
            return settings.cuts and self._take(flow, settings)
        except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
            self._refuse(flow, f"internal error ({type(error).__name__})")
            return False

    async def response(self, flow: http.HTTPFlow) -> None:
        """Mask what was collected, and note down what has streamed by."""
        found = self._open.get(flow)
        if isinstance(found, Answer) and flow.response is not None:
            await asyncio.to_thread(mask_whole, flow.response, found)
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._finish(flow)

    def done(self) -> None:
        """Count what is still under way."""
        for flow in tuple(self._open):
            self._finish(flow)

    def _take(self, flow: http.HTTPFlow, settings: McpSettings) -> bool:
        road = find_road(flow.response) if flow.response else None
        if flow.response is None or road is None:
            return False
        methods = find_methods(flow.request, settings.endpoints)
        if methods is None:
            return False
        if obstacle := find_obstacle(flow.response, road):
            self._refuse(flow, obstacle)
            return False
        answer = Answer(settings, methods)
        if road == "stream":
            self._open[flow] = flow.response.stream = AnswerStream(answer)
        else:
            self._open[flow] = answer
        return True

    def _refuse(self, flow: http.HTTPFlow, reason: str) -> None:
        self.totals.responses += 1
        self.totals.failures[reason] += 1
        self._record(_describe(flow, reason))
        _log(flow, f"passed through untouched, {reason}")

    def _finish(self, flow: http.HTTPFlow) -> None:
        found = self._open.pop(flow, None)
        if isinstance(found, AnswerStream):
            found.note_failures()
            if flow.response is not None and flow.response.raw_content is None:
                flow.response.data.content = found.body  # what a recording keeps
            found = found.answer
        if found is not None:
            self.totals.add(found)
            self._record(_describe(flow, ", ".join(sorted(found.failures)) or None, found))
            _tell(flow, found)


def _describe(flow: http.HTTPFlow, reason: str | None, answer: Answer | None = None) -> Record:
    """Return a response's record: never content, nor a query."""
    return {
        "kind": "mcp",
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "host": printable(flow.request.pretty_host),
        "path": printable(path_of(flow.request)),
        "status": flow.response.status_code if flow.response else None,
        "passed_through": reason,
        "replay": not flow.live or flow.is_replay is not None,
        "cut_strings": answer.strings if answer else 0,
        "cut_chars_before": answer.chars_before if answer else 0,
        "cut_chars_after": answer.chars_after if answer else 0,
    }


def _tell(flow: http.HTTPFlow, answer: Answer) -> None:
    for reason in answer.failures:
        _log(flow, f"passed through untouched, {reason}")
    if answer.strings:
        change = f"{answer.chars_before:,} -> {answer.chars_after:,} characters"
        flow.comment = f"cut {answer.strings} strings of an MCP response: {change}"
        _log(flow, f"cut {answer.strings} strings, {change}")


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


def _log(flow: http.HTTPFlow, outcome: str) -> None:
    logger.info(f"{printable(flow.request.pretty_host)}: MCP response, {outcome}")
