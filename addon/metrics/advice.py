"""How a sentence advises a change of the configuration: by the command that makes it.

Every such advice is written here, whoever gives it: the log, `obsmask doctor`, a table. Lines for
the file are never advised, because where they may stand depends on what is in it already.
`tests/addon/test_advice.py` carries out each advice that is given anywhere.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from addon.metrics.toml_values import render_toml
from masking.config import read_override
from masking.errors import OverrideError


class Advice:
    """Commands that change the configuration.

    file: the one that holds, where `obsmask` would find another one.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    def set(self, settings: Mapping[str, object]) -> str:
        """Return the command that gives settings these values, by name, as `schema1.enabled`."""
        return self._render("set", [_render_change(*each) for each in settings.items()])

    def add(self, name: str, *values: object) -> str:
        """Return the command that adds to the list that a setting has, as `hosts.uncached`."""
        return self._render("add", [_render_change(name, value) for value in values])

    def _render(self, verb: str, changes: list[str]) -> str:
        named = [] if self._file is None else ["--config", str(self._file)]
        return shlex.join(["obsmask", "config", verb, *named, *changes])


def _render_change(name: str, value: object) -> str:
    """Return `TABLE.KEY=VALUE`; a text is without quotes where it is taken for one all the same."""
    plain = f"{name}={value}"
    try:
        is_plain = isinstance(value, str) and read_override(plain).value == value
    except OverrideError:  # it is no UTF-8
        is_plain = False
    return plain if is_plain and plain.isprintable() else f"{name}={render_toml(value)}"
