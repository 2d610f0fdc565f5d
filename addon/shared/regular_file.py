"""A file that is read as it stands, how to see that it has changed, and how to replace it whole.

Only a regular file is read: what is none (a FIFO, a folder) is refused.
"""

import contextlib
import os
import stat
import tempfile
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


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that is there completely or not at all: a reader meets the old or the new one.

    A file that was there keeps its permissions, and a link to it stays one; a new one is for its
    owner alone, as is a folder that is made for it. Raises OSError.
    """
    path = path.resolve()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle is no path
            file.write(data)
            file.flush()
            os.fsync(handle)
        with contextlib.suppress(FileNotFoundError):
            before = path.stat()
            with contextlib.suppress(OSError, AttributeError):  # another user's; not on Windows
                os.chown(name, before.st_uid, before.st_gid)
            Path(name).chmod(stat.S_IMODE(before.st_mode))
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _WITHOUT_WAITING)


def _describe(found: os.stat_result) -> FileState:
    return FileState(
        found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
    )
