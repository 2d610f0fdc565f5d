"""The table of wire formats: a format is a file in this room and a row here."""

import re
from typing import NamedTuple

from masking.wire.chat import CHAT
from masking.wire.converse import CONVERSE
from masking.wire.gemini import GEMINI
from masking.wire.messages import MESSAGES
from masking.wire.ollama import OLLAMA
from masking.wire.responses import RESPONSES
from masking.wire_format import Purpose, WireFormat

FORMATS: tuple[WireFormat, ...] = (CHAT, MESSAGES, RESPONSES, GEMINI, OLLAMA, CONVERSE)

_PATHS = [
    (re.compile(pattern), wire, purpose) for wire in FORMATS for pattern, purpose in wire.paths
]


class Match(NamedTuple):
    """The format of a request, and what the request asks for."""

    wire: WireFormat
    purpose: Purpose


def find_format(method: str, path: str) -> Match | None:
    """Return the format of a request, by its method and its path without the query."""
    if method != "POST":
        return None
    found = (Match(wire, purpose) for pattern, wire, purpose in _PATHS if pattern.search(path))
    return next(found, None)
