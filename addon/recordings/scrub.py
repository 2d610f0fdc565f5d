"""Makes recordings fit to be published: only what is known to be harmless stays in them.

A scrubbed flow is built anew from what may stay, so nothing that this module does not know of can
slip through. In its bodies every string that is not known to be harmless becomes filler of the same
length. What stays are the names, roles and ids that make up a conversation's structure, and what is
known to be our own (`OwnRecording`); so does every other byte: object keys, numbers, blanks. A new
wire format adds a row to `OWN_PLACES`, and its words to `STRUCTURE`. At the end the flow is
searched for secrets and for the names of this machine and its user.
"""

import getpass
import json
import re
import secrets
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mitmproxy import connection, flow, http
from mitmproxy.websocket import WebSocketData, WebSocketMessage

from addon.proxy.marks import (
    find_original,
    find_original_message,
    keep_original,
    keep_original_message,
)
from addon.proxy.websocket import find_socket_format
from addon.recordings.flows import read_flows, write_flows
from addon.request import path_of
from masking.edit import edit_strings, find_strings
from masking.mcp import read_methods
from masking.model import Path as JsonPath

_BODY_HEADERS = ("content-type", "content-encoding", "content-length", "transfer-encoding")
_SOCKET_HEADERS = ("upgrade",)
_CLIENT_HEADERS = ("host", "accept", "accept-encoding", "user-agent")
REQUEST_HEADERS = frozenset((*_BODY_HEADERS, *_SOCKET_HEADERS, *_CLIENT_HEADERS))
RESPONSE_HEADERS = frozenset((*_BODY_HEADERS, *_SOCKET_HEADERS))

EPOCH = 1_735_689_600.0
"""When a scrubbed recording begins, in seconds: the first of January 2025."""

_COMMENT = re.compile(r"\s*\([^()]*\)")
_ERROR = "The exchange ended early."


Spellings = tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecording:
    """What may stay in a recording that was made here.

    Tool results and the arguments of calls stay, because they come from our own projects, and so do
    answers, because they come from our own provider.

    server: the host of our own MCP server. All that goes to it and comes from it stays.
    texts: they stay wherever they stand.
    foreign: patterns of what clients put into their tools' results in their own words; the words,
        which are the pattern's last group, become filler.
    spellings: patterns, and what to write in their place everywhere in the bodies, in this order:
        folders of this machine, numbers that differ from run to run.
    """

    server: str | None = None
    texts: frozenset[str] = frozenset()
    foreign: tuple[re.Pattern[str], ...] = ()
    spellings: Spellings = ()


def scrub_recording(source: Path, out: Path, own: OwnRecording | None = None) -> int:
    """Write `source` to `out`, scrubbed; return how many requests are in it.

    Only requests to a model (a POST of a JSON conversation) and to our own MCP server are kept.
    Without `own` no content is taken to be harmless. Raises ValueError, and writes nothing, if
    `source` is not a recording, or if something still looks like a secret; the error names the
    place.
    """
    # A name that nobody can guess: a link that lies there would be followed.
    part = out.with_name(f"part-{secrets.token_hex(8)}-{out.name}")
    try:
        count = write_flows(part, _scrub_flows(source, own))
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count


def _scrub_flows(source: Path, own: OwnRecording | None) -> Iterator[http.HTTPFlow]:
    kept = (
        each
        for each in read_flows(source)
        if is_conversation(each.request) or _is_socket(each) or _asks_own_server(each.request, own)
    )
    for number, recorded in enumerate(kept):
        clean = scrub(recorded, number, own)
        check_for_leaks(clean, number)
        yield clean


def is_conversation(request: http.Request) -> bool:
    """Whether a request has a conversation with a model, in any of the usual forms."""
    try:
        body = json.loads(request.content or b"")
    except (ValueError, RecursionError):
        return False
    if request.method != "POST" or not isinstance(body, dict):
        return False
    inner = body.get("request")  # Code Assist's
    keys = body.keys() | (inner.keys() if isinstance(inner, dict) else set())
    return not keys.isdisjoint(("messages", "input", "contents"))


