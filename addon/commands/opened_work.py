"""Work on the sessions of files, as the options of a command ask for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from addon.commands.journal import Journal
from addon.commands.session_work import SessionWork
from addon.commands.sessions import SessionFile, list_files, read_sources
from addon.commands.workers import open_workers
from addon.commands.written_files import check_writable
from addon.replay.replay import Pause

_FEW = 8
"""Up to so many sessions are replayed in this process: to start others takes a second or two."""


class WorkOptions(NamedTuple):
    """What a user says of how sessions are worked on; None is the default of each."""

    resume: Path | None = None
    processes: int | None = None
    scheduler: str | None = None
    pause: Pause | None = None


@contextmanager
def open_work(
    paths: Sequence[Path], options: WorkOptions, *, starts_for_few: bool
) -> Iterator[SessionWork]:
    """Give the work on the sessions of these files and folders.

    Unless it `starts_for_few`, few sessions are worked on in this process alone. Raises OSError and
    ValueError for files that cannot be read or written, and as `open_workers`.
    """
    if options.resume is not None:
        check_writable(options.resume)
    files = [file for file in list_files(paths) if file.is_named or file.path != options.resume]
    is_here = not starts_for_few and options.processes is None and _are_few(files)
    processes = 1 if is_here else options.processes
    journal = nullcontext() if options.resume is None else Journal(options.resume)
    with journal as opened, open_workers(options.scheduler, processes) as workers:
        yield SessionWork(
            read=partial(read_sources, files),
            size=sum(file.size for file in files),
            workers=workers,
            progress=Console(stderr=True),
            journal=opened,
            pause=options.pause,
        )


def _are_few(files: Sequence[SessionFile]) -> bool:
    return sum(1 for _ in islice(read_sources(files), _FEW + 1)) <= _FEW
