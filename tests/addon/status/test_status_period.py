"""`obsmask status`: from when on it counts, and which day is which where the user is."""

from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from addon.commands.main import main
from tests.made_up_records import (
    REQUEST,
    SetZone,
    read_json,
    status,
    write_records,
)


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
    ("since", "days"), [("1d", 1), ("7d", 7), ("1w", 7), ("4w", 28), ("today", 1), ("yesterday", 2)]
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
    ["", "0h", "0d", "7", "d", "7 d", "-7d", "7m", "1e3d", "999999999w", "2020-02-30", "soon"],
)
def test_what_is_no_time_is_refused(capsys: pytest.CaptureFixture[str], since: str) -> None:
    assert 2 == main(["status", f"--since={since}"])
    assert f"as 12h, 7d, 4w or {date.today()}: {since}" in capsys.readouterr().err


def test_the_future_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["status", "--since", "9999-12-30"])
    assert "that is yet to come: 9999-12-30" in capsys.readouterr().err
