"""Keeps what the window masks, in a thread of its own, after the request was decided.

Whatever goes wrong with it is one warning: the placeholder is sent all the same.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from addon.shared.recall_folder import RecallFolder, find_folder
from addon.threads import Worker
from masking.config import RecallSettings
from masking.model import Decision
from masking.window import encode_text, masked_texts, recall_id_of

logger = logging.getLogger("observation_masking")

_MAX_PENDING_BYTES = 64_000_000
"""The most bytes of bodies that may wait to be kept: beyond them nothing more waits."""

_STOP_SECONDS = 5.0

_DAY = 86_400.0
_TRIM_SECONDS = 3_600.0
_TRIM_PART = 50
"""The folder is trimmed before a fiftieth of its size was written. A tenth of it is then free, so
that five proxies may do so at once."""

_LARGEST_PART = 2
"""One request may take half of the folder, so that its texts do not drive each other out."""


class RecallWriter:
    """Keeps the texts of one request after the other. `clock` is as `time.time`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._worker = Worker("recall")
        self._pending_bytes = 0
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._trimmed: tuple[RecallSettings, float] | None = None
        self._written = 0

    def keep(self, decisions: Iterable[Decision], size: int, settings: RecallSettings) -> None:
        """Keep soon what was masked in a request of so many bytes, if it is to be kept."""
        if not settings.enabled:
            return
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self._warn("what is masked is not kept at all times: the disk is too slow")
            return
        self._add_pending(size)

        def job() -> None:
            try:
                self._keep(decisions, settings)
            except (OSError, RuntimeError, ValueError) as error:  # also: no home, no such name
                problem = getattr(error, "strerror", None) or error
                self._warn(f"what is masked is not kept for recall: {problem}")
            finally:
                self._add_pending(-size)

        self._worker.submit(job)

    def close(self) -> None:
        """Wait until all is kept, though not for ever."""
        if not self._worker.close(_STOP_SECONDS):
            self._warn("what was masked last is not kept for recall: the disk is too slow")

    def _keep(self, decisions: Iterable[Decision], settings: RecallSettings) -> None:
        folder, max_bytes = RecallFolder(find_folder(settings)), settings.max_megabytes * 1_000_000
        folder.make()
        if self._is_due(settings):
            self._trim(folder, settings, max_bytes)
        room = max_bytes // _LARGEST_PART
        for text in reversed([*masked_texts(decisions)]):  # of too many, those masked last
            data = encode_text(text)
            if len(data) > room:
                continue
            room -= len(data)
            recall_id = recall_id_of(data)
            if folder.touch(recall_id, len(data)):
                continue
            if self._written + len(data) > max_bytes // _TRIM_PART:
                self._trim(folder, settings, max_bytes - len(data))
            folder.write(recall_id, data)
            self._written += len(data)

    def _is_due(self, settings: RecallSettings) -> bool:
        if self._trimmed is None or self._trimmed[0] != settings:
            return True
        return not 0 <= self._clock() - self._trimmed[1] < _TRIM_SECONDS

    def _trim(self, folder: RecallFolder, settings: RecallSettings, max_bytes: int) -> None:
        now = self._clock()
        folder.trim(max_bytes, now - settings.max_days * _DAY, now)
        self._trimmed, self._written = (settings, now), 0

    def _add_pending(self, size: int) -> None:
        with self._lock:
            self._pending_bytes += size

    def _warn(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            logger.warning(line)
