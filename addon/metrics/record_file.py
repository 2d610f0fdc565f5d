"""The file of records: JSON lines, rotated once."""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path

import platformdirs

from masking.config_tables import MetricsSettings

logger = logging.getLogger("observation_masking")


Log = Callable[[int, str], object]
"""What logs a line at a level."""


def default_path() -> Path:
    """Return where the records go when the configuration names no place."""
    return platformdirs.user_state_path("observation-masking", appauthor=False) / "requests.jsonl"


class RecordFile:
    """An append-only file of JSON lines that is rotated once and never exceeds its size.

    A file that cannot be written is one warning; records are then lost, requests are not. The
    default file is for live traffic only.
    """

    def __init__(self, settings: MetricsSettings, log: Log = logger.log) -> None:
        self._log = log
        self._name = settings.path
        self._max_bytes = settings.max_megabytes * 1_000_000
        self._file: FileIO | None = None
        self._was_warned = self._was_told = False

    @property
    def path(self) -> Path:
        """Where the records go. Raises RuntimeError if the user has no home."""
        return Path(self._name).expanduser() if self._name else default_path()

    def write(self, record: Mapping[str, object]) -> None:
        """Append one line, at once."""
        if record.get("replay") and not self._name:
            self._tell()
            return
        line = f"{json.dumps(record, ensure_ascii=False)}\n".encode("utf-8", "replace")
        try:
            self._append(line)
        except (OSError, ValueError, RuntimeError) as error:  # no such user, no such name, ...
            self.close()  # a later record opens it again
            if not self._was_warned:
                place = self._name or "the user's state directory"
                problem = getattr(error, "strerror", 0) or error
                self._log(logging.WARNING, f"no records in {place}: {problem}")
            self._was_warned = True

    def close(self) -> None:
        """Close the file; a later record would open it again."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def _append(self, line: bytes) -> None:
        file = self._file or self._open()
        if _measure(file) + len(line) > self._max_bytes and self.path.is_file():
            self.close()
            self.path.replace(f"{self.path}.1")
            file = self._open()
        # Nothing is buffered: what a full disk does not take fails here, and not when the file is
        # closed.
        if file.write(line) < len(line):
            raise OSError(0, "the disk is full")

    def _open(self) -> FileIO:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self.path, "a")
        return self._file

    def _tell(self) -> None:
        if not self._was_told:
            self._log(
                logging.INFO,
                "replayed requests leave no records among those of live traffic: to keep theirs, "
                "set a path of their own in [observation_masking.metrics]",
            )
        self._was_told = True


def _measure(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size
