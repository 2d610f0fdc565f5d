"""Every value of a configuration, and where it comes from."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from masking.config import parse_tables, read_document
from masking.config_tables import Tables
from masking.overrides import ROOT, apply_overrides
from masking.redaction_switch import apply_switch

Source = Literal["shipped", "file", "override", "environment"]


class ConfigValue(NamedTuple):
    """A key with its table, as `schema1.window_turns`; values as JSON has them."""

    name: str
    value: object
    shipped: object
    source: Source


def list_values(
    data: bytes, overrides: Sequence[str] = (), switch: str | None = None
) -> list[ConfigValue]:
    """Return all values in force, in the order of the tables; none if no table is ours.

    `switch` is what the environment says of redaction, None if it says nothing. A key that a file
    sets is the file's, also where its value is the shipped one. Raises ConfigError as
    `parse_settings` does.
    """
    tables = parse_tables(data, overrides)
    if tables is None:
        return []
    sources: dict[str, Source] = dict.fromkeys(_flatten(read_document(data)[ROOT]), "file")
    sources |= dict.fromkeys(_flatten(apply_overrides({}, overrides)), "override")
    if switch is not None:
        enabled = apply_switch(tables.redaction.to_policy(), switch)[0].enabled
        redaction = tables.redaction.model_copy(update={"enabled": enabled})
        tables = tables.model_copy(update={"redaction": redaction})
        sources["redaction.enabled"] = "environment"
    shipped = _flatten(_dump(Tables()))
    return [
        ConfigValue(name, value, shipped[name], sources.get(name, "shipped"))
        for name, value in _flatten(_dump(tables)).items()
    ]


def find_changed(before: Sequence[ConfigValue], after: Sequence[ConfigValue]) -> tuple[str, ...]:
    """Return the names of the values that differ between two lists of all values."""
    pairs = zip(before, after, strict=True)
    return tuple(new.name for old, new in pairs if old.value != new.value)


def _dump(tables: Tables) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = json.loads(to_json(tables))
    return plain


def _flatten(tables: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the values by `table.key`; what is no table stands under its own name."""
    return {
        f"{table}.{key}" if isinstance(inner, Mapping) else table: value
        for table, inner in tables.items()
        for key, value in (inner.items() if isinstance(inner, Mapping) else [(table, inner)])
    }
