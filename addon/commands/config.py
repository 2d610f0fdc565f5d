"""`obsmask config`: which file holds, what every setting is and why; a file of one's own."""

import json
import os
import re
from pathlib import Path

import click

from addon.commands.config_table import render_table
from addon.commands.consoles import open_console
from addon.commands.options import config_options
from addon.metrics.toml_values import render_toml
from addon.shared.config_file import ConfigFile
from addon.shared.config_places import (
    ENVIRONMENT,
    NAME,
    FoundConfig,
    find_local,
    locate_config,
    user_config,
)
from addon.shared.shipped import shipped
from masking.config_values import ConfigValue, list_values
from masking.errors import ConfigError
from masking.printable import printable
from masking.report.text import pluralize
from masking.strategies.redaction import SWITCH

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
    values = _list_values(found, changes)
    if as_json:
        print(_render_json(found, values))
        return
    print(f"{printable(str(found.path))}\n({_NAMED[found.place]})")
    if _has_local():
        print(f"({NAME} in this folder is not read: plain mitmdump alone reads it)")
    console = open_console()
    console.print(render_table(values, console.width))
    if any(value.source == "environment" for value in values):
        print(f"${SWITCH} comes before the file and --set.")


@command.command("init")
def init() -> None:
    """Write a configuration of your own, with every setting and what it means.

    Nothing is changed by that: each setting is behind a `#`. A file that is there already is left
    alone.
    """
    path = user_config()
    text = shipped(NAME).read_text(encoding="utf-8")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a handle is no path
            file.write(_HEADER + _SETTING.sub("#", text))
    except OSError:  # half a file would hold all the same
        path.unlink()
        raise
    print(f"Written: {printable(str(path))}\nRemove the # before a setting to change it.")
    if named := os.environ.get(ENVIRONMENT):
        print(f"${ENVIRONMENT} names another file, which holds: {printable(named)}")


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


def _has_local() -> bool:
    try:
        return find_local() is not None
    except ConfigError:  # it may be anybody's
        return False


def _list_values(found: FoundConfig, changes: tuple[str, ...]) -> list[ConfigValue]:
    values = list_values(ConfigFile(found.path, changes).data, changes, os.environ.get(SWITCH))
    if found.path != shipped(NAME):
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
