"""`obsmask status`: what the records come to, in a terminal, as JSON, and as a table."""

import csv
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from addon.commands.main import main
from addon.commands.status_groups import count_groups
from addon.commands.status_table import ASCII_MARKS, MARKS, render_groups
from addon.metrics.record import RequestRecord
from tests.addon.test_record import FIRST_SCHEMA
from tests.addon.test_tally import LEAST, UNPRICED, bill

SIZES = {"request_tokens_before": 400, "request_tokens_after": 300}
REQUEST = {
    "time": "2020-03-04T12:00:00.000+00:00", "status": 200, "model": "m", "tool_results": 9,
    "masked": 4, **SIZES,
}  # fmt: skip

SetZone = Callable[[str], None]


@pytest.fixture(autouse=True)
def set_zone() -> Iterator[SetZone]:
    """Return what sets the user's time zone, which is UTC until then."""
    with pytest.MonkeyPatch.context() as patch:

        def set_to(name: str) -> None:
            patch.setenv("TZ", name)
            time.tzset()

        set_to("UTC")
        yield set_to
    time.tzset()


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return where the records are; there are none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "state" / "observation-masking" / "requests.jsonl"


def write(path: Path, *lines: Mapping[str, object] | str) -> None:
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


# The page

_TO_ASCII = str.maketrans("\N{FULL BLOCK}\N{LIGHT SHADE}\N{BOX DRAWINGS LIGHT HORIZONTAL}", "#-=")


