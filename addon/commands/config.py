"""`obsmask config`: which file holds, what every setting is and why; a file of one's own."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from addon.commands.config_edit import edit_config, read_edit
from addon.commands.config_table import render_table
from addon.commands.consoles import open_console
from addon.commands.options import config_option, config_options, open_config
from addon.config import (
    AT_THE_NEXT_START,
    CONFIG_NAME,
    CONFIG_VARIABLE,
    ConfigFile,
    FoundConfig,
    describe_local,
    locate_config,
    user_config,
)
from addon.metrics.toml_values import render_toml
from addon.places import read_regular, replace_file, shipped
from addon.replay.numbers import pluralize
from masking.config import REDACTION_VARIABLE, ConfigValue, list_values
from masking.errors import ConfigError, printable

_NAMED = {
    "option": "--config names it",
    "environment": "$OBSMASK_CONFIG names it",
    "user": "your own; neither --config nor $OBSMASK_CONFIG names another",
    "shipped": "the shipped one; `obsmask config init` writes one of your own",
}
"""Why a file holds, by its place."""

_SETTING = re.compile(r"^(?=[^#\[\n])", re.MULTILINE)
_HEADER = """\
# Your configuration of observation-masking. A setting behind `#` has its shipped value, also after
# an update: to change it, remove the `#`.
#
"""


@click.group("config", invoke_without_command=True)
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, config: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Show which file holds and why, and every setting with where it comes from."""
    if context.invoked_subcommand:
        if config or changes or as_json:
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
    console = open_console()
    console.print(render_table(values, console.width))
    if any(value.source == "environment" for value in values):
        print(f"${REDACTION_VARIABLE} comes before the file and --set.")


@command.command("init")
def init() -> None:
    """Write a configuration of your own, with every setting and what it means.

    Nothing is changed by that: each setting is behind a `#`. A file that is there already is left
    alone.
    """
    path = user_config()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ValueError(
            f"{path} is there already: edit it, or change it with obsmask config set"
        ) from None
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle is no path
            file.write(_make_own())
    except OSError:  # half a file would hold all the same
        path.unlink()
        raise
    print(
        f"Written: {printable(str(path))}\n"
        "To change a setting, remove the # before it, or type: obsmask config set TABLE.KEY=VALUE"
    )
    if named := os.environ.get(CONFIG_VARIABLE):
        print(f"${CONFIG_VARIABLE} names another file, which holds: {printable(named)}")


def _make_own() -> bytes:
    """Return the shipped file with each setting behind a `#`, for a user to change."""
    text = shipped(CONFIG_NAME).read_text(encoding="utf-8")
    return (_HEADER + _SETTING.sub("#", text)).encode()


@command.command("set")
@config_option
@click.argument("changes", nargs=-1, required=True, metavar="TABLE.KEY=VALUE...")
def set_values(config: str, changes: tuple[str, ...]) -> None:
    """Change settings in your configuration, as schema1.window_turns=12.

    All else in the file stays as it is, comments included. Without a file of your own, one is
    written as by `obsmask config init`. A mistake leaves the file alone.
    """
    _edit(config, changes, adds=False)


@command.command("add")
@config_option
@click.argument("changes", nargs=-1, required=True, metavar="TABLE.KEY=VALUE...")
def add_values(config: str, changes: tuple[str, ...]) -> None:
    """Add to lists in your configuration, as hosts.uncached=llm.example.com.

    Otherwise it does what `obsmask config set` does.
    """
    _edit(config, changes, adds=True)


def _edit(config: str, changes: Sequence[str], *, adds: bool) -> None:
    """Change the file that holds, or one of the user's own in place of the shipped one."""
    edits = [read_edit(change, adds=adds) for change in changes]
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
        raise ConfigError(f"{path} stays as it is: {error.problem}", error.path) from None
    old, new = list_values(before), list_values(after)
    known = {value.name: value.value for value in old}
    changed = [value for value in new if value.value != known.get(value.name, value.shipped)]
    if after == before:
        print(f"Nothing to change: {printable(str(path))} says so already.")
        return
    replace_file(path, after)
    print(f"Written: {printable(str(path))}")
    for name, value, was_shipped, _ in changed:
        print(f"{name} = {render_toml(value)}  (was: {render_toml(known.get(name, was_shipped))})")
    # A proxy that found no file of the user's watches the shipped one.
    if found.place == "shipped" or {value.name for value in changed} & AT_THE_NEXT_START:
        print("A proxy that is running takes this up when it next starts.")


@command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Say what is wrong with FILE, and exit with 1; or what it changes."""
    values = list_values(ConfigFile(file).data)
    changed = [value for value in values if value.value != value.shipped]
    what = f"{pluralize(len(changed), 'setting')} changed" if changed else "nothing changed"
    print(f"{printable(str(file))}: no mistake, {what}")
    for name, value, before, _ in changed:
        print(f"{name} = {render_toml(value)}  (shipped: {render_toml(before)})")


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
    told = {"file": str(found.path), "named_by": found.place, "settings": settings}
    return json.dumps(told, indent=2)
