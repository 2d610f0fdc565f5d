"""How far work on sessions has come, as a bar in a terminal; elsewhere nothing is shown."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_BAR = 8
_PERIOD = 600.0
"""The seconds over which speed is averaged: one session may take minutes."""


class WorkProgress:
    """A bar by the bytes of the sessions, and beside it what is done, how fast, and what is left.

    What was done by an earlier run is counted, but is no part of the bar and the speed.
    """

    def __init__(self, progress: Progress, title: str, size: int) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=size, done="")
        self._left = size
        self._sessions = self._requests = self._own_requests = self._seen = 0
        self._began = time.monotonic()

    def note(self, size: int, requests: int | None) -> None:
        """Count work that is done now: on a session of so many requests; None if there is more."""
        self._own_requests += requests or 0
        self._count(requests)
        self._progress.update(self._task, advance=size)

    def see(self, number: int) -> None:
        """Show which request of a session it is the turn of: a session may take many minutes."""
        self._seen = number
        self._show()

    def note_known(self, size: int, requests: int | None) -> None:
        """Count work that an earlier run has done."""
        self._left -= size
        self._count(requests)
        self._progress.update(self._task, total=self._left)

    def finish(self) -> None:
        """Fill the bar: how much of a file each session takes is an estimate."""
        self._progress.update(self._task, completed=self._left, total=self._left)

    def _count(self, requests: int | None) -> None:
        if requests is None:
            return
        self._sessions += 1
        self._requests += requests
        self._seen = 0
        self._show()

    def _show(self) -> None:
        own, every = self._own_requests + self._seen, self._requests + self._seen
        rate = own / max(time.monotonic() - self._began, 1e-9)
        done = f"{self._sessions:,} sessions, {every:,} requests, {rate:,.0f}/s"
        self._progress.update(self._task, done=done)


@contextmanager
def show_progress(console: Console, title: str, size: int) -> Iterator[WorkProgress]:
    """Show a bar for so many bytes of sessions while the block runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(_BAR),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    off = not console.is_terminal
    with Progress(
        *columns, console=console, disable=off, speed_estimate_period=_PERIOD
    ) as progress:
        yield WorkProgress(progress, title, size)
