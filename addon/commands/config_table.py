"""How `obsmask config` shows settings in a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from addon.metrics.toml_values import render_toml
from masking.config import ConfigValue, Source

_SOURCES: dict[Source, str] = {
    "shipped": "shipped",
    "file": "file",
    "override": "--set",
    "environment": "environment",
}

_WIDE = 60
"""Columns of a screen beside whose names of settings there is room for values."""


def render_table(values: Sequence[ConfigValue], width: int) -> Table:
    """Return a table of settings for a screen; those that are not the shipped ones stand out."""
    table = Table("setting", "value", "from", box=SIMPLE_HEAD)
    table.columns[0].no_wrap = width >= _WIDE
    for column in table.columns:
        column.overflow = "fold"
    for name, value, _, source in values:
        style = "" if source == "shipped" else "bold"
        cells = (name, render_toml(value), _SOURCES[source])
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
