"""OpenAI Responses over WebSockets (codex): masks whole histories, and records each answer.

A message of the client asks for one answer. Most hold only what is new, and the provider has the
rest: nothing old is in them, and they pass. One without `previous_response_id`, as after a
reconnect, holds the whole history, and is masked as a request over HTTP is. With `mode = "http"`
the client is told 426 when it asks for a WebSocket; codex then posts whole histories. Where masking
is only observed, it is not told.

Whatever goes wrong in here, the client's own bytes go out.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple
from weakref import WeakKeyDictionary

import orjson
from cachetools import LRUCache
from mitmproxy import ctx, http
from mitmproxy.proxy.layers.websocket import Fragmentizer
from mitmproxy.websocket import WebSocketMessage

from addon.metrics.advice import Advice
from addon.metrics.metrics import Measuring, Metrics
from addon.metrics.stages import Interruption, Received, Rewritten, Run
from addon.proxy.carriers import MessageCarrier
from addon.proxy.flow_stages import read_received
from addon.proxy.original_body import are_flows_kept
from addon.shared.carrier import leave_untouched
from addon.shared.masker import Masker
from addon.shared.requests import is_opened, path_of
from masking.config import Settings
from masking.wire.formats import Match, find_format
from masking.wire.responses import RESPONSES

logger = logging.getLogger("observation_masking")

HELD = 'the provider holds the history (websocket.mode = "pass")'
"""Why most messages pass: what a record says."""

_HELD_BY = "previous_response_id"
"""What the reason names where the setting can help."""

_ASKS = re.compile(rb'"type"\s*:\s*"response\.create"')
_PREPARES = re.compile(rb'"generate"\s*:\s*false')
_ENDS = re.compile(rb'"type"\s*:\s*"(?:response\.(?:completed|incomplete|failed)|error)"')
"""Inside a text its quotes would be escaped. A match is checked, if that matters."""

_UPGRADE_REQUIRED = 426
_MAX_HOSTS = 1_000


class _Asked(NamedTuple):
    """A message that waits for its answer; `started` is `perf_counter` when it came.

    history: of a message with only what is new, the latest on its connection with a history.
    """

    started: float
    rewritten: Rewritten
    measuring: Measuring | None = None
    history: Measuring | None = None
    first_chunk_seconds: float | None = None


class Websockets:
    """The WebSockets of a run. Connections that no model is behind are left alone."""

    def __init__(
        self,
        masker: Masker,
        metrics: Metrics,
        read_settings: Callable[[], Settings],
        read_run: Callable[[], Run],
    ) -> None:
        self._masker, self._metrics = masker, metrics
        self._read_settings, self._read_run = read_settings, read_run
        self._asked: WeakKeyDictionary[http.HTTPFlow, deque[_Asked]] = WeakKeyDictionary()
        self._histories: WeakKeyDictionary[http.HTTPFlow, Measuring] = WeakKeyDictionary()
        self._told: LRUCache[str, bool] = LRUCache(_MAX_HOSTS)

    def refuse(self, flow: http.HTTPFlow) -> None:
        """Answer a request for a WebSocket with 426, if the configuration wants HTTP."""
        settings = self._read_settings()
        wants_http = settings.websocket.mode == "http" and settings.change_some
        if wants_http and flow.response is None and self._find_format(flow):
            headers = {"upgrade": "HTTP/1.1", "connection": "Upgrade"}
            flow.response = http.Response.make(_UPGRADE_REQUIRED, b"", headers)

    async def message(self, flow: http.HTTPFlow) -> None:
        """Take the latest message of a connection, whichever side it comes from."""
        match = self._find_format(flow)
        if match is None or flow.websocket is None:
            return
        messages = flow.websocket.messages
        if not messages[-1].from_client:
            self._finish_answered(flow, messages[-1])
        elif asks_for_answer(messages[-1].content):
            await self._ask(flow, match, messages[-1], len(messages) - 1)
        if not are_flows_kept(ctx.options):
            del messages[:-1]

    def end(self, flow: http.HTTPFlow) -> None:
        """Record what has had no answer when a connection ends."""
        by_client = flow.websocket is not None and flow.websocket.closed_by_client
        self._interrupt(flow, "client left" if by_client else "provider failed")

    def done(self) -> None:
        """Record what has had no answer when the proxy ends."""
        for flow in tuple(self._asked):
            self._interrupt(flow, "proxy ended")

    def _find_format(self, flow: http.HTTPFlow) -> Match | None:
        """Return the format of what a client says on a connection, if we may read it."""
        hosts = self._read_settings().hosts
        match = find_socket_format(flow.request)
        return match if match and is_opened(flow.request.pretty_host, hosts) else None

    async def _ask(
        self, flow: http.HTTPFlow, match: Match, message: WebSocketMessage, place: int
    ) -> None:
        started, content = perf_counter(), message.content
        if _PREPARES.search(content) and _is_preparing(content):
            match = match._replace(purpose="count")
        received = read_received(flow, self._read_settings(), match, self._read_run())
        carrier = MessageCarrier(flow, message, place)
        waiting = self._asked.setdefault(flow, deque())
        waiting.append(_Asked(started, leave_untouched(carrier, received)))
        rewritten, rewrite, original, _ = await self._masker.mask(carrier, received)
        if _HELD_BY in (rewritten.passed_through or ""):
            rewritten = replace(rewritten, passed_through=HELD)
            self._tell(received)
        rewritten = replace(rewritten, hook_us=int((perf_counter() - started) * 1_000_000))
        if rewrite:
            measuring = self._metrics.measure(rewrite, original, observed=rewritten.observed)
            self._histories[flow] = measuring
            waiting[-1] = waiting[-1]._replace(rewritten=rewritten, measuring=measuring)
            if received.replay:
                await asyncio.wrap_future(measuring)  # as a replayed POST does
        else:
            history = self._histories.get(flow) if rewritten.passed_through == HELD else None
            waiting[-1] = waiting[-1]._replace(rewritten=rewritten, history=history)

    def _finish_answered(self, flow: http.HTTPFlow, message: WebSocketMessage) -> None:
        """Record the oldest message that waits, if this one ends its answer."""
        waiting = self._asked.get(flow)
        if not waiting:
            return
        if waiting[0].first_chunk_seconds is None:
            seconds = perf_counter() - waiting[0].started
            waiting[0] = waiting[0]._replace(first_chunk_seconds=seconds)
        content = message.content
        status = find_end(content)
        if status is not None:
            self._finish(waiting.popleft(), status=status, read_body=lambda: content)

    def _interrupt(self, flow: http.HTTPFlow, error: Interruption) -> None:
        for asked in self._asked.pop(flow, ()):
            self._finish(asked, error=error)

    def _finish(
        self,
        asked: _Asked,
        *,
        status: int | None = None,
        error: Interruption | None = None,
        read_body: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self._metrics.finish(
            asked.rewritten,
            asked.measuring,
            history=asked.history,
            status=status,
            error=error,
            first_chunk_seconds=asked.first_chunk_seconds,
            read_body=read_body,
        )

    def _tell(self, received: Received) -> None:
        """Say once for each host that its conversations are not masked."""
        if received.settings.decide_some and received.host not in self._told:
            self._told[received.host] = True
            logger.warning(explain_passed(received.host, self._metrics.advice))


def explain_passed(host: str, advice: Advice) -> str:
    """Return why nothing is masked in what a host's client sends, and what to do."""
    return (
        f"{host}: its client sends only what is new, over a WebSocket, so that old tool results "
        "are not masked. For codex to send whole histories over HTTP, which are: "
        f"{advice.set({'websocket.mode': 'http'})}"
    )


