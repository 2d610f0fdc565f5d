"""What an HTTP request says: where it goes, in which format, who sends it, whether it is signed.

A request is whatever an engine holds, if it has the attributes of `Request`; mitmproxy's own does.
"""

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol
from urllib.parse import parse_qsl

from addon.agents import AGENTS
from addon.vendors import VENDORS
from masking.config import HostSettings
from masking.errors import printable
from masking.patterns import is_named
from masking.wire import Match, find_format

BETAS = "anthropic-beta"

_MAX_NAME_CHARS = 200
_MAX_CLIENT_CHARS = 64

_PRODUCT = re.compile(r"(?P<name>[^\s()]+?)(?:/v?\d[^\s()]*)?(?=[\s()]|$)")
"""A name up to its version. Libraries put their language in place of it: `OpenAI/Python 2.54.0`."""

_TITLES = {agent.calls_itself: agent.client for agent in AGENTS if agent.calls_itself}
"""The clients that a header `X-Title` names."""

_SUBSCRIPTION_HEADERS = (
    ("authorization", re.compile(r"Bearer\s+sk-ant-oat", re.IGNORECASE)),  # claude.ai
    ("chatgpt-account-id", re.compile(r".")),
)
"""Headers that a client sends with a subscription, and how their value begins."""

_SUBSCRIPTION_PLACES = tuple(
    (vendor.family or vendor.host, vendor.subscription) for vendor in VENDORS if vendor.subscription
)
"""Hosts that serve subscribers alone, or do so below a path."""

_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
_SECRET = secrets.token_bytes(32)

_COVERS_BODY = re.compile(
    r"(?!want-|accept-).*(?:md5|sha-?\d|checksum|crc-?\d|hmac|digest|signature"
    r"|(?<![^-_])(?:hash|sig|sign|signed)(?![^-_]))",
    re.IGNORECASE,
)
"""Names of header fields, of query parameters and of credentials' schemes whose value may be a
digest or a signature of the body. Vendors invent new ones, but say in the name what they are:
`x-amz-checksum-crc32`, `x-ms-content-sha256`, `TC3-HMAC-SHA256`. `want-digest` asks for one."""

_AUTHORIZATION = re.compile(r"(?!proxy-)(?:.*-)?authorization", re.IGNORECASE)
_SECRETS = frozenset({"bearer", "basic", "key", "token", "apikey", "api-key"})
"""Schemes of credentials that are a secret, however that is written."""

_TOKEN = re.compile(r"[\w.~+/|!$-]*=*", re.ASCII)
_SIGNED_WORD = re.compile(r"[a-z-]+-v\d+/", re.IGNORECASE)
"""A credential without a scheme that is a signature, such as `bce-auth-v1/...`."""

_BULK_BYTES = 1_000_000
_MAX_DIGITS = 15


# What an engine hands over


class Headers(Protocol):
    """Header fields, by their names in any case; `get_all` alone separates several of one name."""

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> str: ...

    def get(self, name: str, default: str, /) -> str: ...

    def get_all(self, name: str, /) -> list[str]: ...


class Message(Protocol):
    """A request or an answer; `raw_content` is its body as on the wire, None if it was not kept.

    trailers: what came behind the body, if anything did.
    """

    @property
    def headers(self) -> Headers: ...

    @property
    def trailers(self) -> Headers | None: ...

    @property
    def raw_content(self) -> bytes | None: ...


class Request(Message, Protocol):
    """A request; its path includes the query, and `pretty_host` is whom the client asks for."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def pretty_host(self) -> str: ...


class HeaderFields:
    """`Headers` that are parsed once and then asked for often."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name.lower(), []).append(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: object, /) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __getitem__(self, name: str, /) -> str:
        return ", ".join(self._values[name.lower()])

    def get(self, name: str, default: str, /) -> str:
        """Return the values of a field, joined by commas."""
        values = self._values.get(name.lower())
        return default if values is None else ", ".join(values)

    def get_all(self, name: str, /) -> list[str]:
        """Return each value of a field."""
        return self._values.get(name.lower(), [])


class PlainMessage:
    """A message of which nothing else is known; its body may be filled in when it has arrived."""

    trailers: Headers | None = None

    def __init__(
        self, raw_content: bytes | None = None, headers: HeaderFields | None = None
    ) -> None:
        self.raw_content = raw_content
        self.headers = headers or HeaderFields(())


# Where it goes


def path_of(request: Request) -> str:
    """Return the path without its query, which may hold keys."""
    return request.path.partition("?")[0]


def find_wire_format(request: Request) -> Match | None:
    """Return the format of a request to a model, at whatever host, and what it asks for."""
    return find_format(request.method, path_of(request))


def is_intercepted(host: str, hosts: HostSettings) -> bool:
    """Whether the configuration lets requests to a host be looked at."""
    return not is_named(host, hosts.closed) and (not hosts.only or is_named(host, hosts.only))


