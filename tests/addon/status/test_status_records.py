"""`obsmask status`: where it finds records, what it passes over, and what it says of none."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from addon.commands.main import main
from tests.addon.test_record import FIRST_SCHEMA
from tests.made_up_records import (
    LEAST,
    REQUEST,
    bill,
    describe,
    read_json,
    status,
    write_records,
)


def test_the_configuration_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_records(tmp_path / "mine.jsonl", REQUEST)
    config = tmp_path / "mine.toml"
    config.write_text(f'[observation_masking.metrics]\npath = "{tmp_path / "mine.jsonl"}"\n')
    assert ["1"] == describe(status(capsys, "--config", str(config)))["Requests"]


def test_the_records_that_were_rotated_away_count(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records.with_name("requests.jsonl.1"), REQUEST, REQUEST)
    write_records(records, REQUEST)
    assert ["3"] == describe(status(capsys))["Requests"]


def test_lines_that_are_no_records_are_passed_over(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    older = json.dumps(json.loads(FIRST_SCHEMA) | {"replay": False})
    mcp = json.dumps({**LEAST, "kind": "mcp"})
    torn = json.dumps(REQUEST)[:50]
    write_records(records, older, "", "[]", mcp, "\ufffd", REQUEST, torn)
    told = read_json(capsys)["total"]
    assert (2, 14) == (told["requests"], told["masked_results"])
    assert 1 == told["cost_in_dollars"]["requests"]


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [
        pytest.param(
            [],
            [],
            "No request has been recorded there yet. This starts an agent whose requests are "
            "masked and recorded: obsmask run -- COMMAND",
            id="no file",
        ),
        pytest.param(
            [REQUEST],
            ["--since", "2020-03-05"],
            "No such request since then. The latest record is of 2020-03-04.",
            id="nothing since then",
        ),
        pytest.param(
            [REQUEST | {"time": "yesterday"}],
            [],
            "No such request since then. The latest record is of yesterday.",
            id="a time that is none",
        ),
        pytest.param(
            [REQUEST],
            ["--tag", "x"],
            "No such request since then has that tag. The latest of any tag is of 2020-03-04.",
            id="nothing with that tag",
        ),
        pytest.param(
            [REQUEST],
            ["--replayed"],
            "No such request since then. The latest record is of 2020-03-04.",
            id="nothing was replayed",
        ),
    ],
)
def test_it_is_told_why_there_is_nothing(
    capsys: pytest.CaptureFixture[str],
    records: Path,
    lines: list[Mapping[str, object]],
    options: list[str],
    expected: str,
) -> None:
    if lines:
        write_records(records, *lines)
    said = status(capsys, *options)
    assert [f"from {records}", "", expected] == said[1:]
    assert 0 == read_json(capsys, *options)["total"]["requests"]


@pytest.mark.parametrize(
    "damage",
    [
        {"masked": 10**400},
        {"prompt_tokens": -(10**400)},
        {"status": 10**400},
        {"kept": {"error": 10**400}},
        {"saved_tokens_error_by_chance": 1e308},
        {"cost_dollars_before": -1e300},
    ],
    ids=lambda it: next(iter(it)),
)
@pytest.mark.parametrize("options", [[], ["--by", "model"], ["--json"], ["--csv"], ["--jsonl"]])
def test_a_record_with_a_number_of_no_request_is_passed_over(
    capsys: pytest.CaptureFixture[str],
    records: Path,
    damage: Mapping[str, object],
    options: list[str],
) -> None:
    sound = REQUEST | bill(3, 2, 0.5)
    write_records(records, sound, sound)
    expected = status(capsys, *options)
    write_records(records, sound, {**sound, **damage}, sound)
    assert expected == status(capsys, *options)


def test_a_named_file_that_is_not_there_is_a_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 1 == main(["status", "--records", "missing.jsonl"])
    assert "obsmask: missing.jsonl: No such file or directory\n" == capsys.readouterr().err


def test_what_is_no_regular_file_is_a_mistake(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert 1 == main(["status", "--records", str(tmp_path)])
    assert f"obsmask: {tmp_path}: not a regular file\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"\x00\xff\n" * 99, b'[{"role": "user", "content": "time"}]', b'{"messages": []}\n'],
    ids=["random bytes", "a conversation", "another's JSON lines"],
)
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]], ids=["page", "JSON", "CSV"])
def test_a_file_of_something_else_is_a_mistake(
    capsys: pytest.CaptureFixture[str], records: Path, content: bytes, form: list[str]
) -> None:
    records.parent.mkdir(parents=True)
    records.write_bytes(content)
    for named in ([], ["--records", str(records)]):
        assert 1 == main(["status", *named, *form])
        expected = f"obsmask: {records} holds no records of observation-masking\n"
        assert expected == capsys.readouterr().err


def test_an_empty_file_and_one_of_mcp_answers_hold_no_request_yet(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    for lines in ((), ({"kind": "mcp"},)):
        write_records(records, *lines)
        assert "No request has been recorded there yet." in status(capsys)[-1]


def test_one_form_is_asked_for_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["status", "--csv", "--json"])
    assert "--json, --csv and --jsonl exclude each other" in capsys.readouterr().err
