"""Lines of other threads are logged in the thread of the event loop."""

import asyncio
import logging
import threading

import pytest

from addon.threads import LoopLog


def read_log(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int | None]]:
    return [(record.message, record.thread) for record in caplog.records]


def test_a_line_of_another_thread_is_logged_by_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        log = LoopLog()
        log.start()
        for line in ("one", "two"):
            await asyncio.to_thread(log.log, logging.INFO, line)
        await asyncio.sleep(0)

    asyncio.run(run())
    here = threading.get_ident()
    assert [("one", here), ("two", here)] == read_log(caplog)


def test_what_the_loop_had_no_time_for_is_flushed(caplog: pytest.LogCaptureFixture) -> None:
    async def open_log() -> LoopLog:
        log = LoopLog()
        log.start()
        return log

    log = asyncio.run(open_log())
    log.log(logging.WARNING, "late")
    assert [] == read_log(caplog)
    log.flush()
    assert ["late"] == [line for line, _ in read_log(caplog)]


def test_without_a_loop_a_line_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    log = LoopLog()
    log.start()
    log.log(logging.WARNING, "now")
    assert ["now"] == [line for line, _ in read_log(caplog)]
