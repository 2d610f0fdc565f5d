"""`obsmask replay`: the call, and the order in which its results are shown."""

import errno
import os
import sys
from pathlib import Path

import click
from rich.console import Console

from addon.commands.consoles import open_console
from addon.commands.options import (
    PolicyCommand,
    paths_argument,
    read_replay_settings,
    replay_options,
)
from addon.commands.replay_tables import (
    render_assumed,
    render_conversations,
    render_masked_before,
    render_passed_over,
    render_prices,
)
from addon.commands.replaying import (
    ReplayResult,
    find_masked_before,
    render_json,
    replay_paths,
    write_report,
)
from masking.replay.pauses import Pause


@click.command("replay", cls=PolicyCommand)
@paths_argument
@click.option("--json", "as_json", is_flag=True, help="Print everything that was measured.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.HTML",
    help="Write a page, too.",
)
@click.option(
    "--memory/--no-memory",
    default=None,
    help="Remember the boundary that was sent; default: as configured, on like mitmdump.",
)
@replay_options
def command(
    paths: tuple[Path, ...],
    as_json: bool,
    report: Path | None,
    pause: Pause | None,
    **given: object,
) -> None:
    """Price recordings under a policy: what was sent, and what masking makes of it.

    PATH is a recording (.flow), conversations (.json, .jsonl), either of them compressed, or a
    folder of these. Whatever no option sets is as in the configuration.
    """
    settings_list = read_replay_settings(given)
    if len(settings_list) > 1 and (as_json or report):
        raise ValueError("--json and --report take one --prices")
    if report:
        _check_writable(report)
    progress = Console(stderr=True)
    replays = replay_paths(paths, settings_list, progress, pause)
    if masked := find_masked_before(replays[0]):
        print(render_masked_before(masked), file=sys.stderr)
    if as_json:
        print(render_json(replays[0]))
    else:
        _print_tables(replays)
    if report:
        write_report(report, replays[0], paths, pause)
        print(report, file=sys.stderr)


def _check_writable(file: Path) -> None:
    """Raise OSError if a file cannot be written, before any work is done for it."""
    folder = file.parent
    if not folder.exists():
        raise OSError(f"{file}: there is no folder {folder}")
    if not folder.is_dir():
        raise OSError(f"{file}: {os.strerror(errno.ENOTDIR)}")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise OSError(f"{file}: {os.strerror(errno.EACCES)}")


def _print_tables(replays: list[ReplayResult]) -> None:
    console, first = open_console(), replays[0]
    if assumed := render_assumed(first):
        console.print(assumed, highlight=False, markup=False)
    is_one = len(replays) == 1
    console.print(render_conversations(first.comparisons) if is_one else render_prices(replays))
    if first.passed_over:
        console.print(render_passed_over(first), highlight=False, markup=False)
