"""`obsmask expect`: what replaying recordings yields, written down or compared."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from addon.recordings.expectations import expectation_file, find_configs, replay_recording
from addon.shared.shipped import recordings


@click.command("expect")
@click.argument("found", nargs=-1, metavar="[RECORDING]...", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Compare instead; exit with 1 if anything differs.")
def command(found: tuple[Path, ...], check: bool) -> int:
    """Write down what replaying each RECORDING yields; by default, the shipped ones.

    A file of expectations is beside its recording.
    """
    cases = [(each, config) for each in found or recordings() for config in find_configs(each)]
    console = Console(stderr=True)
    are_expected = []
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        for recording, config in progress.track(cases, description="replay"):
            are_expected.append(_expect_case(recording, config, check))
    return 0 if all(are_expected) else 1


def _expect_case(recording: Path, config: Path | None, check: bool) -> bool:
    """Write down what a replay yields, or compare it; return whether it is what is written."""
    file = expectation_file(recording, config)
    text = json.dumps(replay_recording(recording, config), indent=1, ensure_ascii=False) + "\n"
    if not check:
        file.write_text(text, encoding="utf-8")
        print(file)
        return True
    is_expected = file.read_text(encoding="utf-8") == text
    problem = "as expected" if is_expected else "a replay yields something else"
    print(f"{file}: {problem}", file=sys.stderr)
    return is_expected
