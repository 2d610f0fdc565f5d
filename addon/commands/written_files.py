"""Files that a command is asked to write."""

import errno
import os
from pathlib import Path


def check_writable(file: Path) -> None:
    """Raise OSError if a file cannot be written, before any work is done for it."""
    folder = file.parent
    if not folder.exists():
        raise OSError(f"{file}: there is no folder {folder}")
    if not folder.is_dir():
        raise OSError(f"{file}: {os.strerror(errno.ENOTDIR)}")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise OSError(f"{file}: {os.strerror(errno.EACCES)}")
