"""The table of wire formats: a format is a class in a file of this room, and stands here."""

import re
from typing import NamedTuple

from masking.wire.answer import AnsweredCalls, read_calls
from masking.wire.chat import CHAT
from masking.wire.converse import CONVERSE
from masking.wire.format import (
    Added,
    HeadSize,
    Marks,
    Notes,
    OnHistoryEdit,
    ProviderEdit,
    Purpose,
    ServerHistory,
    WireFormat,
    follow,
)
from masking.wire.gemini import GEMINI
from masking.wire.messages import BILLING_HEADER, MESSAGES, SIGNED
from masking.wire.ollama import OLLAMA
from masking.wire.parts import (
    CACHE_MARK,
    count_blocks,
    find_claude_binding,
    find_messages_binding,
    find_responses_binding,
    is_binding_assumed,
)
from masking.wire.responses import HELD_BY_RESPONSE, RESPONSES
from masking.wire.usage import (
    Cleared,
    Usage,
    count_transformations,
    find_usage,
    is_plausible,
    read_cleared,
    read_usage,
)

__all__ = [
    "BILLING_HEADER",
    "CACHE_MARK",
    "CHAT",
    "CONVERSE",
    "FORMATS",
    "GEMINI",
    "HELD_BY_RESPONSE",
    "MESSAGES",
    "OLLAMA",
    "RESPONSES",
    "SIGNED",
    "Added",
    "AnsweredCalls",
    "Cleared",
    "HeadSize",
    "Marks",
    "Match",
    "Notes",
    "OnHistoryEdit",
    "ProviderEdit",
    "Purpose",
    "ServerHistory",
    "Usage",
    "WireFormat",
    "count_blocks",
    "count_transformations",
    "find_claude_binding",
    "find_format",
    "find_messages_binding",
    "find_responses_binding",
    "find_usage",
    "follow",
    "is_binding_assumed",
    "is_plausible",
    "read_calls",
    "read_cleared",
    "read_usage",
]

FORMATS: tuple[WireFormat, ...] = (CHAT, MESSAGES, RESPONSES, GEMINI, OLLAMA, CONVERSE)


class Match(NamedTuple):
    """The format of a request, and what the request asks for."""

    wire: WireFormat
    purpose: Purpose


_PATHS = [
    (re.compile(pattern), Match(wire, purpose))
    for wire in FORMATS
    for pattern, purpose in wire.paths
]


def find_format(method: str, path: str) -> Match | None:
    """Return the format of a request, by its method and its path without the query."""
    if method != "POST":
        return None
    return next((match for pattern, match in _PATHS if pattern.search(path)), None)
