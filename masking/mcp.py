"""MCP: which requests go to a server, and long strings in its answers cut to head and tail.

Only string values inside `result`, or else inside `error.data`, of JSON-RPC 2.0 responses are cut,
around a marker. Requests and notifications, which servers send too, are left alone.

A result's `structuredContent` is cut like its `content`: the two mostly say the same, and some
clients give the model the one, some the other. A cut string is still a string, so the types of a
tool's output schema hold. Its `pattern`, `format` or `minLength` may not; then a client that
validates refuses the result. A string that holds JSON is no longer JSON once it is cut.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from masking.edit.json_text import decode
from masking.edit.splice import splice
from masking.errors import ConfigError, WireError
from masking.model import Path, Replacement
from masking.setting import check_settings, setting

RequestId = str | int
Methods = Mapping[RequestId, str]
"""The method that was requested under each id, where it is known."""

UNKNOWN: Methods = MappingProxyType({})

_MARKER = (
    "\n... [KIMI_PROXY_OBSERVATION_MASKED original_chars={chars} head={head} tail={tail}] ...\n"
)
"""As kimi-proxy's MCP gateway writes it, so that tools which look for that marker find this one."""

_RENDERED = re.compile(
    re.escape(_MARKER.format(chars=0, head=0, tail=0)).replace("0", "([0-9]{1,20})")
)

_WHOLE_ANSWERS = frozenset({"tools/list"})
"""Methods whose answers are never cut: half a description or schema makes a tool unusable."""

_BINARY = {"data": frozenset({"mimeType"}), "blob": frozenset({"mimeType", "uri"})}
"""Keys of encoded bytes, and the keys beside them that say so."""

_OPAQUE = frozenset({"_meta", "inputRequests", "requestState"})
"""What a client passes on or answers unchanged (MCP 2026-07-28: `Result`, `InputRequiredResult`).
No model reads it."""

_REFERENCE = re.compile(
    r"(?:(?<![A-Za-z])|(?<=[a-z0-9])(?=[A-Z])|(?=[A-Z][a-z]))"
    r"(?i:ids?|uris?|urls?|uri_?template|cursors?|token)\Z"
)
"""Keys whose last word says that the value is an id, an address or a position: `id`, `taskId`,
`next_cursor`."""

_URI = re.compile(r"(?:data:[^\s,]*,|[A-Za-z][A-Za-z0-9+.-]*://)\S*")

_ENDPOINT = re.compile(r"[^\s/?\[\]]+/(?!/)[^\s?\[\]]*")


