"""Records that tests make up, and what `obsmask status` prints of them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from addon.records.record import RequestRecord
from addon.records.tally import Tally

SetZone = Callable[[str], None]
"""Sets the user's time zone."""

LEAST = {"time": "2026-01-01T00:00:00.000+00:00", "host": "h", "path": "/p", "masking": "on"}


def record(**fields: object) -> RequestRecord:
    return RequestRecord.model_validate({**LEAST, **fields})


def tally(*records: Mapping[str, object]) -> Tally:
    counted = Tally()
    for fields in records:
        counted.add(record(**fields))
    return counted


def bill(before: float, after: float, error: float = 0.0, **fields: object) -> dict[str, object]:
    """Return the fields of a request with a bill in tokens, and in dollars at a dollar for each."""
    tokens = {"cost_tokens_before": before, "cost_tokens_after": after, "saved_tokens_error": error}
    dollars = {"cost_dollars_before": before, "cost_dollars_after": after}
    return {"conversation": 1, **tokens, **dollars, **fields}


UNPRICED = {"cost_dollars_before": None, "cost_dollars_after": None}

REQUEST = {
    "time": "2020-03-04T12:00:00.000+00:00", "status": 200, "model": "m", "tool_results": 9,
    "masked": 4, "request_tokens_before": 400, "request_tokens_after": 300,
}  # fmt: skip
"""The fields of a request that was masked, at noon."""


def write_records(path: Path, *lines: Mapping[str, object] | str) -> None:
    """Write records over the least that a record has, and lines that are none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (each if isinstance(each, str) else json.dumps({**LEAST, **each}) for each in lines)
    path.write_text("\n".join(texts), encoding="utf-8")


def status(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """Return what the command prints, line by line."""
    assert main(["status", "--since", "2020-01-01", *options]) == 0
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def read_json(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads("\n".join(status(capsys, "--json", *options)))
    return told


def describe(lines: list[str]) -> dict[str, list[str]]:
    """Return the rows of the page by their labels."""
    rows: dict[str, list[str]] = {}
    label = ""
    for line in lines[3 : lines.index("", 3)]:
        said, _, told = line.partition("  ")
        label = said or label
        rows.setdefault(label, []).append(told.strip())
    return rows
