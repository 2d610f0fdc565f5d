"""Jobs that are done where their outcome is asked for."""

import asyncio
from collections.abc import Callable

import pytest

from addon.metrics.deferred import Deferred


class Log:
    """What happened to a job, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.submitted: list[Callable[[], None]] = []

    def make(self) -> Deferred[int]:
        return Deferred(self._work, self.submitted.append, lambda: self.events.append("released"))

    def _work(self) -> int:
        self.events.append("done")
        return 7


def test_a_job_is_done_once_it_is_asked_for_and_once_only() -> None:
    log = Log()
    deferred = log.make()
    assert [] == log.events
    assert [7, 7] == [deferred.result(), deferred.result()]
    del deferred
    assert ["done", "released"] == log.events


def test_who_waits_by_a_callback_has_it_done_soon() -> None:
    log, told = Log(), list[int | None]()
    deferred = log.make()
    deferred.add_done_callback(lambda done: told.append(done.result()))
    assert ([], []) == (log.events, told)
    (submitted,) = log.submitted
    submitted()
    assert ([7], ["done", "released"]) == (told, log.events)


def test_what_nobody_asks_for_is_never_done_and_is_let_go() -> None:
    log = Log()
    deferred = log.make()
    del deferred
    assert ["released"] == log.events


def test_who_no_longer_waits_for_a_job_does_not_cancel_it() -> None:
    log = Log()
    deferred = log.make()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(asyncio.wrap_future(deferred))
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(give_up())
    assert (7, ["done", "released"]) == (deferred.result(), log.events)


def test_a_job_that_fails_comes_to_nothing(caplog: pytest.LogCaptureFixture) -> None:
    submitted: list[Callable[[], None]] = []
    deferred = Deferred(lambda: 1 // 0, submitted.append, lambda: None)
    assert deferred.result() is None
    assert ["something was not recorded: ZeroDivisionError"] == caplog.messages
