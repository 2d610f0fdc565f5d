"""`obsmask tune`: the call."""

from dataclasses import replace
from pathlib import Path

import click

from addon.commands.consoles import open_console
from addon.commands.opened_work import WorkOptions, open_work
from addon.commands.options import (
    PolicyCommand,
    paths_argument,
    read_replay_settings,
    replay_options,
    work_options,
)
from addon.commands.tuning import run_tune
from addon.config import advise, locate_config
from addon.replay.replay import Pause


@click.command("tune", cls=PolicyCommand)
@paths_argument
@work_options
@replay_options
def command(
    paths: tuple[Path, ...],
    resume: Path | None,
    processes: int | None,
    scheduler: str | None,
    pause: Pause | None,
    **given: object,
) -> None:
    """Find the settings that your recordings ask for: several hundred are tried.

    PATH is a recording (.flow), conversations (.json, .jsonl), either of them compressed, or a
    folder of these. Whatever no option sets is as in the configuration.
    """
    advice = advise(locate_config(str(given["config"])).path)
    settings_list = read_replay_settings(given)
    if len(settings_list) > 1:
        raise ValueError("tune takes one --prices")
    settings = replace(settings_list[0], rules=())  # one policy is looked for
    options = WorkOptions(resume, processes, scheduler, pause)
    with open_work(paths, options, starts_for_few=True) as work:
        run_tune(work, settings, open_console(), advice)
