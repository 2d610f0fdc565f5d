"""The `obsmask config` commands that a message advises, and values as TOML writes them.

Whoever advises a change of the configuration, the log, `obsmask doctor` or a table, takes the
command from here. Lines for the file are never advised, because where they may stand depends on
what is in it already. `tests/addon/test_advice.py` carries out each advice that is given.
"""

import functools
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from masking.config import ROOT, list_values, read_override
from masking.errors import OverrideError, printable


class Advice:
    """Commands that change the configuration.

    file: the one that holds, where `obsmask` would find another one.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    def set(self, settings: Mapping[str, object]) -> str:
        """Return the command that gives settings these values, by name, as `schema1.enabled`."""
        return self._render("set", [_render_change(*each) for each in settings.items()])

    def change(self, settings: Mapping[str, object]) -> str:
        """Return the same command for a sentence, with the one that undoes it.

        Whoever is to set a default has set something else, which nobody here knows: the command
        itself then says how to undo it.
        """
        shipped = shipped_values()
        new = [name for name, value in settings.items() if value != shipped[name]]
        return f"{self.set(settings)} (undo: {self.unset(*new)})" if new else self.set(settings)

    def unset(self, *names: str) -> str:
        """Return the command that gives settings their defaults again."""
        return self._render("unset", [*names])

    def add(self, name: str, *values: object) -> str:
        """Return the command that adds to the list that a setting has, as `hosts.uncached`."""
        return self._render("add", [_render_change(name, value) for value in values])

    def _render(self, verb: str, changes: list[str]) -> str:
        named = [] if self._file is None else ["--config", str(self._file)]
        return shlex.join(["obsmask", "config", verb, *named, *changes])


@functools.cache
def shipped_values() -> Mapping[str, object]:
    """Return the default of each setting that a file can have, by name, as JSON values."""
    return {name: shipped for name, _, shipped, _ in list_values(f"[{ROOT}]".encode())}


def _render_change(name: str, value: object) -> str:
    """Return `TABLE.KEY=VALUE`; a text is without quotes where it is taken for one all the same."""
    plain = f"{name}={value}"
    try:
        is_plain = isinstance(value, str) and read_override(plain).value == value
    except OverrideError:  # it is no UTF-8
        is_plain = False
    return plain if is_plain and plain.isprintable() else f"{name}={render_toml(value)}"


_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)


def dump_toml(value: object) -> str:
    """Return a value as it can stand in a file; a key without a value, None, is left out."""
    if isinstance(value, Mapping):
        given = ((key, each) for key, each in value.items() if each is not None)
        inner = (f"{_dump_key(key)} = {dump_toml(each)}" for key, each in given)
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(dump_toml, value))}]"
    if isinstance(value, float):
        return repr(value)  # JSON has no words for what is infinite
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def render_toml(value: object) -> str:
    """Return the same for a screen, without characters that steer one."""
    return printable(dump_toml(value))


def _dump_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else dump_toml(key)
