"""Texts from elsewhere, in a form in which they may stand on a screen or in a log."""


def printable(text: str) -> str:
    """Return a text on one line, without control characters and marks of direction."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
