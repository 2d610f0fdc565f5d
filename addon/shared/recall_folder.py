"""The folder of what was masked: for each text a private file, named by the text's recall id.

Several proxies may share it. A file is complete or not there: it is written under another name, and
then renamed. No link in the folder is followed.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from addon.metrics.private_files import make_folder, open_private
from addon.metrics.record_file import default_path
from masking.config import RecallSettings
from masking.window import RECALL_ID_CHARS, is_recall_id, recall_id_of

_FILLED = 0.9
"""The part of the allowed size that is filled. The rest is for what is written meanwhile."""

_UNFINISHED = ".unfinished-"
_GIVEN_UP_SECONDS = 3_600.0
"""After which nobody goes on writing an unfinished file."""

_LONGEST_SHOWN = 40
"""The most characters that are shown of what is no id."""

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


ENVIRONMENT = "OBSMASK_RECALL_FOLDER"
"""The variable that leads an agent's `obsmask recall` to the folder of its proxy."""


class Kept(NamedTuple):
    """A file: its id, its size in bytes, when it was last read or masked (seconds, as `time`)."""

    recall_id: str
    size: int
    used: float


def find_folder(settings: RecallSettings) -> Path:
    """Return where the files are. Raises RuntimeError if the user has no home."""
    if settings.folder:
        return Path(settings.folder).expanduser()
    return default_path().parent / "recall"


def find_kept_folder(settings: RecallSettings) -> str | None:
    """Return the full path of the folder; None if nothing is kept, or there is no such place."""
    with contextlib.suppress(RuntimeError, OSError):  # no home, or no working directory
        if settings.enabled:
            return str(find_folder(settings).absolute())
    return None


def describe_folder(settings: RecallSettings) -> str:
    """Return the folder as it is to be shown, also where it cannot be found."""
    try:
        return str(find_folder(settings))
    except RuntimeError:
        return settings.folder or "the user's state directory"


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
        """Note that a text was used; return whether it is there, and has its size in bytes."""
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
        number, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=self.path)  # for the user alone
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            Path(name).replace(self.path / recall_id)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

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
        for unfinished in self._scan(lambda name: name.startswith(_UNFINISHED)):
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
