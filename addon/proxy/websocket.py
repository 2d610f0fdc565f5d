"""OpenAI Responses over WebSockets (codex): masks whole histories, and records each answer.

A message of the client asks for one answer. Most hold only what is new, and the provider has the
rest: nothing old is in them, and they pass. One without `previous_response_id`, as after a
reconnect, holds the whole history, and is masked as a request over HTTP is.

With `mode = "auto"` a client that is known to fall back (`fallback.py`) is sent to HTTP, where it
posts whole histories: at the first message whose model and settings could have something masked,
its connection is closed, and it gets a 426 when it asks for another. With `mode = "http"` every
client gets a 426 at once. Where masking is only observed, none does.

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
from addon.metrics.held import HELD, Held
from addon.metrics.metrics import Measuring, Metrics
from addon.metrics.stages import Interruption, Received, Rewritten, Run
from addon.proxy.carriers import MessageCarrier
from addon.proxy.fallback import (
    UPGRADE_REQUIRED,
    Fallbacks,
    close_connection,
    find_known,
    is_bound,
)
from addon.proxy.flow_stages import read_received
from addon.proxy.original_body import are_flows_kept
from addon.shared.carrier import leave_untouched
from addon.shared.masker import Masker
from addon.shared.requests import is_opened, path_of
from masking.config import Settings
from masking.wire import RESPONSES, Match, find_format

logger = logging.getLogger("observation_masking")

_HELD_BY = "previous_response_id"
"""What the reason names where the setting can help."""

_ASKS = re.compile(rb'"type"\s*:\s*"response\.create"')
_PREPARES = re.compile(rb'"generate"\s*:\s*false')
_ENDS = re.compile(rb'"type"\s*:\s*"(?:response\.(?:completed|incomplete|failed)|error)"')
"""Inside a text its quotes would be escaped. A match is checked, if that matters."""

_MAX_TOLD = 1_000


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
        self._fallbacks = Fallbacks()
        self._told: LRUCache[tuple[str, str | None, Held | None], bool] = LRUCache(_MAX_TOLD)

    def refuse(self, flow: http.HTTPFlow) -> None:
        """Answer a request for a WebSocket with 426, if its client is to speak HTTP."""
        settings = self._read_settings()
        if flow.response is not None or not settings.any_changes or not self._find_format(flow):
            return
        mode = settings.websocket.mode
        if mode == "http" or (mode == "auto" and self._fallbacks.refuses(flow.request)):
            headers = {"upgrade": "HTTP/1.1", "connection": "Upgrade"}
            flow.response = http.Response.make(UPGRADE_REQUIRED, b"", headers)

    def note_http(self, request: http.Request) -> None:
        """Take note of a request to a model over HTTP: its client has fallen back, if it was to."""
        self._fallbacks.note_http(request)

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
            if messages[-1].dropped:
                return  # a recording keeps it
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
        held = self._find_why_held(flow.request, received, content)
        if held is None and not self._asked.get(flow) and await close_connection(flow):
            self._fallbacks.note_closed(flow.request)
            message.drop()
            self._tell(received, None, None)
            return
        carrier = MessageCarrier(flow, message, place)
        waiting = self._asked.setdefault(flow, deque())
        waiting.append(_Asked(started, leave_untouched(carrier, received)))
        rewritten, rewrite, original, _ = await self._masker.mask(carrier, received)
        if _HELD_BY in (rewritten.passed_through or ""):
            why = held or "answering"
            rewritten = replace(rewritten, passed_through=HELD[why])
            model = rewritten.priced.model if rewritten.priced else None
            self._tell(rewritten.received, why, model)
        rewritten = replace(rewritten, hook_us=int((perf_counter() - started) * 1_000_000))
        if rewrite:
            measuring = self._metrics.measure(rewrite, original, observed=rewritten.observed)
            self._histories[flow] = measuring
            waiting[-1] = waiting[-1]._replace(rewritten=rewritten, measuring=measuring)
            if received.replay:
                await asyncio.wrap_future(measuring)  # as a replayed POST does
        else:
            is_held = rewritten.passed_through in HELD.values()
            history = self._histories.get(flow) if is_held else None
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

    def _find_why_held(
        self, request: http.Request, received: Received, content: bytes
    ) -> Held | None:
        """Return why a client keeps its WebSocket; None if it is to speak HTTP instead."""
        known = find_known(request)
        if known is None:
            return "unknown"
        if received.settings.websocket.mode == "pass":
            return "pass"
        if self._fallbacks.is_left_alone(request):
            return "alone"
        document = _decode(content)
        model = document.get("model")
        received = received.choose_settings(model if isinstance(model, str) else None)
        if not received.settings.changes:
            return "unmasked"
        return "bound" if is_bound(received, document) else None

    def _tell(self, received: Received, why: Held | None, model: str | None) -> None:
        """Say once for each host and client what becomes of its conversations."""
        place = (received.host, received.client, why)
        if not received.settings.any_enabled or place in self._told:
            return
        self._told[place] = True
        client, advice = received.client or "its client", self._metrics.advice
        if why is None:
            logger.info(explain_closed(received.host, client, advice))
        elif line := explain_passed(received.host, client, model, why, advice):
            logger.warning(line)


def explain_closed(host: str, client: str, advice: Advice) -> str:
    """Return what is done to a client that is sent to HTTP, and what undoes that."""
    return (
        f"{host}: {client} is asked to speak HTTP in place of its WebSocket, so that its old tool "
        f"results can be masked. To leave it alone: {advice.set({'websocket.mode': 'pass'})}"
    )


def explain_passed(
    host: str, client: str, model: str | None, why: Held, advice: Advice
) -> str | None:
    """Return why nothing is masked in what a client sends, and what to do; None if that is known.

    model: the one that binds its reasoning, if that is why.
    """
    told = (
        f"{host}: {client} sends only what is new, over a WebSocket, so that old tool results are "
        "not masked"
    )
    if why == "pass":
        return (
            f"{told}. For it to send whole histories over HTTP, which are: "
            f"{advice.set({'websocket.mode': 'auto'})}"
        )
    if why == "unknown":
        return (
            f"{told}. It is not known to speak HTTP when a WebSocket is refused. If it does, have "
            f"it refused: {advice.set({'websocket.mode': 'http'})}"
        )
    if why == "bound":
        return (
            f"{told}. They would not be over HTTP either, because {model or 'the model'} would "
            "lose its reasoning, without a word. If the saving is worth that: "
            f"{advice.set({'schema1.bound_reasoning': 'drop'})}"
        )
    if why == "alone":
        return (
            f"{told}. It did not speak HTTP when it was refused one, and is left alone from now on"
        )
    return None


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
