"""`obsmask recall`: a masked tool result, by the id in its placeholder."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from addon.commands.options import config_options, open_config
from addon.recall import FOLDER_VARIABLE, Kept, RecallFolder, folder_of

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    envvar=FOLDER_VARIABLE,
    help=f"Where masked results are kept. Default: ${FOLDER_VARIABLE} (set by obsmask run), else "
    "as configured.",
)

_AGES = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))


@click.command("recall")
@click.argument("recall_id", metavar="ID", required=False)
@click.option("--list", "lists", is_flag=True, help="List all IDs, with sizes and ages.")
@folder_option
@config_options
def command(
    recall_id: str | None, lists: bool, folder: Path | None, config: str, changes: tuple[str, ...]
) -> None:
    """Print a masked tool result, by the ID in its placeholder.

    Results are kept only if `recall.enabled` was on when they were masked.
    """
    if lists == (recall_id is not None):
        raise click.UsageError("expected an ID, or --list")
    found = open_folder(folder, config, changes)
    if recall_id is not None:
        sys.stdout.buffer.write(found.read(recall_id))
        sys.stdout.buffer.flush()
    elif files := found.list_files():
        print(*(_describe(kept, time.time()) for kept in files), sep="\n")
    else:
        raise ValueError(f"nothing is kept in {found.path}")


def open_folder(folder: Path | None, config: str, changes: Sequence[str]) -> RecallFolder:
    """Return the folder that is named, or else that of the configuration."""
    if folder is None:
        folder = folder_of(open_config(config, changes).settings.recall)
    return RecallFolder(folder)


def _describe(kept: Kept, now: float) -> str:
    seconds = max(0.0, now - kept.used)
    size, unit = next((age for age in _AGES if seconds >= 2 * age[0]), _AGES[-1])
    age = f"{seconds // size:.0f} {unit}"
    return f"{kept.recall_id} {kept.size:>12,} bytes  used {age} ago"
