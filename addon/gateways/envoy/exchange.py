"""A request and its answer, as Envoy tells of them part by part.

Whatever goes wrong in here, each part goes on as it came.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import NamedTuple

from addon.gateways.envoy.messages import (
    ASK_FOR_BODY,
    ASK_FOR_HEADERS,
    ASK_FOR_STREAM,
    GO_ON,
    Part,
    ask_for_time,
    replace_body,
)
from addon.gateways.envoy.request import EnvoyCarrier, EnvoyMessage, EnvoyRequest
from addon.metrics.metrics import Measuring, Metrics
from addon.metrics.stages import Interruption, Received, Rewritten, Run
from addon.shared.carrier import leave_untouched
from addon.shared.header_fields import HeaderFields
from addon.shared.masker import Masker
from addon.shared.received import read_answer, read_received
from addon.shared.requests import find_wire_format, is_event_stream, is_opened
from addon.shared.response_copy import ResponseCopy
from masking.config import Settings

PATIENCE_SECONDS = 0.1
"""After this, Envoy is asked to wait longer than `message_timeout` for a request."""

MOST_SECONDS = 60
"""How long it is asked to wait; its configuration has the last word (`max_message_timeout`)."""


MAX_BODY_BYTES = 128_000_000
"""A longer one is not asked for. Envoy answers 413 if it cannot buffer what it was asked for: its
configuration has to let it buffer as much."""

_TOO_LONG = f"larger than {MAX_BODY_BYTES:,} bytes"
_OF_REQUEST = ("request_headers", "request_body")


class Tools(NamedTuple):
    """What the exchanges of a process work with."""

    masker: Masker
    metrics: Metrics
    run: Run


class Exchange:
    """One request, which is masked if it is one to a model, and its answer, which is only read.

    settings: those in force when it began.
    host: the provider's, where Envoy's configuration names it.
    """

    def __init__(self, tools: Tools, settings: Settings, host: str | None) -> None:
        self._tools, self._settings, self._host = tools, settings, host
        self._copy = ResponseCopy()
        self._request: EnvoyRequest | None = None
        self._received: Received | None = None
        self._rewritten: Rewritten | None = None
        self._measuring: Measuring | None = None
        self._answer: EnvoyMessage | None = None
        self._status: int | None = None

    async def receive(self, part: Part) -> AsyncIterator[bytes]:
        """Yield what is to be said to a part."""
        if part.kind == "request_headers":
            self._begin(part)
        request, received = self._request, self._received
        if request and received and self._rewritten is None and part.kind in _OF_REQUEST:
            if part.kind == "request_headers" and not part.is_last:
                yield self._ask_for_body(request, received)
                return
            async for response in self._mask(request, received, part):
                yield response
            return
        self._note_answer(part)
        is_wanted = part.kind == "response_headers" and not part.is_last and self._rewritten
        yield ASK_FOR_STREAM if is_wanted else GO_ON[part.kind]

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be said, as the request is none to a model."""
        return self._received is None

    def end(self, *, stopping: bool = False) -> None:
        """Record a request whose end Envoy has not told: either side has left."""
        if self._rewritten is None:
            return
        error: Interruption = "broken off" if self._answer else "client left"
        self._finish("proxy ended" if stopping else error)

    def _begin(self, part: Part) -> None:
        """Take in the headers of a request, if it is one to a model."""
        request = EnvoyRequest(HeaderFields(part.fields), self._host)
        match = find_wire_format(request)
        if match and is_opened(request.pretty_host, self._settings.hosts):
            self._request = request
            self._received = read_received(request, self._settings, match, self._tools.run)

    def _ask_for_body(self, request: EnvoyRequest, received: Received) -> bytes:
        """Return what asks for a request's body, unless that is longer than Envoy may buffer."""
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) <= MAX_BODY_BYTES:
            return ASK_FOR_BODY
        untouched = leave_untouched(EnvoyCarrier(request), received)
        self._rewritten = replace(untouched, passed_through=_TOO_LONG)
        return ASK_FOR_HEADERS

    async def _mask(
        self, request: EnvoyRequest, received: Received, part: Part
    ) -> AsyncIterator[bytes]:
        """Mask a request; `part` has its body, or says that it has none."""
        started, request.raw_content = time.perf_counter_ns(), part.body
        carrier = EnvoyCarrier(request)
        self._rewritten = leave_untouched(carrier, received)
        masking = asyncio.ensure_future(self._tools.masker.mask(carrier, received))
        await asyncio.wait({masking}, timeout=PATIENCE_SECONDS)
        if not masking.done():
            yield ask_for_time(MOST_SECONDS)
        rewritten, rewrite, original, _ = await masking
        if rewrite:
            measure = self._tools.metrics.measure
            self._measuring = measure(rewrite, original, observed=rewritten.observed)
        hook_us = (time.perf_counter_ns() - started) // 1000
        self._rewritten = replace(rewritten, hook_us=hook_us)
        request.raw_content = None  # it may be large, and the answer may take long
        if carrier.replacement is None:
            yield GO_ON[part.kind]
        else:
            has_length = "content-length" in request.headers
            yield replace_body(carrier.replacement, has_length=has_length)

    def _note_answer(self, part: Part) -> None:
        if part.kind == "response_headers":
            self._answer = EnvoyMessage(HeaderFields(part.fields))
            self._status = _read_status(self._answer)
        elif part.kind == "response_body":
            self._copy(part.body)
        if part.kind.startswith("response_") and part.is_last:
            self._finish(None)

    def _finish(self, error: Interruption | None) -> None:
        """Record the request once."""
        rewritten, self._rewritten = self._rewritten, None
        if rewritten is None:
            return
        answer, body = self._answer, self._copy.body
        is_stream = rewritten.priced is None or rewritten.priced.stream
        if answer:
            answer.raw_content = body
            is_stream = is_stream or is_event_stream(answer)
        self._tools.metrics.finish(
            rewritten,
            self._measuring,
            status=self._status,
            error=error,
            first_chunk_seconds=self._copy.first_chunk_seconds if is_stream else None,
            read_body=lambda: read_answer(answer) if answer else None,
            size=len(body or b""),
        )


def _read_status(answer: EnvoyMessage) -> int | None:
    status = answer.headers.get(":status", "")
    return int(status) if status.isdecimal() else None
