"""Logs in the thread of the event loop, whichever thread a line comes from.

mitmproxy prints its own lines there, and prints a text and its line end separately: lines logged
by another thread would run into them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from queue import Empty, SimpleQueue

logger = logging.getLogger("observation_masking")


class LoopLog:
    """Takes lines from any thread; without an event loop it logs them at once."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """From now on, log in the thread of the event loop that is running here, if any."""
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def log(self, level: int, line: str) -> None:
        """Log a line as soon as the event loop has time for it."""
        self._lines.put((level, line))
        if self._loop is None:
            self.flush()
        else:
            with contextlib.suppress(RuntimeError):  # closed: what is left is flushed
                self._loop.call_soon_threadsafe(self.flush)

    def warn(self, lines: Iterable[str]) -> None:
        """Log some lines as warnings."""
        for line in lines:
            self.log(logging.WARNING, line)

    def flush(self) -> None:
        """Log the waiting lines, in order. To be called in the thread of the loop."""
        with contextlib.suppress(Empty):
            while True:
                logger.log(*self._lines.get_nowait())
