"""The record of a request: its fields are described, and older ones stay readable."""

import dataclasses
import json

import pytest
from pydantic import ValidationError

from addon.metrics.ledger_fields import describe_entry
from addon.metrics.mcp_record import McpRecord
from addon.metrics.record import RequestRecord
from addon.metrics.record_fields import describe_fields
from addon.metrics.software import RECORD_SCHEMA, describe_software
from masking.accounting.prompt import Sizes
from masking.config import MetricsSettings, Settings

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
    assert written == {name: json.loads(record.model_dump_json())[name] for name in written}


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
    record = RequestRecord.model_validate_json(FIRST_SCHEMA)
    assert [field.name for field in fields] == list(record.model_dump())
    assert [field for field in fields if not field.meaning.endswith(".")] == []
    types = {field.name: field.type for field in fields}
    assert types["masking"] == '"on" or "observed" or "off"'
    assert types["masked"] == "integer"
    assert types["kind"] == '"chat"'
    assert [field for field in describe_fields(McpRecord) if not field.meaning.endswith(".")] == []
    units = {field.name: field.unit for field in fields}
    assert (units["cost_dollars_after"], units["masked"]) == ("US dollars", None)


def test_everything_that_is_measured_and_billed_is_in_the_record() -> None:
    measured = {field.name for field in dataclasses.fields(Sizes)}
    assert measured | set(describe_entry(None)) <= set(RequestRecord.model_fields)


def test_the_software_is_told_by_its_settings() -> None:
    settings = Settings()
    elsewhere = dataclasses.replace(settings, metrics=MetricsSettings(path="elsewhere"))
    other = dataclasses.replace(settings, holdout_salt="another")
    told = describe_software(settings)
    assert told["record_schema"] == RECORD_SCHEMA == 2
    assert describe_software(elsewhere) == told
    assert describe_software(other)["config_digest"] != told["config_digest"]


def test_a_price_list_that_is_gone_has_no_date() -> None:
    gone = dataclasses.replace(Settings(), price_list="/nowhere/prices.json")
    assert describe_software(gone)["price_list_date"] is None