def scrub(
    recorded: http.HTTPFlow, number: int = 0, own: OwnRecording | None = None
) -> http.HTTPFlow:
    """Return a new flow with what may be published of `recorded`, the flow of that number.

    The client's own body of a masked request stays beside it, scrubbed as well.
    """
    start = EPOCH + number
    client = connection.Client(
        id=_make_id("client", number),
        peername=("127.0.0.1", 50000),
        sockname=("127.0.0.1", 8080),
        timestamp_start=start,
    )
    address = (recorded.request.host, recorded.request.port)
    server = connection.Server(id=_make_id("server", number), address=address)
    clean = http.HTTPFlow(client, server, live=False)
    clean.id = _make_id("flow", number)
    clean.timestamp_created = start
    clean.request = _make_request(recorded.request, start, own)
    if original := find_original(recorded):
        text = original.decode(errors="replace")
        keep_original(clean, scrub_request(text, own).encode())
    if recorded.websocket:
        clean.websocket = _make_socket(recorded.websocket, start + 0.5, own)
        for place in range(len(recorded.websocket.messages)):
            if original := find_original_message(recorded, place):
                text = original.decode(errors="replace")
                keep_original_message(clean, place, scrub_request(text, own).encode())
    if recorded.response:
        clean.response = _make_response(recorded.response, start + 0.25, own)
    if recorded.error:
        clean.error = flow.Error(_ERROR, start + 0.5)
    return clean


def _is_socket(recorded: http.HTTPFlow) -> bool:
    """Whether a flow is a WebSocket on which a client speaks with a model."""
    is_ours = find_socket_format(recorded.request) is not None
    return is_ours and bool(recorded.websocket and recorded.websocket.messages)


def _asks_own_server(request: http.Request, own: OwnRecording | None) -> bool:
    """Whether a request is to our own MCP server.

    Requests to others never stay: an MCP server's path may be all that keeps strangers out.
    """
    if own is None or request.host != own.server or request.method != "POST":
        return False
    return read_methods(request.content or b"") is not None


def _make_request(old: http.Request, start: float, own: OwnRecording | None) -> http.Request:
    new = http.Request(
        host=old.host,
        port=old.port,
        method=old.data.method,
        scheme=old.data.scheme,
        authority=old.data.authority,
        path=path_of(old).encode(),
        http_version=old.data.http_version,
        headers=_keep_headers(old, REQUEST_HEADERS),
        content=None,
        trailers=None,
        timestamp_start=start,
        timestamp_end=start + 0.125,
    )
    edit = scrub_response if _asks_own_server(old, own) else scrub_request
    _write_body(new, old, partial(edit, own=own))
    return new


def _make_socket(old: WebSocketData, start: float, own: OwnRecording | None) -> WebSocketData:
    edits = {True: scrub_request, False: scrub_response}
    return WebSocketData(
        messages=[
            WebSocketMessage(
                message.type,
                message.from_client,
                edits[message.from_client](message.content.decode(errors="replace"), own).encode(),
                start + number / 1_000,
            )
            for number, message in enumerate(old.messages)
        ],
        closed_by_client=old.closed_by_client,
        close_code=old.close_code,
        timestamp_end=start + len(old.messages) / 1_000,
    )


def _make_response(old: http.Response, start: float, own: OwnRecording | None) -> http.Response:
    new = http.Response(
        http_version=old.data.http_version,
        status_code=old.status_code,
        reason=b"",
        headers=_keep_headers(old, RESPONSE_HEADERS),
        content=None,
        trailers=None,
        timestamp_start=start,
        timestamp_end=start + 0.125,
    )
    _write_body(new, old, partial(scrub_response, own=own))
    return new


