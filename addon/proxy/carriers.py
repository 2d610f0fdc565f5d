"""What carries a request to a model: an HTTP request, or a message on a WebSocket."""

from collections.abc import Sequence

from mitmproxy import ctx, http
from mitmproxy.net import encoding
from mitmproxy.websocket import WebSocketMessage

from addon.metrics.stages import Received
from addon.proxy.marks import mark, was_changed
from addon.proxy.original_body import (
    are_flows_kept,
    is_recording,
    keep_original,
    keep_original_message,
)
from addon.proxy.read_request import ReadRequest
from addon.shared.decoding import estimate_bytes
from addon.shared.requests import read_body
from masking.model import Decision


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

    def read(self) -> bytes:
        return read_body(self._request)

    def measure(self, body: bytes) -> int:
        coding = self._request.headers.get("content-encoding", "identity")
        return len(encoding.encode(body, coding))

    def mark(self, decisions: Sequence[Decision]) -> None:
        if are_flows_kept(ctx.options):
            mark(self._flow, decisions)

    def replace(self, body: bytes, received: Received) -> None:
        if _keeps_original(received):
            keep_original(self._flow, self._flow.request.content or b"")
        self._flow.request.content = body


class MessageCarrier:
    """The message that a client has just sent on a flow's WebSocket."""

    def __init__(self, flow: http.HTTPFlow, message: WebSocketMessage, place: int) -> None:
        self._flow, self._message, self._place = flow, message, place

    @property
    def size(self) -> int:
        return len(self._message.content)

    @property
    def most_bytes(self) -> int:
        return self.size

    @property
    def wire_body(self) -> None:
        return None

    def read(self) -> bytes:
        return self._message.content

    def measure(self, body: bytes) -> int:
        return len(body)

    def mark(self, decisions: Sequence[Decision]) -> None:
        # The mark of a message that was changed stays.
        if are_flows_kept(ctx.options) and not was_changed(self._flow):
            mark(self._flow, decisions)

    def replace(self, body: bytes, received: Received) -> None:
        if _keeps_original(received):
            keep_original_message(self._flow, self._place, self._message.content)
        self._message.content = body


def _keeps_original(received: Received) -> bool:
    return received.settings.recording.keep_original and is_recording(ctx.options)
