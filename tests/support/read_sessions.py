"""Sessions of files and folders, for what needs no command around them."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from addon.commands.work import list_files, read_sources
from addon.replay.replay import Session


def read_sessions(paths: Iterable[Path]) -> Iterator[Session]:
    """Yield the sessions of these files and folders, in the order of `list_files`.

    Recordings of a folder that cannot be replayed are left out, with a warning. Raises OSError and
    ValueError, with the file's name.
    """
    for source in read_sources(list_files(paths)):
        for session, warning in source.open():
            if warning is not None:
                print(warning, file=sys.stderr)
            if session is not None:
                yield session
