"""What `obsmask doctor` found, and how it is printed."""

import json
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Literal, NamedTuple

from rich.console import Console
from rich.text import Text

from addon.counts import pluralize
from masking.errors import printable

Level = Literal["ok", "note", "broken"]
"""`note`: worth knowing, and it may be as the user wants it. `broken`: something will fail."""


class Finding(NamedTuple):
    """A sentence; `fix` is a line to type or to write into a file, None where there is none."""

    level: Level
    says: str
    fix: str | None = None


def ok(says: str) -> Finding:
    return Finding("ok", says)


def note(says: str, fix: str | None = None) -> Finding:
    return Finding("note", says, fix)


def broken(says: str, fix: str | None = None) -> Finding:
    return Finding("broken", says, fix)


Found = tuple[str, Finding]
"""A finding, and its topic."""

_STYLES: dict[Level, str] = {"ok": "green", "note": "yellow", "broken": "bold red"}
_INDENT = " " * len("  broken  ")
_NARROWEST = 20


def print_report(console: Console, found: Iterable[Found]) -> Iterator[Found]:
    """Print each finding as soon as it is there, and yield it; at the end, print how many."""
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
    said = f"{pluralize(broken, 'thing')} broken" if broken else "Nothing is broken"
    console.print(f"\n{said}, {pluralize(notes, 'note')}.")


def _print(console: Console, finding: Finding) -> None:
    """Print a finding; its fix stays on one line, so that it can be copied."""
    width = max(console.width - len(_INDENT), _NARROWEST)
    words = printable(finding.says)
    first, *others = wrap(words, width, break_long_words=False, break_on_hyphens=False) or [""]
    level = Text(f"  {finding.level}".ljust(len(_INDENT)), style=_STYLES[finding.level])
    console.print(level + first, soft_wrap=True)
    for line in others:
        console.print(Text(_INDENT + line), soft_wrap=True)
    if finding.fix:
        console.print(Text(_INDENT + printable(finding.fix), style="cyan"), soft_wrap=True)


def render_json(found: Iterable[Found]) -> str:
    """Return findings as JSON."""
    findings = [
        {"topic": topic, "level": level, "says": says, "mend": fix}
        for topic, (level, says, fix) in found
    ]
    return json.dumps({"findings": findings}, indent=2)
