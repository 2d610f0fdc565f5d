"""A recording of mitmproxy's as a session that can be replayed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mitmproxy import http

from addon.proxy.requests import digest_account, is_chat_request, is_signed
from addon.recordings.flows import name_of, read_flows
from masking.replay.replay import RecordedRequest
from masking.wire.usage import read_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSession:
    """The chat requests of a recording, as they were sent, in order.

    Passed over are those that the addon would pass through, and those without a good answer.
    """

    path: Path

    @property
    def name(self) -> str:
        """The file's name, without its ending."""
        return name_of(self.path)

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests. Raises as `read_flows` does."""
        yield from (_read(flow) for flow in read_flows(self.path) if is_chat_request(flow.request))


def _read(flow: http.HTTPFlow) -> RecordedRequest:
    request, response = flow.request, flow.response
    body = _decode(request)
    return RecordedRequest(
        body=body or b"",
        when=datetime.fromtimestamp(request.timestamp_start, UTC),
        host=request.pretty_host,
        account=digest_account(request).hex(),
        usage=read_usage(_decode(response) or b"") if response else None,
        passed_over=_find_obstacle(flow, body),
    )


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
