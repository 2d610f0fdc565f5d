"""A file of lines that several processes append to, and that is rotated once.

For each line the file is opened anew, under a lock that all writers share, and the line is one
write. So nobody writes to a file that another has renamed, a file that was deleted is made again,
and what a killed process or a full disk left of a line is never continued by the next one.

A file that holds something else is left alone: whoever names it, by mistake or in bad faith, must
not have it renamed or written.

A process that is stopped holds the lock for good. After a while the others append without it,
which is safe; only the rotation waits until the lock can be had.
"""

import contextlib
import logging
import os
import re
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from filelock import FileLock

from addon.metrics import quick_append, quick_lock
from addon.places import FILE_MODE, make_folder, open_private

logging.getLogger("filelock").setLevel(logging.INFO)  # below, it says four lines for each of ours

_PATIENCE = 2.0
"""Seconds to wait for the lock; once in vain, the next lines do not wait for it."""

_POLL = 0.005


class SharedFile:
    """A file that lines are appended to.

    Beyond `max_bytes` it becomes `<path>.1`, in place of an earlier one. `beginning` matches how a
    file of ours begins.
    """

    def __init__(self, path: Path, max_bytes: int, beginning: re.Pattern[bytes]) -> None:
        self._path, self._max_bytes, self._beginning = path, max_bytes, beginning
        self._patience = _PATIENCE
        self._was_written = False
        self._lock: FileLock | None = None

    def append(self, line: bytes) -> list[str]:
        """Append a line, which has its end; return what the user should know of the file.

        Raises OSError, as for a file that is not ours, or ValueError for what can be no path; then
        nothing of the line is left, or a part that no reader takes for a line.
        """
        if quick_append.append(str(self._path), line, self._max_bytes, self._beginning):
            self._patience, self._was_written = _PATIENCE, True
            return []
        path, notices = self._path, []
        if not _is_regular(path):
            path = Path(os.path.realpath(path))  # a link stays where it is
            if _is_device(path):
                with _open(path) as file:
                    _write(file, line)
                return []
            make_folder(path.parent)
        if not begins_as(path, self._beginning):
            raise OSError(0, "it holds something else than records, and is left alone")
        with self._locked(path) as problem:
            is_locked = problem is None
            size = _measure(path)
            if self._was_written and size is None:
                notices.append("was moved or deleted; a new file is begun")
            if size and size + len(line) > self._max_bytes:
                problem = problem or self._rotate(path)
                if problem:
                    notices.append(f"cannot be rotated, and grows: {problem}")
            with _open(path) as file:
                _append(file, line, is_locked)
        self._was_written = True
        return notices

    def _rotate(self, path: Path) -> str | None:
        """Rename a file that is full; return the reason if that cannot be done."""
        older = Path(f"{path}.1")
        try:
            if older.is_file() and not begins_as(older, self._beginning):
                return f"{older} holds something else than records"
            path.replace(older)
        except OSError as error:
            return error.strerror
        return None

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[str | None]:
        """Hold the writers' lock; give the reason if it cannot be had."""
        name = f"{path}.lock"
        if (quick := quick_lock.take(name)) is not None:
            self._patience = _PATIENCE
            try:
                yield None
            finally:
                quick_lock.release(quick)
            return
        lock = self._lock
        if lock is None or lock.lock_file != name:  # to make one takes longer than to hold it
            lock = self._lock = FileLock(name, mode=FILE_MODE)
        try:
            lock.acquire(timeout=self._patience, poll_interval=_POLL)
        except OSError as error:
            self._patience = 0.0
            yield error.strerror or "another process holds its lock"
            return
        self._patience = _PATIENCE
        try:
            yield None
        finally:
            lock.release()


def begins_as(path: Path, beginning: re.Pattern[bytes]) -> bool:
    """Whether a file begins so, is empty, or is not there. Raises OSError if it cannot be read."""
    try:
        with open(path, "rb", opener=open_private) as file:
            start = file.read(quick_append.BEGINNING_BYTES)
    except FileNotFoundError:
        return True
    return not start or bool(beginning.match(start))


def _is_regular(path: Path) -> bool:
    """Whether a file is there and is no link. Raises OSError, or ValueError for no path."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _is_device(path: Path) -> bool:
    """Whether a path leads to a device, such as /dev/null. Raises OSError for other odd files."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise OSError(0, "not a regular file")
    return stat.S_ISCHR(mode)


def _open(path: Path) -> FileIO:
    """Open a file to append to, unbuffered: what fails, fails here, and not when it is closed."""
    return open(path, "ab+", buffering=0, opener=open_private)


def _measure(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _append(file: FileIO, line: bytes, is_locked: bool) -> None:
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":  # the rest of a line
            line = b"\n" + line
    try:
        _write(file, line)
    except OSError:
        if is_locked:
            file.truncate(size)
        raise


def _write(file: FileIO, line: bytes) -> None:
    if (file.write(line) or 0) < len(line):
        raise OSError(0, "the disk is full")
