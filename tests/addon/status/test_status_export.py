"""`obsmask status` for other programs: JSON, JSON lines, and CSV that is safe to open."""

import csv
import io
from pathlib import Path

import pytest

from addon.commands.main import main
from addon.metrics.record import RequestRecord
from tests.made_up_records import (
    LEAST,
    REQUEST,
    bill,
    read_json,
    status,
    write_records,
)


def test_json_has_all_that_was_reckoned(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    write_records(records, REQUEST | bill(3, 2, 0.5, tag="t"), REQUEST | {"status": 500})
    told = read_json(capsys)
    (group,) = told.pop("groups")
    total = told.pop("total")
    assert {"key": "2020-03-04", **total} == group
    assert told == {
        "records": str(records), "since": "2020-01-01T00:00:00+00:00", "time_zone": "UTC",
        "replayed": False, "requests_left_out": 0, "holdout": {}, "by": "day",
    }  # fmt: skip
    money = {
        "requests": 1, "before": 3.0, "after": 2.0, "saved": 1.0, "saved_error": 0.5,
        "saved_share": 1 / 3, "saved_share_error": 0.5 / 3,
    }  # fmt: skip
    assert money == total["cost_in_dollars"] == total["cost_in_input_tokens"]
    assert {"on": {"failures": 1, "by_cause": {"500": 1}}} == total["failures_by_masking"]
    assert (800, 600) == (total["tokens_before"], total["tokens_after"])
    assert ("t", 2.0) == (
        total["dearest_request"]["tag"],
        total["dearest_request"]["cost_dollars_after"],
    )
    nothing = {"answers": 0, "median_seconds": None, "percentile_90_seconds": None}
    assert nothing == total["first_chunk_after_move"]


def test_jsonl_gives_the_records(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    named = {"tag": "t", "conversation_id": "c"}
    write_records(records, REQUEST | named, REQUEST | {"replay": True})
    first, second = (RequestRecord.model_validate_json(each) for each in status(capsys, "--jsonl"))
    expected = RequestRecord.model_validate({**LEAST, **REQUEST})
    assert expected.model_copy(update=named) == first
    assert expected.model_copy(update={"replay": True}) == second


def read_csv(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert main(["status", "--since", "2020-01-01", "--csv"]) == 0
    return [*csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))]


def test_csv_has_a_column_for_each_field(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    fields = {"kept": {"error": 1}, "net_tokens": -5.5, "stream": True}
    texts = {"price_entry": ["openai", "a, b"], "tag": 'say "hi"\nthere'}
    write_records(records, REQUEST | fields | texts)
    (row,) = read_csv(capsys)
    assert list(RequestRecord.model_fields) == list(row)
    assert ('{"error": 1}', "-5.5", "true", "") == (
        row["kept"],
        row["net_tokens"],
        row["stream"],
        row["error"],
    )
    assert ('["openai", "a, b"]', 'say "hi"\nthere') == (row["price_entry"], row["tag"])


HOSTILE = "\x1b]0;title\x07 \x9b2J \x7f \u202e \U000e0001 é"
"""What steers a terminal: old and new control characters, and marks of direction or of language."""


def test_jsonl_escapes_what_steers_a_terminal(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    fields = {"model": HOSTILE, "kept": {HOSTILE: 1}, "price_entry": ["a", HOSTILE]}
    write_records(records, REQUEST | fields)
    assert main(["status", "--since", "2020-01-01", "--jsonl"]) == 0
    line = capsys.readouterr().out.removesuffix("\n")
    assert line.isprintable()
    expected = RequestRecord.model_validate({**LEAST, **REQUEST, **fields})
    assert expected == RequestRecord.model_validate_json(line)


def test_csv_replaces_what_steers_a_terminal(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    fields = {"model": HOSTILE, "kept": {"\x9b\u202e": 1}, "tag": "a\tb\nc"}
    write_records(records, REQUEST | fields)
    (row,) = read_csv(capsys)
    cleaned = "\ufffd]0;title\ufffd \ufffd2J \ufffd \ufffd \ufffd é"
    assert (cleaned, '{"\ufffd\ufffd": 1}', "a\tb\nc") == (row["model"], row["kept"], row["tag"])


@pytest.mark.parametrize("start", [*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@pytest.mark.parametrize("field", ["model", "tag", "host", "client"])
def test_no_cell_of_a_csv_is_a_formula(
    capsys: pytest.CaptureFixture[str], records: Path, field: str, start: str
) -> None:
    write_records(records, REQUEST | {field: f"{start}cmd|' /C calc'!A0"})
    (row,) = read_csv(capsys)
    assert f"'{start}cmd|' /C calc'!A0".replace("\r", "\n") == row[field]
