"""Recordings of mitmproxy: their flows, the requests to models in them, and how they are replayed.

A recording whose name ends in `.xz` is compressed. Each request of a session repeats the one before
it, so a long session shrinks to less than a hundredth; gzip, which looks back over 32 kB, leaves a
fifth of it.
"""

import json
import lzma
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from mitmproxy import http
from mitmproxy.exceptions import FlowReadException
from mitmproxy.io import FlowReader, FlowWriter
from mitmproxy.websocket import WebSocketMessage

from addon.counts import pluralize, pluralize_part
from addon.proxy.marks import (
    find_original,
    find_original_message,
    has_original_messages,
    was_changed,
)
from addon.proxy.websocket import asks_for_answer, find_end, find_socket_format
from addon.replay.disk import MAX_BYTES, bound, open_regular
from addon.replay.replay import RecordedRequest
from addon.request import client_of, digest_account, find_wire_format, is_signed, path_of
from masking.config import may_hold_credential
from masking.wire import Match, read_cleared, read_usage

_XZ = ".xz"

_DAMAGE = (
    *(FlowReadException, lzma.LZMAError, EOFError),
    *(LookupError, AttributeError, AssertionError),
)
"""What mitmproxy's reader and the decompressor raise if a file is not a recording."""


def name_of(path: Path) -> str:
    """Return the name of a recording without its ending."""
    return Path(path.name.removesuffix(_XZ)).stem


def read_flows(path: Path) -> Iterator[http.HTTPFlow]:
    """Yield the HTTP flows of a recording; flows of other kinds are skipped.

    Raises OSError if the file cannot be opened, and ValueError, with its name, if it ends in the
    middle of a flow or is not a recording of mitmproxy's at all.
    """
    with _open(path) as file:
        try:
            for flow in FlowReader(file).stream():
                if isinstance(flow, http.HTTPFlow):
                    yield flow
        except _DAMAGE as error:
            raise ValueError(f"{path} is no complete mitmproxy recording: {error}") from error


def write_flows(path: Path, flows: Iterable[http.HTTPFlow]) -> int:
    """Write a recording in the place of the file; return how many flows it holds."""
    count = 0
    with cast(BinaryIO, (lzma.open if path.suffix == _XZ else open)(path, "wb")) as file:
        writer = FlowWriter(file)
        for flow in flows:
            writer.add(flow)
            count += 1
    return count


def _open(path: Path) -> BinaryIO:
    file = open_regular(path)
    if path.suffix != _XZ:
        return file
    # A recording has no lines.
    size = os.fstat(file.fileno()).st_size
    return bound(lzma.LZMAFile(file), path, size, longest_line=MAX_BYTES)


class Exchange(NamedTuple):
    """A request to a model and its answer, both decoded: over HTTP, or one of many on a WebSocket.

    body: the request as the client wrote it; None if it cannot be decoded. On a WebSocket it is
        the whole history, put together from the messages.
    sent: the request as it was sent; None if it cannot be decoded.
    counted: what the provider counted, where that is not `body`: as `sent`, but always with the
        whole history. None if that is not known, or the same.
    answer: the one to what was sent; None if there is none.
    obstacle: why the provider refused the request or why it could not be masked; None if neither.
    """

    match: Match
    when: datetime
    body: bytes | None
    sent: bytes | None
    counted: bytes | None
    answer: bytes | None
    obstacle: str | None = None


def find_exchanges(flow: http.HTTPFlow) -> Iterator[Exchange]:
    """Yield the requests to models in a flow, in order. Raises ValueError for damaged originals."""
    match = find_wire_format(flow.request)
    if match is not None:
        original, sent = find_original(flow), _decode(flow.request)
        body = sent if original is None else original
        counted = None if original is None else sent
        answer = _decode(flow.response) if flow.response else None
        when = datetime.fromtimestamp(flow.request.timestamp_start, UTC)
        yield Exchange(match, when, body, sent, counted, answer, _find_obstacle(flow, body))
    elif (match := find_socket_format(flow.request)) is not None and flow.websocket is not None:
        yield from _find_socket_exchanges(flow, match, flow.websocket.messages)


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


_SOCKET_KEYS = ("type", "previous_response_id", "generate")
"""Keys of a message that a request over HTTP with the whole history does not have."""


