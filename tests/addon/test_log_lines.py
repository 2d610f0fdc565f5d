"""mitmproxy's log lines go to addons that take them, and streamed answers need no line."""

import asyncio
import logging

import pytest
from mitmproxy.log import LegacyLogEvents, LogEntry
from mitmproxy.test import taddons

from addon.proxy.log_lines import leave_out_unread


class Taking:
    """An addon that takes log lines as before mitmproxy 9."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def add_log(self, entry: LogEntry) -> None:
        self.taken.append(entry.msg)


async def log_lines(*addons: object) -> None:
    """Log two lines while a mitmproxy with these addons runs, and let its loop go round."""
    with taddons.context() as context:
        leave_out_unread(context.master.addons)
        context.master.addons.add(*addons)  # later, as a script that is edited
        server = logging.getLogger("mitmproxy.proxy.server")
        server.warning("Streaming response from example.test.")
        server.warning("client connect")
        await asyncio.sleep(0)


def test_an_addon_that_is_loaded_later_takes_every_line_that_says_something() -> None:
    taking = Taking()
    asyncio.run(log_lines(taking))
    (line,) = taking.taken
    assert line.endswith("client connect")


def test_without_such_an_addon_a_line_is_not_made_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[logging.LogRecord] = []
    monkeypatch.setattr(LegacyLogEvents, "emit", lambda _, record: made.append(record))
    asyncio.run(log_lines())
    assert [] == made
    asyncio.run(log_lines(Taking()))
    assert ["client connect"] == [record.getMessage() for record in made]


def test_loading_the_script_again_adds_no_filter() -> None:
    async def count_filters() -> list[int]:
        with taddons.context() as context:
            handlers = [
                each for each in logging.getLogger().handlers if isinstance(each, LegacyLogEvents)
            ]
            counts = []
            for _ in range(3):
                leave_out_unread(context.master.addons)
                counts.append(sum(len(handler.filters) for handler in handlers))
            return counts

    first, *later = asyncio.run(count_filters())
    assert [first, first] == later


def test_that_an_answer_is_streamed_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(log_lines())
    assert ["client connect"] == [record.getMessage() for record in caplog.records]
