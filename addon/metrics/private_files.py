"""Files and folders that are for their user alone. What was there before keeps its mode."""

import os
from pathlib import Path

FILE_MODE = 0o600
_FOLDER_MODE = 0o700

_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""A pipe that nobody reads must not hold us up, nor a terminal take us over."""


def make_folder(path: Path) -> None:
    """Make a folder, and those that it is in, where they are missing.

    Raises OSError with the folder that cannot be made.
    """
    if path.is_dir():
        return
    for folder in (*reversed(path.parents), path):
        try:
            folder.mkdir(_FOLDER_MODE, exist_ok=True)
        except OSError as error:
            reason = f"cannot be made: {error.strerror}"
            raise OSError(error.errno, reason, str(folder)) from None


def open_private(path: str, flags: int) -> int:
    """Open a file, as the `opener` of `open`. Raises OSError."""
    return os.open(path, flags | _NEVER_WAIT, FILE_MODE)
