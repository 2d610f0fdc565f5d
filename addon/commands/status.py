"""`obsmask status`: what masking saved in the last days, from the records."""

import csv
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from addon.commands.options import config_options, open_config, read_since
from addon.commands.status_views import (
    ASCII_MARKS,
    KEYS,
    MARKS,
    Groups,
    count_groups,
    find_day,
    list_mixed,
    render_groups,
    render_json,
    render_overview,
)
from addon.commands.terminal import open_console, print_text
from addon.records.file import RecordFile, holds_records, read_records, render_record
from addon.records.record import RequestRecord
from addon.records.words import count_requests
from addon.request import one_line
from masking.errors import printable

# Which records


_FILTERS = {"tag": "tagged {}", "host": "to {}"}
"""The fields of a record by which requests can be chosen; how the heading names the value."""


class Query(NamedTuple):
    """Which records are asked for, and how they are grouped.

    filters: the value that a field of each record must have.
    """

    source: Path
    since: datetime
    by: str
    filters: Mapping[str, str]
    replayed: bool

    def read(self) -> Iterator[RequestRecord]:
        """Yield the records, replayed or not: whoever counts them says how many are left out."""
        for record in read_records(self.source, self.since):
            if all(getattr(record, name) == value for name, value in self.filters.items()):
                yield record


# The command


@click.command("status")
@click.option(
    "--since",
    type=read_since,
    default="7d",
    show_default=True,
    metavar="WHEN",
    help="Count from today, yesterday, 12h, 7d (today and the six days before), 4w, or a date.",
)
@click.option(
    "--by",
    type=click.Choice([*KEYS]),
    default="day",
    show_default=True,
    metavar="WHAT",
    help="Group by day, model, host, client, label, or tag.",
)
@click.option("--tag", metavar="NAME", help="Only requests with this tag.")
@click.option("--host", metavar="NAME", help="Only requests to this host.")
@click.option("--replayed", is_flag=True, help="Only requests replayed from recordings.")
@config_options
@click.option(
    "--records",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read this records file. Default: the configured one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the records as CSV.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Print the records as JSON, one per line.")
def command(
    records: Path | None,
    config: str,
    changes: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    as_jsonl: bool,
    since: datetime,
    by: str,
    replayed: bool,
    **filters: str | None,
) -> None:
    """Show what masking saved: requests, tokens, money, and failures.

    Reads the records file and the one that was rotated last. Days are in your time zone.
    """
    if as_json + as_csv + as_jsonl > 1:
        raise click.UsageError("--json, --csv and --jsonl exclude each other")
    chosen = {name: value for name, value in filters.items() if value is not None}
    query = Query(_find_source(records, config, changes), since, by, chosen, replayed)
    asked = (record for record in query.read() if record.replay == replayed)
    if as_csv:
        write_csv(asked, sys.stdout)
    elif as_jsonl:
        write_jsonl(asked, sys.stdout)
    else:
        groups = count_groups(query.read(), by, replayed=replayed)
        if as_json:
            print(render_json(groups, since, query.source, chosen))
        else:
            _print_page(groups, query)


def _find_source(records: Path | None, config: str, changes: Sequence[str]) -> Path:
    """Return the file to read.

    Raises OSError if one is named that is not there, or no file, and ValueError for one that holds
    something else.
    """
    if records is None:
        records = RecordFile(open_config(config, changes).settings.metrics).path
    elif not records.exists():
        raise FileNotFoundError(ENOENT, strerror(ENOENT), str(records))
    elif not records.is_file():
        raise OSError(f"{records}: not a regular file")
    if not holds_records(records):
        raise ValueError(f"{records} holds no records of observation-masking")
    return records


def _print_page(groups: Groups, query: Query) -> None:
    console = open_console()
    kind = "Replayed requests" if query.replayed else "Requests"
    filtered = "".join(
        f", {_FILTERS[name].format(one_line(value))}" for name, value in query.filters.items()
    )
    when = f"{query.since:%a %d %b %Y %H:%M} ({_name_zone(query.since)})"
    print_text(console, f"{kind} since {when}{filtered}\nfrom {query.source}\n")
    if groups.total.count:
        width = console.width if console.is_terminal else None
        console.print(render_overview(groups.total, groups.holdout, width), soft_wrap=True)
        console.print()
        marks = ASCII_MARKS if console.options.ascii_only else MARKS
        console.print(render_groups(groups, console.width, marks))
        for line in list_mixed(groups):
            print_text(console, line)
    else:
        print_text(console, _explain_nothing(query))
    if groups.left_out and not query.replayed:
        left_out = count_requests(groups.left_out)
        print_text(console, f"{left_out} of recordings left out: see --replayed.")


def _name_zone(when: datetime) -> str:
    """Return the user's time zone at a time: `CET, UTC+01:00`, or `UTC`."""
    offset = when.strftime("%z")
    return "UTC" if when.tzname() == "UTC" else f"{when.tzname()}, UTC{offset[:3]}:{offset[3:5]}"


def _explain_nothing(query: Query) -> str:
    """Return why there is nothing to count, and what to do."""
    latest = deque(read_records(query.source), maxlen=1)
    if not latest:
        return (
            "No request has been recorded there yet. This starts an agent whose requests are "
            "masked and recorded: obsmask run -- COMMAND"
        )
    day = find_day(latest[0]) or one_line(latest[0].time)
    if query.filters:
        those, any_of = " and that ".join(query.filters), " and ".join(query.filters)
        return (
            f"No such request since then has that {those}. The latest of any {any_of} is of {day}."
        )
    return f"No such request since then. The latest record is of {day}."


# The records themselves

_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes a cell for a formula by, in both widths.

https://owasp.org/www-community/attacks/CSV_Injection
"""


def write_jsonl(records: Iterable[RequestRecord], out: TextIO) -> None:
    """Write a line of JSON for each record, as its file has it.

    What would steer a terminal is escaped, so that the values stay the same.
    """
    for record in records:
        line = render_record(record.dump()).decode().removesuffix("\n")
        out.write(f"{line if line.isprintable() else ''.join(map(_escape, line))}\n")


def _escape(character: str) -> str:
    """Return a character of a JSON text; as its UTF-16 code units if it cannot be printed."""
    if character.isprintable():
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def write_csv(records: Iterable[RequestRecord], out: TextIO) -> None:
    """Write a line for each record, below one with the names of the fields, in their order.

    Lists and objects are JSON, what is not known is empty. A text that a spreadsheet would take for
    a formula begins with an apostrophe. What would steer a terminal is replaced.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(RequestRecord.model_fields)
    for record in records:
        writer.writerow(map(_render_cell, record.model_dump(mode="json").values()))


def _render_cell(value: object) -> object:
    if isinstance(value, str):
        text = value.replace("\r", "\n")  # which csv quotes, and a bare carriage return it does not
        text = "".join(c if c in "\t\n" else printable(c) for c in text)
        return f"'{text}" if text.startswith(_FORMULA) else text
    if isinstance(value, (bool, list, dict)):
        return printable(json.dumps(value, ensure_ascii=False))
    return value
