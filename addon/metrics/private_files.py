"""Files and folders that are for their user alone. What was there before keeps its mode."""

import os
from pathlib import Path

FILE_MODE = 0o600
_FOLDER_MODE = 0o700

_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""A pipe that nobody reads must not hold us up, nor a terminal take us over."""


def make_folder(path: Path) -> None:
    """Make a folder, and those that it is in, where they are missing. Raises OSError."""
    if not path.is_dir():
        for folder in (*reversed(path.parents), path):
            folder.mkdir(_FOLDER_MODE, exist_ok=True)


def open_private(path: str, flags: int) -> int:
    """Open a file, as the `opener` of `open`. Raises OSError."""
    return os.open(path, flags | _NEVER_WAIT, FILE_MODE)