def find_socket_format(request: http.Request) -> Match | None:
    """Return the format of what a client says on a WebSocket that it asks for."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        return None
    match = find_format("POST", path_of(request))
    return match if match is not None and match.wire is RESPONSES else None


def asks_for_answer(content: bytes) -> bool:
    """Whether a client's message asks for an answer."""
    return _ASKS.search(content) is not None


def find_end(content: bytes) -> int | None:
    """Return the status with which a server's message ends an answer; None if it does not."""
    return _find_status(_decode(content)) if _ENDS.search(content) else None


def send_messages_whole() -> None:
    """Have mitmproxy send a changed text message in one frame.

    It would else cut it every 4,000 bytes, within characters, too, and spoil those.
    """
    Fragmentizer.FRAGMENT_SIZE = 1 << 40


def _is_preparing(content: bytes) -> bool:
    """Whether a message only lays the ground for the next one, without an answer."""
    return _decode(content).get("generate") is False


def _find_status(event: dict[str, object]) -> int | None:
    """Return the status with which an answer ends; None if the event does not end it."""
    kind = event.get("type")
    if kind == "error":
        status = event.get("status")
        return status if isinstance(status, int) else 500
    return 200 if kind in _LAST_EVENTS else None


_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


def _decode(content: bytes) -> dict[str, object]:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
