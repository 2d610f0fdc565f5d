"""MCP: cuts long strings in the answers of MCP servers, whole or as they stream by.

`Mcp` recognizes an answer by what the client asked for (`find_methods`), settles
how it is masked (`find_delivery`) or why not (`find_obstacle`), and gives it an `Answer`, which
masks and counts. What is cut in a JSON text is decided in `masking/mcp.py`.

Whatever goes wrong in here, the server's own bytes go on.
"""

import functools
import logging
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Literal
from weakref import WeakKeyDictionary

from mitmproxy import http

from addon.content import (
    MAX_VALUES,
    TooLargeError,
    check_values,
    decode_message,
    estimate_bytes,
)
from addon.engine import Engine, ResponseCopy
from addon.proxy.flows import is_replayed
from addon.request import (
    has_digest,
    is_event_stream,
    is_intercepted,
    one_line,
    path_of,
)
from masking.errors import WireError
from masking.mcp import (
    UNKNOWN,
    McpSettings,
    Methods,
    mask_payload_bytes,
    read_methods,
)

logger = logging.getLogger("observation_masking")

MAX_EVENT_BYTES = 16_000_000
"""A longer event of a stream passes unchanged."""

_MAX_BODY_BYTES = 64_000_000
"""A longer body is not collected."""

_SMALL_BYTES = 50_000
"""A request up to here is read at once: handing it to another thread would take as long."""

_MAX_VALUES_IN_LOOP = 100_000
"""Values of an event. mitmproxy takes no piece of a stream that is still being worked on, so events
are cut in the event loop, where so many take a fifth of a second at most."""

_MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method")
"""Headers that only MCP clients send (modelcontextprotocol.io, Streamable HTTP)."""


