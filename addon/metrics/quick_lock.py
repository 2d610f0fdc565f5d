"""Takes a lock of `filelock` where nobody holds it, as nearly always.

It is the same lock on the same file, so who takes it here and who takes it there keep each other
out. `filelock` spends most of its time on what a lock may meet besides: other threads, hooks,
signals, file systems without locks. Whoever does not get the lock here is to ask it there.
"""

import os
import sys
from contextlib import suppress

if sys.platform == "win32":

    def take(name: str) -> int | None:
        """Return the lock; None if it cannot be had at once."""
        return None

    def release(lock: int) -> None:
        """Let go of a lock."""

else:
    import fcntl

    def take(name: str) -> int | None:
        """Return the lock; None if it cannot be had at once: held, not made yet, not to be had."""
        try:
            lock = os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
        except (OSError, ValueError):
            return None
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:  # else it was removed meanwhile, and locks nobody out
                return lock
        os.close(lock)
        return None

    def release(lock: int) -> None:
        """Let go of a lock. Closing it is not enough while a child process has it, too."""
        try:
            fcntl.flock(lock, fcntl.LOCK_UN)
        finally:
            os.close(lock)
