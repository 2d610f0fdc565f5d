"""The threads in which requests and answers are worked on: few, and one alone for what is large.

Such work is Python, of which one thread runs at a time: more threads would end none of it sooner,
and have the event loop, with all other traffic, wait longer for its turn. Who comes too late waits.
A request is never sent whole because of that, which would break its cached prefix. The threads are
not asyncio's own, because those also resolve names.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import TypeVar

from addon.metrics.large_work import LARGE_BYTES, Wait, large_work
from addon.metrics.worker import Worker

_THREADS = 2

_SWITCH_SECONDS = 0.0005
"""How long the event loop waits for each of its turns while a body is worked on; an exchange takes
many. Python has it wait ten times as long."""

_Result = TypeVar("_Result")


def share_interpreter() -> None:
    """Have the threads of this process take turns more often than Python has them do.

    What is loaded by now stays, so the collector, which stops all of them, is spared it.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()


class Pool:
    """Threads for a run; they start with their first work."""

    def __init__(self) -> None:
        self._small, self._large = Worker("mask", _THREADS), Worker("mask large")

    async def run(self, size: int, work: Callable[[], _Result]) -> _Result | None:
        """Return what work on so many bytes comes to; None if it fails, or if the run has ended."""
        if size < LARGE_BYTES:
            return await asyncio.wrap_future(self._small.submit(work))
        wait = Wait()

        def job() -> _Result:
            with large_work(size, is_last=False):
                wait.end()
                return work()

        try:
            return await asyncio.wrap_future(self._large.submit(job))
        finally:
            wait.end()  # it may never have had its turn

    def close(self) -> None:
        """Begin no further work, and wait for none."""
        self._small.close(0.0)
        self._large.close(0.0)
