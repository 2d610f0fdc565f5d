"""The file of records: JSON lines, which several processes append to, and which is rotated once.

For each line, or the few that come together, the file is opened anew, under a lock that all
writers share, and they are one write. So nobody writes to a file that another has renamed, a file
that was deleted is made again, and what a killed process or a full disk left of a line is never
continued by the next one.

A file that holds something else is left alone: whoever names it, by mistake or in bad faith, must
not have it renamed or written.

A process that is stopped holds the lock for good. After a while the others append without it,
which is safe; only the rotation waits until the lock can be had.

The lock is of the same kind as `filelock` takes it, as earlier versions did: both keep each other
out. To append a line of 2.5 kB takes 18 us of CPU with ours, and 80 us with `filelock` 4.2. In a
proxy, beside its other threads, that was 0.3 ms of the 8.5 ms that a request of 45 kB takes.
"""

import contextlib
import json
import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from io import BufferedReader, FileIO
from pathlib import Path

import orjson

from addon.once import Once
from addon.places import make_folder, open_private, release_lock, state_folder, take_lock
from addon.records.record import RequestRecord
from addon.threads import Log
from masking.config import MetricsSettings

logger = logging.getLogger("observation_masking")

_BEGINNING = re.compile(rb'\{"(?:kind": ?"(?:chat|mcp)"|time": ?"[^"]{,40}", ?"host": ?")')
"""How a file of records begins. Those of version 0.1.0 have no kind."""

_BEGINNING_BYTES = 64

_PATIENCE = 2.0
"""Seconds to wait for the lock; once in vain, the next lines do not wait for it."""

_MAX_LINE_BYTES = 1_000_000
"""No record is as long; what is longer is not held whole."""


def default_path() -> Path:
    """Return where the records go when the configuration names no place."""
    return state_folder() / "requests.jsonl"


# Writing


class RecordFile:
    """The file that the configuration names.

    A file that cannot be written is one warning; records are then lost, requests are not, and
    `lost` counts them. The default file is for live traffic only.
    """

    def __init__(self, settings: MetricsSettings, log: Log = logger.log) -> None:
        self._log = log
        self._name = settings.path
        self._max_bytes = settings.max_megabytes * 1_000_000
        self._file: SharedFile | None = None
        self.lost = 0
        self._once = Once()

    @property
    def path(self) -> Path:
        """Where the records go. Raises RuntimeError if the user has no home."""
        return Path(self._name).expanduser().absolute() if self._name else default_path()

    def write(self, *records: Mapping[str, object]) -> None:
        """Append a line for each, at once."""
        own = [record for record in records if self._name or not record.get("replay")]
        if len(own) < len(records):
            self._say_once(
                logging.INFO,
                "replayed requests leave no records among those of live traffic: to keep theirs, "
                "set another metrics.path",
            )
        if not own:
            return
        try:
            self._file = self._file or SharedFile(self.path, self._max_bytes)
            for notice in self._file.append(b"".join(map(render_record, own))):
                self._say_once(logging.WARNING, f"{self.path} {notice}")
        except (OSError, ValueError, RuntimeError) as error:  # no such user, no such name, ...
            self.lost += len(own)
            problem = getattr(error, "strerror", 0) or error
            self._say_once(logging.WARNING, f"no records in {self._place}: {problem}")

    def close(self) -> None:
        """Say how many records were lost."""
        if self.lost:
            self._log(logging.WARNING, f"records lost: {self.lost:,} ({self._place})")

    @property
    def _place(self) -> str:
        try:
            return str(self.path)
        except RuntimeError:
            return self._name or "the user's state directory"

    def _say_once(self, level: int, line: str) -> None:
        if self._once.is_first(line):
            self._log(level, line)


def render_record(record: Mapping[str, object]) -> bytes:
    """Return what is dumped of a record as a line, with its end."""
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, numbers beyond 64 bits
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        return f"{text}\n".encode("utf-8", "replace")


_NOT_OURS = "it holds something else than records, and is left alone"


class SharedFile:
    """A file of records that lines are appended to, by us and by others.

    Beyond `max_bytes` it becomes `<path>.1`, in place of an earlier one.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._patience = _PATIENCE
        self._was_written = False
        self._checked: tuple[int, int] | None = None
        """The file that was seen to be ours, by its device and its number there."""

    def append(self, line: bytes) -> list[str]:
        """Append a line, or a few, with their ends; return what the user should know of the file.

        Raises OSError, as for a file that is not ours, or ValueError for what can be no path; then
        nothing of them is left, or, where others write without the lock, a part.
        """
        path, notices = self._path, []
        found = _find_regular(path)
        if found is None:
            path = Path(os.path.realpath(path))  # a link stays where it is
            if _is_device(path):
                with _open(path) as file:
                    if (file.write(line) or 0) < len(line):
                        raise OSError(0, "it takes no more")
                return []
            make_folder(path.parent)
        # Before the lock is made: nothing is laid beside a file that is not ours. Later it is
        # enough to look at what is written to.
        if (found is None or found != self._checked) and not may_hold_records(path):
            raise OSError(0, _NOT_OURS)
        self._checked = found
        with self._locked(path) as problem:
            is_locked = problem is None
            with ExitStack() as opened:
                file = opened.enter_context(_open(path))
                file.seek(0)
                start = file.read(_BEGINNING_BYTES)
                if start and not _BEGINNING.match(start):
                    raise OSError(0, _NOT_OURS)
                size = file.seek(0, os.SEEK_END)
                if self._was_written and found is None and not size:
                    notices.append("was moved or deleted; a new file is begun")
                if size and size + len(line) > self._max_bytes:
                    opened.close()  # Windows renames no file that is open
                    problem = problem or _rotate(path)
                    if problem:
                        notices.append(f"cannot be rotated, and grows: {problem}")
                    file = opened.enter_context(_open(path))
                    size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # the rest of a line
                        line = b"\n" + line
                try:
                    if (file.write(line) or 0) < len(line):
                        raise OSError(0, "the disk is full")
                except OSError:
                    if is_locked:  # else another may have written behind it
                        file.truncate(size)
                    raise
        self._was_written = True
        return notices

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[str | None]:
        """Hold the writers' lock; give the reason if it cannot be had."""
        lock = take_lock(f"{path}.lock", self._patience)
        if isinstance(lock, str):
            self._patience = 0.0
            yield lock
            return
        self._patience = _PATIENCE
        try:
            yield None
        finally:
            release_lock(lock)


