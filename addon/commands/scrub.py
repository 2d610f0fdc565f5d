"""`obsmask scrub`: a recording without prose and secrets."""

from pathlib import Path

import click

from addon.commands.options import check_writable
from addon.counts import pluralize
from addon.recordings.scrub import scrub_recording


@click.command("scrub")
@click.argument("recording", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def command(recording: Path, out: Path) -> None:
    """Anonymize a recording: replace all prose and secrets.

    Reads RECORDING, and writes the result to OUT, a .flow file.
    """
    check_writable(out)
    count = scrub_recording(recording, out)
    print(f"{out}: {pluralize(count, 'request')}")
