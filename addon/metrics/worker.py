"""A thread of its own, so that counting and writing never delay the traffic, nor the stop."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

logger = logging.getLogger("observation_masking")

_Result = TypeVar("_Result")


class Worker:
    """Does jobs one after the other; a job that fails is a warning.

    A job that never ends, as on a file system that does not answer, keeps no process from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, job: Callable[[], _Result]) -> "Future[_Result | None]":
        """Do a job soon. Its result is None if it fails, or if the worker is closed."""
        future: Future[_Result | None] = Future()
        with self._lock:
            if not self._is_closed:
                self._thread = self._thread or self._start()
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
        if self._thread is None:
            return True
        self._jobs.put(None)
        self._thread.join(seconds)
        if not self._thread.is_alive():
            return True
        with self._lock:  # nobody else empties the queue meanwhile
            _empty(self._jobs)
            self._jobs.put(None)
        return False

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        thread.start()
        return thread

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # and with it what it holds, before the next one comes


def _do(job: Callable[[], _Result], future: "Future[_Result | None]") -> None:
    if future.set_running_or_notify_cancel():
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
