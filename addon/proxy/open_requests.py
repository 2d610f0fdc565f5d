"""The requests to models that are on their way, from when they arrive to the end of their answers.

Each is masked before it goes on, and recorded once when it has come to its end.
"""

import asyncio
import time
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import http
from mitmproxy.connection import Client

from addon.metrics.metrics import Measuring, Metrics
from addon.metrics.stages import Interruption, Rewritten, Run
from addon.proxy.carriers import HttpCarrier
from addon.proxy.flow_stages import read_received
from addon.proxy.read_request import ReadRequest
from addon.proxy.resending import Resending, is_refused
from addon.shared.carrier import leave_untouched
from addon.shared.masker import Masker, WholeRequest
from addon.shared.received import read_answer
from addon.shared.requests import is_event_stream
from addon.shared.response_copy import ResponseCopy
from masking.config import Settings
from masking.wire import Match


class _Open(NamedTuple):
    """A request on its way; `measuring` is None if there is nothing to measure, or not yet.

    `whole` is what may be sent once if it is refused; None for nothing.
    """

    rewritten: Rewritten
    copy: ResponseCopy
    measuring: Measuring | None = None
    whole: WholeRequest | None = None


class OpenRequests:
    """Masks, streams and records requests, by their flows."""

    def __init__(self, masker: Masker, metrics: Metrics) -> None:
        self._masker, self._metrics = masker, metrics
        self._resending = Resending(masker, metrics)
        self._open: WeakKeyDictionary[http.HTTPFlow, _Open] = WeakKeyDictionary()

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        return flow in self._open

    async def mask(
        self,
        flow: http.HTTPFlow,
        request: ReadRequest,
        match: Match,
        settings: Settings,
        run: Run,
    ) -> None:
        """Mask a request that has arrived, and have it measured."""
        started = time.perf_counter_ns()
        carrier = HttpCarrier(flow, request)
        received = read_received(flow, settings, match, run, request)
        self._open[flow] = found = _Open(leave_untouched(carrier, received), ResponseCopy())
        rewritten, rewrite, original, whole = await self._masker.mask(carrier, received)
        rewritten = replace(rewritten, hook_us=(time.perf_counter_ns() - started) // 1000)
        measuring = None
        if rewrite:
            measuring = self._metrics.measure(rewrite, original, observed=rewritten.observed)
        if flow in self._open:  # else the proxy ended meanwhile
            self._open[flow] = _Open(rewritten, found.copy, measuring, whole)
        if received.replay and measuring:
            # Nobody waits for it. So a replay does not outrun its records, and none is left out.
            await asyncio.wrap_future(measuring)

    def stream(self, flow: http.HTTPFlow) -> None:
        """Have an answer pass as it comes, with a copy kept, if it may be a stream."""
        found, response = self._open[flow], flow.response
        if response is None or is_refused(flow, found.whole):
            return  # another answer may take the place of this one
        # A stream can be an array, or lines of JSON. A request that could not be read may ask for
        # one, too.
        priced = found.rewritten.priced
        if priced is None or priced.stream or is_event_stream(response):
            response.stream = found.copy

    async def resend(self, flow: http.HTTPFlow) -> None:
        """Send a masked request whole if it was refused, and may be."""
        found = self._open.get(flow)
        if found is None or found.whole is None or not is_refused(flow, found.whole):
            return
        resent = await self._resending.resend(flow, found.whole, found.rewritten)
        if resent and flow in self._open:
            rewritten, measuring = resent
            measured = measuring or found.measuring
            self._open[flow] = found._replace(rewritten=rewritten, measuring=measured)

    def finish(self, flow: http.HTTPFlow, error: Interruption | None) -> None:
        """Record a request that has come to its end; give a recording what was streamed."""
        found = self._open.pop(flow, None)
        if found is None:
            return
        response = flow.response
        if response is not None and response.raw_content is None:
            response.data.content = found.copy.body
        self._metrics.finish(
            found.rewritten,
            found.measuring,
            status=response.status_code if response else None,
            error=error,
            first_chunk_seconds=found.copy.first_chunk_seconds,
            read_body=lambda: read_answer(response) if response else None,
            size=len(response.raw_content or b"") if response else 0,
        )

    def leave(self, client: Client) -> None:
        """Give up what is sent again for a client that has left."""
        self._resending.leave(client)

    def done(self) -> None:
        """Record all that have not come to their end when the proxy does."""
        self._resending.done()
        for flow in tuple(self._open):
            self.finish(flow, "proxy ended")
