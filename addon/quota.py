"""What a plan's provider says of its quota: how much of each window is used, and when it resets.

It says so with each answer, in header fields whose names stand with the vendor (`addon.vendors`),
or on a WebSocket, and within some streams, in an event. Nobody is asked for it. The shapes are
those that their clients read: claude-code, and codex (`codex-rs/codex-api/src/rate_limits.rs`).
Each field is read by itself: one that is missing or makes no sense leaves the others standing.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import orjson
from pydantic import Field

from addon.request import Headers, one_line
from addon.vendors import VENDORS

_PATTERNS = tuple(re.compile(each.quota, re.IGNORECASE) for each in VENDORS if each.quota)

_EVENT, _USUAL_FAMILY = "codex.rate_limits", "codex"
_IS_EVENT = re.compile(rb'"type"\s*:\s*"codex\.rate_limits"')
_DATA = re.compile(rb"^data:(.*)$", re.MULTILINE)

_MOST_WINDOWS = 8
"""No plan has more; an answer that says so is not believed."""

_MOST_USED = 10.0
"""Of a window more than all can be used, where a plan lets a user go on; but not ten times it."""

_LONGEST = 366 * 24 * 60
"""Of a window, in minutes; none resets later than after that."""

_HOUR, _DAY, _WEEK = 60, 24 * 60, 7 * 24 * 60

_NAME = re.compile(
    r"(?P<count>\d{1,3})(?P<unit>[hd])(?:[_-](?P<of>.+))?|(?:(?P<family>.+)-)?(?:primary|secondary)"
)
"""`5h`, `7d`, `7d-sonnet`; or `primary`, `NAME-secondary`."""

_LONGEST_NAME = 64

_LEAST_ELAPSED = 0.1
"""The part of a window that must have passed before its pace says anything."""


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """A window of a plan's quota, as an answer told it.

    name: what its provider calls it.
    used: the part of it that is used; more than 1 is possible.
    resets: when it begins anew, in seconds since 1970; None if that is not known.
    minutes: how long it is; None if that is not known.
    """

    name: str
    used: Annotated[float, Field(ge=0, le=_MOST_USED)]
    resets: Annotated[int, Field(ge=0, lt=10**11)] | None = None
    minutes: Annotated[int, Field(ge=1, le=_LONGEST)] | None = None

    @property
    def label(self) -> str:
        """What people call it: `5-hour limit`, `weekly limit`, `weekly limit (sonnet)`."""
        found = _NAME.fullmatch(self.name)
        of = found and (found["of"] or found["family"])
        behind = f" ({of})" if of else ""
        if self.minutes is None:
            return f"{self.name} limit"
        if self.minutes == _WEEK:
            return f"weekly limit{behind}"
        if self.minutes % _DAY == 0:
            return f"{self.minutes // _DAY}-day limit{behind}"
        return f"{max(1, round(self.minutes / _HOUR))}-hour limit{behind}"


class Reading(NamedTuple):
    """A window as it was read at a moment."""

    window: QuotaWindow
    read: datetime

    @property
    def resets(self) -> datetime | None:
        """When the window begins anew; None if that is not known."""
        resets = self.window.resets
        return None if resets is None else datetime.fromtimestamp(resets, UTC)

    def holds(self, now: datetime) -> bool:
        """Whether the window has not begun anew since, as far as is known."""
        length = timedelta(minutes=self.window.minutes or 5 * _HOUR)
        return now < (self.resets or self.read + length)

    @property
    def pace(self) -> float | None:
        """The part of the window that will be used when it resets, if it goes on as until then.

        None if it had only just begun, or if nobody knows when it did.
        """
        if self.resets is None or self.window.minutes is None:
            return None
        length = timedelta(minutes=self.window.minutes)
        elapsed = length - (self.resets - self.read)
        if not _LEAST_ELAPSED * length <= elapsed <= length:
            return None
        return self.window.used * (length / elapsed)

    @property
    def runs_out(self) -> datetime | None:
        """When all of it is used at that pace; None if that is not before it resets."""
        if self.resets is None or self.window.minutes is None or not (self.pace or 0) > 1:
            return None
        begins = self.resets - timedelta(minutes=self.window.minutes)
        return begins + (self.read - begins) / self.window.used


# What an answer says


def read_quota(
    headers: Headers, events: Iterable[bytes], when: datetime
) -> tuple[QuotaWindow, ...]:
    """Return the windows that an answer tells of, each as it told it last; none as a rule.

    events: of its stream, or on its WebSocket; those of other kinds are passed over.
    when: it was received.
    """
    now = when.timestamp()
    told: dict[str, dict[str, object]] = {}
    for name, field, value in (*_find_fields(headers), *_read_events(events)):
        told.setdefault(name, {})[field] = value
    windows = (_read_window(name, fields, now) for name, fields in told.items())
    return tuple([window for window in windows if window is not None][:_MOST_WINDOWS])


def find_events(text: bytes) -> list[bytes]:
    """Return the events that tell of a quota in a stream, or the message that is one."""
    if not _IS_EVENT.search(text):
        return []
    events = [text] if text.lstrip().startswith(b"{") else _DATA.findall(text)
    return [event for event in events if _IS_EVENT.search(event)]


def _find_fields(headers: Headers) -> Iterator[tuple[str, str, object]]:
    """Yield what header fields say: the window, what it is about, and the value."""
    for header in headers:
        for pattern in _PATTERNS:
            if found := pattern.fullmatch(header):
                yield found["window"].lower(), found["field"].lower(), headers[header]


def _read_events(events: Iterable[bytes]) -> Iterator[tuple[str, str, object]]:
    """Yield what events say, in the words of the header fields."""
    for event in events:
        try:
            told = orjson.loads(event)
        except ValueError:
            continue
        limits = told.get("rate_limits") if isinstance(told, dict) else None
        if not isinstance(limits, dict) or told.get("type") != _EVENT:
            continue
        family = told.get("metered_limit_name") or told.get("limit_name")
        is_named = isinstance(family, str) and family.lower() != _USUAL_FAMILY
        for window in ("primary", "secondary"):
            name = f"{family.lower()}-{window}" if is_named else window
            fields = limits.get(window)
            for field, value in fields.items() if isinstance(fields, dict) else ():
                yield name, field.replace("_", "-"), value


def _read_window(name: str, fields: Mapping[str, object], now: float) -> QuotaWindow | None:
    """Return a window; None if nothing says how much of it is used."""
    window = QuotaWindow(one_line(name)[:_LONGEST_NAME], math.nan)
    found = _NAME.fullmatch(name)
    if found and found["count"]:
        minutes = int(found["count"]) * (_HOUR if found["unit"] == "h" else _DAY)
        window = replace(window, minutes=minutes or None)
    for field, value in fields.items():
        if field in _FIELDS and (number := _read_number(value)) is not None:
            window = _FIELDS[field](window, number, now)
    return None if math.isnan(window.used) else window


def _read_number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _use(window: QuotaWindow, used: float) -> QuotaWindow:
    return replace(window, used=used) if 0 <= used <= _MOST_USED else window


def _reset(window: QuotaWindow, resets: float, now: float) -> QuotaWindow:
    return replace(window, resets=round(resets)) if abs(resets - now) <= 60 * _LONGEST else window


def _last(window: QuotaWindow, minutes: float) -> QuotaWindow:
    return replace(window, minutes=round(minutes)) if 1 <= minutes <= _LONGEST else window


_FIELDS: Mapping[str, Callable[[QuotaWindow, float, float], QuotaWindow]] = {
    "utilization": lambda window, value, _: _use(window, value),
    "used-percent": lambda window, value, _: _use(window, value / 100),
    "reset": _reset,
    "reset-at": _reset,
    "reset-after-seconds": lambda window, value, now: _reset(window, now + value, now),
    "window-minutes": lambda window, value, _: _last(window, value),
}
"""What each field says of a window, by the end of its name."""
