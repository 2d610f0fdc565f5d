"""Values in decoded JSON, where a client may have written anything."""

from collections.abc import Collection
from typing import Any

import orjson


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def non_empty(value: object) -> str | None:
    """Return a text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def is_text_part(part: object, kinds: Collection[str] = ("text",)) -> bool:
    """Whether a part of a content is a text, by one of the names that a format has for that."""
    return (
        isinstance(part, dict) and part.get("type") in kinds and isinstance(part.get("text"), str)
    )


def spell(value: object) -> str:
    """Return compact JSON, to be measured or counted; what cannot be spelled is left empty."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, RecursionError):  # lone surrogates, long numbers, too deep
        return ""
