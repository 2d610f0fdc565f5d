"""The table of wire formats: a format is a file in this room and a row here."""

from masking.conversation import WireFormat
from masking.wire.chat import CHAT

FORMATS: tuple[WireFormat, ...] = (CHAT,)


def find_format(method: str, path: str) -> WireFormat | None:
    """Return the format of a request, by its method and its path without the query."""
    if method != "POST":
        return None
    return next((wire for wire in FORMATS if path.endswith(wire.path_ending)), None)
