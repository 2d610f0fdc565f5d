"""`obsmask config`: shows the configuration, and creates, changes or checks a file of it."""

import contextlib
import functools
import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
import tomlkit
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable

from addon.commands.options import config_option, config_options, open_config
from addon.commands.terminal import open_console, print_text
from addon.config import (
    AT_THE_NEXT_START,
    CONFIG_NAME,
    CONFIG_VARIABLE,
    ConfigFile,
    FoundConfig,
    advise,
    describe_local,
    locate_config,
    user_config,
)
from addon.config_commands import Advice, dump_toml, render_toml, shipped_values
from addon.counts import pluralize
from addon.places import read_regular, replace_file, shipped
from masking.config import (
    COMMON,
    REDACTION_VARIABLE,
    ROOT,
    ConfigValue,
    Source,
    find_key,
    list_values,
    parse_settings,
    read_document,
    read_override,
)
from masking.errors import ConfigError, printable

# obsmask config

_NAMED = {
    "option": "--config names it",
    "environment": "$OBSMASK_CONFIG names it",
    "user": "your own; neither --config nor $OBSMASK_CONFIG names another",
    "shipped": "the default one; `obsmask config init` writes one of your own",
}
"""Why a file is used, by its place."""


@click.group("config", invoke_without_command=True)
@config_options
@click.option("--all", "show_all", is_flag=True, help="Show and explain every setting.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context, config: str, changes: tuple[str, ...], show_all: bool, as_json: bool
) -> None:
    """Show, create, change, or check the configuration.

    Without a COMMAND, show which file is used and why, and which settings differ from the defaults.
    """
    if context.invoked_subcommand:
        if config or changes or show_all or as_json:
            raise click.UsageError(f"{context.invoked_subcommand} takes none of these options")
        return
    found = locate_config(config)
    values = _list_values(found, config, changes)
    if as_json:
        print(_render_json(found, values))
        return
    print(f"{printable(str(found.path))}\n({_NAMED[found.place]})")
    if local := describe_local(found.path):
        print(f"({local})")
    print()
    console = open_console()
    if show_all:
        for value in values:
            print("\n".join(_explain(value, console.width)))
    else:
        _print_short(values, console)
    if any(value.source == "environment" for value in values):
        print(f"${REDACTION_VARIABLE} comes before the file and --set.")


def _list_values(found: FoundConfig, config: str, changes: Sequence[str]) -> list[ConfigValue]:
    values = list_values(
        open_config(config, changes).data, changes, os.environ.get(REDACTION_VARIABLE)
    )
    if found.path != shipped(CONFIG_NAME):
        return values
    return [
        value._replace(source="shipped") if value.source == "file" else value for value in values
    ]


def _render_json(found: FoundConfig, values: list[ConfigValue]) -> str:
    settings = {
        name: {"value": value, "shipped": before, "source": source}
        for name, value, before, source in values
    }
    document = {"file": str(found.path), "named_by": found.place, "settings": settings}
    return json.dumps(document, indent=2)


_SOURCES: dict[Source, str] = {
    "shipped": "default",
    "file": "file",
    "override": "--set",
    "environment": "environment",
}

_WIDE = 60
"""The least columns of a screen on which the names of settings are not folded."""

_MOST_PINNED = 6
"""How many settings are named that a file sets to their defaults. A whole old file has 70."""


def _print_short(values: Sequence[ConfigValue], console: Console) -> None:
    """Print what differs from the defaults, and then those of the settings that people set."""
    changed = [value for value in values if value.value != value.shipped]
    pinned = [value.name for value in values if value.source != "shipped" and value not in changed]
    common = [value for value in values if value.name in COMMON and value not in changed]
    if changed:
        console.print(_render_table(changed, console.width))
    else:
        print("No setting differs from its default.\n")
    if pinned:
        more = f", and {len(pinned) - _MOST_PINNED} more" if len(pinned) > _MOST_PINNED else ""
        line = f"Set to their defaults: {', '.join(pinned[:_MOST_PINNED])}{more}"
        print(f"{textwrap.fill(line, console.width, break_on_hyphens=False)}\n")
    for name, value, _, _ in common:
        print(f"{name} = {render_toml(value)}")
    others = len(values) - len(changed) - len(common)
    print(f"and {others} more, each at its default: obsmask config --all explains them")


