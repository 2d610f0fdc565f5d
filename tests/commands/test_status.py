"""`obsmask status`: which records it reads, what it shows of them, and in which form."""

import csv
import io
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from addon.commands.main import main
from addon.commands.status_views import ASCII_MARKS, MARKS, count_groups, render_groups
from addon.records.harm_words import NOTE
from addon.records.record import RequestRecord
from addon.records.tally import as_masked, as_sent
from tests.records.test_record import FIRST_SCHEMA
from tests.support.made_up_records import (
    LEAST,
    REQUEST,
    UNPRICED,
    SetZone,
    bill,
    describe,
    read_json,
    record,
    status,
    write_records,
)
from tests.support.marks import as_one_test


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


# What it shows


def test_a_command_is_never_broken_on_a_narrow_screen(
    capsys: pytest.CaptureFixture[str], records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assumed = REQUEST | bill(3, 2) | {"price_source": "assumed"}
    hosts = [f"{host}.example.org" for host in ("inference", "a-gateway-of-a-long-name")]
    write_records(records, *(assumed | {"host": host} for host in hosts))
    shown = "\n".join(status(capsys))
    commands = [f"obsmask prices {host}" for host in hosts]
    assert [] == [command for command in commands if command not in shown]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    prose = [
        line for line in plain.splitlines() if "obsmask" not in line and str(records) not in line
    ]
    assert [] == [line for line in prose if len(line) > 80]


_TO_ASCII = str.maketrans("\N{FULL BLOCK}\N{LIGHT SHADE}\N{BOX DRAWINGS LIGHT HORIZONTAL}", "#-=")


def test_the_page_tells_what_the_requests_came_to(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(
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
        "Input             of 2 requests cost $3.00 at API prices, without masking $4.00: saved "
        "$1.00 (25% ±6)",
        "Failed            masking on  1 of 3 requests (33.3%): 1 x 429",
        "                  masking off 1 of 1 request (100.0%): 1 x 500",
        "Most expensive    $2.00, without masking $3.00",
        "                  Wed 04 Mar 2020 12:00, m at h",
        "First token       0.50 s, 1 response",
        "                  where the boundary moved, 2.00 s, 1 response",
        "Passed untouched  1 request: claude-code signs what it sends; "
        "obsmask run -- claude changes that",
        "",
        "",
        "                               input  without",
        " day         requests  failed   cost  masking        saved  # paid - saved",
        f" {'=' * 99}",
        f" Wed 04 Mar         3       1  $3.00    $4.00  $1.00 (25%)  {'#' * 30}{'-' * 10}",
        " Thu 05 Mar         1       1",
        "",
        "1 request of recordings left out: see --replayed.",
    ]


@pytest.mark.parametrize(
    ("lines", "label", "expected"),
    [
        pytest.param(
            [REQUEST | bill(5_000, 4_000, 100) | UNPRICED],
            "Input",
            [
                "worth 4,000 input tokens (no price is known), without masking 5,000: saved 1,000 "
                "(20% ±2)"
            ],
            id="no known price",
        ),
        pytest.param(
            [REQUEST | bill(5_000, 4_000, 100) | UNPRICED],
            "No price",
            [
                "1 request, to models that aren't in the price list: obsmask prices says how old "
                "it is"
            ],
            id="what to do about that",
        ),
        pytest.param(
            [REQUEST | bill(4, 3, 0.25, masking="observed")],
            "Observed",
            ["1 request: input cost $4.00, with masking $3.00: would have saved $1.00 (25% ±6)"],
            id="what masking would have done",
        ),
        pytest.param(
            [REQUEST | {"masking": "observed", "status": 500}, REQUEST],
            "Failed",
            [
                "masking on       0 of 1 request",
                "masking observed 1 of 1 request (100.0%): 1 x 500",
            ],
            id="failures of what was masked and of what was observed",
        ),
        pytest.param(
            [
                REQUEST | bill(9, 8),
                REQUEST | bill(4, 3, masking="observed"),
                REQUEST | bill(4, 2, masking="observed", group="holdout"),
            ],
            "Observed",
            [
                "1 request: input cost $4.00, with masking $3.00: would have saved $1.00 (25%)",
                "1 request held out: input cost $4.00, with masking $2.00: would have saved $2.00 "
                "(50%)",
            ],
            id="what was held out, apart",
        ),
        pytest.param(
            [
                REQUEST | bill(9, 8),
                REQUEST | bill(4, 3, masking="observed"),
                REQUEST | bill(4, 2, masking="observed", group="holdout"),
                {"purpose": "count"},
            ],
            "Requests",
            [
                "3, and 1 to count tokens alone",
                "2 of them only observed, 1 of them held out: their costs stand apart",
            ],
            id="of which kinds requests are",
        ),
        pytest.param(
            [
                REQUEST | bill(9, 8),
                REQUEST | bill(4, 2, masking="observed"),
                REQUEST | bill(4, 3) | UNPRICED,
            ],
            "Input",
            [
                "of 1 request cost $8.00, without masking $9.00: saved $1.00 (11%)",
                "of 1 request worth 3 input tokens (no price is known), without masking 4: saved 1 "
                "(25%)",
            ],
            id="sums name their requests",
        ),
        pytest.param(
            [
                REQUEST
                | bill(4, 5, 0.25, conversation_id="a", boundary_moved=True, price_read_ratio=0.01)
            ],
            "Input",
            [
                "cost $5.00, without masking $4.00: lost $1.00 (25% ±6)",
                "masking more has just rebuilt the cache; that breaks even in about 1 more request",
            ],
            id="a loss",
        ),
        pytest.param(
            [REQUEST | bill(4, 4, answer_dollars=0.125, price_borrowed_from="OpenAI")],
            "Output",
            ["cost about $0.12 either way"],
            id="answers",
        ),
        pytest.param(
            [REQUEST | bill(4, 3.9, 0.25)],
            "Input",
            ["cost $3.90, about as much as without masking"],
            id="about 0",
        ),
        pytest.param(
            [REQUEST | bill(90, 70) | UNPRICED],
            "Most expensive",
            ["worth 70 input tokens, without masking 90", "Wed 04 Mar 2020 12:00, m at h"],
            id="the dearest, without a price",
        ),
        pytest.param(
            [{**REQUEST, **bill(7, 7), **UNPRICED, "model": None, "request_tokens_after": None}],
            "Most expensive",
            ["worth 7 input tokens", "Wed 04 Mar 2020 12:00, ? at h"],
            id="the dearest, of which little is known",
        ),
        pytest.param(
            [REQUEST | {"prompt_tokens": 200, "cached_tokens": 150}],
            "Cache",
            ["75% of the input was read from it, as the providers counted"],
            id="what the providers counted",
        ),
        pytest.param(
            [REQUEST | {"redacted": 3, "redaction_scenarios": [2, 1, 0, 0, 1]}],
            "Redacted",
            [
                "3 of 9 tool results sent (33%)",
                "by what follows a named tool's result: an answer 2, calls 1, calls and an answer "
                "1",
            ],
            id="redaction",
        ),
        pytest.param(
            [REQUEST | {"redacted": 0, "redaction_scenarios": [0, 0, 0, 0, 0]}],
            "Redacted",
            [
                "0 of 9 tool results sent (0%)",
                "by what follows a named tool's result: none was sent",
            ],
            id="redaction of tools that were not called",
        ),
        pytest.param(
            [REQUEST | {"reduction_stage": stage} for stage in ("masking", "masking", "fallback")],
            "Reduced",
            ["2 requests by masking", "1 request by fallback"],
            id="reduction",
        ),
        pytest.param(
            [
                REQUEST | {"binding": "may_refuse", "kept": {"bound": 3}},
                REQUEST | {"binding": "may_refuse", "account": "takes"},
            ],
            "Kept results",
            [
                "1 request: the model binds its reasoning; it was not known yet that this account "
                "accepts masked results"
            ],
            id="reasoning that an account lets go of since",
        ),
        pytest.param(
            [REQUEST, REQUEST | {"binding": "refuses", "kept": {"bound": 3}}],
            "Kept results",
            [
                "1 request: the model binds its reasoning to all that precedes it; obsmask run "
                "--shorten cuts long results all the same"
            ],
            id="bound reasoning",
        ),
        pytest.param(
            [REQUEST | {"masked": 0, "kept": {"summary": 9}}] * 2,
            "Summaries",
            ["2 requests for a summary left whole"],
            id="requests for a summary",
        ),
        pytest.param(
            [REQUEST | {"conversation_id": each, "fits_unmasked": False} for each in "aab"],
            "Model's window",
            [
                "2 conversations no longer fit their model without masking: switch masking off "
                "only after the agent has made a summary (/compact)",
                "m at h",
                "m at h",
            ],
            id="conversations that need masking",
        ),
        pytest.param(
            [REQUEST | {"resent": "accepted"}],
            "Sent again",
            ["1 request sent again whole after a 400 (1 accepted)"],
            id="a request that was sent again",
        ),
        pytest.param(
            [
                REQUEST | {"clearing": "asked", "cleared_tool_uses": 9, "cleared_tokens": 8_000},
                REQUEST | {"clearing": "asked", "cleared_tool_uses": 0},
                REQUEST | {"clearing": "refused"},
            ],
            "Cleared",
            [
                "3 requests asked the provider to clear; 8,000 tokens cleared in all",
                "1 request: nothing cleared",
                "1 request: refused",
            ],
            id="what the provider cleared",
        ),
        pytest.param(
            [REQUEST, REQUEST | {"passed_through": "streamed past the addon"}],
            "Passed untouched",
            ["1 request: streamed past the addon"],
            id="why a request passed",
        ),
        pytest.param(
            [REQUEST | {"conversation": 1, "first_chunk_seconds": n / 4} for n in range(11)],
            "First token",
            ["p50 1.25 s, p90 2.25 s, 11 responses"],
            id="how long answers took to begin",
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
    write_records(records, *lines)
    assert expected == describe(status(capsys))[label]


def test_it_is_told_why_nothing_was_masked(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, REQUEST | {"masked": 0, "kept": {"held": 2, "in_window": 7}})
    assert "nothing masked, because masking doesn't pay yet" in "\n".join(status(capsys))


GROUPED = [
    REQUEST | {"model": "[bold]x", "host": "a", "client": None, "tag": "one", "label": "x"},
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
        ("tag", [["one", "2"], ["no tag", "1"]]),
        ("label", [["no label", "2"], ["x", "1"]]),
    ],
)
def test_requests_are_grouped(
    capsys: pytest.CaptureFixture[str], records: Path, by: str, expected: list[list[str]]
) -> None:
    write_records(records, *GROUPED)
    lines = status(capsys, "--by", by)
    (head,) = (place for place, line in enumerate(lines) if line.startswith(f" {by} "))
    cells = [[cell for cell in line.split("  ") if cell] for line in lines[head + 2 :] if line]
    assert expected == [[name.strip(), count.strip()] for name, count, *_ in cells]
    groups = read_json(capsys, "--by", by)["groups"]
    assert [count for _, count in expected] == [str(group["requests"]) for group in groups]


@pytest.mark.parametrize(
    ("filters", "heading", "count"),
    [
        ({"tag": "one"}, ", tagged one", 2),
        ({"host": "b"}, ", to b", 2),
        ({"tag": "one", "host": "b"}, ", tagged one, to b", 1),
    ],
)
def test_a_filter_selects_in_each_form_and_is_named(
    filters: Mapping[str, str],
    heading: str,
    count: int,
    capsys: pytest.CaptureFixture[str],
    records: Path,
) -> None:
    write_records(records, *GROUPED)
    options = [part for name, value in filters.items() for part in (f"--{name}", value)]
    lines = status(capsys, *options)
    assert lines[0].endswith(heading)
    assert [str(count)] == describe(lines)["Requests"]
    assert count == len(status(capsys, *options, "--jsonl"))
    found = read_json(capsys, *options)
    assert (filters, count) == (found["filters"], found["total"]["requests"])


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


def test_a_sum_that_is_not_of_all_requests_says_of_which_it_is(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(
        records,
        REQUEST | bill(4, 3, client="both"),
        *[REQUEST | bill(4, 3, client="both") | UNPRICED] * 2,
        *[
            REQUEST | bill(4, 3, client="looked at", masking=masking)
            for masking in ("on", "observed")
        ],
        REQUEST | bill(4, 3, client="plain"),
        REQUEST | bill(4, 3, client="unpriced") | UNPRICED,
    )
    lines = status(capsys, "--by", "client")
    assert [
        "of 3 requests cost $9.00, without masking $12.00: saved $3.00 (25%)",
        "of 3 requests worth 9 input tokens (no price is known), without masking 12: saved 3 (25%)",
    ] == describe(lines)["Input"]
    rows = {line[:11].strip(): re.findall(r"\(?25%\)?\*?", line) for line in lines}
    assert [["(25%)*"], ["(25%)*"], ["(25%)"], ["25%*"]] == [
        rows[name] for name in ("both", "looked at", "plain", "unpriced")
    ]
    assert [
        "* both: the amounts are of 1 request; 2 without a price",
        "* looked at: 1 of 2 requests were only observed: the amounts are of the others",
        "* unpriced: no price is known",
    ] == [line for line in lines if line.startswith("*")]


# From when on it counts, and which day is which where the user is


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
    write_records(records, REQUEST | {"time": when})
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
@pytest.mark.parametrize(
    ("since", "days"),
    [
        *(("1d", 1), ("7d", 7), ("1w", 7), ("4w", 28), ("today", 1), ("yesterday", 2)),
        *(("1m", 30), ("7 D", 7), ("Today", 1)),
    ],
)
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


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param("2020-03-29", "2020-03-29T00:00:00+01:00", id="before the clock goes on"),
        pytest.param("2020-03-30", "2020-03-30T00:00:00+02:00", id="after that"),
        pytest.param("2020-10-25", "2020-10-25T00:00:00+02:00", id="before the clock goes back"),
        pytest.param("2020-10-26", "2020-10-26T00:00:00+01:00", id="after that, too"),
    ],
)
def test_a_date_is_midnight_in_summer_and_in_winter(
    capsys: pytest.CaptureFixture[str], set_zone: SetZone, since: str, expected: str
) -> None:
    set_zone("Europe/Paris")
    assert expected == read_json(capsys, "--since", since)["since"]


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
    write_records(records, *(REQUEST | {"time": each} for each in times))
    assert 1 == read_json(capsys, "--since", "2020-03-04")["total"]["requests"]
    assert 2 == read_json(capsys, "--since", "2020-03-03")["total"]["requests"]


@pytest.mark.parametrize(
    "since",
    ["", "0h", "0d", "7", "d", "-7d", "7s", "1e3d", "999999999w", "2020-02-30", "soon"],
)
def test_what_is_no_time_is_refused(capsys: pytest.CaptureFixture[str], since: str) -> None:
    assert 2 == main(["status", f"--since={since}"])
    assert f"as 12h, 7d, 4w, 3m, 1y, or {date.today()}: {since}" in capsys.readouterr().err


def test_the_future_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["status", "--since", "9999-12-30"])
    assert "that is in the future: 9999-12-30" in capsys.readouterr().err


# Where it finds records, what it passes over, and what it says of none


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
            ["--tag", "x", "--host", "h"],
            "No such request since then has that tag and that host. "
            "The latest of any tag and host is of 2020-03-04.",
            id="nothing with that tag at that host",
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


# What was held out

OUT = {"masking": "observed", "group": "holdout"}


def talk(name: str, requests: int, **fields: object) -> Iterator[dict[str, object]]:
    """Yield the requests of a conversation; each costs a dollar masked, and two unmasked."""
    for number in range(requests):
        told = {"conversation_id": name, "tool_turns": number, "status": 200, "purpose": "answer"}
        yield {**told, "masked": 2, **bill(2.0, 1.0, 0.1), **fields}


def test_status_counts_rereads_of_what_was_masked_and_of_what_would_have_been(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *talk("a", 3, rereads=1), *talk("c", 1, rereads=1, **OUT))
    assert [
        "3 calls repeated one whose result was masked",
        "1 call repeated one whose result would have been masked",
    ] == describe(status(capsys))["Re-reads"]
    (cost,) = describe(status(capsys))["Input"]
    assert "(50% ±5); -50% if each of the 3 calls that asked again cost one more request" in cost
    total = read_json(capsys)["total"]
    assert (3, 1) == (total["rereads"], total["observed_as_if_masked"]["rereads"])


def group(
    name: str, conversations: int, turns: int, **fields: object
) -> Iterator[dict[str, object]]:
    """Yield conversations of about so many requests."""
    for number in range(conversations):
        yield from talk(f"{name}{number}", turns + number % 3, **fields)


def test_status_gives_the_verdict_on_harm(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    requests = [*group("m", 12, 30), *group("h", 11, 20, **OUT), *talk("short", 1, masked=0)]
    write_records(records, *requests)
    assert [
        "masked conversations took 48% more requests (38% to 59%)",
        "requests: 31.0 masked, 20.9 held out: +48% (+38% to +59%), more than chance",
        "32 requests or more: 33.3% masked, 0.0% held out: too few to tell",
        "refused requests: 0.00 masked, 0.00 held out",
        "failed requests: 0.00 masked, 0.00 held out",
        "re-reads: 0.00 masked, 0.00 held out",
        "cost in dollars: $31.00 masked, $41.82 held out",
        NOTE,
        "not compared: 1 with nothing to mask",
    ] == describe(status(capsys))["Harm"]
    found = read_json(capsys)["harm"]
    assert ("harm", 12, 11) == (
        *(found["verdict"], found["masked_conversations"], found["held_out_conversations"]),
    )
    assert found["logarithm_of_requests"]["is_more_than_chance"]


def test_status_says_that_the_conversations_are_too_few(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *talk("a", 3), *talk("c", 6, **OUT))
    assert [
        "cannot tell yet: 1 held-out conversation compared so far; it takes about 210 to see "
        "requests rise by half"
    ] == describe(status(capsys))["Harm"]
    assert read_json(capsys)["harm"]["longest"]["is_more_than_chance"] is None


def test_status_says_nothing_where_none_is_held_out(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *talk("a", 3))
    assert "Harm" not in describe(status(capsys))
    assert read_json(capsys)["harm"] is None


def test_a_record_of_an_observed_request_as_it_was_sent_and_as_if_it_were_masked() -> None:
    fields = {"masked": 3, "kept": {"held": 1}, "tool_results": 4, "boundary_moved": True,
              "request_tokens_before": 9, "request_tokens_after": 4,
              "first_chunk_seconds": 0.5}  # fmt: skip
    observed = record(**talk("a", 1, **fields).__next__() | OUT)
    sent, masked = as_sent(observed), as_masked(observed)
    assert (0, {}, 9, 2.0, 0.0, False, 0.5) == (
        *(sent.masked, sent.kept, sent.request_tokens_after, sent.cost_tokens_after),
        *(sent.saved_tokens_error, sent.boundary_moved, sent.first_chunk_seconds),
    )
    assert ("on", 3, 4, 1.0, None) == (
        *(masked.masking, masked.masked, masked.request_tokens_after, masked.cost_tokens_after),
        masked.first_chunk_seconds,
    )
    assert as_sent(record()).masked is None


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"user": 20, "results": 80}),
        ({"request_tokens_before": 20}, {"user": 20}),
        ({"dropped_messages": 3}, None),
        ({"composition": None}, None),
        ({"request_tokens_before": None}, None),
    ],
    ids=["whole results", "no result", "a reduction", "no parts", "no tokens"],
)
def test_what_the_prompt_was_composed_of_when_it_left(
    fields: Mapping[str, object], expected: Mapping[str, int] | None
) -> None:
    parts = {"user": 20, "placeholders": 10}
    told = {"masking": "observed", "request_tokens_before": 100, "composition": parts}
    assert expected == as_sent(record(**{**told, **fields})).composition