class Mcp:
    """Masks the answers of MCP servers. Each that has ended is counted and recorded.

    It contains the flows whose answers it masks. Others must not stream those: an answer that is
    masked whole has to be collected first.
    """

    def __init__(self, engine: Engine) -> None:
        self.totals = McpTotals()
        self._engine = engine
        self._open: WeakKeyDictionary[http.HTTPFlow, Answer] = WeakKeyDictionary()

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        return flow in self._open

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Take on an answer of an MCP server, if it is to be masked, and settle how it streams."""
        settings = self._engine.settings
        if (
            not settings.mcp.cuts
            or settings.mode == "off"
            or flow.response is None
            or flow.response.stream
        ):
            return
        try:
            if is_intercepted(flow.request.pretty_host, settings.hosts):
                await self._take(flow, settings.mcp, observed=settings.mode == "observe")
        except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
            self._refuse(flow, f"internal error ({type(error).__name__})")

    async def response(self, flow: http.HTTPFlow) -> None:
        """Mask what was collected; record the answer.

        This comes before whoever reads the client's answer, and before mitmproxy saves the flow.
        """
        answer = self._open.get(flow)
        if answer is not None and not answer.is_streamed and flow.response is not None:
            work = functools.partial(answer.mask_whole, flow.response)
            await self._engine.pool.run(estimate_bytes(flow.response), work)
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """Record an answer that has broken off."""
        self._finish(flow)

    def done(self) -> None:
        """Record the answers that have not ended. The recorder has to be there still."""
        for flow in tuple(self._open):
            self._finish(flow)

    async def _take(self, flow: http.HTTPFlow, settings: McpSettings, *, observed: bool) -> None:
        request, response = flow.request, flow.response
        delivery = find_delivery(response) if response else None
        if response is None or delivery is None:
            return
        # Is the client one of MCP? Any POST may have to be decoded to know.
        size = estimate_bytes(request)
        find = functools.partial(find_methods, request, settings.endpoints)
        methods = find() if size <= _SMALL_BYTES else await self._engine.pool.run(size, find)
        if methods is None:
            return
        if obstacle := find_obstacle(response, delivery):
            self._refuse(flow, obstacle)
            return
        answer = Answer(settings, methods, observed=observed, is_streamed=delivery == "stream")
        self._open[flow] = answer
        if answer.is_streamed:
            response.stream = answer.feed

    def _refuse(self, flow: http.HTTPFlow, reason: str) -> None:
        """Record an answer that passes unchanged from its first byte on."""
        answer = Answer(self._engine.settings.mcp, UNKNOWN)
        answer.failures[reason] += 1
        self._record(flow, answer)

    def _finish(self, flow: http.HTTPFlow) -> None:
        answer = self._open.pop(flow, None)
        if answer is None:
            return
        if answer.is_streamed:
            answer.end()
            if flow.response is not None and flow.response.raw_content is None:
                flow.response.data.content = answer.sent  # what a recording keeps
        self._record(flow, answer)

    def _record(self, flow: http.HTTPFlow, answer: "Answer") -> None:
        """Count an answer, log it, and write its record: never content, nor a query.

        The record has the fields of an `McpRecord`, without those about the software and the run.
        """
        self.totals.add(answer)
        fields = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "host": one_line(flow.request.pretty_host),
            "path": one_line(path_of(flow.request)),
            "status": flow.response.status_code if flow.response else None,
            "passed_through": ", ".join(sorted(answer.failures)) or None,
            "replay": is_replayed(flow),
            "observed": answer.observed,
            "cut_strings": answer.strings,
            "cut_chars_before": answer.chars_before,
            "cut_chars_after": answer.chars_after,
        }
        self._engine.recorder.note(fields, self._engine.settings, self._engine.run)
        for reason in answer.failures:
            _log(flow, f"passed through untouched, {reason}")
        if answer.strings:
            change = f"{answer.chars_before:,} -> {answer.chars_after:,} characters"
            if answer.observed:
                _log(flow, f"observed: would have cut {answer.strings} strings, {change}")
            else:
                flow.comment = f"cut {answer.strings} strings of an MCP response: {change}"
                _log(flow, f"cut {answer.strings} strings, {change}")


def _log(flow: http.HTTPFlow, outcome: str) -> None:
    logger.info(f"{one_line(flow.request.pretty_host)}: MCP response, {outcome}")


@dataclass(slots=True)
class McpTotals:
    """The totals of a run: how many answers there were, what was cut, what failed and why.

    In those that were only `observed` nothing was cut; their strings are counted all the same.
    Characters are the code points of the strings that were cut, before and after.
    """

    responses: int = 0
    cut_responses: int = 0
    observed: int = 0
    strings: int = 0
    chars_before: int = 0
    chars_after: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, answer: "Answer") -> None:
        """Count an answer that has ended."""
        self.responses += 1
        self.cut_responses += answer.strings > 0
        self.observed += answer.observed
        self.strings += answer.strings
        self.chars_before += answer.chars_before
        self.chars_after += answer.chars_after
        self.failures += answer.failures

    def __str__(self) -> str:
        observed = f", {self.observed} of them only observed" if self.observed else ""
        failures = (f"{count} {reason}" for reason, count in sorted(self.failures.items()))
        return (
            f"{self.responses} MCP responses{observed}: {self.cut_responses} with {self.strings}"
            f" strings cut ({self.chars_before:,} -> {self.chars_after:,} characters)"
            f"; untouched for a reason: {', '.join(failures) or 'none'}"
        )


# Which responses come from MCP servers, how one can be masked, and what prevents it.


def find_methods(request: http.Request, endpoints: tuple[str, ...]) -> Methods | None:
    """Return what an MCP client asks for, by id as far as known; None if it is not an MCP client.

    A client is recognized by its JSON-RPC, by an MCP header, or by the endpoint it talks to.
    """
    headers, method = request.headers, request.method
    if method == "POST":
        try:
            body = decode_message(request) or b""
        except ValueError:  # nobody can decode it; if it was streamed, there is none
            body = b""
        if (methods := read_methods(body)) is not None:
            return methods
    accepts_events = "text/event-stream" in headers.get("accept", "").lower()
    may_be_call = method == "POST" or (method == "GET" and accepts_events)
    if may_be_call and any(name in headers for name in _MCP_HEADERS):
        return UNKNOWN
    host, path = request.pretty_host.lower(), path_of(request).lower()
    places = (f"{host}{path}", f"{host}:{request.port}{path}")
    is_endpoint = any(fnmatchcase(place, name.lower()) for place in places for name in endpoints)
    return UNKNOWN if is_endpoint else None


Delivery = Literal["whole", "stream"]
"""How a response is masked: once it is complete, or as a stream."""


def find_delivery(response: http.Response) -> Delivery | None:
    """Return how a response would be masked; None if it cannot have an MCP server's answer.

    An event stream is not collected, unless that has already happened, as in a recording, or the
    response gives its length, which must then be given anew.
    """
    if is_event_stream(response):
        is_there = response.raw_content is not None or "content-length" in response.headers
        return "whole" if is_there else "stream"
    content_type: str = response.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    return "whole" if media_type == "application/json" else None


def find_obstacle(response: http.Response, delivery: Delivery) -> str | None:
    """Return why a response must pass unchanged; None if it need not.

    A compressed stream would have to be decompressed and sent in another form, from its first byte
    on, before it is known whether anything in it is to be cut; and asking the server for an
    uncompressed one would change the request.
    """
    headers = response.headers
    if has_digest(response):
        return "signed"
    if delivery == "stream" and headers.get("content-encoding", "identity").lower() != "identity":
        return "compressed event stream"
    size: str = headers.get("content-length", "")
    return "too large" if size.isdecimal() and int(size[:20]) > _MAX_BODY_BYTES else None


class Answer:
    """One answer of a server: masks its JSON texts, and counts.

    It is masked either by `mask_whole`, or by `feed` for each chunk and `end` after the last.

    strings: the number of strings cut so far.
    chars_before, chars_after: their code points.
    failures: why something was not looked at.
    observed: whether only is counted what would be cut.
    """

    def __init__(
        self,
        policy: McpSettings,
        methods: Methods,
        *,
        observed: bool = False,
        is_streamed: bool = False,
    ) -> None:
        self.observed, self.is_streamed = observed, is_streamed
        self.strings = self.chars_before = self.chars_after = 0
        self.failures: Counter[str] = Counter()
        self._policy, self._methods = policy, methods
        # An event that is no longer in bytes than a string may be in characters has none to cut.
        self._events = EventStream(self.mask, min_bytes=policy.max_chars)
        self._sent = ResponseCopy()

    def mask(self, payload: bytes) -> bytes:
        """Return a JSON text with its long strings cut. Any other text is returned unchanged."""
        try:
            check_values(payload, _MAX_VALUES_IN_LOOP if self.is_streamed else MAX_VALUES)
            masked = mask_payload_bytes(payload, self._policy, self._methods)
        except WireError as error:
            self.failures[error.problem] += 1
            return payload
        self.strings += len(masked.cuts)
        self.chars_before += sum(len(cut.text) for cut in masked.cuts)
        self.chars_after += sum(len(cut.placeholder) for cut in masked.cuts)
        return payload if self.observed else masked.body

    def mask_whole(self, response: http.Response) -> None:
        """Mask a complete response, in its own content encoding."""
        try:
            original = decode_message(response) or b""
        except TooLargeError as error:
            self.failures[str(error)] += 1
            return
        except ValueError:
            self.failures["unknown or broken content encoding"] += 1
            return
        try:
            if is_event_stream(response):
                masked = b"".join((*self.feed(original), *self.feed(b"")))
                self.end()
            else:
                masked = self.mask(original)
            if masked != original:
                response.content = masked
        except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
            self.failures[f"internal error ({type(error).__name__})"] += 1

    def feed(self, chunk: bytes) -> list[bytes]:
        """Mask a chunk of an event stream; `b""` is its end. A `flow.response.stream` callable."""
        edited = self._events.feed(chunk) if chunk else self._events.end()
        sent = chunk if self.observed else edited  # an observed stream is never held back
        self._sent(sent)
        return [sent] if sent else []  # mitmproxy would end a chunked body with an empty chunk

    def end(self) -> None:
        """Count what passed in the stream without being looked at."""
        if self._events.too_large:
            self.failures["event too large"] += self._events.too_large
        if self._events.failure is not None:
            self.failures[f"internal error ({self._events.failure})"] += 1

    @property
    def sent(self) -> bytes | None:
        """The stream as the client got it; None if it was too long to keep."""
        return self._sent.body


# Server-sent events.

_DATA_LINE = re.compile(rb"(?:(?<![^\r\n])|(?<=\A\xef\xbb\xbf))data")
"""A line begins after the end of another, or with the stream, after a byte-order mark if any."""

_BEGINNING = re.compile(rb"(?:(?<![^\r\n])d(?:at?)?|\A\xef(?:\xbb(?:\xbf(?:d(?:at?)?)?)?)?)\Z")
"""Bytes that may turn out to be the beginning of such a line when more arrive."""

_LONGEST_BEGINNING = len(b"\xef\xbb\xbfdat")
_BLANK_LINE = re.compile(rb"(?:\n|\r(?!\n))(?P<blank>\r\n?|\n)")
_VALUE = re.compile(rb"(?<![^\r\n])data(?::\x20?|(?=[\r\n]))([^\r\n]*)")

_Mode = Literal["between", "within", "past"]
"""Before an event's data; in it; in an event that is too large and passes as it is."""

