"""Which tool calls are equal: the same tool with the same arguments, however these are spelled."""

import json
from functools import lru_cache

import orjson

CallKey = tuple[str, str]
"""The tool and the arguments of a call; the same for equal calls."""

_SPELLED_ANEW = 1_000
"""Up to this length arguments in JSON are equal if their values are. Longer ones, such as the text
of a file that is written, are equal if they are spelled alike: to decode them all at each request
would cost more than it could tell."""

_REMEMBERED = 2_048
"""How many arguments are remembered as they are spelled here: some four megabytes at most."""


def find_key(tool: str | None, arguments: object) -> CallKey:
    """Return what is the same for equal calls. The arguments are a JSON text or a decoded value."""
    if not isinstance(arguments, str):
        return str(tool), _spell(arguments)
    if len(arguments) > _SPELLED_ANEW:
        return str(tool), arguments
    return str(tool), _spell_anew(arguments)


@lru_cache(_REMEMBERED)
def _spell_anew(arguments: str) -> str:
    """Return a JSON text as it is spelled here; any other text as it is."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    return _spell(value)


def _spell(value: object) -> str:
    """Return a value as JSON, the same for equal values; empty if it cannot be written."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        pass
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""
