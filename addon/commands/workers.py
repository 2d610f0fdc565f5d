"""Where work is done: in this process, in processes of ours, or on a Dask cluster.

Of our own processes none outlives the work that it was started for. A thread stands for each: it
sends a task over a pipe of their own and waits for the result. When a process ends, however it
does, its pipe ends on both sides. So nobody waits for one that was ended, not even for the rest of
a result or of a task, as the parts of `concurrent.futures.ProcessPoolExecutor`, which share two
queues, may do.
"""

import importlib
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import NamedTuple, ParamSpec, TypeVar, cast

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class Workers(NamedTuple):
    """Where tasks run, and how many at a time; `are_here` if that is this very thread."""

    executor: Executor
    width: int
    are_here: bool = False

    def count_seen(self) -> int:
        """Return the sum of what the tasks that run now have reported last."""
        return self.executor.count_seen() if isinstance(self.executor, _ProcessExecutor) else 0


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
        yield Workers(_Here(), 1, are_here=True)
    else:
        with open_processes(count) as executor:
            yield Workers(executor, count)


def _import_dask() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ValueError("--scheduler needs Dask: pip install 'distributed>=2024.2'") from None


class _Here(Executor):
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


@contextmanager
def open_processes(count: int | None = None) -> Iterator[Executor]:
    """Yield an executor with so many processes, by default one for each core.

    They are spawned: a fork would copy the parent's locks, and its other threads (a progress
    bar's) may hold some of them. If the block is left by an exception, such as Ctrl-C, they are
    ended, and nobody waits for their work. A task whose process was ended raises ChildProcessError.
    """
    workers = _Workers()
    executor = _ProcessExecutor(count or os.cpu_count() or 1, workers)
    try:
        yield executor
        executor.shutdown(cancel_futures=True)
    finally:
        workers.kill()
        executor.shutdown(cancel_futures=True)
        workers.close()


_CONTEXT = get_context("spawn")


class _ProcessExecutor(ThreadPoolExecutor):
    """Threads, each of which has its tasks done by a process of its own."""

    def __init__(self, count: int, workers: "_Workers") -> None:
        super().__init__(count)
        self._workers = workers
        self._own = threading.local()
        self._seen: dict[int, int] = {}
        """By thread, what its task has reported last."""

    def count_seen(self) -> int:
        """Return the sum of what the tasks that run now have reported last."""
        return sum(list(self._seen.values()))

    def submit(
        self,
        fn: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> "Future[_Result]":
        """Have a function called in the first process that is free; pickle must know all of it."""
        return super().submit(self._run, partial(fn, *args, **kwargs))

    def _run(self, task: Callable[[], _Result]) -> _Result:
        if not hasattr(self._own, "worker"):
            self._own.worker = self._workers.start()
            self._own.worker.run(end_with_parent)
        thread = threading.get_ident()
        try:
            return cast(_Worker, self._own.worker).run(
                task, lambda number: self._seen.__setitem__(thread, number)
            )
        finally:
            self._seen.pop(thread, None)


class _Worker(NamedTuple):
    """A process, and our end of its pipe."""

    process: BaseProcess
    pipe: Connection

    def run(
        self, task: Callable[[], _Result], see: Callable[[int], object] = lambda _: None
    ) -> _Result:
        """Return what the task returns there, or raise what it raises.

        `see` is called with what it reports meanwhile.
        """
        try:
            self.pipe.send(task)
            while isinstance(received := self.pipe.recv(), int):
                see(received)
            result, error = received
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended: {code}"
            raise ChildProcessError(f"a worker process {how}") from None
        if error is not None:
            raise error
        return cast(_Result, result)


class _Workers:
    """The workers of an executor, whichever thread starts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: list[_Worker] = []
        self._may_start = True

    def start(self) -> _Worker:
        """Start another, which leaves Ctrl-C to us: a terminal sends it to all of a job.

        A child inherits which signals are blocked; a handler would come too late.
        """
        resource_tracker.ensure_running()  # it would be started with the child, and unblock them
        with self._lock:
            if not self._may_start:
                raise ChildProcessError("no worker is started after an interruption")
            ours, theirs = _CONTEXT.Pipe()
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process = _CONTEXT.Process(target=serve, args=(theirs,), daemon=True)
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
                theirs.close()
            worker = _Worker(process, ours)
            self._started.append(worker)
        return worker

    def kill(self) -> None:
        """End all at once, even one that is stopped, and let none be started."""
        with self._lock:
            self._may_start = False
            for worker in self._started:
                worker.process.kill()

    def close(self) -> None:
        """Forget them, once no thread uses them."""
        for worker in self._started:
            worker.pipe.close()
            worker.process.join()


def serve(pipe: Connection) -> None:
    """Do in this process the tasks that come down the pipe, until it ends."""
    _reports.pipe = pipe
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_do(pipe.recv_bytes()))


class _Reports:
    """Where this process reports to, if it is a worker, and when it did so last."""

    pipe: Connection | None = None
    last = 0.0


_reports = _Reports()

_REPORTS_APART = 0.2
"""In seconds."""


def report(number: int) -> None:
    """Tell the process that gave us a task how far we are with it, every now and then."""
    now = time.monotonic()
    if _reports.pipe is not None and now - _reports.last >= _REPORTS_APART:
        _reports.last = now
        _reports.pipe.send(number)


def _do(pickled: bytes) -> bytes:
    """Return the result of a task, or else its error, with where it was raised."""
    try:
        return pickle.dumps((pickle.loads(pickled)(), None))  # noqa: S301
    except Exception as error:  # noqa: BLE001
        error.add_note(traceback.format_exc())
        return pickle.dumps((None, error))


def end_with_parent(end: Callable[[int], object] = os._exit) -> None:
    """End this process as soon as the one that spawned it has ended, if that was killed.

    One that is at work would not see before its next task that the pipe has ended.
    """
    parent = cast(BaseProcess, parent_process())

    def wait() -> None:
        parent.join()
        end(1)

    threading.Thread(target=wait, daemon=True).start()