def one_line(text: str) -> str:
    """Return a text from the wire as it may stand in a log: cut to 200 characters, on one line."""
    return printable(text[:_MAX_NAME_CHARS])


# Who sends it, and who pays for it


def client_of(request: Request) -> str | None:
    """Return the product that a request's User-Agent names first, without its version.

    Some clients leave the User-Agent to their library, and name themselves by a title.
    """
    if client := _TITLES.get(request.headers.get("x-title", "")):
        return client
    product = _PRODUCT.match(request.headers.get("user-agent", ""))
    return printable(product["name"][:_MAX_CLIENT_CHARS]) if product else None


_SESSION_HEADERS = tuple(agent.session for agent in AGENTS if agent.session)
_MAX_SESSION_CHARS = 80


def session_of(request: Request) -> str | None:
    """Return the id that a client gives its session; None if it gives none."""
    headers = request.headers
    found = (headers[name].strip() for name in _SESSION_HEADERS if name in headers)
    return next((printable(each[:_MAX_SESSION_CHARS]) for each in found if each), None)


def is_subscription(request: Request) -> bool:
    """Whether a request's credential is a subscription's, by its form or by where it goes."""
    by_place = any(
        request.path.startswith(path) and is_named(request.pretty_host, (host,))
        for host, path in _SUBSCRIPTION_PLACES
    )
    return by_place or _any_begins(request, _SUBSCRIPTION_HEADERS)


def digest_credential(request: Request) -> bytes:
    """Return a digest of a request's credential, which is never written anywhere as it is."""
    digest = blake2b(digest_size=16)
    headers = (value for name in _CREDENTIALS for value in request.headers.get_all(name))
    query = request.path.partition("?")[2]
    for text in (*headers, query):
        digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogateescape"))
    return digest.digest()


def digest_account(request: Request) -> bytes:
    """Return a digest of a request's credential, the same for all requests of one account.

    It is keyed by a secret of this process, and means nothing outside it.
    """
    return blake2b(digest_credential(request), key=_SECRET, digest_size=16).digest()


# What may be done to its body


def is_signed(request: Request) -> bool:
    """Whether the request may have a signature or digest of its body, by what it is called."""
    if has_digest(request):
        return True
    credentials = (
        value
        for name in request.headers
        if _AUTHORIZATION.fullmatch(name)
        for value in request.headers.get_all(name)
    )
    if any(map(_may_sign, credentials)):
        return True
    query = request.path.partition("?")[2]
    return any(_COVERS_BODY.match(name) for name, _ in parse_qsl(query, keep_blank_values=True))


def has_digest(message: Message) -> bool:
    """Whether a field may have a digest of the body: in the header, or in a trailer.

    A trailer may be declared in the header, and come later, or come undeclared.
    """
    headers, trailers = message.headers, message.trailers
    declared = (name for value in headers.get_all("trailer") for name in value.split(","))
    names = (*headers, *declared, *(trailers or ()))
    return any(_COVERS_BODY.match(name.strip()) for name in names)


def _may_sign(credential: str) -> bool:
    """Whether a credential may be more than a secret: it has parameters, or its scheme says so."""
    scheme, _, rest = credential.strip().partition(" ")
    if scheme.lower() in _SECRETS:
        return False
    if not rest:
        return _SIGNED_WORD.match(scheme) is not None
    return bool(_COVERS_BODY.match(scheme)) or not _TOKEN.fullmatch(rest.strip())


def is_event_stream(response: Message) -> bool:
    """Whether a response is an event stream."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def is_bulk_upload(request: Message) -> bool:
    """Whether a request's body is large, or of unknown size, and so must not be collected first."""
    is_large = _is_large(request)
    return "transfer-encoding" in request.headers if is_large is None else is_large


def is_bulk_download(response: Message) -> bool:
    """Whether a response's body is large, or of unknown size: it may end with the connection."""
    is_large = _is_large(response)
    return True if is_large is None else is_large


def _is_large(message: Message) -> bool | None:
    """Return whether a message says that its body is large; None if it does not say its size."""
    size: str = message.headers.get("content-length", "")
    if not size.isdecimal():
        return None
    return len(size) > _MAX_DIGITS or int(size) > _BULK_BYTES


def _any_begins(request: Request, signs: Iterable[tuple[str, re.Pattern[str]]]) -> bool:
    return any(sign.match(value) for name, sign in signs for value in request.headers.get_all(name))


def name_betas(values: Sequence[str], betas: Iterable[str]) -> tuple[str, ...]:
    """Return the values of the header `anthropic-beta` that name these too, behind their own."""
    for beta in betas:
        if beta in (each.strip() for value in values for each in value.split(",")):
            continue
        *before, last = values or [""]
        values = (*before, f"{last},{beta}" if last.strip() else beta)
    return tuple(values)
