"""Files that may be anything: a folder may be a stranger's, and a log may be broken.

Git keeps symbolic links, so a folder that was cloned can lead to `/dev/zero`, or out of itself; and
a hundred kilobytes of Zstandard can hold gigabytes. Whoever replays opens files here alone.
"""

import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from addon.places import open_private

MAX_LINE_BYTES = 128_000_000
"""A longer line is not read. A request with as many images as a provider takes has fewer."""

MAX_BYTES = 2_000_000_000
"""Of a file, once decompressed. A year of one agent's logs has less, in many files."""

_FREE_BYTES = 256_000_000
_MAX_GROWTH = 50
"""A packed file may become so many bytes, or so many times as long: logs are a tenth of themselves
when packed, and a twentieth if they repeat themselves."""

_BUFFER_BYTES = 1 << 18


def find_files(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the file at a path, or the files under it whose names end so.

    Only regular ones; of a folder only those that lie in it, also where a link leads.
    """
    if path.is_file():
        return [path]
    return [file for file, is_inside in _walk(path, endings) if is_inside]


def find_passed_over(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return what `find_files` and `is_inside` leave out of a folder: pipes, devices, links."""
    return sorted(file for file, is_inside in _walk(path, endings) if not is_inside)


def _walk(folder: Path, endings: tuple[str, ...]) -> Iterator[tuple[Path, bool]]:
    root = folder.resolve()
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(endings):
                file = Path(parent, name)
                yield file, is_inside(file, root)


def is_inside(file: Path, folder: Path) -> bool:
    """Whether a file is regular and lies in a folder, which is resolved, wherever links lead."""
    try:
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            target = file.resolve()
            return target.is_file() and target.is_relative_to(folder)
    except (OSError, RuntimeError):  # it is gone, or its links lead in a circle
        return False
    return stat.S_ISREG(mode)


def find_inside(folder: Path, name: str) -> Path | None:
    """Return the file in a folder that a name leads to, as a stranger has written it.

    None if no regular file is there, or if it is outside of the folder, wherever links lead.
    """
    try:
        root = folder.resolve()
        file = (folder / name).resolve()
        is_there = file.is_relative_to(root) and file.is_file()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name too long or with a NUL
        return None
    return folder / file.relative_to(root) if is_there else None


class Packed(Protocol):
    """What decompresses a file."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading. Raises OSError, also for what is no regular file."""
    file = open(path, "rb", opener=open_private)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path}: not a regular file")
    return file


def open_bounded(path: Path) -> io.BufferedReader:
    """Open a file whose lines and size are bounded: reading on raises OSError, with the path."""
    return bound(open_regular(path), path)


def bound(
    file: BinaryIO | Packed,
    path: Path,
    packed_bytes: int | None = None,
    *,
    longest_line: int = MAX_LINE_BYTES,
) -> io.BufferedReader:
    """Return a file that is bounded like this; `packed_bytes` is its size if `file` unpacks it."""
    most = MAX_BYTES
    if packed_bytes is not None:
        most = min(most, max(_FREE_BYTES, _MAX_GROWTH * packed_bytes))
    return io.BufferedReader(_Bounded(file, path, most, longest_line), _BUFFER_BYTES)


def read_bounded(path: Path) -> bytes:
    """Return the bytes of a file. Raises OSError, also if there are too many."""
    with open_bounded(path) as file:
        return file.read()


class _Bounded(io.RawIOBase):
    """Counts what is read of a file, and of its line: a line can end with the file."""

    def __init__(self, file: BinaryIO | Packed, path: Path, most: int, longest_line: int) -> None:
        super().__init__()
        self._file, self._path, self._most = file, path, most
        self._line, self._longest_line = 0, longest_line
        self._count = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._count

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        end = data.rfind(b"\n")
        self._line = len(data) - end - 1 if end >= 0 else self._line + len(data)
        self._count += len(data)
        if self._line > self._longest_line:
            raise OSError(f"{self._path}: a line is longer than {self._longest_line:,} bytes")
        if self._count > self._most:
            raise OSError(f"{self._path}: too large, or too much of it once decompressed")
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