def _rotate(path: Path) -> str | None:
    """Rename a file that is full; return the reason if that cannot be done."""
    older = Path(f"{path}.1")
    try:
        if older.is_file() and not may_hold_records(older):
            return f"{older} holds something else than records"
        path.replace(older)
    except OSError as error:
        return error.strerror
    return None


def may_hold_records(path: Path) -> bool:
    """Whether a file begins with a record, is empty, or is not there.

    Raises OSError if it cannot be read.
    """
    try:
        with open(path, "rb", opener=open_private) as file:
            start = file.read(_BEGINNING_BYTES)
    except FileNotFoundError:
        return True
    return not start or bool(_BEGINNING.match(start))


def _find_regular(path: Path) -> tuple[int, int] | None:
    """Return the device of a file and its number there; None if it is not there, or a link.

    Raises OSError, or ValueError for what can be no path.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _is_device(path: Path) -> bool:
    """Whether a path leads to a device, such as /dev/null. Raises OSError for other odd files."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise OSError(0, "not a regular file")
    return stat.S_ISCHR(mode)


def _open(path: Path) -> FileIO:
    """Open a file to append to, unbuffered: what fails, fails here, and not when it is closed."""
    return open(path, "ab+", buffering=0, opener=open_private)


# Reading, while others write


_TIME = re.compile(rb'"time": ?"([^"\\]*)"')
"""Within a text its quotes would be escaped."""


def read_records(
    path: Path, since: datetime | None = None, naming: str | None = None
) -> Iterator[RequestRecord]:
    """Yield the records of chat requests in `<path>.1`, then those in `path`, as they were written.

    Lines that are cut off or no records are passed over, as are requests that arrived before
    `since`; without a time zone it is local time. With `naming`, only lines that hold this text
    somewhere are read. There may be no such file. Raises OSError for one that cannot be read.
    """
    oldest = None if since is None else _render_time(since)
    text = None if naming is None else json.dumps(naming, ensure_ascii=False).encode()
    path = Path(os.path.realpath(path))
    with ExitStack() as opened:
        for file in _open_both(path, opened):
            for line in read_lines(file):
                if text is not None and text not in line:
                    continue
                if oldest is None or _find_time(line) >= oldest:
                    yield from _read_line(line)


def holds_records(path: Path) -> bool:
    """Whether a line of a file, or of `<path>.1`, may be a record of any kind, or there is no line.

    Raises OSError for a file that cannot be read.
    """
    path, is_empty = Path(os.path.realpath(path)), True
    with ExitStack() as opened:
        for file in _open_both(path, opened):
            for line in read_lines(file):
                if line.startswith(b"{") and _TIME.search(line):
                    return True
                is_empty = False
    return is_empty


def read_lines(file: BufferedReader) -> Iterator[bytes]:
    """Yield the lines of a file, and what is longer than any record in pieces.

    A reader may meet a line that is half written, and its other half the next time it reads.
    """
    line = b""
    while piece := file.readline(_MAX_LINE_BYTES):
        line += piece
        if piece.endswith(b"\n") or len(line) >= _MAX_LINE_BYTES:
            yield line
            line = b""
    if line:
        yield line


def _render_time(time: datetime) -> str:
    """Spell a time as records do, so that two can be compared as texts."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def _find_time(line: bytes) -> str:
    """Return the time in a line, without decoding the rest; empty if there is none."""
    found = _TIME.search(line)
    if found is None:
        return ""
    text = found[1].decode("ascii", "replace")
    if text.endswith("+00:00"):
        return text
    try:
        return _render_time(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return ""


def _read_line(line: bytes) -> Iterator[RequestRecord]:
    try:
        yield RequestRecord.model_validate_json(line)
    except ValueError:  # cut off, of another kind, ...
        return


def _open_both(path: Path, opened: ExitStack) -> list[BufferedReader]:
    """Open the older file and the present one, those that there are.

    A rotation between the two steps would hide a file from us. Then both are opened again.
    """
    older = Path(f"{path}.1")
    while True:
        before = _identify(older)
        # Whoever has made a folder of the older one's name has lost no records by that.
        names = (path,) if older.is_dir() else (older, path)
        files = [file for each in names if (file := _open_to_read(each, opened))]
        if _identify(older) == before:
            return files


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _open_to_read(path: Path, opened: ExitStack) -> BufferedReader | None:
    try:
        file = open(path, "rb", opener=open_private)  # noqa: SIM115 - the stack closes it
    except FileNotFoundError:
        return None
    opened.enter_context(file)
    is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    return file if is_regular else None  # reading another may never end
