"""Sessions that are in no file, for tests of what works on those of files."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console

from addon.commands.work import Opened, SessionWork
from addon.commands.workers import Workers
from addon.replay.replay import Session

SILENT = Console(quiet=True)


class Given(NamedTuple):
    """A session that needs no opening; a `Source`."""

    session: Session
    size: int = 1

    def open(self) -> Iterable[Opened]:
        return (Opened(self.session),)


def work_on(
    sessions: Sequence[Session], workers: Workers, progress: Console = SILENT
) -> SessionWork:
    """Return work on these sessions."""
    sources = [Given(session) for session in sessions]
    return SessionWork(
        read=lambda: iter(sources), size=len(sources), workers=workers, progress=progress
    )
