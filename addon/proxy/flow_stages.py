"""What a mitmproxy flow says about a request, and about how it ended."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from mitmproxy import http

from addon.metrics.names import printable
from addon.metrics.stages import Interruption, Received, Run
from addon.proxy.client import find_client, is_subscription
from addon.proxy.decoding import TooLargeError, decode_message
from addon.proxy.requests import digest_account, path_of
from masking.config import Settings
from masking.wire.formats import Match


def is_replayed(flow: http.HTTPFlow) -> bool:
    """Whether a flow comes from a recording, or is sent again by mitmproxy."""
    return not flow.live or flow.is_replay is not None


def read_received(flow: http.HTTPFlow, settings: Settings, match: Match, run: Run) -> Received:
    """Return a request as it arrived."""
    return Received(
        time=datetime.now(UTC),
        run=run,
        host=printable(flow.request.pretty_host),
        path=printable(path_of(flow.request)),
        wire=match.wire,
        purpose=match.purpose,
        client=find_client(flow.request),
        subscription=is_subscription(flow.request),
        account=digest_account(flow.request),
        settings=settings,
        replay=is_replayed(flow),
        headers=find_headers(flow.request, settings),
        answers_masked=bool(flow.live) or flow.is_replay == "request",
    )


def read_answer(response: http.Response) -> bytes | None:
    """Return the body of an answer, decoded if it can be; None if it was not kept.

    Raises TooLargeError for one that grows beyond all measure.
    """
    try:
        return decode_message(response)
    except TooLargeError:
        raise
    except ValueError:
        body: bytes | None = response.raw_content  # a header that is wrong, maybe
        return body


def find_headers(request: http.Request, settings: Settings) -> Mapping[str, str]:
    """Return the headers that rules ask for, which are never credentials."""
    headers = request.headers
    return {name: headers[name] for name in settings.ruled_headers if name in headers}


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