def _render_table(changed: Sequence[ConfigValue], width: int) -> Table:
    table = Table("setting", "value", "default", "from", box=SIMPLE_HEAD)
    table.columns[0].no_wrap = width >= _WIDE
    for column in table.columns:
        column.overflow = "fold"
    for name, value, before, source in changed:
        cells = (name, render_toml(value), render_toml(before), _SOURCES[source])
        table.add_row(*map(Text, cells))
    return table


def _explain(value: ConfigValue, width: int) -> Iterator[str]:
    """Yield the lines of a setting: its value, where that is from, and what the setting does."""
    source = _SOURCES[value.source]
    if value.value != value.shipped:
        source += f"; default: {render_toml(value.shipped)}"
    yield f"{value.name} = {render_toml(value.value)}  ({source})"
    about, indent = find_key(value.name).description or "", " " * 4
    yield from textwrap.wrap(
        about, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    yield ""


# init

_SETTING = re.compile(r"^(?=[^#\[\n])", re.MULTILINE)
_HEADER = """\
# Your configuration of observation-masking. A setting behind `#` has its default value, also after
# an update. To change it, remove the `#`.
#
"""


@command.command("init")
def init() -> None:
    """Create your own configuration file.

    It lists and explains the settings that people set, commented out, so nothing changes yet. Any
    other can stand there, too. An existing file is left alone.
    """
    path = user_config()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ValueError(
            f"{path} already exists: edit it, or change it with obsmask config set"
        ) from None
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle is no path
            file.write(_make_own())
    except OSError:  # half a file would be used all the same
        path.unlink()
        raise
    print(
        f"Written: {printable(str(path))}\n"
        "To change a setting, remove the # before it, or type: obsmask config set TABLE.KEY=VALUE"
    )
    if named := os.environ.get(CONFIG_VARIABLE):
        print(f"${CONFIG_VARIABLE} names another file, which is used instead: {printable(named)}")


def _make_own() -> bytes:
    """Return the shipped file with each setting behind a `#`, for a user to change."""
    text = shipped(CONFIG_NAME).read_text(encoding="utf-8")
    return (_HEADER + _SETTING.sub("#", text)).encode()


# check


@command.command("check")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def check(file: Path | None) -> None:
    """Check a configuration file: FILE, or else the one that is used.

    Print the settings that it changes; or print its first mistake, and exit with 1.
    """
    file = file or locate_config("").path
    values = list_values(ConfigFile(file).data)
    changed = [value for value in values if value.value != value.shipped]
    what = f"{pluralize(len(changed), 'setting')} changed" if changed else "nothing changed"
    print_text(open_console(), f"{printable(str(file))}: no mistake, {what}")
    for name, value, before, _ in changed:
        print(f"{name} = {render_toml(value)}  (default: {render_toml(before)})")


# set, add, and unset


@command.command("set")
@config_option
@click.argument("changes", nargs=-1, required=True, metavar="TABLE.KEY=VALUE...")
def set_values(config: str, changes: tuple[str, ...]) -> None:
    """Change settings in your configuration file.

    For example: obsmask config set schema1.window_turns=12

    The rest of the file stays the same, comments included. If you have no file of your own, this
    creates one, like `obsmask config init`. If there is a mistake, the file stays unchanged. The
    output ends with the command that undoes the change.
    """
    _edit(config, [read_edit(change) for change in changes])


@command.command("add")
@config_option
@click.argument("changes", nargs=-1, required=True, metavar="TABLE.KEY=VALUE...")
def add_values(config: str, changes: tuple[str, ...]) -> None:
    """Add to lists in your configuration file.

    For example: obsmask config add hosts.uncached=llm.example.com

    Otherwise like `obsmask config set`.
    """
    _edit(config, [read_edit(change, "add") for change in changes])


@command.command("unset")
@config_option
@click.argument("names", nargs=-1, required=True, metavar="TABLE.KEY...")
def unset_values(config: str, names: tuple[str, ...]) -> None:
    """Remove settings from your configuration file.

    For example: obsmask config unset schema1.window_turns

    Their defaults then apply. The rest of the file stays the same, comments included.
    """
    edits = [_read_unset(name) for name in names]
    if locate_config(config).place == "shipped":
        print("Nothing to change: you have no configuration file, so every default applies.")
        return
    _edit(config, edits)


def _read_unset(name: str) -> "Edit":
    """Return the edit that takes a setting out of a file. Raises ValueError for a name of none."""
    name = name.removeprefix(f"{ROOT}.")
    if name not in shipped_values():
        (close,) = get_close_matches(name, shipped_values(), 1) or ("",)
        hint = f": did you mean {close}?" if close else ""
        raise ValueError(f"{printable(name)} is no setting{hint}")
    return Edit(tuple(name.split(".")), None, "unset")


def _edit(config: str, edits: Sequence["Edit"]) -> None:
    """Change the file that is used, or the user's own in place of the shipped one."""
    found = locate_config(config)
    if found.place == "shipped":
        path, before = user_config(), _make_own()
    elif found.path == shipped(CONFIG_NAME):
        raise ValueError(f"{found.path} came with the package: change a file of your own")
    else:
        path, (before, _) = found.path, read_regular(found.path)
    try:
        after = edit_config(before, edits)
    except ConfigError as error:
        raise ConfigError(f"{path} is unchanged: {error.problem}", error.path) from None
    old, new = list_values(before), list_values(after)
    known = {value.name: value.value for value in old}
    changed = [value for value in new if value.value != known.get(value.name, value.shipped)]
    if after == before:
        is_unset = all(edit.verb == "unset" for edit in edits)
        says = "sets none of that" if is_unset else "already says so"
        print(f"Nothing to change: {printable(str(path))} {says}.")
        return
    replace_file(path, after)
    print(f"Written: {printable(str(path))}")
    for name, value, was_shipped, _ in changed:
        print(f"{name} = {render_toml(value)}  (was: {render_toml(known.get(name, was_shipped))})")
    # A default that is set now is the user's own from now on, before any rule that is shipped.
    names = {".".join(edit.keys) for edit in edits} - {value.name for value in changed}
    for name, value, _, source in new:
        if name in names and source == "file":
            print(f"{name} = {render_toml(value)}  (the default as well)")
    if {value.name for value in changed} & AT_THE_NEXT_START:
        print("A running proxy uses this after its next start.")
    _print_way_back(old, [".".join(edit.keys) for edit in edits], advise(path))


def _print_way_back(old: Sequence[ConfigValue], names: Sequence[str], advice: Advice) -> None:
    """Print what gives these settings back what they had in the file, or had by default."""
    had = {value.name: value.value for value in old if value.source == "file"}
    before = {name: had[name] for name in dict.fromkeys(names) if name in had}
    commands = [advice.set(before)] if before else []
    if new := [name for name in dict.fromkeys(names) if name not in had]:
        commands.append(advice.unset(*new))
    for each in commands:
        print(f"To undo: {printable(each)}")


# How they edit a file: tomlkit edits its text, which keeps comments and layout. The result is not
# trusted: read again, it must be the document with exactly these changes.

_BOM = b"\xef\xbb\xbf"

Verb = Literal["set", "add", "unset"]


class Edit(NamedTuple):
    """A setting, by the keys that lead to it from our table, and its new value.

    verb: "add" adds the value to the list that is there; "unset" takes the setting out of the file.
    """

    keys: tuple[str, ...]
    value: object
    verb: Verb = "set"


def read_edit(text: str, verb: Verb = "set") -> Edit:
    """Parse `TABLE.KEY=VALUE`. Raises OverrideError for anything else."""
    return Edit(*read_override(text), verb)


def edit_config(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return a file's bytes after these edits.

    A setting that is commented out where it belongs, as `obsmask config init` writes it, is set
    there. Raises ConfigError if the file has a mistake, if the new one would have one, or if it
    cannot be edited without a change of something else.
    """
    parse_settings(data)
    document = read_document(data)
    wanted = functools.reduce(_apply, edits, document.get(ROOT, {}))
    parse_settings(tomlkit.dumps({ROOT: wanted}).encode())
    text = data.removeprefix(_BOM).decode().replace("\r\n", "\n")
    for edit in edits:
        changed = _apply(document.get(ROOT, {}), edit)
        if edit.verb == "unset" and changed == document.get(ROOT, {}):
            continue
        document = {**document, ROOT: changed}
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
    if edit.verb == "unset":
        yield _comment_out(text, edit.keys)
        with contextlib.suppress(TOMLKitError):
            without = _edit_text(text, edit)
            yield from (without, f"[{ROOT}]\n{without}")  # where it was the only one
        return
    with contextlib.suppress(TOMLKitError):  # of some documents that are right
        yield _edit_text(_uncomment(text, edit.keys), edit)
    value = functools.reduce(lambda table, key: table[key], (ROOT, *edit.keys), wanted)
    yield f"{ROOT}.{'.'.join(edit.keys)} = {dump_toml(value)}\n{text}"


def _is(text: str, wanted: Mapping[str, Any]) -> bool:
    """Whether a text says what is wanted; an empty table of ours says nothing."""
    document = _read_or_none(text.encode())
    return document is not None and ROOT in document and _prune(document) == _prune(wanted)


def _prune(document: Mapping[str, Any]) -> Mapping[str, Any]:
    ours = document[ROOT]
    return {**document, ROOT: {name: each for name, each in ours.items() if each != {}}}


def _apply(table: Mapping[str, Any], edit: Edit) -> Mapping[str, Any]:
    """Return our table after an edit, as plain values."""

    def put(inside: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
        key, *inner = keys
        before = inside.get(key)
        if inner:
            if edit.verb == "unset" and not isinstance(before, Mapping):
                return inside
            return {**inside, key: put(before if isinstance(before, Mapping) else {}, inner)}
        if edit.verb == "unset":
            return {name: value for name, value in inside.items() if name != key}
        return {**inside, key: _add(before, edit) if edit.verb == "add" else edit.value}

    return put(table, edit.keys)


def _add(before: object, edit: Edit) -> object:
    """Return a list with one value more, unless it has it already."""
    if before is None:
        before = shipped_values().get(".".join(edit.keys), [])
    if not isinstance(before, list):
        raise ConfigError("not a list: `obsmask config set` sets it", ".".join(edit.keys))
    return before if edit.value in before else [*before, edit.value]


def _edit_text(text: str, edit: Edit) -> str:
    """Return a document's text after an edit, as tomlkit makes it."""
    document = tomlkit.parse(text)
    table: MutableMapping[str, Any] = document
    *outer, key = (ROOT, *edit.keys)
    for name in outer:
        if name not in table:
            is_inline = isinstance(table, InlineTable)
            table[name] = tomlkit.inline_table() if is_inline else tomlkit.table()
        table = table[name]
    if edit.verb == "unset":
        del table[key]
    elif edit.verb == "set":
        table[key] = tomlkit.value(dump_toml(edit.value))
    elif key not in table:
        table[key] = _add(None, edit)
    elif edit.value not in table[key]:
        is_table = isinstance(table[key], AoT)  # else it is on one line, without a header
        value = tomlkit.item(edit.value) if is_table else tomlkit.value(dump_toml(edit.value))
        table[key].append(value)
    return tomlkit.dumps(document)


def _find_setting(lines: Sequence[str], keys: Sequence[str], mark: str = "") -> range | None:
    """Return which lines a setting takes in its table, each behind a mark; None if it is not there.

    A list may take several.
    """
    *outer, key = keys
    header = f"[{'.'.join((ROOT, *outer))}]"
    if header not in lines:
        return None
    start = lines.index(header) + 1
    end = next((n for n in range(start, len(lines)) if lines[n].startswith("[")), len(lines))
    first = next((n for n in range(start, end) if lines[n].startswith(f"{mark}{key} = ")), None)
    if first is None:
        return None
    for last in range(first, end):
        if not lines[last].startswith(mark):
            return None
        setting = [line.removeprefix(mark) for line in lines[first : last + 1]]
        if _read_or_none("\n".join(setting).encode()) is not None:
            return range(first, last + 1)
    return None


def _uncomment(text: str, keys: Sequence[str]) -> str:
    """Return a document's text with a setting no longer commented out, if it was in its table."""
    lines = text.split("\n")
    found = _find_setting(lines, keys, "#")
    if found is None or _find_setting(lines, keys) is not None:
        return text
    for n in found:
        lines[n] = lines[n][1:]
    return "\n".join(lines)


def _comment_out(text: str, keys: Sequence[str]) -> str:
    """Return a document's text with a setting behind a `#` again, with the value it then has.

    Unchanged if no comment stands before it, as one does in what `obsmask config init` writes.
    """
    lines = text.split("\n")
    found = _find_setting(lines, keys)
    if found is None or not lines[found.start - 1].startswith("#"):
        return text
    setting = f"#{keys[-1]} = {dump_toml(shipped_values()['.'.join(keys)])}"
    return "\n".join([*lines[: found.start], setting, *lines[found.stop :]])


def _read_or_none(data: bytes) -> Mapping[str, Any] | None:
    try:
        return read_document(data)
    except ConfigError:
        return None
