"""`obsmask replay`: what it reads, what it reckons, how it shows it."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from addon.commands.main import main
from addon.commands.replay import ReplayOutputs, fill, open_result, render_conversations
from addon.commands.work import open_work
from addon.places import shipped
from addon.recordings.flows import read_flows, write_flows
from addon.records.record import RequestRecord
from addon.replay.replay import ReplaySettings
from masking.rewrite import Strategies
from masking.window import MaskPolicy
from tests.live.harness import conversation
from tests.support.findings import record
from tests.support.long_results import line_of, run, run_tests
from tests.support.read_sessions import read_sessions
from tests.support.sessions import CHATS, each_of
from tests.tools.golden import Replay, replay_recording

SESSION = CHATS[0]
SETTINGS = ReplaySettings(strategies=Strategies(schema1=MaskPolicy(enabled=True)))


def replay(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert main(["replay", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def written(path: Path, turns: int = 12, **fields: object) -> Path:
    """Write a file of conversations with one of so many tool turns, all of them answered."""
    request = conversation(turns, "one more line of output\n" * 100, **fields)
    request["messages"].append({"role": "assistant", "content": "Done."})
    path.write_text(json.dumps(request), encoding="utf-8")
    return path


@pytest.mark.live
@each_of("recording", CHATS)
def test_a_replay_gives_the_numbers_that_the_addon_logged(
    recording: Path, replay_once: Replay, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = replay_once(recording, None)
    found = replay(capsys, recording)["conversations"]
    requests = [step for one in found for step in one["per_request"]]
    shared = requests[0].keys() & RequestRecord.model_fields.keys() - {"conversation"}
    assert len(shared) > 30
    # Conversations are told one after the other, and were had side by side.
    by_size = [
        sorted(rows, key=lambda row: (row["messages"], row["request_tokens_before"]))
        for rows in (logged, requests)
    ]
    expected, told = (
        [[row.get(name) or None for row in rows] for name in sorted(shared)] for rows in by_size
    )
    assert expected == told


@pytest.mark.live
def test_it_gives_the_numbers_that_the_addon_logged_of_what_it_shortened(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "arrival.toml"
    config.write_text(
        "[observation_masking.arrival]\nenabled = true\nmax_chars = 2000\nhead_chars = 700\n"
        "tail_chars = 700\n",
        encoding="utf-8",
    )
    recording = shipped("recordings") / "mini-swe-agent-scratch.flow"
    logged = replay_recording(recording, config)
    (found,) = replay(capsys, recording, "--config", str(config))["conversations"]
    names = (
        *("shortened", "long_kept", "left_out_tokens", "cost_dollars_before"),
        *("cost_dollars_after", "arrival_saved_tokens", "arrival_saved_dollars"),
    )
    expected, told = (
        [[row.get(name) or None for name in names] for row in rows]
        for rows in (logged, found["per_request"])
    )
    assert expected == told
    assert 1 == found["arrival"]["results"]


def test_a_recording_without_a_request_to_a_model_changes_no_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = shipped("recordings") / "mcp-files.flow"
    assert replay(capsys, SESSION) == replay(capsys, files, SESSION)


NAMES = (
    *("window_turns", "masked_tool_results", "tool_chars_before", "tool_chars_after"),
    *("tokens_before", "tokens_after"),
    *("cost_before", "cost_after", "delta_percent"),
)


def test_each_and_all_have_every_figure_and_all_is_the_sum(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [written(tmp_path / f"{turns}.json", turns) for turns in (12, 15)]
    found = replay(capsys, *files, "--window-turns", "3", "--prices", "0.5,1")
    each, everything = found["conversations"], found["total"]
    assert ["12", "15"] == [one["name"] for one in each]
    assert [3, 3, 3] == [one["window_turns"] for one in (*each, everything)]
    sums = [name for name in NAMES if name not in ("window_turns", "delta_percent")]
    assert [everything[name] for name in sums] == pytest.approx(
        [sum(one[name] for one in each) for name in sums]
    )
    assert all(everything[name] > 0 for name in sums)
    change = everything["cost_after"] / everything["cost_before"] - 1
    assert everything["delta_percent"] == pytest.approx(100 * change)
    assert change < 0


@pytest.mark.parametrize(
    ("options", "smaller"),
    [
        (("--window-turns", "2"), True),
        (("--window-turns", "0"), False),
        (("--set", "schema1.enabled=false"), False),
        (("--set", "schema1.keep_last_k_per_tool=100"), False),
        (("--set", f"schema1.placeholder_template={'x' * 10_000}"), False),
        (("--set", "schema1.max_loss=0.0", "--prices", "0.0001,1"), False),
    ],
)
def test_options_override_the_configuration(
    options: tuple[str, ...], smaller: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    total = replay(capsys, written(tmp_path / "a.json"), *options)["total"]
    assert smaller == (total["tokens_after"] < total["tokens_before"])


def test_rules_hold_in_a_recording_and_options_before_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules = """
[[observation_masking.rules]]
host = "{host}"
header = "user-agent"
schema1 = {{ window_turns = 2, cache_pricing = "none" }}
"""
    flow = next(iter(read_flows(SESSION)))
    narrow, of_another = tmp_path / "narrow.toml", tmp_path / "another.toml"
    narrow.write_text(rules.format(host=flow.request.pretty_host))
    of_another.write_text(rules.format(host="another.example"))

    def mask(*arguments: str | Path) -> int:
        return int(replay(capsys, SESSION, *arguments)["total"]["masked_tool_results"])

    plain = mask()
    assert plain == mask("--config", of_another) < mask("--config", narrow)
    assert 0 == mask("--config", narrow, "--set", "schema1.enabled=false")


def test_the_configuration_is_the_users_own_and_not_the_working_directorys(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("[observation_masking.schema1]\nwindow_turns = 7\n")
    (tmp_path / "observation-masking").mkdir()
    own = tmp_path / "observation-masking" / "config.toml"
    own.write_text("[observation_masking.schema1]\nwindow_turns = 5\n")
    total = replay(capsys, written(tmp_path / "a.json"))["total"]
    assert 5 == total["window_turns"]
    assert total["masked_tool_results"] > 0
    (tmp_path / "other.toml").write_text("[observation_masking.schema1]\nwindow_turns = 6\n")
    total = replay(capsys, tmp_path / "a.json", "--config", tmp_path / "other.toml")["total"]
    assert 6 == total["window_turns"]


@pytest.mark.parametrize(
    ("options", "unit", "ratios", "source"),
    [
        ((), "input_tokens", (0.1, 1.25), "assumed"),
        (("--model", "gpt-4o-high"), "usd", (0.5, 1), "assumed"),
        (("--model", "gpt-4o"), "usd", (0.5, 1), "price list"),
        (("--prices", "0.1,1.25"), "input_tokens", (0.1, 1.25), "config"),
        (("--prices", "0.1,1.25", "--model", "gpt-4o"), "usd", (0.1, 1.25), "config"),
    ],
)
def test_a_model_and_prices_can_be_chosen(
    options: tuple[str, ...],
    unit: str,
    ratios: tuple[float | None, float | None],
    source: str | None,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    found = replay(capsys, written(tmp_path / "a.json", model="unheard-of"), *options)
    step = found["conversations"][0]["per_request"][-1]
    assert unit == found["total"]["cost_unit"]
    assert ratios == (step["price_read_ratio"], step["price_write_ratio"])
    assert source == step["price_source"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--model", "gpt-99-ultra"),
            "Prices are assumed for all 13 requests: gpt-99-ultra is not known (cached at 0.1, "
            "written at 1.25).",
        ),
        (
            ("--model", "gpt-4o-high"),
            "Prices are assumed for all 13 requests: gpt-4o-high as gpt-4o of OpenAI "
            "(cached at 0.5, written at 1).",
        ),
        (("--model", "gpt-4o"), None),
        (("--prices", "0.1,1"), None),
    ],
)
def test_it_says_first_which_prices_are_assumed(
    options: tuple[str, ...],
    expected: str | None,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = written(tmp_path / "a.json", model="unheard-of")
    assert main(["replay", str(file), *options]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert (expected or "The prompts of 13 requests") in first
    told = replay(capsys, file, *options)["assumed_prices"]
    assert [13] * (expected is not None) == [each["requests"] for each in told]


def test_of_many_models_the_commonest_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names = ["a\x1bb", *(f"m{n}" for n in range(4))]
    files = [written(tmp_path / f"{n}.json", 9 - n, model=name) for n, name in enumerate(names)]
    nameless = json.loads(files[4].read_text())
    del nameless["model"]
    files[4].write_text(json.dumps(nameless))
    assert main(["replay", *map(str, files)]) == 0
    first = " ".join(capsys.readouterr().out.split()).partition("Set them")[0]
    assert "Prices are assumed for all 40 requests: a\ufffdb is not known (" in first
    assert "; m1 is not known (cached at 0.1, written at 1.25); and 2 more models." in first
    assert ["a\x1bb", "m0", "m1", "m2", None] == [
        each["model"] for each in replay(capsys, *files)["assumed_prices"]
    ]


def test_cached_tokens_are_billed_as_cached_where_prices_are_assumed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(tmp_path / "a.json", 40, model="unheard-of")
    total = replay(capsys, file)["total"]
    assert total["cost_before"] < 0.5 * total["tokens_before"]


def test_a_folder_is_read_without_what_a_recording_must_yield(tmp_path: Path) -> None:
    for name in ("one.flow", "one.json"):
        shutil.copy(SESSION.with_name(SESSION.stem + Path(name).suffix), tmp_path / name)
    shutil.copy(tmp_path / "one.json", tmp_path / "one.other.json")
    (tmp_path / "one.other.toml").touch()
    write_flows(tmp_path / "packed.flow.xz", list(read_flows(SESSION))[:2])
    (tmp_path / "packed.json").write_text("[]")
    written(tmp_path / "two.json")
    packed = gzip.compress((tmp_path / "two.json").read_bytes())
    (tmp_path / "three.jsonl.gz").write_bytes(packed)
    (tmp_path / "notes.txt").write_text("no session")
    assert ["one", "packed", "three", "two"] == [
        session.name for session in read_sessions([tmp_path])
    ]


def test_in_a_folder_what_is_no_recording_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written(tmp_path / "a.json")
    (tmp_path / "bad.flow").write_text("no recording")
    assert main(["replay", str(tmp_path), "--json"]) == 0
    shown, said = capsys.readouterr()
    assert 1 == len(json.loads(shown)["conversations"])
    assert said.startswith(f"obsmask: left out: {tmp_path / 'bad.flow'}")


def test_refused_and_signed_requests_are_skipped_and_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flows = list(read_flows(SESSION))[:6]
    assert flows[1].response is not None
    flows[1].response.status_code = 429
    flows[2].request.headers["content-md5"] = "x"
    flows[3].request.path = "/v1/models"
    flows[4].request.headers["content-encoding"] = "unheard-of"
    flows[5].response = None
    write_flows(tmp_path / "a.flow", flows)
    found = replay(capsys, tmp_path / "a.flow")
    assert 2 == found["total"]["requests"]
    assert {
        "status 429": 1,
        "signed": 1,
        "no body, or one of an unknown encoding": 1,
    } == found["passed_over"]
    assert main(["replay", str(tmp_path / "a.flow")]) == 0
    assert "Requests skipped: 1 status 429; 1 signed; 1 no body, or" in capsys.readouterr().out


def test_the_table_has_a_row_for_each_conversation_and_one_for_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [written(tmp_path / f"[red]{n}.json") for n in range(2)]
    assert main(["replay", *map(str, files), "--prices", "0.5,1"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split()[:2] for line in shown.splitlines()]
    expected = [["[red]0", "13"], ["[red]1", "13"], ["all", "26"]]
    assert expected == [row for row in rows if row][3:6]


def test_what_was_saved_is_told_of_the_input_cost_as_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    percent = -replay(capsys, SESSION)["total"]["delta_percent"]
    assert main(["replay", str(SESSION)]) == 0
    shown = capsys.readouterr().out
    cost = r"\nInput cost \$[\d.]+, without masking \$[\d.]+: saved \$[\d.]+ "
    assert re.search(rf"{cost}\({percent:.0f}% ±\d+\)", shown)


def test_a_table_that_is_too_wide_becomes_two() -> None:
    with (
        open_work([SESSION, CHATS[1]], starts_for_few=False) as work,
        open_result(SETTINGS) as found,
    ):
        fill(found, work, ReplayOutputs())
        tokens = f" {found.totals.bill.prompt_before.total:,.0f} "
        for width, tables in ((80, 2), (120, 1)):
            with (console := Console(width=width)).capture() as capture:
                console.print(render_conversations(found))
            shown = capture.get()
            assert tables == shown.count("conversation ")
            assert all(len(line) <= width for line in shown.splitlines())
            assert "…" not in shown
            tables_alone = shown.partition("\nInput cost ")[0]
            for column in ("tokens after", "saved", "re-reads", "quotes"):
                assert 1 == tables_alone.count(f"{column}\n") + tables_alone.count(f"{column} ")
            assert tokens in shown


def test_several_prices_are_one_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(written(tmp_path / "a.json"))
    assert main(["replay", file, "--prices", "1,1", "--prices", "0.1,1"]) == 0
    shown = capsys.readouterr().out
    assert "1, 1 (no cache)" in shown
    assert "Input cost" not in shown
    assert ["saved", "re-reads", "quotes"] == shown.splitlines()[2].split()[-3:]
    assert "0.1, 1 " in shown


def test_many_sessions_are_replayed_on_all_cores(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Their names, and their models', may hold half a character."""
    one = json.loads(written(tmp_path / "a.json", model="m\ud800").read_text())
    names = [f"{n}\ud800" for n in range(12)]
    lines = [json.dumps(one | {"name": name}) for name in names]
    (tmp_path / "many.jsonl").write_text("\n".join(lines))
    several = replay(capsys, tmp_path / "many.jsonl")["conversations"]
    assert names == [found["name"] for found in several]
    single = replay(capsys, tmp_path / "a.json")["conversations"][0]
    figures = [name for name in NAMES if name != "name"]
    assert [[single[name] for name in figures]] * 12 == [
        [found[name] for name in figures] for found in several
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("missing.flow",), "missing.flow"),
        (("empty.jsonl",), "no request to replay in empty.jsonl"),
        ((str(shipped("recordings") / "mcp-files.flow"),), "no request to replay in "),
        (("list.json",), "list.json: expected"),
        (
            ("a.json", "--set", "schema1.placeholder_template={unknown}"),
            "'schema1.placeholder_template'",
        ),
        (("a.json", "--set", "schema1.max_loss=-1.0"), "'schema1.max_loss'"),
        (("a.json", "--config", "none.toml"), "none.toml"),
        (("a.json", "--json", "--prices", "1,1", "--prices", "0,1"), "one --prices"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place(
    arguments: tuple[str, ...],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.json")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "list.json").write_text('"text"')
    assert main(["replay", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        *((("--prices", text), "expected READ,WRITE")
          for text in ("0.1", "a,b", "1,2,3", "-1,1", "nan,1")),
        (("--prices", "2,1"), "a cached token cannot cost more than a plain or a written one: 2,1"),
        (("--prices", "1.5,2"), "a cached token cannot cost more than a plain"),
        (("--window-turns", "-1"), "expected a whole number from 0 up: -1"),
        (("--window-turns", "few"), "expected a whole number from 0 up: few"),
        (("--cache-ttl", "-5"), "expected SECONDS from 0 up: -5"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_and_its_option_named(
    arguments: tuple[str, str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "x.flow", *arguments]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"Error: Invalid value for '{arguments[0]}': ")
    assert problem in said


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("replay", "missing.flow", "--report"), id="a page"),
        pytest.param(("scrub", "missing.flow"), id="a scrubbed recording"),
    ],
)
@pytest.mark.parametrize(
    ("out", "problem"),
    [
        pytest.param("none/out", "there is no folder none", id="no such folder"),
        pytest.param("a.json/out", "Not a directory", id="a file in place of the folder"),
        pytest.param("pipe", "not a regular file", id="a pipe that nobody reads"),
    ],
)
def test_what_cannot_be_written_fails_before_any_work(
    command: tuple[str, ...],
    out: str,
    problem: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.json")
    os.mkfifo("pipe")
    assert main([*command, out]) == 1
    assert f"obsmask: {out}: {problem}\n" == capsys.readouterr().err


@pytest.mark.parametrize("command", ["replay", "tune"])
def test_a_records_file_is_no_recording(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(record().model_dump_json() + "\n")
    assert main([command, str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"obsmask: {file}: holds records, ")
    assert "obsmask status --records shows them" in said
    written(tmp_path / "other.json")
    assert main(["replay", str(tmp_path)]) == 0
    assert f"left out: {file}: holds records, " in capsys.readouterr().err


def test_a_page_shows_each_conversation_where_the_table_has_their_total_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [written(tmp_path / f"{turns}.json", turns) for turns in (12, 15)]
    pages = [tmp_path / "all.html", tmp_path / "total.html"]
    assert main(["replay", *map(str, files), "--report", str(pages[0])]) == 0
    capsys.readouterr()
    assert main(["replay", *map(str, files), "--total", "--report", str(pages[1])]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert [["all", "29"]] == [row for row in rows if row and row[-1] == "29"]
    assert "12" not in {row[0] for row in rows if row}
    every, total = (page.read_text(encoding="utf-8") for page in pages)
    names = [file.name for file in files]
    assert [every.count(name) for name in names] == [total.count(name) for name in names]


def test_a_total_is_that_of_all_and_shows_none_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [written(tmp_path / f"{turns}.json", turns) for turns in (12, 15)]
    every, total = replay(capsys, *files), replay(capsys, *files, "--total")
    assert {**total, "conversations": every["conversations"]} == every
    assert "conversations" not in total
    assert main(["replay", *map(str, files), "--total"]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert [["all", "29"]] == [row for row in rows if row and row[-1] == "29"]
    assert "12" not in {row[0] for row in rows if row}


def test_the_table_is_shown_where_the_page_fails_in_the_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(tmp_path / "a.json")
    assert main(["replay", str(file), "--report", "/dev/full"]) == 1
    shown = capsys.readouterr()
    assert "The prompts of 13 requests" in shown.out
    assert "No space left on device" in shown.err


def test_the_report_is_written_beside_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "out.html"
    assert main(["replay", str(written(tmp_path / "a.json")), "--report", str(page)]) == 0
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert str(page) in capsys.readouterr().err


# What arrival would have done


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Return a conversation of 25 commands of which 9 print a lot, and one that quotes one."""
    messages = [*run_tests(25), *run(line_of(24, 200), "ok", "last")]
    done = {"role": "assistant", "content": "Done."}
    document = {"model": "deepseek-chat", "messages": [*messages, done]}
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


ARRIVAL = ("--set", "arrival.enabled=true")


def test_what_arrival_saves_is_told_apart(capsys: pytest.CaptureFixture[str], talk: Path) -> None:
    found, before = replay(capsys, talk, *ARRIVAL), replay(capsys, talk)
    total, arrival = found["total"], found["total"]["arrival"]
    saved = total["cost_before"] - total["cost_after"]
    assert saved == pytest.approx(arrival["saved"] + arrival["saved_by_masking"])
    assert (9, 0, 1) == (arrival["results"], arrival["rereads"], arrival["quotes"])
    requests = found["conversations"][0]["per_request"]
    by_request = sum(each.get("arrival_saved_dollars") or 0.0 for each in requests)
    assert by_request == pytest.approx(arrival["saved"], abs=1e-6)
    assert 9 == requests[-1]["shortened"]
    assert arrival == found["conversations"][0]["arrival"]

    assert before["total"]["arrival"] is None
    assert total["cost_before"] == before["total"]["cost_before"]
    assert {None} == {each["shortened"] for each in before["conversations"][0]["per_request"]}


@pytest.mark.parametrize("columns", ["160", "80"])
def test_the_table_has_what_each_saved_where_anything_was_shortened(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    talk: Path,
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for options, is_told in ((ARRIVAL, True), ((), False)):
        assert main(["replay", str(talk), *options]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert is_told == ("saved arrival masking" in printed)
        assert is_told == ("arrival, masking: the part of saved" in printed)
        assert is_told == ("At arrival 9 long results would have been shortened by" in printed)
        assert is_told == ("and 3.8% quote it: the least to expect" in printed)
        assert is_told == ("% if the one call that asked again cost one more request." in printed)


def test_without_a_memory_it_is_told_as_well(
    capsys: pytest.CaptureFixture[str], talk: Path
) -> None:
    one, other = (
        replay(capsys, talk, *ARRIVAL, option)["total"] for option in ("--memory", "--no-memory")
    )
    assert one["arrival"] == other["arrival"]


def test_a_row_without_anything_shortened_says_what_masking_saved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, talk: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    written(talk.with_name("small.json"), 3)
    assert main(["replay", str(talk.parent), *ARRIVAL]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("small")]
    assert 2 == rows[0].count("+0.0%")  # saved, and by masking; arrival has no figure


def test_a_report_says_it_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, talk: Path
) -> None:
    page = tmp_path / "page.html"
    assert main(["replay", str(talk), *ARRIVAL, "--report", str(page)]) == 0
    capsys.readouterr()
    text = page.read_text(encoding="utf-8")
    assert "At arrival 9 long results would have been shortened by" in text
    assert "arrival.max_chars" in text
    assert main(["replay", str(talk), "--report", str(page)]) == 0
    assert "arrival" not in page.read_text(encoding="utf-8").lower()
