"""From a TOML file and overrides to settings; every error names the key.

Only the tables under `[observation_masking]` are ours. A key that a file leaves out has its
default. An override is `TABLE.KEY=VALUE`, and the table may have its full name, as in the file:
`observation_masking.schema1.window_turns=4`. The value is written as in TOML; anything else is
taken as a text, because a shell removes the quotes of `websocket.mode="http"`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import tomli
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from masking.config.mistakes import explain
from masking.config.settings import Settings, Tables
from masking.errors import ConfigError, OverrideError
from masking.redaction import RedactionPolicy

ROOT = "observation_masking"
"""The table that holds all of our tables."""

Source = Literal["shipped", "file", "override", "environment"]

_Table = Mapping[str, Any]
"""A decoded TOML table."""

_KEYS = re.compile(r"\s*([\w-]+(?:\.[\w-]+)*)\s*", re.ASCII)
_SHOWN = 60


def parse_settings(data: bytes, overrides: Sequence[str] = ()) -> Settings | None:
    """Read the settings of a TOML file; None if it has no table of ours.

    Overrides win over the file and over its rules. Raises ConfigError with the key's full path for
    an unknown key, a wrong type or a bad value, and for a file that is not TOML; OverrideError if
    only an override is wrong.
    """
    document = read_document(data)
    if ROOT not in document:
        return None
    settings = _read(document[ROOT], ())
    if not overrides:
        return settings
    try:
        return _read(document[ROOT], overrides)
    except OverrideError:
        raise
    except ConfigError as error:  # the file alone is right
        raise OverrideError(error.problem, error.path.removeprefix(f"{ROOT}.")) from None


def read_document(data: bytes) -> Mapping[str, Any]:
    """Decode a TOML file, with a byte order mark or without. Raises ConfigError for no TOML."""
    try:
        return tomli.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8") from None
    except (ValueError, RecursionError) as error:  # too many digits, too deep, no TOML at all
        raise ConfigError(f"not TOML: {error}") from None


def _read(table: _Table, overrides: Sequence[str]) -> Settings:
    whole: _Table = apply_overrides(table, overrides) if overrides else table
    tables = _read_tables(whole, ROOT)
    by_rule = []
    for place, rule in enumerate(tables.rules):
        # The table is read once more for each rule, with the rule's keys in place of the file's.
        # It is right by now, so a mistake that is found in it is the rule's.
        merged = {name: value for name, value in table.items() if name != "rules"}
        for name in rule.changes:
            value = whole["rules"][place][name]
            inside = {**merged.get(name, {}), **value} if isinstance(value, Mapping) else value
            merged[name] = inside
        if overrides:
            merged = {**apply_overrides(merged, overrides)}
        own = _make(_read_tables(merged, f"{ROOT}.rules[{place}]"), merged)
        by_rule.append((rule.to_rule(), replace(own, label=rule.label)))
    return replace(_make(tables, whole), by_rule=tuple(by_rule))


def _make(tables: Tables, table: _Table) -> Settings:
    values = {each.name: getattr(tables, each.name) for each in fields(tables)}
    return Settings(**values, sets_window="window_turns" in table.get("schema1", {}))


_ADAPTER = TypeAdapter(Tables)


def _read_tables(table: _Table, path: str) -> Tables:
    try:
        return _ADAPTER.validate_python(table)
    except ValidationError as error:
        raise explain(error.errors(include_url=False)[0], table, path) from None


class Override(NamedTuple):
    """A value, and the keys that lead to it from the table of `ROOT`."""

    keys: tuple[str, ...]
    value: object


def read_override(text: str) -> Override:
    """Read `TABLE.KEY=VALUE`. Raises OverrideError for a text of any other form."""
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


def _read_value(text: str) -> object:
    try:
        document = tomli.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, too many digits, too deep
        return text
    return document["value"] if len(document) == 1 else text


def apply_overrides(table: Mapping[str, object], texts: Sequence[str]) -> Mapping[str, object]:
    """Return a table with these overrides; of two for the same key, the later one wins."""
    return reduce(_put, map(read_override, texts), table)


def _put(table: Mapping[str, object], override: Override) -> Mapping[str, object]:
    (key, *inner), value = override
    if inner:
        before = table.get(key)
        inside = before if isinstance(before, Mapping) else {}
        value = _put(inside, Override(tuple(inner), value))
    return {**table, key: value}


class ConfigValue(NamedTuple):
    """A setting: its name with its table (`schema1.window_turns`), and JSON values."""

    name: str
    value: object
    shipped: object
    source: Source


def list_values(
    data: bytes, overrides: Sequence[str] = (), switch: str | None = None
) -> list[ConfigValue]:
    """Return all values in force, in the order of the tables; none if no table is ours.

    `switch` is the value of `REDACTION_VARIABLE`, None if it is unset. A key that a file sets
    counts as the file's even if its value is the shipped one. Raises ConfigError as
    `parse_settings` does.
    """
    settings = parse_settings(data, overrides)
    if settings is None:
        return []
    sources: dict[str, Source] = dict.fromkeys(_flatten(read_document(data)[ROOT]), "file")
    sources |= dict.fromkeys(_flatten(apply_overrides({}, overrides)), "override")
    if switch is not None:
        enabled = apply_redaction_variable(settings.strategies.redaction, switch)[0].enabled
        settings = replace(settings, redaction=replace(settings.redaction, enabled=enabled))
        sources["redaction.enabled"] = "environment"
    shipped = _dump(Settings())
    return [
        ConfigValue(name, value, shipped[name], sources.get(name, "shipped"))
        for name, value in _dump(settings).items()
    ]


def find_changed(before: Sequence[ConfigValue], after: Sequence[ConfigValue]) -> tuple[str, ...]:
    """Return the names of the values that differ between two lists of all values."""
    pairs = zip(before, after, strict=True)
    return tuple(new.name for old, new in pairs if old.value != new.value)


def _dump(settings: Settings) -> Mapping[str, object]:
    """Return the values of all settings that a file can hold, as JSON values."""
    plain = json.loads(
        to_json({each.name: getattr(settings, each.name) for each in fields(Tables)})
    )
    return _flatten(plain)


def _flatten(tables: _Table) -> Mapping[str, object]:
    """Return the values by `table.key`, those outside of tables by their own names."""
    return {
        f"{table}.{key}" if isinstance(inner, Mapping) else table: value
        for table, inner in tables.items()
        for key, value in (inner.items() if isinstance(inner, Mapping) else [(table, inner)])
    }


REDACTION_VARIABLE = "STREAM_REDACTION_ENABLED"
"""The environment variable that switches redaction on or off."""

_MAX_SHOWN = 40
"""How many characters of a wrong value the warning repeats."""

_BOOLEANS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
"""As Go's ParseBool reads them, in any case (https://pkg.go.dev/strconv#ParseBool)."""


def apply_redaction_variable(
    policy: RedactionPolicy, value: str | None
) -> tuple[RedactionPolicy, str | None]:
    """Return the policy under the value of `REDACTION_VARIABLE`, None if it is unset.

    A value that is not a boolean means true; then a warning that names it is returned, too.
    """
    if value is None:
        return policy, None
    enabled = _BOOLEANS.get(value.lower())
    if enabled is not None:
        return replace(policy, enabled=enabled), None
    warning = (
        f"{REDACTION_VARIABLE}: expected true or false, got {value[:_MAX_SHOWN]!r}; taken for true"
    )
    return replace(policy, enabled=True), warning
