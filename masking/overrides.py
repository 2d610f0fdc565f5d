"""Settings that are given beside a file: `TABLE.KEY=VALUE`, with the value as TOML spells it.

The table may have its full name, as in the file: `observation_masking.schema1.window_turns=4`. What
is no TOML is taken for a text: a shell eats the quotes of `websocket.mode="http"`.
"""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import tomli

from masking.errors import OverrideError

ROOT = "observation_masking"
"""The table that all of ours are in."""

_KEYS = re.compile(r"\s*([\w-]+(?:\.[\w-]+)*)\s*", re.ASCII)
_SHOWN = 60


class Override(NamedTuple):
    """A value, and the keys that lead to it from our table."""

    keys: tuple[str, ...]
    value: object


def read_override(text: str) -> Override:
    """Read `TABLE.KEY=VALUE`. Raises OverrideError if that is not what it is."""
    keys, equals, value = text.partition("=")
    found = _KEYS.fullmatch(keys)
    if not (found and equals):
        raise OverrideError("expected TABLE.KEY=VALUE", text[:_SHOWN])
    try:
        decoded = value.encode(errors="surrogateescape").decode()  # as of an argument in any locale
    except UnicodeError:
        raise OverrideError("not UTF-8", found[1]) from None
    names = found[1].removeprefix(f"{ROOT}.").split(".")
    return Override(tuple(names), _read_value(decoded.strip()))


def apply_overrides(table: Mapping[str, object], texts: Sequence[str]) -> Mapping[str, object]:
    """Return a table with these overrides; of two of one key, the later one holds."""
    return reduce(_put, map(read_override, texts), table)


def _put(table: Mapping[str, object], override: Override) -> Mapping[str, object]:
    (key, *inner), value = override
    if inner:
        before = table.get(key)
        inside = before if isinstance(before, Mapping) else {}
        value = _put(inside, Override(tuple(inner), value))
    return {**table, key: value}


def _read_value(text: str) -> object:
    try:
        document = tomli.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, too many digits, too deep
        return text
    return document["value"] if len(document) == 1 else text