def _check_endpoints(endpoints: Sequence[str], path: str) -> None:
    for place, pattern in enumerate(endpoints):
        if not _ENDPOINT.fullmatch(pattern):
            raise ConfigError("expected host/path without scheme or query", f"{path}[{place}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """What is cut, and in whose answers. Lengths are in code points.

    A head or a tail of 0 or less is nothing. A string that would not get shorter is left alone, so
    `max_chars` should be at least their sum. An endpoint may name its port, `host:port/path`, and
    is in upper or lower case. Raises ConfigError for one of another form.
    """

    enabled: bool = setting(False, "Cut long strings in the responses of MCP servers over HTTP.")
    max_chars: int = setting(4_000, "Cut strings longer than this. 0 turns this off.")
    head_chars: int = setting(2_000, "How much of their beginning is kept.")
    tail_chars: int = setting(2_000, "How much of their end is kept.")
    endpoints: tuple[str, ...] = setting(
        (),
        "MCP servers, as `host/path` (`*` matches anything). Others are recognized by what their "
        "clients send.",
        check=_check_endpoints,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def cuts(self) -> bool:
        """Whether anything can be cut at all."""
        return self.enabled and self.max_chars > 0


class MaskedPayload(NamedTuple):
    """The body to pass on, and what was cut. Without cuts it is the very body that was given."""

    body: bytes
    cuts: tuple[Replacement, ...] = ()


def mask_payload_bytes(
    body: bytes, policy: McpSettings, methods: Methods = UNKNOWN
) -> MaskedPayload:
    """Cut the long strings in a JSON-RPC message, or in a batch of them; no other byte changes.

    methods: the requested methods by id; other answers are recognized by their shape.

    Pure. Raises WireError if the body is long enough to be cut and is not JSON.
    """
    if not policy.cuts or len(body) <= policy.max_chars:
        return MaskedPayload(body)
    document = decode(body)
    cuts = find_cuts(document, policy, methods)
    if not cuts:
        return MaskedPayload(body)
    return MaskedPayload(splice(body, document, cuts), cuts)


def find_cuts(
    value: object, policy: McpSettings, methods: Methods = UNKNOWN
) -> tuple[Replacement, ...]:
    """Return the strings to cut in a decoded message or batch, in document order."""
    texts = (
        found
        for path, payload in _payloads(value, methods)
        for found in _long_texts(path, payload, policy.max_chars)
    )
    cuts = (Replacement(path, text, cut_text(text, policy)) for path, text in texts)
    return tuple(cut for cut in cuts if cut.placeholder != cut.text)


def cut_text(text: str, policy: McpSettings) -> str:
    """Return a long text's head and tail around a marker.

    A text that is not long, is already cut like this, or would not get shorter is returned
    unchanged.
    """
    head, tail, length = max(0, policy.head_chars), max(0, policy.tail_chars), len(text)
    marker = _MARKER.format(chars=length, head=head, tail=tail)
    is_shorter = head + len(marker) + tail < length
    if not policy.cuts or length <= policy.max_chars or not is_shorter or _is_cut(text, head, tail):
        return text
    return f"{text[:head]}{marker}{text[length - tail :]}"


def _is_cut(text: str, head: int, tail: int) -> bool:
    """Whether a text was already cut to this head and tail."""
    found = _RENDERED.match(text, head)
    if found is None or len(text) - found.end() != tail:
        return False
    return (head, tail) == (int(found[2]), int(found[3]))


def _payloads(value: object, methods: Methods) -> Iterator[tuple[Path, object]]:
    """Yield the result, or else the data of the error, of each answer that may be cut."""
    messages = enumerate(value) if isinstance(value, list) else ((None, value),)
    for place, message in messages:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "method" in message:
            continue
        result, error, asked_by = message.get("result"), message.get("error"), message.get("id")
        method = methods.get(asked_by) if isinstance(asked_by, (str, int)) else None
        if _lists_tools(result) if method is None else method in _WHOLE_ANSWERS:
            continue
        path = () if place is None else (place,)
        if result is None and isinstance(error, dict):
            yield (*path, "error", "data"), error.get("data")
        else:
            yield (*path, "result"), result


def _lists_tools(result: object) -> bool:
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list) or not tools:
        return False
    return all(isinstance(tool, dict) and "inputSchema" in tool for tool in tools)


def _long_texts(path: Path, payload: object, max_chars: int) -> Iterator[tuple[Path, str]]:
    """Yield the long strings in a payload that may be cut. No recursion: a payload may be deep."""
    pending = [(path, payload)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, (dict, list)):
            members = value.items() if isinstance(value, dict) else enumerate(value)
            inner = [
                ((*path, key), member)
                for key, member in members
                if (isinstance(member, str) and len(member) > max_chars)
                or isinstance(member, (dict, list))
                if not _is_kept(key, member, value)
            ]
            pending += reversed(inner)
        elif isinstance(value, str) and len(value) > max_chars and not _URI.fullmatch(value):
            yield path, value


def _is_kept(key: str | int, value: object, holder: object) -> bool:
    """Whether the value at a key is for a program, to which a part of it is useless."""
    if not isinstance(holder, dict) or not isinstance(key, str):
        return False
    if key in _OPAQUE or not _BINARY.get(key, frozenset()).isdisjoint(holder):
        return True
    if key == "text":  # a page for the client's window, not for the model (MCP Apps, SEP-1865)
        return str(holder.get("uri")).startswith("ui://")
    values = value if isinstance(value, list) else [value]
    return not any(isinstance(v, (dict, list)) for v in values) and bool(_REFERENCE.search(key))


# Requests

_METHODS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    }
)
"""The methods of a client, in all revisions up to 2026-07-28 (modelcontextprotocol.io, schema).

Not `tasks/...`: A2A agents use the same names in JSON-RPC, and MCP's tasks come with a header.
"""


def read_methods(body: bytes) -> Methods | None:
    """Return the methods of the JSON-RPC requests in a body, by id; None if none is MCP's.

    The body may be any bytes. Notifications have no id, so for a body with nothing else the mapping
    is empty.
    """
    if b"jsonrpc" not in body:  # nearly always; a body may be large
        return None
    try:
        document = decode(body)
    except WireError:
        return None
    messages = document if isinstance(document, list) else [document]
    calls = [
        (message.get("id"), method)
        for message in messages
        if isinstance(message, dict) and message.get("jsonrpc") == "2.0"
        if isinstance(method := message.get("method"), str)
    ]
    # One method of MCP's makes the whole body MCP's: others may be a server's own.
    if not any(method in _METHODS or method.startswith("notifications/") for _, method in calls):
        return None
    return {asked_by: method for asked_by, method in calls if isinstance(asked_by, (str, int))}