_Step = tuple[bytes, int]
"""The bytes that may go on, and the position up to which the window is done."""


class EventStream:
    """Edits the data of server-sent events while they stream by: bytes in, bytes out, no I/O.

    Only an event whose data has begun and is not complete is held back. Every other byte goes on as
    soon as it arrives (WHATWG HTML, 9.2.5 and 9.2.6). Compressed streams are not handled here.

    `edit` gets an event's data, its lines joined by line feeds, and returns the same data for no
    change. It must not add or remove a line. Once it raises, everything passes unchanged, and
    `failure` is the name of the exception. An event of more than `max_bytes` from its first data
    line to its blank line passes unchanged, and is counted in `too_large`. One of up to `min_bytes`
    passes unchanged, too; a run of those costs next to nothing.
    """

    def __init__(
        self,
        edit: Callable[[bytes], bytes],
        *,
        min_bytes: int = 0,
        max_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self.failure: str | None = None
        self.too_large = 0
        self._edit = edit
        self._min_bytes, self._max_bytes = min_bytes, max_bytes
        self._mode: _Mode = "between"
        self._held = bytearray()
        self._before = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may go on now that this chunk has arrived."""
        if self.failure is not None:
            return self.end() + chunk
        if self._mode == "between":  # it holds no more than a few bytes, to be looked at again
            chunk = bytes(self._held) + chunk
            self._held.clear()
        window, at = self._before + chunk, len(self._before)
        pieces = []
        while at < len(window):
            piece, at = _STEPS[self._mode](self, window, at)
            pieces.append(piece)
        self._remember(window[: len(window) - self._kept()])
        return b"".join(pieces)

    def end(self) -> bytes:
        """Return what is held back, unchanged: an event without its blank line is not an event.

        More bytes may still follow. The event then passes with them, unedited.
        """
        held = bytes(self._held)
        if self._mode == "between":
            self._remember(held)
        elif self._mode == "within":
            self._mode = "past"
        self._held.clear()
        return held

    def _kept(self) -> int:
        """The number of bytes at the end that will be looked at again."""
        return len(self._held) if self._mode == "between" else 0

    def _remember(self, seen: bytes) -> None:
        """Remember whether the last byte ended a line.

        A colon stands for any other byte, because a byte of a byte-order mark could mislead.
        """
        if seen:
            self._before = seen[-1:] if seen.endswith((b"\r", b"\n")) else b":"

    def _step_between(self, window: bytes, at: int) -> _Step:
        if self._min_bytes and (end := _find_last_end(window, at, self._min_bytes)) > at:
            return window[at:end], end
        if found := _DATA_LINE.search(window, at):
            self._mode = "within"
            return window[at : found.start()], found.start()
        beginning = _BEGINNING.search(window, max(at, len(window) - _LONGEST_BEGINNING))
        end = beginning.start() if beginning else len(window)
        self._held += window[end:]
        return window[at:end], len(window)

    def _step_within(self, window: bytes, at: int) -> _Step:
        found = _find_blank_line(window, at)
        if found is None:
            self._held += window[at:]
            return self._release_if_too_large(), len(window)
        event = bytes(self._held) + window[at : found.end()]
        self._held.clear()
        self._mode = "between"
        if len(event) - len(found["blank"]) <= self._max_bytes:
            return self._edit_event(event), found.end()
        self.too_large += 1
        return event, found.end()

    def _step_past(self, window: bytes, at: int) -> _Step:
        found = _find_blank_line(window, at)
        if found is None:
            return window[at:], len(window)
        self._mode = "between"
        return window[at : found.end()], found.end()

    def _release_if_too_large(self) -> bytes:
        if len(self._held) <= self._max_bytes:
            return b""
        self.too_large += 1
        return self.end()

    def _edit_event(self, event: bytes) -> bytes:
        if self.failure is None and len(event) > self._min_bytes:
            try:
                return _edit_data(event, self._edit)
            except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
                self.failure = type(error).__name__
        return event


_STEPS: dict[_Mode, Callable[[EventStream, bytes, int], _Step]] = {
    "between": EventStream._step_between,
    "within": EventStream._step_within,
    "past": EventStream._step_past,
}


def _find_blank_line(window: bytes, at: int) -> re.Match[bytes] | None:
    """Find a line end and the blank line after it; the first may stand right before `at`."""
    return _BLANK_LINE.search(window, max(0, at - 1))


def _find_last_end(window: bytes, at: int, size: int) -> int:
    """Return where the last of the events ends that lie within so many bytes; `at` if none does.

    It is enough to know two ways to end one: others are read event by event.
    """
    return max(
        (
            found + len(end)
            for end in (b"\n\n", b"\r\n\r\n")
            if (found := window.rfind(end, at, at + size)) >= 0
        ),
        default=at,
    )


def _edit_data(event: bytes, edit: Callable[[bytes], bytes]) -> bytes:
    spans = [found.span(1) for found in _VALUE.finditer(event)]
    data = b"\n".join(event[start:end] for start, end in spans)
    edited = edit(data)
    if edited == data:
        return event
    pieces: list[bytes] = []
    done = 0
    for (start, end), line in zip(spans, re.split(rb"[\r\n]", edited), strict=True):
        pieces += (event[done:start], line)
        done = end
    return b"".join((*pieces, event[done:]))
