"""Sessions that are in no file, for tests of what works on those of files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from addon.commands.session_work import SessionWork
from addon.commands.sessions import Opened
from addon.commands.workers import Workers
from addon.replay.replay import Session

SILENT = Console(quiet=True)


class Given(NamedTuple):
    """A session that needs no opening; a `Source`."""

    session: Session
    number: int = 1
    file: Path = Path("made-up")
    size: int = 1

    def open(self) -> Opened:
        return Opened(self.session)


def work_on(
    sessions: Sequence[Session], workers: Workers, progress: Console = SILENT
) -> SessionWork:
    """Return work on these sessions."""
    sources = [Given(session, number) for number, session in enumerate(sessions, 1)]
    return SessionWork(
        read=lambda: iter(sources), size=len(sources), workers=workers, progress=progress
    )
