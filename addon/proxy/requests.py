"""Which requests are masked, and which of them must not be touched."""

import re
import secrets
from hashlib import blake2b

from mitmproxy import http

from addon.proxy.decoding import TooLargeError, decode_message
from masking.errors import WireError
from masking.wire.formats import Match, find_format

_SIGNATURES = (
    ("authorization", re.compile(r"AWS4-", re.IGNORECASE)),
    ("x-amz-content-sha256", re.compile("")),
    ("content-md5", re.compile("")),
    ("content-digest", re.compile("")),
    ("digest", re.compile("")),
    ("repr-digest", re.compile("")),
)
"""Headers that sign the body, and how their value begins if they do."""

_SIGNED_QUERY = "x-amz-signature"

_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
_SECRET = secrets.token_bytes(32)

_BULK_BYTES = 1_000_000
_MAX_DIGITS = 15


def find_wire_format(request: http.Request) -> Match | None:
    """Return the format of a request to a model, at whatever host, and what it asks for."""
    return find_format(request.method, path_of(request))


def path_of(request: http.Request) -> str:
    """Return the path without its query, which may hold keys."""
    return request.path.partition("?")[0]


def is_signed(request: http.Request) -> bool:
    """Whether the request has a signature or digest of its body."""
    return any(
        signature.match(value)
        for name, signature in _SIGNATURES
        for value in request.headers.get_all(name)
    ) or any(name.lower() == _SIGNED_QUERY for name in request.query)


def read_body(request: http.Request) -> bytes:
    """Return a request's decoded body. Raises WireError if it must not or cannot be read."""
    if is_signed(request):
        raise WireError("signed")
    try:
        body = decode_message(request)
    except TooLargeError as error:
        raise WireError(str(error)) from None
    except ValueError:
        raise WireError("unknown or broken content encoding") from None
    if body is None:
        raise WireError("streamed past the addon")
    return body


def digest_account(request: http.Request) -> bytes:
    """Return a digest that tells a request's credential apart from others.

    It is keyed by a secret of this process, and means nothing outside it.
    """
    digest = blake2b(key=_SECRET, digest_size=16)
    headers = (value for name in _CREDENTIALS for value in request.headers.get_all(name))
    query = request.path.partition("?")[2]
    for text in (*headers, query):
        digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogateescape"))
    return digest.digest()


def is_bulk(message: http.Message) -> bool:
    """Whether a body is large, or of unknown size, and so must not be collected first."""
    size: str = message.headers.get("content-length", "")
    if size.isdecimal():
        return len(size) > _MAX_DIGITS or int(size) > _BULK_BYTES
    return isinstance(message, http.Response) or "transfer-encoding" in message.headers


def is_event_stream(response: http.Response) -> bool:
    """Whether a response is an event stream."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"
