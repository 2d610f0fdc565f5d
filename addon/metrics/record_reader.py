"""Reads the file of records, while others write to it."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path

from addon.metrics.record import RequestRecord
from addon.places import open_private

_TIME = re.compile(rb'"time": ?"([^"\\]*)"')
"""Within a text its quotes would be escaped."""

_MAX_LINE_BYTES = 1_000_000
"""No record is as long; what is longer is not held whole."""


def read_records(path: Path, since: datetime | None = None) -> Iterator[RequestRecord]:
    """Yield the records of chat requests in `<path>.1`, then those in `path`, as they were written.

    Lines that are cut off or no records are passed over, as are requests that arrived before
    `since`; without a time zone it is local time. There may be no such file. Raises OSError for
    one that cannot be read.
    """
    oldest = None if since is None else _spell(since)
    path = Path(os.path.realpath(path))
    with ExitStack() as opened:
        for file in _open_both(path, opened):
            for line in read_lines(file):
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


def _spell(time: datetime) -> str:
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
        return _spell(datetime.fromisoformat(text))
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
        files = [file for each in (older, path) if (file := _open(each, opened))]
        if _identify(older) == before:
            return files


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _open(path: Path, opened: ExitStack) -> BufferedReader | None:
    try:
        file = open(path, "rb", opener=open_private)  # noqa: SIM115 - the stack closes it
    except FileNotFoundError:
        return None
    opened.enter_context(file)
    is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    return file if is_regular else None  # reading another may never end
