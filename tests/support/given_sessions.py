"""Sessions that are in no file, for tests of what works on those of files."""

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from addon.commands.work import Opened, SessionWork, Source, give
from addon.commands.workers import Workers
from addon.replay.replay import Session

SILENT = Console(quiet=True)


def work_on(
    sessions: Sequence[Session], workers: Workers, progress: Console = SILENT
) -> SessionWork:
    """Return work on these sessions."""
    sources = [Source(1, partial(give, Opened(session))) for session in sessions]
    return SessionWork(
        read=lambda: iter(sources), size=len(sources), workers=workers, progress=progress
    )
