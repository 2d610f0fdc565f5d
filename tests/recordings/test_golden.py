"""`python -m tests.tools.golden`: what replaying a recording yields, written and compared."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from addon.commands.demo import write_config
from addon.places import shipped
from addon.recordings.flows import read_flows, write_flows
from masking.config import parse_settings
from masking.wire import CONVERSE, FORMATS
from tests.support.marks import as_one_test
from tests.support.places import ROOT, recordings
from tests.support.sessions import CHATS
from tests.tools.golden import (
    WHOLE,
    Record,
    command,
    compare_requests,
    find_configs,
    find_differences,
    golden_file,
    replay_recording,
    write_golden,
)

SESSION = shipped("recordings") / "mini-swe-agent-scratch.flow"


ONE: Record = {"sha256": "a", "record": "1"}
TWO: Record = {"sha256": "b", "kept": {"error": 1}, "record": "2"}
UNKNOWN = "fields that the golden file has only a digest of"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments)])


@pytest.mark.live
def test_golden_files_are_written_and_compared(tmp_path: Path) -> None:
    recording = Path(shutil.copy(CHATS[0], tmp_path))
    assert 0 == run("--write", recording).exit_code
    written = golden_file(recording)
    assert golden_file(CHATS[0]).read_text() == written.read_text()
    assert 0 == run(recording).exit_code
    changed = written.read_text().replace('"masked": 7', '"masked": 8', 1)
    written.write_text(changed)
    done = run(recording)
    assert 1 == done.exit_code
    assert f"{written}: request 14: masked 7, expected 8\n" in done.stderr
    assert f"--diff {recording}\n" in done.stderr
    assert changed == written.read_text()


@as_one_test
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([ONE, TWO], [], id="nothing"),
        pytest.param([ONE], ["1 requests, expected 2"], id="a request less"),
        pytest.param([ONE, {**TWO, "record": "3"}], [f"request 2: {UNKNOWN}"], id="a digest"),
        pytest.param(
            [{**ONE, "sha256": "c", "masked": 3, "record": "3"}, TWO],
            ["request 1: the body; masked 3, expected none"],
            id="the body and a count",
        ),
        pytest.param(
            [ONE, {"sha256": "b", "record": "4"}],
            ["request 2: kept none, expected {'error': 1}"],
            id="a field that is gone",
        ),
    ],
)
def test_a_difference_names_the_request_and_the_fields(
    found: Sequence[Record], expected: list[str]
) -> None:
    assert expected == compare_requests([ONE, TWO], found)


def test_where_a_record_is_kept_in_full_each_field_is_named(tmp_path: Path) -> None:
    """Also one that is null before or after."""
    recording = tmp_path / f"{WHOLE[0]}.flow"
    records = [{"sha256": "a", "status": 200}, {"sha256": "b", "status": 200, "error": None}]
    write_golden(recording, records, None)
    assert [] == find_differences(recording, records, None)
    changed = [records[0] | {"status": 500}, records[1] | {"status": 500, "error": "x"}]
    assert [
        f"request 1: {UNKNOWN}",
        "request 2: status 500, expected 200; error x, expected None",
        f"all fields: python -m tests.tools.golden --diff {recording}",
    ] == find_differences(recording, changed, None)


def test_each_format_has_one_record_in_full() -> None:
    found = {
        golden_file(path, config).stem: json.loads(golden_file(path, config).read_text())
        for path in recordings()
        for config in find_configs(path)
    }
    whole = {stem: golden["last"] for stem, golden in found.items() if "last" in golden}
    assert {*WHOLE} == {*whole}
    # No client was recorded that speaks Converse.
    assert {wire.name for wire in FORMATS if wire is not CONVERSE} == {
        record["format"] for record in whole.values() if record["kind"] == "chat"
    }
    assert {"chat", "mcp"} == {record["kind"] for record in whole.values()}


@pytest.mark.live
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_every_field_is_compared_with_a_commit(tmp_path: Path) -> None:
    recording = tmp_path / "some.flow"
    write_flows(recording, list(read_flows(SESSION))[:2])
    done = run("--diff", recording)
    lines = done.stderr.splitlines()
    assert [] == [
        each for each in lines if not re.match(r".*/some\.json: (as exp|request \d)", each)
    ]
    assert (len(lines) > 0, "") == (True, done.stdout)
    done = run("--diff", "--commit", "no-such-commit", recording)
    assert 1 == done.exit_code
    assert "no-such-commit" in done.stderr
    assert [recording] == [*tmp_path.iterdir()]


def test_what_is_no_recording_is_named() -> None:
    done = run(__file__)
    assert 1 == done.exit_code
    assert "test_golden.py is no complete mitmproxy recording" in done.stderr


METRICS = "[observation_masking.metrics]\n"


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param("", id="no metrics"),
        pytest.param(METRICS, id="metrics without a path"),
        pytest.param(f'{METRICS}max_megabytes = 1\npath = "elsewhere.jsonl"\n', id="a path"),
    ],
)
def test_a_recording_is_replayed_with_its_records_kept_apart_and_no_memory(
    metrics: str, tmp_path: Path
) -> None:
    source = tmp_path / "some.off.toml"
    source.write_text(f"[observation_masking.schema1]\nwindow_turns = 3\n\n{metrics}")
    (tmp_path / "run").mkdir()
    settings = parse_settings(write_config(tmp_path / "run", source=source).read_bytes())
    assert settings is not None
    assert (str(tmp_path / "run" / "requests.jsonl"), 3, False) == (
        settings.metrics.path,
        settings.policy.window_turns,
        settings.memory.enabled,
    )


@pytest.mark.live
def test_a_configuration_beside_a_recording_has_its_own_golden_file(tmp_path: Path) -> None:
    recording = tmp_path / "some.flow"
    write_flows(recording, list(read_flows(SESSION))[:2])
    config = tmp_path / "some.off.toml"
    config.write_text("[observation_masking.schema1]\nenabled = false\n")
    (tmp_path / "other.off.toml").write_text("another recording's")
    done = run("--write", recording)
    files = [tmp_path / "some.json", tmp_path / "some.off.json"]
    assert done.stdout.split() == list(map(str, files))
    on, off = (replay_recording(recording, each)[0]["masking"] for each in (None, config))
    assert ("on", "off") == (on, off)
    assert set(tmp_path.iterdir()) == {recording, config, tmp_path / "other.off.toml", *files}
