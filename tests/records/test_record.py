"""The record of a request: its fields are described, and older ones stay readable."""

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from addon.records.file import RecordFile, read_records
from addon.records.record import McpRecord, RequestRecord
from addon.stages import Interruption
from masking.config import MetricsSettings
from tests.support.made_up_records import LEAST, record
from tests.support.marks import as_one_test
from tests.tools.make_docs import describe_fields

FIRST_SCHEMA = """
{"kind": "chat", "time": "2026-11-22T13:32:20.668+00:00", "host": "api.openai.com",
"path": "/v1/chat/completions", "model": "gpt-4o", "stream": false, "masking": "on",
"passed_through": null, "replay": true, "prefix": null, "cache_read_ratio": 0.5,
"cache_write_ratio": 1.0, "price_source": "price list", "price_read_ratio": 0.5,
"price_write_ratio": 1.0, "status": 200, "error": null, "messages": 49, "tool_turns": 20,
"tool_results": 27, "masked": 10, "redacted": 0, "reduced": 0, "dropped": 0,
"kept": {"error": 1, "held": 5, "in_window": 11}, "tool_chars_before": 38785,
"tool_chars_after": 16666, "json_chars_before": 53332, "json_chars_after": 27777,
"tool_tokens_before": 12859, "tool_tokens_after": 5310, "request_tokens_before": 14458,
"request_tokens_after": 6909, "redaction_scenarios": null, "reduction_stage": null,
"reduction_status": null, "dropped_messages": null, "bytes_before": 53332, "bytes_after": 27777,
"hook_us": 10642, "tokenizer": "o200k_base", "tokenizer_exact": true, "prompt_tokens": 13545,
"cached_tokens": 13312, "written_tokens": null, "completion_tokens": 78, "conversation": 1,
"boundary_moved": false, "boundary_held": false, "predicted_cached_tokens": 13312,
"cached_tokens_basis": "reported", "cost_tokens_before": 6889.0, "cost_dollars_before": 0.0172225,
"cost_tokens_before_warm": 6889.0, "cost_dollars_before_warm": 0.0172225,
"cost_tokens_after": 3715.7, "cost_dollars_after": 0.00928924, "saved_tokens_error": 330.7,
"saved_dollars_error": 0.00082671, "net_tokens": 17245.5, "net_tokens_error": 2533.2,
"net_dollars": 0.04311364, "net_dollars_error": 0.00633293, "total_net_tokens": 17245.5,
"total_net_tokens_error": 2533.2, "total_net_dollars": 0.04311364,
"total_net_dollars_error": 0.00633293, "total_unpriced": 0}
"""
"""A record that version 0.1.0 wrote."""


def test_a_record_of_the_first_schema_can_be_read() -> None:
    written = json.loads(FIRST_SCHEMA)
    record = RequestRecord.model_validate_json(FIRST_SCHEMA)
    assert record.record_schema == 1
    kept = {*written} & {*RequestRecord.model_fields}  # the others are no longer recorded
    read = json.loads(record.model_dump_json())
    defaults = {name: field.default for name, field in RequestRecord.model_fields.items()}
    expected = {n: defaults[n] if written[n] is None else written[n] for n in kept}
    assert expected == {name: read[name] for name in kept}


def test_reasons_that_are_letters_are_not_read() -> None:
    assert record(record_schema=2, result_reasons="12m7w").result_reasons is None


def test_a_line_has_only_what_is_not_as_by_default(tmp_path: Path) -> None:
    said = {"cached_tokens": 0, "masked": 0, "rereads": 2, "purpose": "compact", "tried": True}
    default = {"purpose": "answer", "rereads": 0, "tried": False, "status": None, "replay": False}
    file = RecordFile(MetricsSettings(path=str(tmp_path / "requests.jsonl")))
    made = [record(**said), record(**default)]
    for each in made:
        file.write(each.dump())
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    assert [{"kind": "chat", **LEAST, **said}, {"kind": "chat", **LEAST}] == lines
    assert made == [*read_records(file.path)]


def test_reasons_are_written_in_run_lengths(tmp_path: Path) -> None:
    made = record(result_reasons=((12, "masked"), (7, "in_window")))
    file = RecordFile(MetricsSettings(path=str(tmp_path / "requests.jsonl")))
    file.write(made.dump())
    assert b'"result_reasons":[[12,"masked"],[7,"in_window"]]' in file.path.read_bytes()
    assert [made] == [*read_records(file.path)]


def test_a_field_that_is_not_known_yet_is_passed_over() -> None:
    newer = {**json.loads(FIRST_SCHEMA), "record_schema": 9, "invented_later": [1]}
    assert RequestRecord.model_validate(newer).record_schema == 9


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(ValueError, match="kind"):
        RequestRecord.model_validate({**json.loads(FIRST_SCHEMA), "kind": "mcp"})


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_what_is_no_number_is_refused(value: str) -> None:
    line = FIRST_SCHEMA.replace('"cost_tokens_before": 6889.0', f'"cost_tokens_before": {value}')
    with pytest.raises(ValueError, match="cost_tokens_before"):
        RequestRecord.model_validate_json(line)


def test_a_record_is_never_changed() -> None:
    record = RequestRecord.model_validate_json(FIRST_SCHEMA)
    with pytest.raises(ValidationError):
        record.masked = 0


def test_every_field_has_a_type_and_a_sentence() -> None:
    fields = describe_fields(RequestRecord)
    for first, *others in (fields, describe_fields(McpRecord)):
        assert first.topic is not None
        assert re.fullmatch(r".+\.", first.meaning)
        assert [one for one in others if not re.fullmatch(r"(.+\.)?", one.meaning)] == []
        assert [one for one in others if one.topic and not one.meaning] == []
    record = RequestRecord.model_validate_json(FIRST_SCHEMA)
    assert [field.name for field in fields] == list(record.model_dump())
    types = {field.name: field.type for field in fields}
    assert types["masking"] == '"on" or "observed" or "off"'
    assert types["masked"] == "integer"
    assert types["kind"] == '"chat"'
    left_out = {field.name: field.left_out for field in fields}
    names = ("kind", "status", "purpose", "replay", "redacted", "saved_tokens_error")
    assert [None, None, '"answer"', "false", "0", "0"] == [left_out[name] for name in names]
    units = {field.name: field.unit for field in fields}
    assert (units["cost_dollars_after"], units["masked"]) == ("US dollars", None)


@as_one_test
@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (200, None, False),
        (200, "client left", False),
        (None, "client left", False),
        (200, "proxy ended", False),
        (200, "provider failed", True),
        (None, "provider failed", True),
        (400, None, True),
        (429, None, True),
        (500, None, True),
    ],
)
def test_a_failure_is_the_providers(
    status: int | None, error: Interruption | None, expected: bool
) -> None:
    assert record(status=status, error=error).failed is expected
