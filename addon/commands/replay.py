"""`obsmask replay`: the call, and the order in which its results are shown."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
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
from addon.commands.replay_tables import (
    render_assumed,
    render_conversations,
    render_masked_before,
    render_passed_over,
    render_prices,
)
from addon.commands.replaying import (
    ReplayResult,
    Wanted,
    replay_sessions,
    write_json,
    write_report,
)
from addon.commands.written_files import check_writable
from addon.replay.replay import Pause


@click.command("replay", cls=PolicyCommand)
@paths_argument
@click.option("--json", "as_json", is_flag=True, help="Print everything that was measured.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.HTML",
    help="Write a page, too.",
)
@click.option("--total", is_flag=True, help="Print all conversations together, and not each.")
@click.option(
    "--memory/--no-memory",
    default=None,
    help="Remember the boundary that was sent; default: as configured, on like mitmdump.",
)
@work_options
@replay_options
def command(
    paths: tuple[Path, ...],
    as_json: bool,
    report: Path | None,
    total: bool,
    resume: Path | None,
    processes: int | None,
    scheduler: str | None,
    pause: Pause | None,
    **given: object,
) -> None:
    """Price recordings under a policy: what was sent, and what masking makes of it.

    PATH is a recording (.flow), conversations (.json, .jsonl), either of them compressed, or a
    folder of these. Whatever no option sets is as in the configuration.
    """
    settings_list = read_replay_settings(given)
    is_one = len(settings_list) == 1
    if not is_one and (as_json or report):
        raise ValueError("--json and --report take one --prices")
    if report:
        check_writable(report)
    options = WorkOptions(resume, processes, scheduler, pause)
    wanted = Wanted(
        rows=is_one and (report is not None or not total),
        requests=as_json and not total,
        chart=report is not None,
    )
    with ExitStack() as stack:
        with open_work(paths, options, starts_for_few=False) as work:
            replays = [
                stack.enter_context(replay_sessions(work, settings, wanted))
                for settings in settings_list
            ]
        if not all(replay.totals.requests for replay in replays):
            raise ValueError(f"no request to replay in {', '.join(map(str, paths))}")
        if masked := replays[0].masked_before:
            print(render_masked_before(masked), file=sys.stderr)
        if as_json:
            write_json(replays[0], sys.stdout)
        else:
            _print_tables(replays, total=total)
        if report:
            write_report(report, replays[0], paths, pause)
            print(report, file=sys.stderr)


def _print_tables(replays: Sequence[ReplayResult], *, total: bool) -> None:
    console, first = open_console(), replays[0]
    if assumed := render_assumed(first):
        console.print(assumed, highlight=False, markup=False)
    is_one = len(replays) == 1
    console.print(render_conversations(first, total=total) if is_one else render_prices(replays))
    if first.passed_over:
        console.print(render_passed_over(first), highlight=False, markup=False)
