"""What a check found: how bad it is, one sentence, and the line that mends it."""

from typing import Literal, NamedTuple

Level = Literal["ok", "note", "broken"]
"""`note`: worth knowing, and it may be as the user wants it. `broken`: something will fail."""


class Finding(NamedTuple):
    """One finding. `mend` is a line to type or to write into a file; None where there is none."""

    level: Level
    says: str
    mend: str | None = None


def ok(says: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding("ok", says)


def note(says: str, mend: str | None = None) -> Finding:
    """Return a finding that is worth knowing."""
    return Finding("note", says, mend)


def broken(says: str, mend: str | None = None) -> Finding:
    """Return a finding of what will fail."""
    return Finding("broken", says, mend)
