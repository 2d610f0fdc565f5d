"""Values in decoded JSON, where a client may have written anything."""

from typing import Any

import orjson


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def non_empty(value: object) -> str | None:
    """Return a text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def spell(value: object) -> str:
    """Return compact JSON, to be measured or counted; what cannot be spelled is left empty."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, RecursionError):  # lone surrogates, long numbers, too deep
        return ""
