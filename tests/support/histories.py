"""The history of sessions, as tests write and read it."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from addon.records import sessions
from addon.records.sessions import Session, open_history


def write_sessions(folder: Path, rows: Iterable[Session]) -> None:
    """Write rows into the history of a folder."""
    with closing(open_history(lambda: folder)) as store:
        store.write(lambda database: sessions.write_sessions(database, rows))


def read_history(folder: Path) -> list[Session]:
    """Return the sessions of a folder; none if it has no history."""
    with closing(open_history(lambda: folder)) as store:
        return store.find(sessions.read_history) or []
