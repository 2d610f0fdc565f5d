"""Error messages for a configuration: pydantic's errors in plain words, with the full key."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from pydantic_core import ErrorDetails

from masking.config.settings import RULED, RULED_TABLES, Tables, list_keys, name_type
from masking.errors import ConfigError

_LISTS = ("prices", "windows", "rules")
"""The lists of tables."""

_NAMES = tuple(list_keys(Tables))

_MOST_MEANT = 2


def explain(mistake: ErrorDetails, table: Mapping[str, Any], path: str) -> ConfigError:
    """Return the ConfigError for a mistake that pydantic found in the table at a path."""
    keys = mistake["loc"]
    path += "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    inner = mistake.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # a policy's own, or a reader's
        joint = "." if inner.path[:1] not in ("", "[") else ""
        return ConfigError(inner.problem, f"{path}{joint}{inner.path}")
    describe = _PROBLEMS.get(mistake["type"])
    if describe is not None:
        return ConfigError(describe(mistake), path)
    if len(keys) == 1 and keys[0] in _LISTS:
        return ConfigError(f"expected a list of tables, [[{path}]]", path)
    value: Any = table
    for key in keys:
        value = value[key]
    expected, got = _EXPECTED[mistake["type"]], name_type(value)
    problem = _TOO_LARGE.get((expected, got), f"expected {expected}, got {got}")
    return ConfigError(problem, path)


_TOO_LARGE = {("a number", "a whole number"): "must be a number from 0 up"}
"""A whole number that no float can hold is one of the wrong type for pydantic."""

_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text in quotes",
    "tuple_type": "a list",
    "model_type": "a table",
    "dict_type": "a table",
    "dataclass_type": "a table",
}
"""What was expected, by pydantic's name for the mistake."""


def _describe_unknown(mistake: ErrorDetails) -> str:
    *outer, key = mistake["loc"]
    if outer[:1] == ["rules"] and key in _NAMES:
        return f"it holds for the whole proxy (a rule can set: {', '.join(RULED)})"
    names = _known_keys(outer)
    close = _find_inside(outer, key) or difflib.get_close_matches(str(key), names, n=1)
    meant = " or ".join(f"'{each}'" for each in close)
    hint = f"did you mean {meant}?" if close else f"known: {', '.join(names)}"
    return f"unknown key ({hint})"


_PROBLEMS: Mapping[str, Callable[[ErrorDetails], str]] = {
    "extra_forbidden": _describe_unknown,
    "unexpected_keyword_argument": _describe_unknown,
    "literal_error": lambda mistake: "expected " + mistake["ctx"]["expected"].replace("'", '"'),
    "finite_number": lambda _: "must be a finite number",
    "missing": lambda _: "missing",
    "greater_than_equal": lambda mistake: f"must be at least {mistake['ctx']['ge']:g}",
    "less_than_equal": lambda mistake: f"must be at most {mistake['ctx']['le']:g}",
}


def _find_inside(outer: Sequence[str | int], key: str | int) -> list[str]:
    """Return a key with each table here that has it; nothing if more than two have."""
    here = {0: [name for name in _NAMES if name not in _LISTS], 2: RULED_TABLES}
    tables = here.get(len(outer), []) if outer[:1] in ([], ["rules"]) else []
    found = [f"{name}.{key}" for name in tables if key in _known_keys([name])]
    return found if len(found) <= _MOST_MEANT else []


def _known_keys(path: Sequence[str | int]) -> list[str]:
    """Return the keys of the table at a path, such as `schema1`, or `prices` and a number.

    The path of a key has none.
    """
    table: Any = Tables
    for key in path:
        table = get_args(table)[0] if isinstance(key, int) else list_keys(table)[key].annotation
    return [*list_keys(table)]
