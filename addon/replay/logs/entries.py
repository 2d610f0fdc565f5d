"""What all readers of logs do alike: open files, decode their entries, follow a branch.

An entry is a JSON object, and may be broken or half-written. What is not there, or of another type,
counts as empty.
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import orjson
import zstandard

from addon.replay.disk import bound, open_bounded, open_regular, read_bounded
from addon.replay.logs.log import AnswerKey, LogFile

Entry = Mapping[str, object]
"""A JSON object of a log."""

BROKEN = "broken entry"
"""Names an entry that could not be decoded among the kinds that were not read."""

# Files


def open_log(path: Path) -> io.BufferedReader:
    """Open a file whose lines and size are bounded; one that is packed is unpacked."""
    if path.suffix == ".zst":
        file = open_regular(path)
        reader = zstandard.ZstdDecompressor().stream_reader(file, closefd=True)
        return bound(reader, path, os.fstat(file.fileno()).st_size)
    return open_bounded(path)


def read_head(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        with open_log(path) as file:
            return file.read(size)
    except (OSError, zstandard.ZstdError):
        return b""


def begins(sign: re.Pattern[bytes], size: int = 4096) -> Callable[[Path], bool]:
    """Return what tells whether a file begins so, of which it reads no more than this."""
    return lambda path: bool(sign.match(read_head(path, size)))


# Entries


def decode(data: bytes | str) -> dict[str, object]:
    """Decode an object. Raises ValueError if it is none.

    What was cut within an emoji has half of it left, which orjson refuses. What is sent of that is
    a replacement character.
    """
    try:
        value: object = orjson.loads(data)
    except ValueError:
        try:
            text = json.dumps(json.loads(data), ensure_ascii=False)
            value = orjson.loads(text.encode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected object, got {type(value).__name__}")
    return value


def try_decode(data: bytes | str, unread: set[str]) -> dict[str, object] | None:
    """Decode an object; None if it is none, which is then named in `unread`."""
    try:
        return decode(data)
    except ValueError:
        unread.add(BROKEN)
        return None


def read_lines(path: Path, unread: set[str]) -> Iterator[Entry]:
    """Yield the entries of a log that has one a line. Raises OSError.

    unread: gets the kind of what is broken. The last line may be half-written.
    """
    with open_log(path) as file:
        try:
            for line in file:
                try:
                    yield decode(line)
                except ValueError:
                    if line.strip() and line.endswith(b"\n"):
                        unread.add(BROKEN)
        except zstandard.ZstdError:
            unread.add(BROKEN)


def read_document(path: Path, what: str) -> Entry:
    """Return the entry that a file is, which is `what`. Raises OSError, and ValueError with it."""
    try:
        return decode(read_bounded(path))
    except ValueError as error:
        raise ValueError(f"{path}:1: not {what}: {error}") from None


def list_keys(
    sign: bytes, read_key: Callable[[Entry], AnswerKey | None]
) -> Callable[[LogFile], Iterator[AnswerKey]]:
    """Return how the answers of a log are listed whose lines have this sign in them."""

    def list_all(log: LogFile) -> Iterator[AnswerKey]:
        with suppress(OSError), open_log(log.path) as file:
            for line in file:
                with suppress(ValueError):
                    key = read_key(decode(line)) if sign in line else None
                    if key is not None:
                        yield key

    return list_all


def follow(name: object, entries: Mapping[object, Entry], parent: str) -> list[Entry]:
    """Return the entries that lead to the one of this name, and itself; a circle is cut open.

    parent: the key by which an entry names the one that it follows upon.
    """
    path, seen = list[Entry](), set[object]()
    while name in entries and name not in seen:
        seen.add(name)
        path.append(entries[name])
        name = entries[name].get(parent)
    return path[::-1]


def walk(
    entries: Iterable[Entry], name: str, parent: str
) -> Iterator[tuple[Entry, Sequence[Entry]]]:
    """Yield the entries of a tree, each with those that lead to it: one list that grows, by branch.

    name: the key of an entry's own name. parent: that of the entry that it follows upon.
    """
    entries = [*entries]
    known = {entry.get(name): entry for entry in entries}
    path: list[Entry] = []
    for entry in entries:
        if entry.get(parent) != (path[-1].get(name) if path else None):
            path = follow(entry.get(parent), known, parent)
        yield entry, path
        path.append(entry)


def take_object(value: object) -> Entry:
    """Return an object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def take_objects(value: object) -> list[Entry]:
    """Return the objects of a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def take_text(value: object) -> str:
    """Return a text; "" in place of anything else."""
    return value if isinstance(value, str) else ""


def take_count(value: object) -> int:
    """Return a whole number of tokens; 0 in place of anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value > 0 else 0


def read_time(value: object, zone: tzinfo | None = UTC) -> datetime | None:
    """Return a time that is written in ISO 8601, or in seconds or milliseconds since 1970.

    zone: that of a time without one; None for the zone of this machine.
    """
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            return when if when.tzinfo else when.replace(tzinfo=zone).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > 1e11 else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def last_name(folder: object) -> str | None:
    """Return the last part of the name of a folder of any system; None if there is none."""
    return take_text(folder).replace("\\", "/").rstrip("/").rpartition("/")[2] or None


def write_json(value: object) -> str:
    """Return a value as JavaScript writes it into a request: without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
