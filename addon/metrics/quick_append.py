"""Appends a line to a file as nearly always: it is there, ours, no link, whole, and has room.

The lock is that of all writers. Where anything is otherwise, nothing is done, and `shared_file`,
which knows what may be, is to do it. That takes twice as many calls of the system.
"""

import os
import re
import stat
import sys

from addon.metrics import quick_lock

BEGINNING_BYTES = 64
"""By so much of its beginning a file is known for ours, or not."""

if sys.platform == "win32":

    def append(path: str, line: bytes, max_bytes: int, beginning: re.Pattern[bytes]) -> bool:
        """Append a line, which has its end; return whether that was done."""
        return False

else:
    _FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

    def append(path: str, line: bytes, max_bytes: int, beginning: re.Pattern[bytes]) -> bool:
        """Append a line, which has its end; return whether that was done.

        A file of ours begins as `beginning` says. Raises OSError if it fails, as on a full disk;
        then nothing of the line is left.
        """
        lock = quick_lock.take(f"{path}.lock")
        if lock is None:
            return False
        try:
            file = os.open(path, _FLAGS)
        except OSError:
            quick_lock.release(lock)
            return False
        try:
            return _append(file, line, max_bytes, beginning)
        finally:
            os.close(file)
            quick_lock.release(lock)

    def _append(file: int, line: bytes, max_bytes: int, beginning: re.Pattern[bytes]) -> bool:
        found = os.fstat(file)
        size = found.st_size
        if not stat.S_ISREG(found.st_mode) or not 0 < size <= max_bytes - len(line):
            return False
        if not beginning.match(os.pread(file, BEGINNING_BYTES, 0)):
            return False
        if os.pread(file, 1, size - 1) != b"\n":
            return False
        try:
            if os.write(file, line) < len(line):
                raise OSError(0, "the disk is full")
        except OSError:
            os.ftruncate(file, size)
            raise
        return True
