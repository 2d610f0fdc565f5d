"""Changes settings in the text of a configuration file; all else in it stays as it is.

tomlkit edits the text, which keeps comments and layout. What it makes of it is not trusted: read
again, it must be the document with exactly these changes.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable

from addon.metrics.toml_values import dump_toml
from masking.config import ROOT, list_values, parse_settings, read_document, read_override
from masking.errors import ConfigError

_BOM = b"\xef\xbb\xbf"


class Edit(NamedTuple):
    """A setting, by the keys that lead to it from our table, and its new value.

    adds: whether the value is added to the list that is there, instead.
    """

    keys: tuple[str, ...]
    value: object
    adds: bool = False


def read_edit(text: str, *, adds: bool) -> Edit:
    """Read `TABLE.KEY=VALUE`. Raises OverrideError if that is not what it is."""
    return Edit(*read_override(text), adds)


def edit_config(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return a file's bytes after these edits.

    A setting that stands behind a `#` where it belongs, as `obsmask config init` writes it, is set
    there. Raises ConfigError if the file has a mistake, if the new one would have one, or if it
    cannot be edited without a change of something else.
    """
    parse_settings(data)
    document = read_document(data)
    wanted = functools.reduce(_apply, edits, document.get(ROOT, {}))
    parse_settings(tomlkit.dumps({ROOT: wanted}).encode())
    text = data.removeprefix(_BOM).decode().replace("\r\n", "\n")
    for edit in edits:
        document = {**document, ROOT: _apply(document.get(ROOT, {}), edit)}
        edited = (each for each in _list_texts(text, edit, document) if _is(each, document))
        if (found := next(edited, None)) is None:
            raise ConfigError(
                "the file is laid out in a way that this command cannot change: edit it by hand",
                ".".join(edit.keys),
            )
        text = found
    if b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n"):
        text = text.replace("\n", "\r\n")
    return (_BOM if data.startswith(_BOM) else b"") + text.encode()


def _list_texts(text: str, edit: Edit, wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield texts that may be the document after an edit; what it then says is `wanted`."""
    with contextlib.suppress(TOMLKitError):  # of some documents that are right
        yield _edit_text(_uncomment(text, edit.keys), edit)
    value = functools.reduce(lambda table, key: table[key], (ROOT, *edit.keys), wanted)
    yield f"{ROOT}.{'.'.join(edit.keys)} = {dump_toml(value)}\n{text}"


def _is(text: str, wanted: Mapping[str, Any]) -> bool:
    return _read_or_none(text.encode()) == wanted


def _apply(table: Mapping[str, Any], edit: Edit) -> Mapping[str, Any]:
    """Return our table after an edit, as plain values."""

    def put(inside: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
        key, *inner = keys
        before = inside.get(key)
        if inner:
            return {**inside, key: put(before if isinstance(before, Mapping) else {}, inner)}
        return {**inside, key: _add(before, edit) if edit.adds else edit.value}

    return put(table, edit.keys)


def _add(before: object, edit: Edit) -> object:
    """Return a list with one value more, unless it has it already."""
    if before is None:
        before = _SHIPPED.get(".".join(edit.keys), [])
    if not isinstance(before, list):
        raise ConfigError("not a list: `obsmask config set` sets it", ".".join(edit.keys))
    return before if edit.value in before else [*before, edit.value]


_SHIPPED = {name: shipped for name, _, shipped, _ in list_values(f"[{ROOT}]".encode())}


def _edit_text(text: str, edit: Edit) -> str:
    """Return a document's text after an edit, as tomlkit makes it."""
    document = tomlkit.parse(text)
    table: MutableMapping[str, Any] = document
    *outer, key = (ROOT, *edit.keys)
    for name in outer:
        if name not in table:
            table[name] = _make_table(table)
        table = table[name]
    if not edit.adds:
        table[key] = tomlkit.value(dump_toml(edit.value))
    elif key not in table:
        table[key] = _add(None, edit)
    elif edit.value not in table[key]:
        is_table = isinstance(table[key], AoT)  # else it stands on one line, without a header
        value = tomlkit.item(edit.value) if is_table else tomlkit.value(dump_toml(edit.value))
        table[key].append(value)
    return tomlkit.dumps(document)


def _make_table(outer: object) -> tomlkit.items.AbstractTable:
    return tomlkit.inline_table() if isinstance(outer, InlineTable) else tomlkit.table()


def _uncomment(text: str, keys: Sequence[str]) -> str:
    """Return a document's text without the `#` before a setting, where one stands in its table."""
    *outer, key = keys
    lines = text.split("\n")
    header = f"[{'.'.join((ROOT, *outer))}]"
    if header not in lines:
        return text
    start = lines.index(header) + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith("[")), len(lines))
    first = next((n for n in range(start, end) if lines[n].startswith(f"#{key} = ")), None)
    if first is None or any(line.startswith(f"{key} = ") for line in lines[start:end]):
        return text
    for last in range(first, end):  # a list may take several lines
        if not lines[last].startswith("#"):
            return text
        setting = [line[1:] for line in lines[first : last + 1]]
        if _read_or_none("\n".join(setting).encode()) is not None:
            return "\n".join([*lines[:first], *setting, *lines[last + 1 :]])
    return text


def _read_or_none(data: bytes) -> Mapping[str, Any] | None:
    try:
        return read_document(data)
    except ConfigError:
        return None
