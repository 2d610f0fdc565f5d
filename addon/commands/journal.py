"""What is done already, as lines of JSON: a run that was ended goes on from there.

A result is found again only for the same bytes of the same file, worked on in the same way: with
the same program, settings and prices. The file is only ever appended to.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from filelock import FileLock, Timeout

import masking
from addon.commands.sessions import Source

_BEGIN = b'{"key":'
_LINE = re.compile(rb'\{"key":"([0-9a-f]{64})",.*\}\n')
_NO_LOCK_WAIT = 0


class Entry(NamedTuple):
    """What work on a session came to; `result` is of what JSON has."""

    file: str
    number: int
    requests: int
    warning: str | None
    result: object


class Journal:
    """The lines of one file, of which no other run may write at the same time.

    What is held in memory is the place of each line. A last line without an end, which a killed
    process leaves, is dropped. Raises OSError if the file cannot be read or written, ValueError if
    it is something else, or if another run writes to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(f"{path}.lock")
        self._digest_file = cache(_digest_file)
        try:
            self._lock.acquire(timeout=_NO_LOCK_WAIT)
        except Timeout:
            raise ValueError(f"{path}: another run writes to it") from None
        try:
            self._places, end = _read_places(path)
            self._file = path.open("ab+", buffering=0)
            self._file.truncate(end)
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "Journal":
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()
        self._lock.release()

    def __contains__(self, key: str) -> bool:
        """Whether anything was noted under a key."""
        return key in self._places

    def make_key(self, work: bytes, source: Source) -> str:
        """Return the key of a session and what is done with it. Raises OSError."""
        file = self._digest_file(source.file)
        return digest(work, os.fsencode(source.file), file, str(source.number).encode()).hex()

    def find(self, key: str) -> Entry | None:
        """Return what was noted under a key. Raises OSError."""
        place = self._places.get(key)
        if place is None:
            return None
        at, length = place
        self._file.seek(at)
        line = json.loads(self._file.read(length))
        return Entry(*(line[name] for name in Entry._fields))

    def note(self, key: str, entry: Entry) -> None:
        """Append a line. Raises OSError."""
        # Names may hold half a character, which only the escapes of ASCII can spell.
        line = f"{json.dumps({'key': key, **entry._asdict()}, separators=(',', ':'))}\n".encode()
        at = self._file.seek(0, 2)
        if (self._file.write(line) or 0) < len(line):
            raise OSError(0, "the disk is full", str(self._path))
        self._places[key] = (at, len(line))


def _read_places(path: Path) -> tuple[dict[str, tuple[int, int]], int]:
    """Return where the lines are, by key, each with its length, and where they end."""
    places: dict[str, tuple[int, int]] = {}
    at = 0
    if not path.exists():
        return places, at
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and _is_torn(line):
                break
            found = _LINE.fullmatch(line)
            if found is None:
                raise ValueError(f"{path}:{number}: no line of --resume")
            places[found[1].decode()] = (at, len(line))
            at += len(line)
    return places, at


def _is_torn(line: bytes) -> bool:
    """Whether it is the beginning of a line of ours, rather than of somebody's file."""
    return line[: len(_BEGIN)] == _BEGIN[: len(line)]


def _digest_file(path: Path) -> bytes:
    """Return a digest of a file's size and bytes."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").digest()
        return digest(str(file.tell()).encode(), found)


def digest_work(*described: object) -> bytes:
    """Return a digest of what is done with a session, as it is described, by this very program."""
    return digest(_digest_program(), repr(described).encode())


@cache
def _digest_program() -> bytes:
    """Return a digest of the code and data of both packages: a version may not tell them apart."""
    roots = (Path(__file__).parents[1], Path(str(masking.__file__)).parent)
    files = sorted(file for root in roots for file in root.rglob("*") if _is_part(file))
    return digest(*(file.read_bytes() for file in files))


def _is_part(file: Path) -> bool:
    return file.suffix in (".py", ".json", ".xz") and file.is_file()


def digest(*parts: bytes) -> bytes:
    """Return a digest of parts and of where each of them ends."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def digest_files(paths: Iterable[str]) -> list[bytes]:
    """Return a digest of each of these files. Raises OSError."""
    return [_digest_file(Path(path)) for path in paths]
