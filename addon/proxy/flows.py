"""Requests to models as mitmproxy's flows carry them: masked, streamed, recorded."""

import re
from collections.abc import Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

from mitmproxy import ctx, http
from mitmproxy.connection import Client
from mitmproxy.net import encoding

from addon.content import estimate_bytes, read_body
from addon.engine import Engine, Exchange
from addon.proxy.marks import are_flows_kept, is_recording, keep_original, mark
from addon.proxy.resend import SecondTries
from addon.request import BETAS, HeaderFields, name_betas
from addon.stages import Interruption, Received
from masking.model import Decision
from masking.rewrite import Rewrite
from masking.wire import Match


class Flows:
    """Reads the requests to models over HTTP, and their answers.

    It contains the flows of requests that are on their way.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._second_tries = SecondTries()
        self._open: WeakKeyDictionary[http.HTTPFlow, Exchange] = WeakKeyDictionary()

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        return flow in self._open

    async def request(self, flow: http.HTTPFlow, match: Match) -> None:
        """Mask a request that has arrived."""
        request = ReadRequest(flow.request)
        exchange = self._engine.open(
            request,
            match,
            replay=is_replayed(flow),
            answers_masked=bool(flow.live) or flow.is_replay == "request",
        )
        if exchange is not None:
            self._open[flow] = exchange
            await exchange.mask(HttpCarrier(flow, request))

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Have an answer pass as it comes, with a copy kept, if it may be a stream."""
        exchange, response = self._open.get(flow), flow.response
        if exchange is None or response is None:
            return
        exchange.begin_answer(response.status_code)
        if response.stream:
            return
        if self._may_resend(flow, exchange):
            return  # another answer may take the place of this one
        if exchange.may_stream(response):
            response.stream = exchange.copy

    async def response(self, flow: http.HTTPFlow) -> None:
        """Record a request that was answered, after a second try if the first was refused."""
        exchange = self._open.get(flow)
        if exchange is None:
            return
        if self._may_resend(flow, exchange) and (second := exchange.begin_second()) is not None:
            keeps = exchange.received.settings.recording.keep_original
            if not second.is_own and keeps and is_recording(ctx.options):
                keep_original(flow, flow.request.content or b"")
            status = await self._second_tries.send(
                flow, second.body, is_own=second.is_own, betas=second.betas
            )
            exchange.end_second(status, HttpCarrier(flow))
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """Record a request whose response ended early."""
        self._finish(flow, find_interruption(flow))

    def client_disconnected(self, client: Client) -> None:
        """Give up what is sent again for a client that has left."""
        self._second_tries.give_up(client)

    def done(self) -> None:
        """Record all that have not come to their end when the proxy does."""
        self._second_tries.give_up_all()
        for flow in tuple(self._open):
            self._finish(flow, "proxy ended")

    def _may_resend(self, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        status = flow.response.status_code if flow.response else 0
        return flow.is_replay is None and exchange.may_resend(status, flow.request.raw_content)

    def _finish(self, flow: http.HTTPFlow, interrupted: Interruption | None = None) -> None:
        """Record a request; give a recording what was streamed."""
        exchange, response = self._open.pop(flow, None), flow.response
        if exchange is None:
            return
        if response is not None and response.raw_content is None:
            response.data.content = exchange.copy.body
        status = response.status_code if response else None
        exchange.finish(status, response, interrupted=interrupted)


class ReadRequest:
    """A request of which each part is read once: mitmproxy parses it anew for whoever asks.

    It says what the request did as it arrived; its body is the one that it has when asked for it.
    """

    def __init__(self, request: http.Request) -> None:
        self._request = request
        self.method: str = request.method
        self.path: str = request.path
        self.pretty_host: str = request.pretty_host

    @cached_property
    def headers(self) -> HeaderFields:
        """Its header fields."""
        fields = self._request.headers.fields
        return HeaderFields((_decode(name), _decode(value)) for name, value in fields)

    @property
    def trailers(self) -> http.Headers | None:
        """The fields behind its body, as HTTP/2 may have them."""
        return self._request.trailers

    @property
    def raw_content(self) -> bytes | None:
        """Its body as on the wire; None if it was not kept."""
        return self._request.raw_content


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


class HttpCarrier:
    """The request of a flow; `request` is what was read of it, if anything was."""

    def __init__(self, flow: http.HTTPFlow, request: ReadRequest | None = None) -> None:
        self._flow, self._request = flow, request or ReadRequest(flow.request)

    @property
    def size(self) -> int:
        return len(self._flow.request.raw_content or b"")

    @property
    def most_bytes(self) -> int:
        return estimate_bytes(self._request)

    @property
    def wire_body(self) -> bytes | None:
        return self._flow.request.raw_content

    @property
    def betas(self) -> tuple[str, ...]:
        return tuple(self._flow.request.headers.get_all(BETAS))

    def read(self) -> bytes:
        return read_body(self._request)

    def encode(self, body: bytes) -> bytes:
        coding = self._request.headers.get("content-encoding", "identity")
        return encoding.encode(body, coding)

    def mark(self, decisions: Sequence[Decision]) -> None:
        if are_flows_kept(ctx.options):
            mark(self._flow, decisions)

    def replace(self, rewrite: Rewrite, received: Received) -> None:
        if received.settings.recording.keep_original and is_recording(ctx.options):
            keep_original(self._flow, self._flow.request.content or b"")
        self._flow.request.content = rewrite.body
        if (betas := name_betas(self.betas, rewrite.betas)) != self.betas:
            self._flow.request.headers.set_all(BETAS, betas)


def is_replayed(flow: http.HTTPFlow) -> bool:
    """Whether a flow comes from a recording, or is sent again by mitmproxy."""
    return not flow.live or flow.is_replay is not None


_BY_CLIENT = re.compile(r"stream (reset|closed) by client \((\w+)\)")
_LEAVES = ("CANCEL", "NO_ERROR")
"""The codes of HTTP/2 with which a client gives up; a provider that fails has others."""


def find_interruption(flow: http.HTTPFlow) -> Interruption | None:
    """Return who ended an answer early; mitmproxy's own message may quote what was sent."""
    if flow.error is None:
        return None
    if not flow.client_conn.connected:
        return "client left"
    # Of HTTP/2 mitmproxy says "reset by client" whichever side has reset a stream. Its message may
    # also quote what a provider sent, so it has to match as a whole.
    found = _BY_CLIENT.fullmatch(flow.error.msg)
    left = found and (found[1] == "closed" or (flow.request.is_http2 and found[2] in _LEAVES))
    return "client left" if left else "provider failed"