def test_the_page_tells_what_the_requests_came_to(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write(
        records,
        REQUEST | bill(3, 2, 0.25, subscription=True, conversation_id="a", boundary_moved=True,
                       first_chunk_seconds=2.0),
        REQUEST | bill(1, 1, conversation_id="a", boundary_moved=False, first_chunk_seconds=0.5),
        REQUEST | {"time": "2020-03-05T12:00:00Z", "masking": "off", "status": 500},
        REQUEST | {"passed_through": "signed (cch)", "status": 429},
        REQUEST | {"replay": True},
    )  # fmt: skip
    shown = [line.translate(_TO_ASCII) for line in status(capsys)]
    assert shown == [
        "Requests since Wed 01 Jan 2020 00:00 (UTC)",
        f"from {records}",
        "",
        "Requests          4 in 1 conversation",
        "Tokens            900 sent, 300 not sent (-25%)",
        "Prompts           $1.0000 of $4.0000 saved (25% ±6, at API prices)",
        "                  unmasked they would have cost $4.0000 ±$0.2500, which is estimated",
        "Failed            masking on  1 of 3 requests (33.3%): 1 x 429",
        "                  masking off 1 of 1 request (100.0%): 1 x 500",
        "Dearest request   $2.0000, unmasked $3.0000",
        "                  Wed 04 Mar 2020 12:00, m at h, 300 tokens",
        "Answer begins     within 0.5 s in half of 1 answer, within 0.5 s in 9 of 10",
        "                  within 2.0 s in half of 1 answer, within 2.0 s in 9 of 10 after a move "
        "of the boundary",
        "Passed untouched  1 request: claude-code signs what it sends; "
        "CLAUDE_CODE_ATTRIBUTION_HEADER=0 in its environment changes that",
        "",
        "",
        "                               tokens   not",
        " day         requests  failed    sent  sent         saved  # sent - not",
        f" {'=' * 98}",
        f" Wed 04 Mar         3       1     600   25%  $1.0000 +25%  {'#' * 30}{'-' * 10}",
        f" Thu 05 Mar         1       1     300   25%                {'#' * 15}{'-' * 5}",
        "",
        "1 request of recordings left out: see --replayed.",
    ]


@pytest.mark.parametrize(
    ("lines", "label", "expected"),
    [
        pytest.param(
            [REQUEST | bill(5_000, 4_000, 100) | UNPRICED],
            "Prompts",
            ["1 request of no known price: 1,000 of 5,000 input tokens saved (20% ±2)"],
            id="no known price",
        ),
        pytest.param(
            [REQUEST | bill(4, 5, 0.25)],
            "Prompts",
            [
                "$1.0000 lost on $4.0000 (25% ±6)",
                "unmasked they would have cost $4.0000 ±$0.2500, which is estimated",
            ],
            id="a loss",
        ),
        pytest.param(
            [REQUEST | bill(4, 3.9, 0.25)],
            "Prompts",
            [
                "cost $3.9000, about as unmasked",
                "unmasked they would have cost $4.0000 ±$0.2500, which is estimated",
            ],
            id="about 0",
        ),
        pytest.param(
            [REQUEST | bill(90, 70) | UNPRICED],
            "Dearest request",
            ["70, unmasked 90 input tokens", "Wed 04 Mar 2020 12:00, m at h, 300 tokens"],
            id="the dearest, without a price",
        ),
        pytest.param(
            [{**REQUEST, **bill(7, 7), **UNPRICED, "model": None, "request_tokens_after": None}],
            "Dearest request",
            ["7 input tokens", "Wed 04 Mar 2020 12:00, ? at h"],
            id="the dearest, of which little is known",
        ),
        pytest.param(
            [REQUEST | {"prompt_tokens": 200, "cached_tokens": 150}],
            "Tokens",
            ["300 sent, 100 not sent (-25%)", "200 as the providers counted, 75% of them cached"],
            id="what the providers counted",
        ),
        pytest.param(
            [REQUEST | {"request_tokens_after": 400}, {}],
            "Tokens",
            ["400 sent", "not counted in 1 request"],
            id="what was not counted",
        ),
        pytest.param(
            [REQUEST | {"redacted": 3, "redaction_scenarios": [2, 1, 0, 0, 1]}],
            "Redacted",
            [
                "3 of 9 tool results sent (33%)",
                "of the named tools' results, followed by an answer 2, calls 1, calls and an "
                "answer 1",
            ],
            id="redaction",
        ),
        pytest.param(
            [REQUEST | {"redacted": 0, "redaction_scenarios": [0, 0, 0, 0, 0]}],
            "Redacted",
            ["0 of 9 tool results sent (0%)", "of no named tool"],
            id="redaction of tools that were not called",
        ),
        pytest.param(
            [REQUEST | {"reduction_stage": stage} for stage in ("masking", "masking", "fallback")],
            "Reduced",
            ["2 requests by masking, 1 request by fallback"],
            id="reduction",
        ),
        pytest.param(
            [REQUEST, REQUEST | {"binding": "refuses", "kept": {"bound": 3}}],
            "Kept results",
            ["1 request: the model binds its reasoning to all that precedes it"],
            id="bound reasoning",
        ),
        pytest.param(
            [REQUEST, REQUEST | {"passed_through": "streamed past the addon"}],
            "Passed untouched",
            ["1 request: streamed past the addon"],
            id="why a request passed",
        ),
        pytest.param(
            [REQUEST | bill(1, 1, price_source="assumed", host="\x1b]0;evil")],
            "Prices assumed",
            ["\ufffd]0;evil in 1 request: obsmask prices \ufffd]0;evil"],
            id="a host that is a trick on the terminal",
        ),
    ],
)
def test_a_row_tells(
    capsys: pytest.CaptureFixture[str],
    records: Path,
    lines: list[Mapping[str, object]],
    label: str,
    expected: list[str],
) -> None:
    write(records, *lines)
    assert expected == describe(status(capsys))[label]


def test_it_is_told_why_nothing_was_masked(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write(records, REQUEST | {"masked": 0, "kept": {"held": 2, "in_window": 7}})
    assert "nothing masked, because moving the boundary does not pay yet" in "\n".join(
        status(capsys)
    )


GROUPED = [
    REQUEST | {"model": "[bold]x", "host": "a", "client": None, "tag": "one"},
    REQUEST | {"model": "m", "host": "b", "client": "c", "tag": None},
    REQUEST | {"model": "m", "host": "b", "client": "c", "tag": "one"},
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("day", [["Wed 04 Mar", "3"]]),
        ("model", [["m", "2"], ["[bold]x", "1"]]),
        ("host", [["b", "2"], ["a", "1"]]),
        ("client", [["c", "2"], ["not known", "1"]]),
        ("tag", [["one", "2"], ["not known", "1"]]),
    ],
)
def test_requests_are_grouped(
    capsys: pytest.CaptureFixture[str], records: Path, by: str, expected: list[list[str]]
) -> None:
    write(records, *GROUPED)
    lines = status(capsys, "--by", by)
    (head,) = (place for place, line in enumerate(lines) if line.startswith(f" {by} "))
    cells = [[cell for cell in line.split("  ") if cell] for line in lines[head + 2 :] if line]
    assert expected == [[name.strip(), count.strip()] for name, count, *_ in cells]
    groups = read_json(capsys, "--by", by)["groups"]
    assert [count for _, count in expected] == [str(group["requests"]) for group in groups]


def test_a_tag_selects(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    write(records, *GROUPED)
    lines = status(capsys, "--tag", "one")
    assert lines[0].endswith(", tagged one")
    assert ["2"] == describe(lines)["Requests"]
    assert 2 == len(status(capsys, "--tag", "one", "--jsonl"))


@pytest.mark.parametrize(("width", "has_bars"), [(62, False), (80, True), (160, True)])
@pytest.mark.parametrize("marks", [MARKS, ASCII_MARKS])
def test_bars_take_what_is_left(width: int, has_bars: bool, marks: tuple[str, str]) -> None:
    lines = render_table([REQUEST | bill(3, 2), REQUEST | UNPRICED], width, marks)
    assert has_bars is any(marks[1] * 3 in line for line in lines)
    assert width >= max(map(len, lines))


def test_a_model_of_a_long_name_is_whole_on_a_narrow_terminal() -> None:
    lines = render_table([REQUEST | {"model": "x" * 50}], 80, by="model")
    assert 50 == "".join(lines).count("x")


def render_table(
    lines: Iterable[Mapping[str, object]],
    width: int,
    marks: tuple[str, str] = MARKS,
    by: str = "day",
) -> list[str]:
    groups = count_groups((RequestRecord.model_validate({**LEAST, **each}) for each in lines), by)
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        console.print(render_groups(groups, width, marks))
    return [line.rstrip() for line in shown.get().splitlines()]


# Days


@pytest.mark.parametrize(
    ("zone", "when", "day"),
    [
        ("UTC", "2020-03-04T23:30:00+00:00", "2020-03-04"),
        ("Asia/Tokyo", "2020-03-04T23:30:00+00:00", "2020-03-05"),
        ("America/Los_Angeles", "2020-03-05T01:00:00+00:00", "2020-03-04"),
        ("Europe/Paris", "2020-07-01T22:30:00+00:00", "2020-07-02"),
        ("Europe/Paris", "2020-12-01T22:30:00+00:00", "2020-12-01"),
        ("Asia/Tokyo", "2020-03-04T23:30:00", "2020-03-05"),
    ],
)
def test_a_day_is_one_of_the_users_time_zone(
    capsys: pytest.CaptureFixture[str],
    records: Path,
    set_zone: SetZone,
    zone: str,
    when: str,
    day: str,
) -> None:
    set_zone(zone)
    write(records, REQUEST | {"time": when})
    groups = read_json(capsys, "--records", str(records))["groups"]
    assert [day] == [group["key"] for group in groups]


@pytest.mark.parametrize(
    ("zone", "name"),
    [("UTC", "UTC"), ("Asia/Tokyo", "JST, UTC+09:00"), ("Asia/Kolkata", "IST, UTC+05:30")],
)
def test_the_time_zone_is_named(
    capsys: pytest.CaptureFixture[str], set_zone: SetZone, zone: str, name: str
) -> None:
    set_zone(zone)
    assert f"Requests since Wed 01 Jan 2020 00:00 ({name})" == status(capsys)[0]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
@pytest.mark.parametrize(("since", "days"), [("1d", 1), ("7d", 7), ("1w", 7), ("4w", 28)])
def test_days_and_weeks_begin_at_midnight(
    capsys: pytest.CaptureFixture[str], set_zone: SetZone, zone: str, since: str, days: int
) -> None:
    set_zone(zone)
    found = datetime.fromisoformat(read_json(capsys, "--since", since)["since"])
    assert (0, 0, 0) == (found.hour, found.minute, found.second)
    assert found.date() in {
        date.today() - timedelta(days=days - 1 + extra) for extra in (0, 1)
    }  # the second one at midnight
    assert found == found.astimezone()


def test_hours_are_counted_from_now(capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now().astimezone()
    found = datetime.fromisoformat(read_json(capsys, "--since", "12h")["since"])
    assert before - timedelta(hours=12, seconds=1) <= found
    assert found <= datetime.now().astimezone() - timedelta(hours=12)


def test_what_is_older_is_left_out(
    capsys: pytest.CaptureFixture[str], records: Path, set_zone: SetZone
) -> None:
    set_zone("Asia/Tokyo")
    times = ("2020-03-03T14:59:59.999+00:00", "2020-03-03T15:00:00.000+00:00")
    write(records, *(REQUEST | {"time": each} for each in times))
    assert 1 == read_json(capsys, "--since", "2020-03-04")["total"]["requests"]
    assert 2 == read_json(capsys, "--since", "2020-03-03")["total"]["requests"]


@pytest.mark.parametrize(
    "since",
    ["", "0h", "0d", "7", "d", "7 d", "-7d", "7m", "1e3d", "999999999w", "2020-02-30", "soon"],
)
def test_what_is_no_time_is_refused(capsys: pytest.CaptureFixture[str], since: str) -> None:
    assert 2 == main(["status", f"--since={since}"])
    assert f"as 12h, 7d, 4w or {date.today()}: {since}" in capsys.readouterr().err


def test_the_future_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["status", "--since", "9999-12-30"])
    assert "that is yet to come: 9999-12-30" in capsys.readouterr().err


# Where records are, and what is no record


def test_the_configuration_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "mine.jsonl", REQUEST)
    config = tmp_path / "mine.toml"
    config.write_text(f'[observation_masking.metrics]\npath = "{tmp_path / "mine.jsonl"}"\n')
    assert ["1"] == describe(status(capsys, "--config", str(config)))["Requests"]


def test_the_records_that_were_rotated_away_count(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write(records.with_name("requests.jsonl.1"), REQUEST, REQUEST)
    write(records, REQUEST)
    assert ["3"] == describe(status(capsys))["Requests"]


def test_lines_that_are_no_records_are_passed_over(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    older = json.dumps(json.loads(FIRST_SCHEMA) | {"replay": False})
    mcp = json.dumps({**LEAST, "kind": "mcp"})
    write(records, older, "", "[]", mcp, "\udcff".encode("utf-8", "replace").decode(), REQUEST,
          json.dumps(REQUEST)[:50])  # fmt: skip
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
        write(records, *lines)
    said = status(capsys, *options)
    assert [f"from {records}", "", expected] == said[1:]
    assert 0 == read_json(capsys, *options)["total"]["requests"]


def test_a_named_file_that_is_not_there_is_a_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 1 == main(["status", "--records", "missing.jsonl"])
    assert "obsmask: missing.jsonl: No such file or directory\n" == capsys.readouterr().err


# For other programs


def test_json_has_all_that_was_reckoned(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    write(records, REQUEST | bill(3, 2, 0.5, tag="t"), REQUEST | {"status": 500})
    told = read_json(capsys)
    (group,) = told.pop("groups")
    total = told.pop("total")
    assert {"key": "2020-03-04", **total} == group
    assert told == {
        "records": str(records), "since": "2020-01-01T00:00:00+00:00", "time_zone": "UTC",
        "replayed": False, "requests_left_out": 0, "by": "day",
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
    write(records, REQUEST | {"tag": "t", "conversation_id": "c"}, REQUEST | {"replay": True})
    first, second = (RequestRecord.model_validate_json(each) for each in status(capsys, "--jsonl"))
    expected = RequestRecord.model_validate({**LEAST, **REQUEST})
    assert expected.model_copy(update={"tag": "t", "conversation_id": "c"}) == first
    assert expected.model_copy(update={"replay": True}) == second


def read_csv(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert main(["status", "--since", "2020-01-01", "--csv"]) == 0
    return [*csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))]


def test_csv_has_a_column_for_each_field(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    fields = {"kept": {"error": 1}, "net_tokens": -5.5, "stream": True}
    texts = {"price_entry": ["openai", "a, b"], "tag": 'say "hi"\nthere'}
    write(records, REQUEST | fields | texts)
    (row,) = read_csv(capsys)
    assert list(RequestRecord.model_fields) == list(row)
    assert ('{"error": 1}', "-5.5", "true", "") == (
        row["kept"],
        row["net_tokens"],
        row["stream"],
        row["error"],
    )
    assert ('["openai", "a, b"]', 'say "hi"\nthere') == (row["price_entry"], row["tag"])


@pytest.mark.parametrize("start", [*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@pytest.mark.parametrize("field", ["model", "tag", "host", "client"])
def test_no_cell_of_a_csv_is_a_formula(
    capsys: pytest.CaptureFixture[str], records: Path, field: str, start: str
) -> None:
    write(records, REQUEST | {field: f"{start}cmd|' /C calc'!A0"})
    (row,) = read_csv(capsys)
    assert f"'{start}cmd|' /C calc'!A0".replace("\r", "\n") == row[field]
