"""`obsmask status`: what all requests of the last days came to, by their records."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from addon.commands.consoles import open_console
from addon.commands.options import config_options, open_config
from addon.commands.status_export import write_csv, write_jsonl
from addon.commands.status_groups import KEYS, Groups, count_groups
from addon.commands.status_json import render_json
from addon.commands.status_page import render_overview
from addon.commands.status_period import find_day, name_zone, read_since
from addon.commands.status_table import ASCII_MARKS, MARKS, list_mixed, render_groups
from addon.metrics.record import RequestRecord
from addon.metrics.record_file import RecordFile
from addon.metrics.record_reader import holds_records, read_records
from addon.metrics.tally_line import count_requests
from addon.request import one_line


class Query(NamedTuple):
    """What is asked: from which file, since when, which requests, grouped by what."""

    source: Path
    since: datetime
    by: str
    tag: str | None
    replayed: bool

    def read(self) -> Iterator[RequestRecord]:
        """Yield the records that are asked for, replayed or not."""
        found = read_records(self.source, self.since)
        return (record for record in found if self.tag is None or record.tag == self.tag)


@click.command("status")
@click.option(
    "--since",
    type=read_since,
    default="7d",
    show_default=True,
    metavar="WHEN",
    help="From when on: today, yesterday, 12h, 7d (today and the six days before), 4w, or a date.",
)
@click.option(
    "--by",
    type=click.Choice([*KEYS]),
    default="day",
    show_default=True,
    metavar="WHAT",
    help="What has a row of its own: day, model, host, client, label or tag.",
)
@click.option("--tag", metavar="NAME", help="Only requests of runs with this tag.")
@click.option("--replayed", is_flag=True, help="Only requests of recordings that were played.")
@config_options
@click.option(
    "--records",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of records; default: the configured one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all that was reckoned.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the records, as a table.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Print the records, one a line.")
def command(
    records: Path | None,
    config: str,
    changes: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    as_jsonl: bool,
    since: datetime,
    by: str,
    tag: str | None,
    replayed: bool,
) -> None:
    """Say what masking came to: requests, tokens, money, failures, day by day.

    Read from the records, and from those that were rotated away last. Days are those of your time
    zone.
    """
    if as_json + as_csv + as_jsonl > 1:
        raise click.UsageError("--json, --csv and --jsonl exclude each other")
    query = Query(_find_source(records, config, changes), since, by, tag, replayed)
    if as_csv:
        write_csv(query.read(), sys.stdout)
    elif as_jsonl:
        write_jsonl(query.read(), sys.stdout)
    else:
        groups = count_groups(query.read(), query.by, replayed=query.replayed)
        if as_json:
            print(render_json(groups, query.since, query.source))
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
    tagged = "" if query.tag is None else f", tagged {one_line(query.tag)}"
    when = f"{query.since:%a %d %b %Y %H:%M} ({name_zone(query.since)})"
    _say(console, f"{kind} since {when}{tagged}\nfrom {query.source}\n")
    if groups.total.count:
        console.print(render_overview(groups.total, groups.holdout))
        console.print()
        marks = ASCII_MARKS if console.options.ascii_only else MARKS
        console.print(render_groups(groups, console.width, marks))
        for line in list_mixed(groups):
            _say(console, line)
    else:
        _say(console, _explain_nothing(query))
    if groups.left_out and not query.replayed:
        _say(console, f"{count_requests(groups.left_out)} of recordings left out: see --replayed.")


def _explain_nothing(query: Query) -> str:
    """Return why there is nothing to count, and what to do."""
    latest = deque(read_records(query.source), maxlen=1)
    if not latest:
        return (
            "No request has been recorded there yet. This starts an agent whose requests are "
            "masked and recorded: obsmask run -- COMMAND"
        )
    day = find_day(latest[0].time) or one_line(latest[0].time)
    if query.tag is not None:
        return f"No such request since then has that tag. The latest of any tag is of {day}."
    return f"No such request since then. The latest record is of {day}."


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
