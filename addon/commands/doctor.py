"""`obsmask doctor`: what is wrong, and the line that mends it."""

import json
import os
from collections.abc import Iterable, Iterator
from textwrap import wrap

import click
from rich.console import Console
from rich.text import Text

from addon.commands.consoles import open_console
from addon.commands.diagnosis.examination import examine
from addon.commands.diagnosis.finding import Finding, Level
from addon.commands.diagnosis.surroundings import Surroundings
from addon.commands.options import config_options
from addon.replay.numbers import pluralize
from masking.errors import printable

_STYLES: dict[Level, str] = {"ok": "green", "note": "yellow", "broken": "bold red"}
_INDENT = " " * len("  broken  ")
_NARROWEST = 20

Found = tuple[str, Finding]


@click.command("doctor", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(command: tuple[str, ...], config: str, changes: tuple[str, ...], as_json: bool) -> int:
    """Say what is wrong, and the line that mends it; exit with 1 if something is broken.

    With COMMAND, also whether what runs it trusts the proxy, in the environment that it would get
    from `obsmask run -- COMMAND`. It is not started.
    """
    found = examine(Surroundings(config, command, dict(os.environ), changes))
    listed = list(found) if as_json else list(_show(open_console(), found))
    if as_json:
        print(_render_json(listed))
    return 1 if any(finding.level == "broken" for _, finding in listed) else 0


def _show(console: Console, found: Iterable[Found]) -> Iterator[Found]:
    """Print each finding as soon as it is there, and pass it on; at the end, how many there are."""
    counts: dict[Level, int] = dict.fromkeys(_STYLES, 0)
    shown = ""
    for topic, finding in found:
        if topic != shown:
            console.print(f"{chr(10) if shown else ''}[bold]{topic}[/bold]")
            shown = topic
        _print(console, finding)
        counts[finding.level] += 1
        yield topic, finding
    broken, notes = counts["broken"], counts["note"]
    console.print(f"\n{pluralize(broken, 'thing')} broken, {pluralize(notes, 'note')}.")


def _print(console: Console, finding: Finding) -> None:
    """Print a finding; its line is not broken, so that it can be copied."""
    width = max(console.width - len(_INDENT), _NARROWEST)
    words = printable(finding.says)
    first, *others = wrap(words, width, break_long_words=False, break_on_hyphens=False) or [""]
    level = Text(f"  {finding.level}".ljust(len(_INDENT)), style=_STYLES[finding.level])
    console.print(level + first, soft_wrap=True)
    for line in others:
        console.print(Text(_INDENT + line), soft_wrap=True)
    if finding.mend:
        console.print(Text(_INDENT + printable(finding.mend), style="cyan"), soft_wrap=True)


def _render_json(found: Iterable[Found]) -> str:
    findings = [
        {"topic": topic, "level": level, "says": says, "mend": mend}
        for topic, (level, says, mend) in found
    ]
    return json.dumps({"findings": findings}, indent=2)
