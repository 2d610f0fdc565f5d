"""`obsmask status --csv` and `--jsonl`: the records themselves."""

import csv
import json
from collections.abc import Iterable
from typing import TextIO

from addon.metrics.record import RequestRecord
from masking.errors import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes a cell for a formula by, in both widths.

https://owasp.org/www-community/attacks/CSV_Injection
"""


def write_jsonl(records: Iterable[RequestRecord], out: TextIO) -> None:
    """Write a line of JSON for each record, with all fields in their order.

    What would steer a terminal is escaped, so that the values stay the same.
    """
    for record in records:
        line = record.model_dump_json()
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