# For other programs: JSON, JSON lines, and CSV that is safe to open


def test_json_has_all_that_was_reckoned(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    write_records(records, REQUEST | bill(3, 2, 0.5, tag="t"), REQUEST | {"status": 500})
    told = read_json(capsys)
    (group,) = told.pop("groups")
    total = told.pop("total")
    assert {"key": "2020-03-04", **total} == group
    assert told == {
        "records": str(records), "since": "2020-01-01T00:00:00+00:00", "time_zone": "UTC",
        "filters": {}, "replayed": False, "requests_left_out": 0, "harm": None, "by": "day",
        "quota": [],
    }  # fmt: skip
    money = {
        "requests": 1, "before": 3.0, "after": 2.0, "saved": 1.0, "saved_error": 0.5,
        "saved_share": 1 / 3, "saved_share_error": 0.5 / 3, "saved_at_arrival": 0.0,
        "saved_at_arrival_error": 0.0, "calls_that_asked_again": 0,
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
    (sent,) = (RequestRecord.model_validate_json(each) for each in status(capsys, "--jsonl"))
    expected = RequestRecord.model_validate({**LEAST, **REQUEST})
    assert expected.model_copy(update=named) == sent
    (replayed,) = status(capsys, "--jsonl", "--replayed")
    assert expected.model_copy(update={"replay": True}) == RequestRecord.model_validate_json(
        replayed
    )
    assert [2, 2] == [len(status(capsys, "--csv", *more)) for more in ((), ("--replayed",))]


def read_csv(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    assert main(["status", "--since", "2020-01-01", "--csv"]) == 0
    return [*csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))]


def test_csv_has_a_column_for_each_field(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    fields = {"kept": {"error": 1}, "cost_tokens_after": -5.5, "stream": True}
    texts = {"price_entry": ["openai", "a, b"], "tag": 'say "hi"\nthere'}
    write_records(records, REQUEST | fields | texts)
    (row,) = read_csv(capsys)
    assert list(RequestRecord.model_fields) == list(row)
    assert ('{"error": 1}', "-5.5", "true", "") == (
        row["kept"],
        row["cost_tokens_after"],
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
def test_no_cell_of_a_csv_is_a_formula(
    capsys: pytest.CaptureFixture[str], records: Path, start: str
) -> None:
    formulas = dict.fromkeys(("model", "tag", "host", "client"), f"{start}cmd|' /C calc'!A0")
    write_records(records, REQUEST | formulas)
    (row,) = read_csv(capsys)
    expected = {f"'{start}cmd|' /C calc'!A0".replace("\r", "\n")}
    assert expected == {row[field] for field in formulas}


def test_what_arrival_saved_is_shown_beside_what_masking_saved(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = {
        "shortened": 2, "left_out_tokens": 70, "arrival_saved_tokens": 3.0,
        "arrival_saved_tokens_error": 0.5, "arrival_saved_dollars": 3.0,
        "arrival_rereads": 1, "arrival_quotes": 2,
        "long_kept": {"file": 1},
    }  # fmt: skip
    write_records(records, {**REQUEST, **bill(9, 5, 0.8), **short})
    rows = describe(status(capsys))
    assert [
        "cost $5.00, without masking $9.00: saved $4.00 (44% ±9); -256% if each of the 3 calls "
        "that asked again cost one more request",
        "of that at arrival $3.00 ±0.50, by masking $1.00 ±0.30",
        "long results sent shortened 2 times",
    ] == rows["Input"]
    assert [
        "1 call repeated one whose result was shortened",
        "2 calls quoted what was left out at arrival",
    ] == rows["Re-reads"]
    total = read_json(capsys)["total"]
    arrival, money = total["arrival"], total["cost_in_dollars"]
    assert (2, 70, 1, 2) == tuple(
        arrival[name] for name in ("shortened_results", "left_out_tokens", "rereads", "quotes")
    )
    assert (3.0, 0.5) == (money["saved_at_arrival"], money["saved_at_arrival_error"])
    assert 3 == money["calls_that_asked_again"]
    assert {"file": 1} == arrival["kept_long_results_by_reason"]

    write_records(records, {**REQUEST, **bill(9, 5, 0.8)})
    assert 1 == len(describe(status(capsys))["Input"])
    assert read_json(capsys)["total"]["arrival"] is None
