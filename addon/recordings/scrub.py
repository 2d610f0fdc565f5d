"""Makes recordings fit to be published: what is not known to be harmless is not in them.

A scrubbed flow is built anew from what may stay, so nothing that this module does not know of can
slip through. In the bodies every string is replaced by filler of the same length, except the
names, roles and ids that make up a conversation's structure, and what is known to be our own
(`OwnRecording`). Every other byte of a body is the client's. Object keys and numbers stay.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mitmproxy import connection, flow, http

from addon.proxy.original_body import find_original, keep_original
from addon.proxy.requests import path_of
from addon.recordings.flows import read_flows, write_flows
from addon.recordings.leak_check import check
from masking.edit.json_strings import edit_strings
from masking.model import Path as JsonPath
from masking.strategies.mcp_requests import read_methods

FILLER = "these words stand where other words stood and they say nothing at all; "

_BODY_HEADERS = ("content-type", "content-encoding", "content-length", "transfer-encoding")
REQUEST_HEADERS = frozenset((*_BODY_HEADERS, "host", "accept", "accept-encoding", "user-agent"))
RESPONSE_HEADERS = frozenset(_BODY_HEADERS)

_KINDS = ("role", "type", "object", "event", "name", "model", "tool_choice", "service_tier")
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "item_id", "previous_response_id")
_ENDS = ("finish_reason", "finishReason", "stop_reason", "status", "code", "system_fingerprint")
_FORMS = ("required", "$schema", "reasoning_effort", "media_type", "mimeType")
STRUCTURE = frozenset((*_KINDS, *_IDS, *_ENDS, *_FORMS))
"""Keys whose strings stay, as long as they look like identifiers."""

FREE = frozenset(("arguments", "args", "metadata", "response"))
"""Keys below which the names are the user's own, so that none of them is structure. So is `input`,
a call's arguments, but at the root, where it is a conversation."""

LONGEST_IDENTIFIER = 200

EPOCH = 1_735_689_600.0
"""When a scrubbed recording begins, in seconds: the first of January 2025."""

_IDENTIFIER = re.compile(r"[\w.:/@#+$-]*", re.ASCII)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_COMMENT = re.compile(r"\s*\([^()]*\)")
_ERROR = "The exchange ended early."

Edit = Callable[[str], str]
Spellings = tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecording:
    """What is known of a recording made here, and may stay in it.

    `texts` stay wherever they stand. Tool results and the calls' arguments stay, as our own
    projects make them, and answers, as our own provider gives them. `spellings` are
    patterns and what to write in their place everywhere in the bodies, in this order: folders of
    this machine, numbers that differ from run to run. What goes to and comes from the MCP server
    of this host stays as a whole.
    """

    server: str | None = None
    texts: frozenset[str] = frozenset()
    spellings: Spellings = ()


def scrub_recording(source: Path, out: Path, own: OwnRecording | None = None) -> int:
    """Write `source` to `out`, scrubbed; returns how many requests are in it.

    What is no request to a model (a POST of a JSON conversation), nor to our own MCP server, is
    left out. Without `own` nothing of the content is taken to be harmless. Raises ValueError, and
    writes nothing, where `source` is no recording or where something still looks like a secret,
    and names the place.
    """
    part = out.with_name(f"part-{out.name}")
    flows = read_flows(source)
    kept = (
        each
        for each in flows
        if is_conversation(each.request) or _asks_own_server(each.request, own)
    )
    try:
        count = write_flows(part, (_checked(each, n, own) for n, each in enumerate(kept)))
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count


def is_conversation(request: http.Request) -> bool:
    """Whether a request holds a conversation with a model, in any of the usual forms."""
    try:
        body = json.loads(request.content or b"")
    except (ValueError, RecursionError):
        return False
    if request.method != "POST" or not isinstance(body, dict):
        return False
    return not body.keys().isdisjoint(("messages", "input", "contents"))


def scrub(
    recorded: http.HTTPFlow, number: int = 0, own: OwnRecording | None = None
) -> http.HTTPFlow:
    """A new flow with what may be published of `recorded`; `number` is its place, and its time.

    The client's own body of a masked request stays beside it, scrubbed as well.
    """
    start = EPOCH + number
    clean = http.HTTPFlow(_client(number), _server(recorded.request, number), live=False)
    clean.id = _id("flow", number)
    clean.timestamp_created = start
    clean.request = _request(recorded.request, start, own)
    if original := find_original(recorded):
        text = original.decode(errors="replace")
        keep_original(clean, _edit_request(text, own=own).encode())
    if recorded.response:
        clean.response = _response(recorded.response, start + 0.25, own)
    if recorded.error:
        clean.error = flow.Error(_ERROR, start + 0.5)
    return clean


