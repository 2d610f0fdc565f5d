"""From when on `obsmask status` counts, and on which day a request was, in the user's time zone."""

import re
from datetime import UTC, date, datetime, time, timedelta

import click

_SPAN = re.compile(r"(\d{1,9})([hdw])")
_DAYS = {"d": 1, "w": 7}
_NAMED = {"today": 0, "yesterday": 1}


def read_since(text: str) -> datetime:
    """Return the time that `today`, `12h`, `7d`, `4w` or a date means, in the user's time zone.

    Days and weeks begin at midnight, so that `1d` is today. Raises click.BadParameter.
    """
    now = datetime.now().astimezone()
    try:
        since = _find_start(text, now)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"expected hours, days, weeks or a date, as 12h, 7d, 4w or {now:%Y-%m-%d}: {text}"
        ) from None
    if since > now:
        raise click.BadParameter(f"that is yet to come: {text}")
    return since


def _find_start(text: str, now: datetime) -> datetime:
    if text in _NAMED:
        return _begin(now.date() - timedelta(days=_NAMED[text]))
    span = _SPAN.fullmatch(text)
    if span is None:
        return _begin(date.fromisoformat(text))
    count, unit = int(span[1]), span[2]
    if count == 0:
        raise ValueError
    if unit == "h":
        return now - timedelta(hours=count)
    return _begin(now.date() - timedelta(days=count * _DAYS[unit] - 1))


def _begin(day: date) -> datetime:
    """Return the midnight with which a day begins where the user is."""
    return datetime.combine(day, time()).astimezone()


def find_local_time(recorded: str) -> datetime | None:
    """Return the time of a record where the user is; None if it is none."""
    try:
        found = datetime.fromisoformat(recorded)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone()
    except (ValueError, OverflowError):
        return None


def find_day(recorded: str) -> date | None:
    """Return the day of a record where the user is; None if its time is none."""
    found = find_local_time(recorded)
    return None if found is None else found.date()


def name_zone(when: datetime) -> str:
    """Return the user's time zone at a time: `CET, UTC+01:00`, or `UTC`."""
    offset = when.strftime("%z")
    return "UTC" if when.tzname() == "UTC" else f"{when.tzname()}, UTC{offset[:3]}:{offset[3:5]}"
