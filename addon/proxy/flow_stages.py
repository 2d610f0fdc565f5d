"""What a mitmproxy flow says about a request, and about how it ended."""

import re

from mitmproxy import http

from addon.metrics.stages import Interruption, Received, Run
from addon.proxy.read_request import ReadRequest
from addon.shared import received
from masking.config import Settings
from masking.wire import Match


def is_replayed(flow: http.HTTPFlow) -> bool:
    """Whether a flow comes from a recording, or is sent again by mitmproxy."""
    return not flow.live or flow.is_replay is not None


def read_received(
    flow: http.HTTPFlow,
    settings: Settings,
    match: Match,
    run: Run,
    request: ReadRequest | None = None,
) -> Received:
    """Return a request as it arrived; `request` is what was read of it, if anything was."""
    return received.read_received(
        request or ReadRequest(flow.request),
        settings,
        match,
        run,
        replay=is_replayed(flow),
        answers_masked=bool(flow.live) or flow.is_replay == "request",
    )


def find_interruption(flow: http.HTTPFlow) -> Interruption | None:
    """Return who ended an answer early; mitmproxy's own message may quote what was sent."""
    if flow.error is None:
        return None
    left = not flow.client_conn.connected or _says_client(flow.request, flow.error.msg)
    return "client left" if left else "provider failed"


_BY_CLIENT = re.compile(r"stream (reset|closed) by client \((\w+)\)")
_LEAVES = ("CANCEL", "NO_ERROR")
"""The codes of HTTP/2 with which a client gives up; a provider that fails has others."""


def _says_client(request: http.Request, message: str) -> bool:
    """Whether mitmproxy's message names the client; it may also quote what a provider sent.

    Of HTTP/2 it says "reset by client" whichever side has reset a stream.
    """
    found = _BY_CLIENT.fullmatch(message)
    if found is None:
        return False
    return found[1] == "closed" or (request.is_http2 and found[2] in _LEAVES)
