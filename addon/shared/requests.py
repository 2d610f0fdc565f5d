"""Which requests are masked, and which of them must not be touched."""

import re
import secrets
from hashlib import blake2b
from urllib.parse import parse_qsl

from addon.shared.decoding import TooLargeError, decode_message
from addon.shared.http_message import Message, Request
from masking.config import HostSettings
from masking.errors import WireError
from masking.patterns import is_named
from masking.wire import Match, find_format

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


def find_wire_format(request: Request) -> Match | None:
    """Return the format of a request to a model, at whatever host, and what it asks for."""
    return find_format(request.method, path_of(request))


def path_of(request: Request) -> str:
    """Return the path without its query, which may hold keys."""
    return request.path.partition("?")[0]


def is_opened(host: str, hosts: HostSettings) -> bool:
    """Whether the configuration lets requests to a host be looked at."""
    return not is_named(host, hosts.closed) and (not hosts.only or is_named(host, hosts.only))


def is_signed(request: Request) -> bool:
    """Whether the request has a signature or digest of its body."""
    return any(
        signature.match(value)
        for name, signature in _SIGNATURES
        for value in request.headers.get_all(name)
    ) or _has_signed_query(request)


def read_body(request: Request) -> bytes:
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


def digest_account(request: Request) -> bytes:
    """Return a digest that tells a request's credential apart from others.

    It is keyed by a secret of this process, and means nothing outside it.
    """
    digest = blake2b(key=_SECRET, digest_size=16)
    headers = (value for name in _CREDENTIALS for value in request.headers.get_all(name))
    query = request.path.partition("?")[2]
    for text in (*headers, query):
        digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogateescape"))
    return digest.digest()


def is_event_stream(response: Message) -> bool:
    """Whether a response is an event stream."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def _has_signed_query(request: Request) -> bool:
    query = request.path.partition("?")[2]
    return any(
        name.lower() == _SIGNED_QUERY for name, _ in parse_qsl(query, keep_blank_values=True)
    )
