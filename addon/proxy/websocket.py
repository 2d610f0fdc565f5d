"""OpenAI Responses over WebSockets (codex): masks whole histories, and records each answer.

A message of the client asks for one answer. Most hold only what is new, and the provider has the
rest: nothing old is in them, and they pass. One without `previous_response_id`, as after a
reconnect, holds the whole history, and is masked as a request over HTTP is.

With `mode = "auto"` a client that is known to fall back is sent to HTTP, where it posts whole
histories: at the first message whose model and settings could have something masked, its connection
is closed, and it gets a 426 when it asks for another. With `mode = "http"` every client gets a 426
at once. Where masking is only observed, none does.

Whatever goes wrong in here, the client's own bytes go out.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import orjson
from cachetools import LRUCache, TTLCache
from mitmproxy import ctx, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy import events
from mitmproxy.websocket import WebSocketMessage

from addon.agents import AGENTS
from addon.config_commands import Advice
from addon.engine import Engine, Exchange
from addon.once import Once
from addon.proxy.flows import ReadRequest, is_replayed
from addon.proxy.marks import (
    are_flows_kept,
    is_recording,
    keep_original_message,
    mark,
    was_changed,
)
from addon.records.words import LOSES_REASONING, SHORTENS_TOO
from addon.request import PlainMessage, client_of, digest_account, is_intercepted, path_of
from addon.skip_reasons import HELD, Held, find_skip_reason
from addon.stages import Interruption, Received
from masking.model import Decision
from masking.rewrite import Rewrite, keeps_reasoning
from masking.wire import RESPONSES, Match, find_format, find_responses_binding

logger = logging.getLogger("observation_masking")

_ASKS = re.compile(rb'"type"\s*:\s*"response\.create"')
_PREPARES = re.compile(rb'"generate"\s*:\s*false')
_ENDS = re.compile(rb'"type"\s*:\s*"(?:response\.(?:completed|incomplete|failed)|error)"')
"""Inside a text its quotes would be escaped. A match is checked, if that matters."""

_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


class Websockets:
    """Reads the WebSockets on which a model is asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: WeakKeyDictionary[http.HTTPFlow, deque[Exchange]] = WeakKeyDictionary()
        self._histories: WeakKeyDictionary[http.HTTPFlow, Exchange] = WeakKeyDictionary()
        self._fallbacks = Fallbacks()
        self._once = Once()

    def request(self, flow: http.HTTPFlow) -> None:
        """Answer a request for a WebSocket with 426, if its client is to speak HTTP."""
        settings, request = self._engine.settings, flow.request
        if flow.response is not None or not settings.any_changes or not self._may_read(flow):
            return
        mode = settings.websocket.mode
        if mode == "http" or (mode == "auto" and self._fallbacks.refuses(request)):
            headers = {"upgrade": "HTTP/1.1", "connection": "Upgrade"}
            flow.response = http.Response.make(426, b"", headers)

    def note_http(self, flow: http.HTTPFlow) -> None:
        """Note that a client sent a request over HTTP, which shows that it falls back."""
        if self._may_read(flow):
            self._fallbacks.note_http(flow.request)

    async def message(self, flow: http.HTTPFlow, match: Match) -> None:
        """Take the latest message of a connection, whichever side it comes from."""
        if flow.websocket is None or self._engine.config is None or not self._may_read(flow):
            return
        messages = flow.websocket.messages
        if not messages[-1].from_client:
            self._finish_answered(flow, messages[-1].content)
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

    def _may_read(self, flow: http.HTTPFlow) -> bool:
        return is_intercepted(flow.request.pretty_host, self._engine.settings.hosts)

    async def _ask(
        self, flow: http.HTTPFlow, match: Match, message: WebSocketMessage, place: int
    ) -> None:
        """Mask a message that asks for an answer, or have its client speak HTTP instead."""
        content = message.content
        if _PREPARES.search(content) and _decode(content).get("generate") is False:
            match = match._replace(purpose="count")  # it lays the ground for the next one
        exchange = self._engine.open(
            ReadRequest(flow.request),
            match,
            replay=is_replayed(flow),
            answers_masked=bool(flow.live) or flow.is_replay == "request",
        )
        if exchange is None:
            return
        why = self._find_why_held(flow.request, exchange.received, content)
        if why is None and not self._asked.get(flow) and await _close_connection(flow):
            self._fallbacks.note_closed(flow.request)
            message.drop()
            self._tell(exchange.received, None, None)
            return
        self._asked.setdefault(flow, deque()).append(exchange)
        carrier = MessageCarrier(flow, message, place)
        await exchange.mask(carrier)
        rewritten = exchange.rewritten
        if rewritten is None:
            return
        if find_skip_reason(rewritten.passed_through) == "response":
            why = why or "answering"
            exchange.pass_through(carrier, HELD[why])
            model = rewritten.priced.model if rewritten.priced else None
            self._tell(rewritten.received, why, model)
            if flow in self._histories:
                exchange.continues(self._histories[flow])
        elif exchange.is_measured:
            self._histories[flow] = exchange

    def _finish_answered(self, flow: http.HTTPFlow, content: bytes) -> None:
        """Record the oldest message that waits, if this one ends its answer."""
        waiting = self._asked.get(flow)
        if not waiting:
            return
        waiting[0].copy.note_first_chunk()
        waiting[0].note_event(content)
        status = find_end(content)
        if status is not None:
            waiting.popleft().finish(status, PlainMessage(content))

    def _interrupt(self, flow: http.HTTPFlow, interrupted: Interruption) -> None:
        for exchange in self._asked.pop(flow, ()):
            exchange.finish(interrupted=interrupted)

    def _find_why_held(
        self, request: http.Request, received: Received, content: bytes
    ) -> Held | None:
        """Return why a client keeps its WebSocket; None if it is to speak HTTP instead."""
        if not falls_back(request):
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
        return "bound" if _is_bound(received, document) else None

    def _tell(self, received: Received, why: Held | None, model: str | None) -> None:
        """Log once for each host and client what becomes of its conversations."""
        place = (received.host, received.client, why)
        if not received.settings.any_enabled or not self._once.is_first(place):
            return
        client, advice = received.client or "its client", self._engine.recorder.advice
        if why is None:
            logger.info(explain_closed(received.host, client, advice))
        elif line := explain_passed(received.host, client, model, why, advice):
            logger.warning(line)


