"""The requests to models in a recorded flow: one over HTTP, or many over a WebSocket."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mitmproxy import http
from mitmproxy.websocket import WebSocketMessage

from addon.proxy.marks import find_original, find_original_message
from addon.proxy.websocket import asks_for_answer, find_end, find_socket_format
from addon.request import find_wire_format, is_signed
from masking.wire import Match


class Exchange(NamedTuple):
    """A request and its answer, both decoded.

    body: as the client wrote it; None if it cannot be decoded. Over a WebSocket it is the whole
        history, put together from what the client sent bit by bit.
    sent: as it was sent; None if it cannot be decoded.
    answer: None if there is none, or if it answers something else than `body`.
    obstacle: why it was not taken, or could not be masked; None if neither.
    """

    match: Match
    when: datetime
    body: bytes | None
    sent: bytes | None
    answer: bytes | None
    obstacle: str | None = None


def find_exchanges(flow: http.HTTPFlow) -> Iterator[Exchange]:
    """Yield the requests to models in a flow, in order. Raises ValueError for damaged originals."""
    match = find_wire_format(flow.request)
    if match is not None:
        yield _read_http(flow, match)
    elif (match := find_socket_format(flow.request)) is not None and flow.websocket is not None:
        yield from _read_socket(flow, match, flow.websocket.messages)


def _read_http(flow: http.HTTPFlow, match: Match) -> Exchange:
    original, sent = find_original(flow), _decode(flow.request)
    body = sent if original is None else original
    # What the provider reported for a masked request says nothing about the client's own.
    answer = _decode(flow.response) if flow.response and original is None else None
    when = datetime.fromtimestamp(flow.request.timestamp_start, UTC)
    return Exchange(match, when, body, sent, answer, _find_obstacle(flow, body))


def _find_obstacle(flow: http.HTTPFlow, body: bytes | None) -> str | None:
    if is_signed(flow.request):
        return "signed"
    if body is None:
        return "no body, or one of an unknown encoding"
    if flow.response is not None and not 200 <= flow.response.status_code < 300:
        return f"status {flow.response.status_code}"
    return None


def _decode(message: http.Message) -> bytes | None:
    try:
        return message.content
    except ValueError:
        return None


@dataclass(slots=True)
class _Connection:
    """What a connection remembers: the latest response, and everything up to it.

    is_masked: whether the provider has something else than the client.
    """

    latest: str | None = None
    items: list[Any] = field(default_factory=list)
    is_masked: bool = False

    def read(self, request: dict[str, Any], *, is_masked: bool) -> list[Any] | None:
        """Return the whole history of a request; None if its beginning is not known."""
        given = request.get("input")
        items = given if isinstance(given, list) else []
        previous = request.get("previous_response_id")
        if previous is None:
            self.is_masked = is_masked
            return items
        return [*self.items, *items] if previous == self.latest else None


def _read_socket(
    flow: http.HTTPFlow, match: Match, messages: list[WebSocketMessage]
) -> Iterator[Exchange]:
    connection = _Connection()
    answers = iter(_find_answers(messages))
    for place, message in enumerate(messages):
        if not message.from_client or message.dropped or not asks_for_answer(message.content):
            continue
        original, answer = find_original_message(flow, place), next(answers, None)
        body = message.content if original is None else original
        request = _load(body)
        items = connection.read(request, is_masked=original is not None)
        if items is not None:
            kept = {key: value for key, value in request.items() if key not in _OF_THE_SOCKET}
            body = json.dumps({**kept, "input": items}, ensure_ascii=False).encode()
        status = None if answer is None else find_end(answer)
        purpose = "count" if request.get("generate") is False else match.purpose
        yield Exchange(
            match._replace(purpose=purpose),
            datetime.fromtimestamp(message.timestamp, UTC),
            body,
            message.content,
            None if connection.is_masked else answer,
            None if status in (None, 200) else f"status {status}",
        )
        response = _load(answer).get("response") if answer is not None else None
        said = response if isinstance(response, dict) else {}
        connection.latest = said.get("id") if items is not None else None
        connection.items = [*(items or ()), *said.get("output", ())]


_OF_THE_SOCKET = ("type", "previous_response_id", "generate")
"""What a message has that a request over HTTP with the whole history has not."""


def _find_answers(messages: list[WebSocketMessage]) -> Iterator[bytes]:
    """Yield the message that ends each answer."""
    for message in messages:
        if not message.from_client and find_end(message.content) is not None:
            yield message.content


def _load(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
