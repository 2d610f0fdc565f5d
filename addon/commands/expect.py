"""`obsmask expect`: what replaying recordings yields, compared or written down."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from addon.places import recordings
from addon.recordings.expectations import expectation_file, find_configs, replay_recording


@click.command("expect")
@click.argument("found", nargs=-1, metavar="[RECORDING]...", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Write down what is yielded, in place of comparing it.")
def command(found: tuple[Path, ...], write: bool) -> int:
    """Compare what replaying each RECORDING yields with what is written beside it.

    Exit with 1 if anything differs. Without a RECORDING all shipped ones are replayed, which takes
    minutes. Nothing is written unless --write says so.
    """
    cases = [(each, config) for each in found or recordings() for config in find_configs(each)]
    console = Console(stderr=True)
    are_expected = []
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        for recording, config in progress.track(cases, description="replay"):
            are_expected.append(_expect_case(recording, config, write=write))
    return 0 if all(are_expected) else 1


def _expect_case(recording: Path, config: Path | None, *, write: bool) -> bool:
    """Compare what a replay yields, or write it down; return whether it is what is written."""
    file = expectation_file(recording, config)
    text = json.dumps(replay_recording(recording, config), indent=1, ensure_ascii=False) + "\n"
    if write:
        file.write_text(text, encoding="utf-8")
        print(file)
        return True
    is_expected = file.read_text(encoding="utf-8") == text
    problem = "as expected" if is_expected else "a replay yields something else"
    print(f"{file}: {problem}", file=sys.stderr)
    return is_expected
