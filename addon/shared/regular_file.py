"""A file that is read as it stands, and how to see that it has changed.

Only a regular file is: what is none (a FIFO, a folder) is refused.
"""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from masking.errors import ConfigError

_WITHOUT_WAITING: int = getattr(os, "O_NONBLOCK", 0)
"""Else opening a FIFO waits until somebody writes into it."""


class FileState(NamedTuple):
    """What differs, as a rule, between two states of a file."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    device: int


def find_state(path: Path) -> FileState | None:
    """Return the state of a file; None if there is none that can be seen."""
    try:
        return _describe(path.stat())
    except (OSError, ValueError):
        return None


def read_regular(
    path: Path, what: str = "configuration", megabytes: int = 1
) -> tuple[bytes, FileState]:
    """Return a file's bytes, and its state just before they were read.

    Raises ConfigError, which says `what` it was to be, if the file cannot be read, is not a regular
    one, or is larger than so many megabytes.
    """
    problem = f"cannot read the {what} {path}"
    try:
        with open(path, "rb", opener=_open) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{problem}: not a regular file")
            data = file.read(megabytes * 1_000_000 + 1)
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{problem}: {reason}") from None
    if len(data) > megabytes * 1_000_000:
        raise ConfigError(f"{problem}: larger than {megabytes} MB")
    return data, _describe(found)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _WITHOUT_WAITING)


def _describe(found: os.stat_result) -> FileState:
    return FileState(
        found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
    )
