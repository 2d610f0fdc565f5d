"""A mitmproxy recording as a session that can be replayed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mitmproxy import http

from addon.proxy.marks import find_original, has_original_messages, was_changed
from addon.recordings.exchanges import Exchange, find_exchanges
from addon.recordings.flows import name_of, read_flows
from addon.replay.replay import RecordedRequest
from addon.request import client_of, digest_account, path_of
from masking.config import may_hold_credential
from masking.wire import read_usage


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
                for exchange in find_exchanges(flow):
                    if exchange.match.purpose == "answer":
                        yield _read(flow, exchange)
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
        return find_original(flow) is not None or has_original_messages(flow)
    except ValueError:
        return False


def _read(flow: http.HTTPFlow, exchange: Exchange) -> RecordedRequest:
    request, answer = flow.request, exchange.answer
    return RecordedRequest(
        body=exchange.body or b"",
        when=exchange.when,
        host=request.pretty_host,
        account=digest_account(request).hex(),
        usage=read_usage(answer) if answer is not None else None,
        passed_over=exchange.obstacle,
        wire=exchange.match.wire,
        path=path_of(request),
        client=client_of(request),
        headers=_read_headers(request),
    )


def _read_headers(request: http.Request) -> dict[str, str]:
    """Return the headers that a rule may ask for."""
    names = {name.lower() for name in request.headers}
    return {name: request.headers[name] for name in names if not may_hold_credential(name)}
