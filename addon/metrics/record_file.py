"""The file of records: JSON lines, rotated once."""

import json
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

import platformdirs

from masking.config_tables import MetricsSettings

logger = logging.getLogger("observation_masking")


def default_path() -> Path:
    """Return where the records go when the configuration names no place."""
    return platformdirs.user_state_path("observation-masking", appauthor=False) / "requests.jsonl"


class RecordFile:
    """An append-only file of JSON lines that is rotated once and never grows beyond its size.

    A file that cannot be written is a warning, once, and records are then lost, not requests.
    """

    def __init__(self, settings: MetricsSettings) -> None:
        self._name = settings.path
        self._max_bytes = settings.max_megabytes * 1_000_000
        self._file: _LineFile | None = None
        self._warned = False

    @property
    def path(self) -> Path:
        """Where the records go. Raises RuntimeError for the home of no user."""
        return Path(self._name).expanduser() if self._name else default_path()

    def write(self, record: dict[str, object]) -> None:
        """Append one line, and flush it."""
        try:
            line = json.dumps(record, ensure_ascii=False)
            self._opened().emit(logging.makeLogRecord({"msg": line}))
        except (OSError, ValueError, RuntimeError) as error:  # no such user, no such name, ...
            if not self._warned:
                place = self._name or "the user's state directory"
                logger.warning(f"no records in {place}: {getattr(error, 'strerror', 0) or error}")
            self._warned = True

    def close(self) -> None:
        """Close the file; a later record would open it again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _opened(self) -> "_LineFile":
        if self._file is None:
            path = self.path
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _LineFile(
                path,
                maxBytes=self._max_bytes,
                backupCount=1,
                encoding="utf-8",
                errors="replace",
            )
        return self._file


class _LineFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        raise  # what `emit` caught: to our caller, not to standard error