def _write_body(new: http.Message, old: http.Message, edit: Callable[[str], str]) -> None:
    """Give the new message the old one's body, edited, in the old one's encoding."""
    if old.raw_content is None:
        return
    try:
        body = (old.content or b"").decode()
    except ValueError:  # not a text, or not in the encoding that the header names
        new.headers.pop("content-encoding", None)
        body = old.raw_content.decode("latin-1")
    edited = edit(body).encode()
    if edited == old.get_content(strict=False):
        new.raw_content = old.raw_content
    else:
        new.content = edited


def _keep_headers(message: http.Message, allowed: Iterable[str]) -> http.Headers:
    """Return the allowed headers, without what a user agent says of its machine in brackets."""
    return http.Headers(
        [
            (name, _COMMENT.sub("", value.decode("latin-1")).encode("latin-1"))
            for name, value in message.headers.fields
            if name.decode("latin-1").lower() in allowed
        ]
    )


def _make_id(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))


# What becomes of the text of a body

FILLER = "these words stand where other words stood and they say nothing at all; "

_KINDS = ("role", "type", "object", "event", "name", "model", "tool_choice", "service_tier")
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "item_id", "previous_response_id")
_ENDS = ("finish_reason", "finishReason", "stop_reason", "status", "code", "system_fingerprint")
_FORMS = ("required", "$schema", "reasoning_effort", "media_type", "mimeType")
_MESSAGES = ("ttl", "scope", "keep", "effort", "display", "prefix_mismatch_behavior")
_GOOGLE = ("mode", "thinkingLevel", "tool_name")
STRUCTURE = frozenset((*_KINDS, *_IDS, *_ENDS, *_FORMS, *_MESSAGES, *_GOOGLE))
"""Keys whose strings stay, as long as they look like identifiers."""

FREE = frozenset(("arguments", "args", "metadata", "response"))
"""Keys below which the names are the user's own, so that none of them is structure. The same holds
for `input`, a call's arguments, except at the root, where it is a conversation."""

_EVENTS = "response"
"""At the root, the whole answer: in events of Responses, and of Code Assist."""

LONGEST_IDENTIFIER = 200

ANY = "*"
"""Stands for any index in a path."""


class OwnPlace(NamedTuple):
    """Where a request repeats what the agent's own tools were asked, or what they gave back.

    path: of the text, or of what holds it.
    having: a key that the object with the path's last key must have, and its value.
    """

    path: JsonPath
    having: tuple[str, str] | None = None


_BLOCK = ("messages", ANY, "content", ANY)
_PART = ("contents", ANY, "parts", ANY)

OWN_PLACES = (
    # Chat Completions
    OwnPlace(("messages", ANY, "content"), ("role", "tool")),
    OwnPlace(("messages", ANY, "tool_calls", ANY, "function", "arguments")),
    # Messages
    OwnPlace((*_BLOCK, "content"), ("type", "tool_result")),
    OwnPlace((*_BLOCK, "input"), ("type", "tool_use")),
    # Responses
    *(
        OwnPlace(("input", ANY, key))
        for key in ("output", "arguments", "input", "action", "operation")
    ),
    # Gemini, and Code Assist, which has it one level deeper
    OwnPlace((*_PART, "functionResponse", "response")),
    OwnPlace((*_PART, "functionCall", "args")),
    OwnPlace(("request", *_PART, "functionResponse", "response")),
    OwnPlace(("request", *_PART, "functionCall", "args")),
)
"""In a recording that was made here, what stands there is our own."""

_IDENTIFIER = re.compile(r"[\w.:/@#+$-]*", re.ASCII)
_EMAIL = re.compile(r"@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}", re.ASCII)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def scrub_request(text: str, own: OwnRecording | None = None) -> str:
    """Return the text of a request's body with what may be published of it."""
    edited = _edit_strings(text, _Rule(_load(text), own).edit)
    return edited if own is None else respell(edited, own.spellings)


