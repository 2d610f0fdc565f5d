"""Keeps what the window masks, so that an agent or its user can read it again.

Each text is a private file in one folder, named by the text's recall id. Several proxies may share
the folder. A file is complete or not there, and no link in the folder is followed. Texts are
written by a thread of their own, after the request was decided: whatever goes wrong with that is
one warning, and the placeholder is sent all the same.
"""

import contextlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from addon.once import Once
from addon.places import UNFINISHED, make_folder, open_private, state_folder, write_private
from addon.threads import Worker
from masking.arrival import Arrived, shortened_texts
from masking.config import RecallSettings
from masking.model import Decision
from masking.window import (
    RECALL_ID_CHARS,
    encode_text,
    is_recall_id,
    masked_texts,
    recall_id_of,
)

logger = logging.getLogger("observation_masking")

FOLDER_VARIABLE = "OBSMASK_RECALL_FOLDER"
"""The variable that leads an agent's `obsmask recall` to the folder of its proxy."""

_FILLED = 0.9
"""The part of the allowed size that is filled. The rest is for what is written meanwhile."""

_GIVEN_UP_SECONDS = 3_600.0
"""After which nobody goes on writing an unfinished file."""

_LONGEST_SHOWN = 40
"""The most characters that are shown of what is no id."""

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

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


# Where the texts are


def folder_of(settings: RecallSettings) -> Path:
    """Return where the files are. Raises RuntimeError if the user has no home."""
    return Path(settings.folder).expanduser() if settings.folder else state_folder() / "recall"


def kept_folder(settings: RecallSettings) -> str | None:
    """Return the full path of the folder; None if nothing is kept, or there is no such place."""
    with contextlib.suppress(RuntimeError, OSError):  # no home, or no working directory
        if settings.enabled:
            return str(folder_of(settings).absolute())
    return None


def render_folder(settings: RecallSettings) -> str:
    """Return the folder as it is to be shown, also where it cannot be found."""
    try:
        return str(folder_of(settings))
    except RuntimeError:
        return settings.folder or "the user's state directory"


class Kept(NamedTuple):
    """A file: its id, its size in bytes, when it was last read or masked (seconds, as `time`)."""

    recall_id: str
    size: int
    used: float


class RecallFolder:
    """The folder at `path`. What cannot be done to it raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Make the folder where it is missing. Raises PermissionError if others may enter it."""
        make_folder(self.path)
        found = self.path.stat()
        if os.name == "posix" and found.st_uid != os.geteuid():
            raise PermissionError(f"{self.path} belongs to another user")
        if os.name == "posix" and found.st_mode & _OTHERS:
            raise PermissionError(f"others may enter {self.path}: chmod 700 {self.path}")

    def touch(self, recall_id: str, size: int) -> bool:
        """Record that a text was used; return whether it is there, and has its size in bytes."""
        path = self.path / recall_id
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            return False
        with contextlib.suppress(OSError):  # it may be read, or has just been deleted
            os.utime(path)
        return True

    def write(self, recall_id: str, data: bytes) -> None:
        """Write a text, in place of whatever has its name."""
        write_private(self.path / recall_id, data)

    def read(self, recall_id: str) -> bytes:
        """Return a text by its id.

        The whole id alone will do: whoever may ask for texts, such as an agent with the MCP tool,
        could find those of other conversations by trying beginnings. Raises ValueError, in words
        for a user, if there is no such text, or if it is damaged.
        """
        if not is_recall_id(recall_id):
            digits = f"a placeholder and --list show all {RECALL_ID_CHARS} digits of an id"
            raise ValueError(f"no text has the id {recall_id[:_LONGEST_SHOWN]!r}: {digits}")
        path = self.path / recall_id
        if not os.path.lexists(path) or not stat.S_ISREG(path.lstat().st_mode):
            raise ValueError(f"no text with the id {recall_id!r} is kept in {self.path}")
        with open(path, "rb", opener=lambda p, flags: open_private(p, flags | _NO_LINK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError(f"{path} is no regular file")
            data = file.read()
        if recall_id_of(data) != recall_id:
            raise ValueError(f"{path} is damaged")
        self.touch(recall_id, len(data))
        return data

    def list_files(self) -> list[Kept]:
        """Return all files, those that were used last at the end; none if there is no folder."""
        return sorted(self._scan(is_recall_id), key=lambda kept: (kept.used, kept.recall_id))

    def trim(self, max_bytes: int, oldest: float, now: float) -> None:
        """Delete what was used before `oldest`, and, beyond the size, what was used longest ago.

        A tenth of `max_bytes` is free then.
        """
        files = self.list_files()
        size = sum(kept.size for kept in files)
        excess = size - int(_FILLED * max_bytes)
        for kept in files:
            if kept.used >= oldest and excess <= 0:
                break
            self._delete(kept.recall_id)
            excess -= kept.size
        for unfinished in self._scan(lambda name: name.startswith(UNFINISHED)):
            if unfinished.used < now - _GIVEN_UP_SECONDS:
                self._delete(unfinished.recall_id)

    def _scan(self, is_wanted: Callable[[str], bool]) -> Iterator[Kept]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                if is_wanted(entry.name):
                    with contextlib.suppress(FileNotFoundError):  # another proxy has deleted it
                        found = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(found.st_mode):
                            used = max(found.st_atime, found.st_mtime)
                            yield Kept(entry.name, found.st_size, used)

    def _delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


# Keeping them


class RecallWriter:
    """Keeps the texts of one request after the other. `clock` is as `time.time`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._worker = Worker("recall")
        self._pending_bytes = 0
        self._lock = threading.Lock()
        self._once = Once()
        self._trimmed: tuple[RecallSettings, float] | None = None
        self._written = 0

    def keep(
        self,
        decisions: Iterable[Decision],
        size: int,
        settings: RecallSettings,
        arrived: Arrived | None = None,
    ) -> None:
        """Keep soon what was masked or shortened in a request of so many bytes, if it is to be."""
        if not settings.enabled:
            return
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self._warn("some masked content is not kept for recall: the disk is too slow")
            return
        self._add_pending(size)

        def job() -> None:
            try:
                self._keep(decisions, arrived, settings)
            except (OSError, RuntimeError, ValueError) as error:  # also: no home, no such name
                problem = getattr(error, "strerror", None) or error
                self._warn(f"masked content is not kept for recall: {problem}")
            finally:
                self._add_pending(-size)

        self._worker.submit(job)

    def close(self) -> None:
        """Wait until all is kept, for a few seconds at most."""
        if not self._worker.close(_STOP_SECONDS):
            self._warn("the latest masked content is not kept for recall: the disk is too slow")

    def _keep(
        self, decisions: Iterable[Decision], arrived: Arrived | None, settings: RecallSettings
    ) -> None:
        folder, max_bytes = RecallFolder(folder_of(settings)), settings.max_megabytes * 1_000_000
        folder.make()
        if self._is_due(settings):
            self._trim(folder, settings, max_bytes)
        room = max_bytes // _LARGEST_PART
        texts = [*shortened_texts(arrived), *masked_texts(decisions)]
        for text in reversed([*dict.fromkeys(texts)]):  # of too many, those masked last
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
        if self._once.is_first(line):
            logger.warning(line)
