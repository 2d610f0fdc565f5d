"""Names from the wire, in the form in which logs and records may hold them."""

_MAX_CHARS = 200


def printable(text: str) -> str:
    """Return a name from the wire in a form that may stand in a log: short, and on one line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_MAX_CHARS])
