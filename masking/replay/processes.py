"""The processes among which replays are divided; none outlives the work it was started for."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import cast


@contextmanager
def open_processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes, by default one for each core.

    They are spawned: a fork would copy the parent's locks, and its other threads (a progress
    bar's) may hold some of them. If the block is left by an exception, such as Ctrl-C, nobody
    waits for their work.
    """
    executor = ProcessPoolExecutor(count, mp_context=_Context(), initializer=end_with_parent)
    try:
        with hold_back_ctrl_c():  # a pool that is half started cannot be ended
            executor.submit(int)
        yield executor
    except BaseException:
        for worker in [each for each in active_children() if isinstance(each, _Worker)]:
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def end_with_parent(end: Callable[[int], object] = os._exit) -> None:
    """End this process as soon as the one that spawned it has ended.

    That one ends it by itself, unless it was killed. The pool would then wait for work for good.
    """
    parent = cast(BaseProcess, parent_process())

    def wait() -> None:
        parent.join()
        end(1)

    threading.Thread(target=wait, daemon=True).start()


class _Worker(SpawnProcess):
    """Leaves Ctrl-C, which a terminal sends to all processes of a job, to the first of them."""

    def start(self) -> None:
        """Start with the signal blocked, which a child inherits; a handler would come too late.

        Another thread may take the signal meanwhile. It then waits until the child has all that it
        needs to start, and to be ended.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with hold_back_ctrl_c():
                super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def hold_back_ctrl_c() -> Iterator[None]:
    """Raise what Ctrl-C raises after the block; only the main thread is ever interrupted by it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if pressed:
            signal.raise_signal(signal.SIGINT)


class _Context(SpawnContext):
    Process = _Worker