def scrub_response(text: str, own: OwnRecording | None = None) -> str:
    """Return the text of a response's body, a document or an event stream, in the same way."""
    if own is not None:
        return respell(text, own.spellings)
    if text.lstrip()[:1] in ("{", "["):
        return _edit_strings(text, _Rule().edit)
    return "".join(map(_edit_line, _LINES.findall(text)))


def fill(text: str) -> str:
    """Return filler of the same length; the line breaks stay where they are."""
    words = FILLER * (len(text) // len(FILLER) + 1)
    return "".join(old if old in "\r\n" else new for old, new in zip(text, words, strict=False))


def respell(text: str, spellings: Spellings) -> str:
    """Return the text with each pattern replaced by what stands beside it, in order."""
    for pattern, replacement in spellings:
        text = pattern.sub(replacement, text)
    return text


def _edit_line(line: str) -> str:
    """Edit a line of an event stream: `event: NAME`, `data: JSON` or `data: [DONE]`."""
    field, colon, value = line.partition(":")
    if field == "data":
        done = value.strip() == "[DONE]"
        return line if done else field + colon + _edit_strings(value, _Rule().edit)
    return line if field == "event" and _is_identifier(value.strip()) else fill(line)


def _edit_strings(text: str, edit: Callable[[JsonPath, str], str]) -> str:
    """Edit the strings of a JSON text; a text that is not JSON becomes filler as a whole."""
    try:
        return edit_strings(text, edit)
    except ValueError:
        return fill(text)


def _load(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of each string of a body; of a request, `document` is all of it."""

    document: object = None
    own: OwnRecording | None = None

    def edit(self, path: JsonPath, value: str) -> str:
        if self._is_structure(path, value):
            return value
        if self.own and self._is_own(path):
            return fill_foreign(value, self.own.foreign)
        if path[-1:] == ("arguments",) and value.lstrip()[:1] == "{":
            return _edit_strings(value, lambda _, inner: fill(inner))
        texts = self.own.texts if self.own else ()
        kept = next((text for text in texts if text in value), None)
        return fill(value) if kept is None else kept.join(map(fill, value.split(kept)))

    def _is_structure(self, path: JsonPath, value: str) -> bool:
        keys = [step for step in path if isinstance(step, str)]
        if keys[:1] == [_EVENTS]:
            keys = keys[1:]
        if not keys or keys[-1] not in STRUCTURE or not FREE.isdisjoint(keys[:-1]):
            return False
        match path:
            case ("messages", int(), "name") if not self._is_tools(path[:-1]):
                return False  # a person's, not a tool's
        return "input" not in keys[1:-1] and _is_identifier(value)

    def _is_tools(self, message: JsonPath) -> bool:
        return any(self._has(message, "role", role) for role in ("tool", "function"))

    def _is_own(self, path: JsonPath) -> bool:
        return any(self._stands_at(path, place) for place in OWN_PLACES)

    def _stands_at(self, path: JsonPath, place: OwnPlace) -> bool:
        start = path[: len(place.path)]
        if len(start) < len(place.path) or not all(map(_is_step, start, place.path)):
            return False
        return place.having is None or self._has(start[:-1], *place.having)

    def _has(self, path: JsonPath, key: str, value: str) -> bool:
        """Whether the object at a path has this value at a key."""
        found: Any = self.document
        try:
            for step in path:
                found = found[step]
        except (LookupError, TypeError):  # of keys that stand twice, only the last are there
            return False
        return isinstance(found, dict) and found.get(key) == value


def fill_foreign(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    """Return the text with filler for the last group of each pattern."""
    for pattern in patterns:
        text = pattern.sub(_fill_last_group, text)
    return text


def _fill_last_group(found: re.Match[str]) -> str:
    start, end = (place - found.start() for place in found.span(found.re.groups))
    return found[0][:start] + fill(found[0][start:end]) + found[0][end:]


def _is_step(step: str | int, expected: str | int) -> bool:
    return isinstance(step, int) if expected == ANY else step == expected


def _is_identifier(value: str) -> bool:
    if len(value) > LONGEST_IDENTIFIER or _EMAIL.search(value):
        return False
    return bool(_IDENTIFIER.fullmatch(value))


# What must not be published

_Sign = tuple[tuple[str, ...], re.Pattern[str]]
"""Texts of which one must be there, which is found fast, and the pattern that must match."""

SECRETS: dict[str, _Sign] = {
    "an API key": (("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),
    "a bearer token": (
        ("earer", "EARER"),
        re.compile(r"\bBearer\s+[\w.~+/=-]{16,}", re.IGNORECASE | re.ASCII),
    ),
    "an AWS key": (("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    "a GitHub token": (
        ("gh", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}"),
    ),
    "a Google key": (("AIza",), re.compile(r"\bAIza[0-9A-Za-z_-]{30,}")),
    "a Slack token": (("xox",), re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10,}")),
    "a signed token": (("eyJ",), re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.", re.ASCII)),
    "a key or certificate": (("-----BEGIN ",), re.compile(r"-----BEGIN ")),
}
_COMMON_USERS = ("root", "user", "admin", "runner", "ubuntu", "debian", "guest", "test", "dev")
_COMMON_HOSTS = ("localhost", "host", "home", "work", "build", "docker", "python", "node", "agent")
COMMON_NAMES = frozenset((*_COMMON_USERS, *_COMMON_HOSTS))
"""User and host names that are everyday words and identify nobody."""

SHORTEST_NAME = 3


def check_for_leaks(flow: http.HTTPFlow, number: int) -> None:
    """Raise ValueError if something must not get out; it names the place, not what is there."""
    patterns = SECRETS | _make_name_patterns()
    for place, text in _list_texts(flow):
        for what, (cues, pattern) in patterns.items():
            if any(cue in text for cue in cues) and (found := pattern.search(text)):
                where = _find_place(text, found.start())
                raise ValueError(f"{what} is still in request {number}, {place}{where}")


def own_home() -> Path | None:
    """Return the user's home folder; None if that is the root folder."""
    home = Path.home()
    return home if home.name else None


def _list_texts(flow: http.HTTPFlow) -> Iterator[tuple[str, str]]:
    yield "its URL", flow.request.url
    for name, message in (("request", flow.request), ("response", flow.response)):
        if message is None:
            continue
        yield f"the {name}'s headers", bytes(message.headers).decode("latin-1")
        body = message.get_content(strict=False) or b""
        yield f"the {name}'s body", body.decode(errors="replace")
    for number, said in enumerate(flow.websocket.messages if flow.websocket else ()):
        yield f"message {number}", said.content.decode(errors="replace")
        original = find_original_message(flow, number) or b""
        yield f"message {number} as the client wrote it", original.decode(errors="replace")
    yield "the client's own body", (find_original(flow) or b"").decode(errors="replace")


def _find_place(text: str, offset: int) -> str:
    """Return where in a body an offset lies: a path, or else a position."""
    try:
        spans = list(find_strings(text))
    except ValueError:
        return f", position {offset}"
    path = next((span.path for span in spans if span.start <= offset < span.end), None)
    return f", position {offset}" if path is None else f", at {'.'.join(map(str, path))}"


def _make_name_patterns() -> dict[str, _Sign]:
    """Return cues and patterns for the names of the user, of the host and of the home folder."""
    names = {"the user's name": _find_user(), "the host's name": socket.gethostname().split(".")[0]}
    patterns: dict[str, _Sign] = {
        what: ((name,), re.compile(rf"\b{re.escape(name)}\b"))
        for what, name in names.items()
        if len(name) >= SHORTEST_NAME and name.lower() not in COMMON_NAMES
    }
    if home := own_home():
        spelt = json.dumps(str(home))[1:-1]
        patterns["the home folder"] = ((spelt,), re.compile(rf"{re.escape(spelt)}(?!\w)"))
    return patterns


def _find_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
