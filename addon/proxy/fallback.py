"""Clients that go on over HTTP once their WebSocket is closed and the next one is refused.

The request for a WebSocket names no model, so the first one passes. What a client then asks for
shows whether anything could be masked; if so the connection is closed, before the provider has seen
the message, and the client gets a 426 when it comes back. This was tried with each client of
the table: codex reconnects without a word, and Copilot CLI does not even ask for a second one.

fast-agent is not in the table. Its requests look like those of any program on OpenAI's package. It
tries a WebSocket again at every turn, prints a line each time, and fails if it may use nothing
else.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from cachetools import LRUCache
from mitmproxy import ctx, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy import events

from addon.shared.client import find_client
from addon.shared.requests import digest_account
from addon.stages import Received
from masking.rewrite import keeps_reasoning
from masking.wire import find_responses_binding

UPGRADE_REQUIRED = 426

_MAX_SESSIONS = 1_000
_MAX_CLOSED = 3
"""So often connections of a client are closed without anything coming over HTTP in between."""

_SESSION = ("thread-id", "session-id")
"""Where codex names the conversation. Its cookies and its token change within one."""


class _Client(NamedTuple):
    """A client that was seen to fall back: its User-Agent, from a version on, and a header."""

    agent: re.Pattern[str]
    since: tuple[int, int]
    header: str


_CLIENTS: Mapping[str, _Client] = {
    "codex": _Client(re.compile(r"codex[^/]*/(\d+)\.(\d+)", re.IGNORECASE), (0, 169), "originator"),
    "Copilot CLI": _Client(re.compile(r"OpenAI/JS (\d+)\.(\d+)"), (5, 20), "x-initiator"),
}


class Session(NamedTuple):
    """One conversation of a client, as far as its requests tell it apart."""

    host: str
    client: str | None
    name: str | bytes


class Fallbacks:
    """How far each session is on its way from a WebSocket to HTTP.

    A client that was refused once and asks again, without anything over HTTP in between, does not
    fall back. Nor does one whose connections were closed several times and that never came over
    HTTP. Either is left alone from then on.
    """

    def __init__(self) -> None:
        self._was_refused: LRUCache[Session, bool] = LRUCache(_MAX_SESSIONS)
        self._closed: LRUCache[tuple[str, str | None], int] = LRUCache(_MAX_SESSIONS)
        self._alone: LRUCache[tuple[str, str | None], bool] = LRUCache(_MAX_SESSIONS)

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
    named = (request.headers[name] for name in _SESSION if name in request.headers)
    name = next(named, None) or digest_account(request)
    return Session(request.pretty_host, find_client(request), name)


def find_known(request: http.Request) -> str | None:
    """Return the name of a client that is known to fall back; None for any other."""
    agent = request.headers.get("user-agent", "")
    for name, client in _CLIENTS.items():
        found = client.agent.match(agent)
        if found and client.header in request.headers:
            major, minor = found.groups()
            return name if (int(major), int(minor)) >= client.since else None
    return None


def is_bound(received: Received, request: Mapping[str, object]) -> bool:
    """Whether nothing of a conversation could be masked because of the model's reasoning.

    received: with the settings that hold for the model.
    request: the first one of the conversation, which has no reasoning in it yet.
    """
    model, include = request.get("model"), request.get("include")
    is_encrypted = isinstance(include, list) and "reasoning.encrypted_content" in include
    named = model if isinstance(model, str) else None
    binding = find_responses_binding(named, is_encrypted=is_encrypted)
    return keeps_reasoning(binding, received.settings.policy)


async def close_connection(flow: http.HTTPFlow) -> bool:
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