def fill(text: str) -> str:
    """Filler of the same length; the line breaks stay where they are."""
    words = FILLER * (len(text) // len(FILLER) + 1)
    return "".join(old if old in "\r\n" else new for old, new in zip(text, words, strict=False))


def respell(text: str, spellings: Spellings) -> str:
    """The text with each of the patterns replaced by what stands beside it, in order."""
    for pattern, replacement in spellings:
        text = pattern.sub(replacement, text)
    return text


def _asks_own_server(request: http.Request, own: OwnRecording | None) -> bool:
    """Whether a request is to our own MCP server.

    Those to others never stay: an MCP server's path may be all that keeps strangers out.
    """
    if own is None or request.host != own.server or request.method != "POST":
        return False
    return read_methods(request.content or b"") is not None


def _checked(recorded: http.HTTPFlow, number: int, own: OwnRecording | None) -> http.HTTPFlow:
    clean = scrub(recorded, number, own)
    check(clean, number)
    return clean


def _request(old: http.Request, start: float, own: OwnRecording | None) -> http.Request:
    new = http.Request(
        host=old.host,
        port=old.port,
        method=old.data.method,
        scheme=old.data.scheme,
        authority=old.data.authority,
        path=path_of(old).encode(),
        http_version=old.data.http_version,
        headers=_headers(old, REQUEST_HEADERS),
        content=None,
        trailers=None,
        timestamp_start=start,
        timestamp_end=start + 0.125,
    )
    edit = _edit_response if _asks_own_server(old, own) else _edit_request
    _write(new, old, partial(edit, own=own))
    return new


def _response(old: http.Response, start: float, own: OwnRecording | None) -> http.Response:
    new = http.Response(
        http_version=old.data.http_version,
        status_code=old.status_code,
        reason=b"",
        headers=_headers(old, RESPONSE_HEADERS),
        content=None,
        trailers=None,
        timestamp_start=start,
        timestamp_end=start + 0.125,
    )
    _write(new, old, partial(_edit_response, own=own))
    return new


def _write(new: http.Message, old: http.Message, edit: Edit) -> None:
    """Give the new message the old one's body, edited, in the old one's encoding."""
    if old.raw_content is None:
        return
    try:
        body = (old.content or b"").decode()
    except ValueError:  # no text, or not in the encoding that the header names
        new.headers.pop("content-encoding", None)
        body = old.raw_content.decode("latin-1")
    edited = edit(body).encode()
    if edited == old.get_content(strict=False):
        new.raw_content = old.raw_content
    else:
        new.content = edited


def _headers(message: http.Message, allowed: Iterable[str]) -> http.Headers:
    """The allowed headers; what a user agent says of its machine, in brackets, is cut out."""
    return http.Headers(
        [
            (name, _COMMENT.sub("", value.decode("latin-1")).encode("latin-1"))
            for name, value in message.headers.fields
            if name.decode("latin-1").lower() in allowed
        ]
    )


def _edit_request(text: str, *, own: OwnRecording | None) -> str:
    edited = _edit_strings(text, _Rule(_roles(text), own).edit)
    return edited if own is None else respell(edited, own.spellings)


def _edit_response(text: str, *, own: OwnRecording | None) -> str:
    if own is not None:
        return respell(text, own.spellings)
    if text.lstrip()[:1] in ("{", "["):
        return _edit_strings(text, _Rule().edit)
    return "".join(map(_edit_line, _LINES.findall(text)))


def _edit_line(line: str) -> str:
    """One line of an event stream, which says `event: NAME`, `data: JSON` or `data: [DONE]`."""
    field, colon, value = line.partition(":")
    if field == "data":
        done = value.strip() == "[DONE]"
        return line if done else field + colon + _edit_strings(value, _Rule().edit)
    return line if field == "event" and _is_identifier(value.strip()) else fill(line)


def _edit_strings(text: str, edit: Callable[[JsonPath, str], str]) -> str:
    """The JSON text with its strings edited; what is no JSON becomes filler as a whole."""
    try:
        return edit_strings(text, edit)
    except ValueError:
        return fill(text)


def _roles(text: str) -> tuple[object, ...]:
    """The roles of a request's messages, as far as it has any."""
    try:
        messages = json.loads(text)["messages"]
        return tuple(each.get("role") if isinstance(each, dict) else None for each in messages)
    except (ValueError, LookupError, TypeError, RecursionError):
        return ()


@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of each string of a body."""

    roles: tuple[object, ...] = ()
    own: OwnRecording | None = None

    def edit(self, path: JsonPath, value: str) -> str:
        if self._is_structure(path, value) or (self.own and self._is_own(path)):
            return value
        if path[-1:] == ("arguments",) and value.lstrip()[:1] == "{":
            return _edit_strings(value, lambda _, inner: fill(inner))
        texts = self.own.texts if self.own else ()
        kept = next((text for text in texts if text in value), None)
        return fill(value) if kept is None else kept.join(map(fill, value.split(kept)))

    def _is_structure(self, path: JsonPath, value: str) -> bool:
        keys = [step for step in path if isinstance(step, str)]
        if not keys or keys[-1] not in STRUCTURE or not FREE.isdisjoint(keys[:-1]):
            return False
        match path:
            case ("messages", int(index), "name") if self._role(index) not in ("tool", "function"):
                return False  # a person's, not a tool's
        return "input" not in keys[1:-1] and _is_identifier(value)

    def _is_own(self, path: JsonPath) -> bool:
        match path:
            case ("messages", int(index), "content", *_):
                return self._role(index) == "tool"
            case ("messages", int(), "tool_calls", int(), "function", "arguments"):
                return True
        return False

    def _role(self, index: int) -> object:
        return self.roles[index] if index < len(self.roles) else None


def _is_identifier(value: str) -> bool:
    return len(value) <= LONGEST_IDENTIFIER and bool(_IDENTIFIER.fullmatch(value))


def _client(number: int) -> connection.Client:
    return connection.Client(
        id=_id("client", number),
        peername=("127.0.0.1", 50000),
        sockname=("127.0.0.1", 8080),
        timestamp_start=EPOCH + number,
    )


def _server(request: http.Request, number: int) -> connection.Server:
    return connection.Server(id=_id("server", number), address=(request.host, request.port))


def _id(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))