class MessageCarrier:
    """The message that a client has just sent on a flow's WebSocket."""

    wire_body = betas = None  # it cannot be sent again from here

    def __init__(self, flow: http.HTTPFlow, message: WebSocketMessage, place: int) -> None:
        self._flow, self._message, self._place = flow, message, place

    @property
    def size(self) -> int:
        return len(self._message.content)

    @property
    def most_bytes(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self._message.content

    def encode(self, body: bytes) -> bytes:
        return body

    def mark(self, decisions: Sequence[Decision]) -> None:
        # The mark of a message that was changed stays.
        if are_flows_kept(ctx.options) and not was_changed(self._flow):
            mark(self._flow, decisions)

    def replace(self, rewrite: Rewrite, received: Received) -> None:
        if received.settings.recording.keep_original and is_recording(ctx.options):
            keep_original_message(self._flow, self._place, self._message.content)
        self._message.content = rewrite.body


def explain_closed(host: str, client: str, advice: Advice) -> str:
    """Return what is done to a client that is sent to HTTP, and what undoes that."""
    return (
        f"{host}: {client} is asked to speak HTTP in place of its WebSocket, so that its old tool "
        f"results can be masked. To leave it alone: {advice.change({'websocket.mode': 'pass'})}"
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
            f"{advice.change({'websocket.mode': 'auto'})}"
        )
    if why == "unknown":
        return (
            f"{told}. It is not known to speak HTTP when a WebSocket is refused. If it does, have "
            f"it refused: {advice.change({'websocket.mode': 'http'})}"
        )
    if why == "bound":
        return (
            f"{told}. They would not be over HTTP either, because {model or 'the model'} would "
            f"silently lose its reasoning. {SHORTENS_TOO}"
            f"{advice.change({'arrival.enabled': True})}. To mask old results, too, but "
            f"{LOSES_REASONING}: {advice.change({'schema1.bound_reasoning': 'drop'})}"
        )
    if why == "alone":
        return f"{told}. It did not speak HTTP when it was refused one, and is left alone for a day"
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
    event = _decode(content) if _ENDS.search(content) else {}
    kind = event.get("type")
    if kind == "error":
        status = event.get("status")
        return status if isinstance(status, int) else 500
    return 200 if kind in _LAST_EVENTS else None


def _decode(content: bytes) -> dict[str, object]:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


# Clients that go on over HTTP once their WebSocket is closed and the next one is refused.
#
# The request for a WebSocket names no model, so the first one passes. What a client then asks for
# shows whether anything could be masked. If so, the connection is closed before the provider has
# seen the message, and the client gets a 426 when it comes back. This was tried with each agent
# that has a `Fallback`: codex reconnects without a word, and Copilot CLI does not even ask for a
# second one.

_MAX_SESSIONS = 1_000
_MAX_CLOSED = 3
"""So often connections of a client are closed without anything coming over HTTP in between."""

ALONE_SECONDS = 86_400.0
"""How long a client that did not fall back is left alone: one broken session tells little of the
others, and a proxy may run for weeks. To find out costs a session one more try of its own."""

_FALLBACKS = tuple(agent.fallback for agent in AGENTS if agent.fallback)
_NAMES = tuple(name for fallback in _FALLBACKS for name in fallback.names)


class Session(NamedTuple):
    """One conversation of a client, as far as its requests tell it apart."""

    host: str
    client: str | None
    name: str | bytes


class Fallbacks:
    """How far each session is on its way from a WebSocket to HTTP.

    A client that was refused once and asks again, without anything over HTTP in between, does not
    fall back. Nor does one whose connections were closed several times and that never came over
    HTTP. Either is left alone for `ALONE_SECONDS`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._was_refused: LRUCache[Session, bool] = LRUCache(_MAX_SESSIONS)
        self._closed: LRUCache[tuple[str, str | None], int] = LRUCache(_MAX_SESSIONS)
        self._alone: TTLCache[tuple[str, str | None], bool] = TTLCache(
            _MAX_SESSIONS, ALONE_SECONDS, clock
        )

    def note_closed(self, request: http.Request) -> None:
        """Note that a connection was closed: the next one of its session is to be refused."""
        session = find_session(request)
        self._was_refused[session] = False
        count = self._closed.get(session[:2], 0) + 1
        self._closed[session[:2]] = count
        if count >= _MAX_CLOSED:
            self._alone[session[:2]] = True

    def refuses(self, request: http.Request) -> bool:
        """Whether a request for a WebSocket is to be refused; that it is, is noted."""
        session = find_session(request)
        was_refused = self._was_refused.get(session)
        if was_refused is None:
            return False
        if was_refused:
            del self._was_refused[session]
            self._alone[session[:2]] = True
            return False
        self._was_refused[session] = True
        return True

    def note_http(self, request: http.Request) -> None:
        """Note a request over HTTP: its session has fallen back."""
        if not self._was_refused and not self._closed:
            return
        session = find_session(request)
        self._was_refused.pop(session, None)
        self._closed.pop(session[:2], None)

    def is_left_alone(self, request: http.Request) -> bool:
        """Whether a client did not fall back when it was to."""
        return find_session(request)[:2] in self._alone


def find_session(request: http.Request) -> Session:
    """Return what tells the session of a request apart."""
    named = (request.headers[name] for name in _NAMES if name in request.headers)
    name = next(named, None) or digest_account(request)
    return Session(request.pretty_host, client_of(request), name)


def falls_back(request: http.Request) -> bool:
    """Whether a request is of a client that is known to fall back."""
    agent = request.headers.get("user-agent", "")
    for fallback in _FALLBACKS:
        found = fallback.agent.match(agent)
        if found and fallback.header in request.headers:
            major, minor = found.groups()
            return (int(major), int(minor)) >= fallback.since
    return False


def _is_bound(received: Received, request: Mapping[str, object]) -> bool:
    """Whether nothing of a conversation could be masked because of the model's reasoning.

    received: with the settings that hold for the model.
    request: the first one of the conversation, which has no reasoning in it yet.
    """
    model, include = request.get("model"), request.get("include")
    is_encrypted = isinstance(include, list) and "reasoning.encrypted_content" in include
    named = model if isinstance(model, str) else None
    binding = find_responses_binding(named, is_encrypted=is_encrypted)
    return keeps_reasoning(binding, received.settings.policy)


async def _close_connection(flow: http.HTTPFlow) -> bool:
    """Close a flow's WebSocket as if the provider had hung up; whether that can be done.

    Call it in a hook of the flow: what it causes happens after the hook.
    """
    proxy = ctx.master.addons.get("proxyserver")
    if not isinstance(proxy, Proxyserver) or flow.client_conn.id not in proxy.connections:
        return False
    handler = proxy.connections[flow.client_conn.id]
    # Behind another proxy the flow's server is not what the connection is made to.
    servers = [each for each in handler.transports if each is not flow.client_conn]
    for server in servers:
        await handler.server_event(events.ConnectionClosed(server))
    return bool(servers)
