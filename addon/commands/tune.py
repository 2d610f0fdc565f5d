"""`obsmask tune`: the call."""

from dataclasses import replace
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
from addon.commands.sessions import read_sessions
from addon.commands.tuning import run_front, run_tune
from addon.commands.workers import open_workers
from masking.replay.pauses import Pause, pause_sessions


@click.command("tune", cls=PolicyCommand)
@paths_argument
@click.option("--front", is_flag=True, help="Show what each max_loss would cost.")
@click.option("--scheduler", metavar="tcp://…", help="Run on this Dask cluster.")
@replay_options
def command(
    paths: tuple[Path, ...],
    front: bool,
    scheduler: str | None,
    pause: Pause | None,
    **given: object,
) -> None:
    """Find the settings that your recordings ask for: several hundred are tried.

    PATH is a recording (.flow), conversations (.json, .jsonl), either of them compressed, or a
    folder of these. Whatever no option sets is as in the configuration.
    """
    settings_list = read_replay_settings(given)
    if len(settings_list) > 1:
        raise ValueError("tune takes one --prices")
    sessions = pause_sessions(read_sessions(paths), pause)
    settings = replace(settings_list[0], rules=())  # one policy is looked for
    run = run_front if front else run_tune
    with open_workers(scheduler) as workers:
        run(sessions, settings, workers, open_console(), progress=Console(stderr=True))
