"""Names from the wire, in the form in which logs and records may hold them."""

from masking.errors import printable as printable_in_full

_MAX_CHARS = 200


def printable(text: str) -> str:
    """Return a name from the wire in a form that may stand in a log: short, and on one line."""
    return printable_in_full(text[:_MAX_CHARS])
