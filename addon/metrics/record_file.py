"""The file of records: JSON lines, in a file that several proxies share."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from addon.metrics.shared_file import SharedFile
from addon.places import state_folder
from masking.config import MetricsSettings

logger = logging.getLogger("observation_masking")

BEGINNING = re.compile(rb'\{"(?:kind": ?"(?:chat|mcp)"|time": ?"[^"]{,40}", ?"host": ?")')
"""How a file of records begins. Those of version 0.1.0 have no kind."""

Log = Callable[[int, str], object]
"""What logs a line at a level."""


def default_path() -> Path:
    """Return where the records go when the configuration names no place."""
    return state_folder() / "requests.jsonl"


class RecordFile:
    """An append-only file of JSON lines that is rotated once and never exceeds its size.

    A file that cannot be written is one warning; records are then lost, requests are not, and
    `lost` counts them. The default file is for live traffic only.
    """

    def __init__(self, settings: MetricsSettings, log: Log = logger.log) -> None:
        self._log = log
        self._name = settings.path
        self._max_bytes = settings.max_megabytes * 1_000_000
        self._file: SharedFile | None = None
        self.lost = 0
        self._said: set[str] = set()

    @property
    def path(self) -> Path:
        """Where the records go. Raises RuntimeError if the user has no home."""
        return Path(self._name).expanduser().absolute() if self._name else default_path()

    def write(self, record: Mapping[str, object]) -> None:
        """Append one line, at once."""
        if record.get("replay") and not self._name:
            self._say_once(
                logging.INFO,
                "replayed requests leave no records among those of live traffic: to keep theirs, "
                "set another metrics.path",
            )
            return
        try:
            self._append(_spell(record))
        except (OSError, ValueError, RuntimeError) as error:  # no such user, no such name, ...
            self.lost += 1
            problem = getattr(error, "strerror", 0) or error
            self._say_once(logging.WARNING, f"no records in {self._place}: {problem}")

    def close(self) -> None:
        """Say how many records were lost."""
        if self.lost:
            self._log(logging.WARNING, f"{self.lost} records were lost: {self._place}")

    @property
    def _place(self) -> str:
        try:
            return str(self.path)
        except RuntimeError:
            return self._name or "the user's state directory"

    def _append(self, line: bytes) -> None:
        self._file = self._file or SharedFile(self.path, self._max_bytes, BEGINNING)
        for notice in self._file.append(line):
            self._say_once(logging.WARNING, f"{self.path} {notice}")

    def _say_once(self, level: int, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._log(level, line)


def _spell(record: Mapping[str, object]) -> bytes:
    """Return a record as a line."""
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, numbers beyond 64 bits
        spelled = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        return f"{spelled}\n".encode("utf-8", "replace")
