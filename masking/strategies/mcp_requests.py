"""Which requests are to an MCP server, and what they ask for, by what a client says in JSON-RPC."""

import re
from dataclasses import dataclass

from masking.edit.splice import decode
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
"""What a client of any revision up to 2026-07-28 asks for (modelcontextprotocol.io, schema).

Not `tasks/...`: A2A's agents say the same in JSON-RPC, and MCP's tasks come with a header.
"""

_NOTIFICATIONS = "notifications/"

_ENDPOINT = re.compile(r"[^\s/?\[\]]+/(?!/)[^\s?\[\]]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings(PayloadPolicy):
    """What is cut, and of whom.

    endpoints: what is taken for an MCP server whatever is sent there: `host/path` or
        `host:port/path`, without scheme and query; `*` matches anything, in any case of letters.

    Raises ConfigError for what can be no such place.
    """

    endpoints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for place, pattern in enumerate(self.endpoints):
            if not _ENDPOINT.fullmatch(pattern):
                raise ConfigError(
                    "expected host/path without scheme or query", f"endpoints[{place}]"
                )


def read_methods(body: bytes) -> Methods | None:
    """Return what the JSON-RPC requests in a body ask for, by id; None where none is MCP's.

    Any bytes will do. Notifications have no id, and leave nothing but an empty answer.
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
