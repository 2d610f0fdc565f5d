"""Which requests go to an MCP server, and what they ask for, by the client's JSON-RPC."""

import re
from dataclasses import dataclass

from masking.edit.json_text import decode
from masking.errors import ConfigError, WireError
from masking.strategies.mcp_payload import Methods, PayloadPolicy

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

_NOTIFICATIONS = "notifications/"

_ENDPOINT = re.compile(r"[^\s/?\[\]]+/(?!/)[^\s?\[\]]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings(PayloadPolicy):
    """What is cut, and in whose answers.

    endpoints: places that are MCP servers whatever is sent there: `host/path` or
        `host:port/path`, without scheme and query, in upper or lower case; `*` matches anything.

    Raises ConfigError for an endpoint of another form.
    """

    endpoints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for place, pattern in enumerate(self.endpoints):
            if not _ENDPOINT.fullmatch(pattern):
                raise ConfigError(
                    "expected host/path without scheme or query", f"endpoints[{place}]"
                )


def read_methods(body: bytes) -> Methods | None:
    """Return the methods of the JSON-RPC requests in a body, by id; None if none is MCP's.

    The body may be any bytes. Notifications have no id; a body of nothing else gives an empty
    mapping.
    """
    if b"jsonrpc" not in body:  # nearly all that passes by; a body may be large
        return None
    try:
        document = decode(body)
    except WireError:
        return None
    messages = document if isinstance(document, list) else [document]
    calls = [call for call in map(_read_call, messages) if call is not None]
    if not any(_is_mcp(method) for _, method in calls):
        return None
    return {asked_by: method for asked_by, method in calls if isinstance(asked_by, (str, int))}


def _read_call(message: object) -> tuple[object, str] | None:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    method = message.get("method")
    return (message.get("id"), method) if isinstance(method, str) else None


def _is_mcp(method: str) -> bool:
    return method in _METHODS or method.startswith(_NOTIFICATIONS)
