"""Reading the entries of logs: JSON that may be broken or half-written, times, and names."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import orjson

from addon.replay.disk import open_regular

Entry = Mapping[str, object]
"""A JSON object of a log."""

BROKEN = "broken entry"
"""Names an entry that could not be decoded among the kinds that were not read."""


def decode(data: bytes | str) -> dict[str, object]:
    """Decode an object. Raises ValueError if it is none; orjson refuses lone surrogates."""
    try:
        value: object = orjson.loads(data)
    except ValueError:
        try:
            value = json.loads(data)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected object, got {type(value).__name__}")
    return value


def read_head(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(size)
    except OSError:
        return b""


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


def read_time(value: object) -> datetime | None:
    """Return a time that is written in ISO 8601, or in seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            return when if when.tzinfo else when.replace(tzinfo=UTC)
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