def _find_socket_exchanges(
    flow: http.HTTPFlow, match: Match, messages: list[WebSocketMessage]
) -> Iterator[Exchange]:
    ends = (
        message.content
        for message in messages
        if not message.from_client and find_end(message.content) is not None
    )
    latest: str | None = None  # the id of the latest response
    history: _Items | None = None  # all items up to it, as the client has them
    sent_history: _Items | None = None  # and as the provider has them; the same list if it is that
    for place, message in enumerate(messages):
        if not message.from_client or message.dropped or not asks_for_answer(message.content):
            continue
        original, answer = find_original_message(flow, place), next(ends, None)
        body = message.content if original is None else original
        request = _load(body)

        # Put the whole history together, unless its beginning is not known.
        counted, previous = None, request.get("previous_response_id")
        is_new = previous is None
        items = (
            _join(None if is_new else history, request) if is_new or latest == previous else None
        )
        sent_items = items
        if items is not None:
            body = _write(request, items)
            if original is not None or (not is_new and sent_history is not history):
                sent = _load(message.content)
                sent_items = _join(None if is_new else sent_history, sent)
                counted = _write(sent, sent_items)

        status = None if answer is None else find_end(answer)
        purpose = "count" if request.get("generate") is False else match.purpose
        yield Exchange(
            match._replace(purpose=purpose),
            datetime.fromtimestamp(message.timestamp, UTC),
            body,
            message.content,
            counted,
            answer,
            None if status in (None, 200) else f"status {status}",
        )

        response = _load(answer).get("response") if answer is not None else None
        said = response if isinstance(response, dict) else {}
        latest = said.get("id") if items is not None else None
        history = [*(items or ()), *said.get("output", ())]
        is_same = sent_items is items
        sent_history = history if is_same else [*(sent_items or ()), *said.get("output", ())]


_Items = list[Any]


def _join(history: _Items | None, request: dict[str, Any]) -> _Items:
    """Return the items of a request behind those of the history that it continues."""
    given = request.get("input")
    return [*(history or ()), *(given if isinstance(given, list) else ())]


def _write(request: dict[str, Any], items: _Items) -> bytes:
    """Return a message as a request over HTTP with these items as its whole history."""
    kept = {key: value for key, value in request.items() if key not in _SOCKET_KEYS}
    return json.dumps({**kept, "input": items}, ensure_ascii=False).encode()


def _load(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSession:
    """The chat requests of a recording, as the client wrote them, in order.

    Requests that the addon would pass through are skipped, and so are those without a good answer.
    A recording that ends in the middle of a flow is read up to there; `damage` says so. Where any
    request was masked when it was recorded (`was_masked`), each has what the provider counted.
    """

    path: Path
    damage: str | None = None
    was_masked: bool = False

    @property
    def name(self) -> str:
        """The file's name, without its ending."""
        return name_of(self.path)

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests. Raises as `read_flows` does, unless the damage is already known."""
        try:
            for flow in read_flows(self.path):
                for exchange in find_exchanges(flow):
                    if exchange.match.purpose == "answer":
                        yield _make_request(flow.request, exchange, self.was_masked)
        except ValueError:
            if self.damage is None:
                raise


def _make_request(request: http.Request, exchange: Exchange, was_masked: bool) -> RecordedRequest:
    names = {name.lower() for name in request.headers if not may_hold_credential(name)}
    body, answer = exchange.body or b"", exchange.answer
    usage = None if answer is None else read_usage(answer)
    if exchange.counted is not None and answer is not None:
        cleared = read_cleared(answer)
        if cleared is not None and cleared.tool_uses:
            usage = None  # nobody knows which pieces it has counted
    return RecordedRequest(
        body=body,
        when=exchange.when,
        host=request.pretty_host,
        account=digest_account(request).hex(),
        usage=usage,
        counted=(exchange.counted or body) if was_masked else None,
        passed_over=exchange.obstacle,
        wire=exchange.match.wire,
        path=path_of(request),
        client=client_of(request),
        headers={name: request.headers[name] for name in names},
    )


def open_recording(path: Path) -> FlowSession:
    """Return the session of a recording, which is read once to see whether it can be replayed.

    Raises OSError if it cannot be opened, and ValueError, with the file's name, if it is not a
    recording, or if requests were masked before they were recorded and the client's own bodies
    were not kept: nobody knows what such a session would have been without masking.
    """
    whole = lost = masked = 0
    damage = None
    try:
        for flow in read_flows(path):
            whole += 1
            has_original = _has_original(flow)
            masked += has_original
            lost += was_changed(flow) and not has_original
    except ValueError as error:
        if not whole:
            raise
        damage = f"{error}; only {pluralize(whole, 'flow')} before that could be read"
    if lost:
        raise ValueError(
            f"{path}: {pluralize_part(lost, whole, 'request')} recorded as masked, without the "
            "client's own bodies: record with keep_original, or without masking"
        )
    return FlowSession(path=path, damage=damage, was_masked=masked > 0)


def _has_original(flow: http.HTTPFlow) -> bool:
    try:
        return find_original(flow) is not None or has_original_messages(flow)
    except ValueError:
        return False
