"""Threads of our own, so that work never delays other traffic, nor the stop."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

logger = logging.getLogger("observation_masking")

_Result = TypeVar("_Result")


class Worker:
    """Does jobs one after the other, or in so many threads; a job that fails is a warning.

    A job that never ends, as on a file system that does not answer, keeps no process from ending.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name, self._count = name, threads
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(
        self, job: Callable[[], _Result], *, can_be_cancelled: bool = True
    ) -> "Future[_Result | None]":
        """Do a job soon. Its result is None if it fails, or if the worker is closed.

        A job that waits is not begun once its future is cancelled, unless that cannot be.
        """
        future: Future[_Result | None] = Future()
        if not can_be_cancelled:
            future.set_running_or_notify_cancel()
        with self._lock:
            if not self._is_closed:
                self._threads = self._threads or self._start()
                self._jobs.put(lambda: _do(job, future))
                return future
        future.set_result(None)  # the proxy is ending
        return future

    def close(self, seconds: float | None = None) -> bool:
        """Wait for all pending jobs, at most so long; return whether all of them are done.

        Those that are not begun by then never are.
        """
        with self._lock:
            self._is_closed = True
        end = None if seconds is None else time.monotonic() + seconds
        self._end_threads()
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            return True
        _empty(self._jobs)
        self._end_threads()
        return False

    def _start(self) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._work, name=self._name, daemon=True)
            for _ in range(self._count)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _end_threads(self) -> None:
        """Have each thread end after the job that it is at."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # and with it what it holds, before the next one comes


def _do(job: Callable[[], _Result], future: "Future[_Result | None]") -> None:
    if future.running() or future.set_running_or_notify_cancel():
        future.set_result(guard(job))


def guard(job: Callable[[], _Result]) -> _Result | None:
    """Do a job. A failure is a warning, without its message, which may quote content."""
    try:
        return job()
    except Exception as error:  # noqa: BLE001 - a record that fails must not fail the next one
        logger.warning(f"something was not recorded: {type(error).__name__}")
        return None


def _empty(queue: "SimpleQueue[Callable[[], object] | None]") -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return
