"""A mitmproxy recording as a session that can be replayed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mitmproxy import http

from addon.proxy.marks import was_changed
from addon.proxy.original_body import find_original
from addon.proxy.requests import digest_account, find_wire_format, is_signed, path_of
from addon.recordings.flows import name_of, read_flows
from masking.conversation import WireFormat
from masking.replay.replay import RecordedRequest
from masking.wire.usage import read_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSession:
    """The chat requests of a recording, as the client wrote them, in order.

    Requests that the addon would pass through are skipped, and so are those without a good answer.
    A recording that ends in the middle of a flow is read up to there; `damage` says so.
    """

    path: Path
    damage: str | None = None

    @property
    def name(self) -> str:
        """The file's name, without its ending."""
        return name_of(self.path)

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests. Raises as `read_flows` does, unless the damage is already known."""
        try:
            for flow in read_flows(self.path):
                found = find_wire_format(flow.request)
                if found is not None and found.purpose == "answer":
                    yield _read(flow, found.wire)
        except ValueError:
            if self.damage is None:
                raise


def open_recording(path: Path) -> FlowSession:
    """Return the session of a recording, which is read once to see whether it can be replayed.

    Raises OSError if it cannot be opened, and ValueError, with the file's name, if it is not a
    recording, or if requests were masked before they were recorded and the client's own bodies
    were not kept: nobody knows what such a session would have been without masking.
    """
    whole = lost = 0
    damage = None
    try:
        for flow in read_flows(path):
            whole += 1
            lost += was_changed(flow) and not _has_original(flow)
    except ValueError as error:
        if not whole:
            raise
        damage = f"{error}; only the {whole:,} flows before that are read"
    if lost:
        raise ValueError(
            f"{path}: {lost:,} of {whole:,} requests were masked before they were recorded, and "
            "the client's own bodies were not kept: record with keep_original, or without masking"
        )
    return FlowSession(path=path, damage=damage)


def _has_original(flow: http.HTTPFlow) -> bool:
    try:
        return find_original(flow) is not None
    except ValueError:
        return False


def _read(flow: http.HTTPFlow, wire: WireFormat) -> RecordedRequest:
    request, response = flow.request, flow.response
    original = find_original(flow)
    body = _decode(request) if original is None else original
    # What the provider reported for a masked request says nothing about the client's own.
    answer = _decode(response) if response and original is None else None
    return RecordedRequest(
        body=body or b"",
        when=datetime.fromtimestamp(request.timestamp_start, UTC),
        host=request.pretty_host,
        account=digest_account(request).hex(),
        usage=read_usage(answer) if answer is not None else None,
        passed_over=_find_obstacle(flow, body),
        wire=wire,
        path=path_of(request),
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
