"""A thread of its own, so that counting and writing never delay the traffic."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

logger = logging.getLogger("observation_masking")

_Result = TypeVar("_Result")


class Worker:
    """Does jobs one after the other; a job that fails is a warning."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def submit(self, job: Callable[[], _Result]) -> "Future[_Result | None]":
        """Do a job soon. Its result is None if it fails, or if the worker is closed."""
        try:
            return self._thread.submit(guard, job)
        except RuntimeError:  # closed: the proxy is ending
            missed: Future[_Result | None] = Future()
            missed.set_result(None)
            return missed

    def close(self) -> None:
        """Wait for all pending jobs."""
        self._thread.shutdown(wait=True)


def guard(job: Callable[[], _Result]) -> _Result | None:
    """Do a job. A failure is a warning, without its message, which may quote content."""
    try:
        return job()
    except Exception as error:  # noqa: BLE001 - a record that fails must not fail the next one
        logger.warning(f"something was not recorded: {type(error).__name__}")
        return None
