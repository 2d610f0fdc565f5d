"""The processes among which replays are divided; none outlives the work it was started for."""

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.context import SpawnContext, SpawnProcess


@contextmanager
def open_processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes, by default one for each core.

    They are spawned: a fork would copy the parent's locks, and its other threads (a progress
    bar's) may hold some of them. If the block is left by an exception, such as Ctrl-C, nobody
    waits for their work.
    """
    executor = ProcessPoolExecutor(count, mp_context=_Context())
    try:
        yield executor
    except BaseException:
        for worker in [each for each in active_children() if isinstance(each, _Worker)]:
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


class _Worker(SpawnProcess):
    """Leaves Ctrl-C, which a terminal sends to all processes of a job, to the first of them."""

    def start(self) -> None:
        """Start with the signal blocked, which a child inherits; a handler would come too late."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(SpawnContext):
    Process = _Worker
