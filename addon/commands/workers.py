"""Where work is done: in this process, in processes of its own, or on a Dask cluster."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import Array, c_longlong
from multiprocessing import (
    active_children,
    current_process,
    get_context,
    parent_process,
    resource_tracker,
)
from types import ModuleType
from typing import NamedTuple, ParamSpec, TypeVar

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class Workers(NamedTuple):
    """Where tasks run, and how many at a time."""

    executor: Executor
    width: int


@contextmanager
def open_workers(scheduler: str | None = None, processes: int | None = None) -> Iterator[Workers]:
    """Yield so many processes, by default one for each core, or a Dask cluster at this address.

    One process is this one. Raises ValueError if Dask is not installed, OSError if the cluster does
    not answer.
    """
    count = processes or os.cpu_count() or 1
    if scheduler is not None:
        with _import_dask().Client(scheduler) as client, client.get_executor() as executor:
            yield Workers(executor, max(1, sum(client.nthreads().values())))
    elif count == 1:
        yield Workers(_InlineExecutor(), 1)
    else:
        with open_processes(count) as executor:
            yield Workers(executor, count)


def _import_dask() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ValueError("--scheduler needs Dask: pip install 'distributed>=2024.2'") from None


class _InlineExecutor(Executor):
    """Does everything at once, in this process: to start another takes a second or two."""

    def submit(
        self,
        fn: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> "Future[_Result]":
        """Return a future that is done. Raises what the function raises."""
        future: Future[_Result] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


# Processes

_CONTEXT = get_context("spawn")
"""A fork would copy the parent's locks, of which its other threads (a progress bar's) may hold
some."""

_MOST = 61
"""Windows waits for no more."""


@contextmanager
def open_processes(count: int | None = None) -> Iterator[Executor]:
    """Yield an executor with so many processes, by default one for each core.

    If the block is left by an exception, such as Ctrl-C, they are ended, and nobody waits for their
    work. Raises ChildProcessError if one of them was ended from outside.
    """
    others, count = {*active_children()}, min(_MOST, count or os.cpu_count() or 1)
    _reached.requests = _CONTEXT.RawArray(c_longlong, count)
    executor = ProcessPoolExecutor(count, _CONTEXT, _begin, (_reached.requests,))
    try:
        _start(executor, count)
        yield executor
        executor.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise ChildProcessError(
            "a worker process was ended, perhaps because memory ran out: --processes 1 takes less"
        ) from None
    finally:
        for process in {*active_children()} - others:
            process.kill()
        executor.shutdown(cancel_futures=True)


def _start(executor: ProcessPoolExecutor, count: int) -> None:
    """Start all processes, which leave Ctrl-C to us: a terminal sends it to all of a job.

    They inherit which signals are blocked: a handler would come too late. One submission more than
    there are processes makes the executor watch the last one, too.
    """
    resource_tracker.ensure_running()  # it would be started with the first one, and unblock Ctrl-C
    blocked: set[int | signal.Signals] | None = None
    if sys.platform != "win32":
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    for _ in range(count + 1):
        executor.submit(int)
    if blocked is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _begin(requests: Array[c_longlong]) -> None:
    """Begin a worker process: it ends with the one that spawned it, even if that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    number = int(current_process().name.rpartition("-")[2])  # they are numbered one by one
    _reached.requests, _reached.own = requests, number % len(requests)
    parent = parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


# How far the tasks are


class _Reached:
    """Which request it is the turn of, in each process; `own` is the place of this one.

    Each writes at its own place, without a lock, which one that is killed would leave behind.
    """

    def __init__(self) -> None:
        self.requests: Array[c_longlong] = (c_longlong * 1)()
        self.own = 0


_reached = _Reached()


def tell_reached(number: int) -> None:
    """Tell how many requests of its sessions a task has reached; 0 when it is done."""
    _reached.requests[_reached.own] = number


def count_reached() -> int:
    """Return how many requests the tasks under way have reached, but for those on a cluster."""
    return sum(_reached.requests)
