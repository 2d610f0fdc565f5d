"""A job that is done together with the one that asks for its outcome, and not in a turn of its own.

So a request takes one turn of the metrics thread, once its answer has come, and not two.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from addon.metrics.worker import guard

_Result = TypeVar("_Result")


class Deferred(Future[_Result | None], Generic[_Result]):
    """What a job comes to, which is done where its outcome is first asked for.

    Who waits for it by a callback has it done soon, by `submit`. `release` is called once it is
    done, or is never going to be. It cannot be cancelled: the record asks for it although the hook
    that waited for it is cancelled.
    """

    def __init__(
        self,
        job: Callable[[], _Result],
        submit: Callable[[Callable[[], None]], object],
        release: Callable[[], object],
    ) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self._jobs = [job]
        self._submit, self._release = submit, release

    def result(self, timeout: float | None = None) -> _Result | None:
        """Do the job, unless it is done; return its outcome, None if it failed."""
        self._do()
        return super().result(timeout)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call a function once the job is done, and have it done."""
        super().add_done_callback(fn)
        self._submit(self._do)

    def _do(self) -> None:
        try:
            job = self._jobs.pop()  # at once, whichever threads ask
        except IndexError:
            return
        self.set_result(guard(job))
        self._release()

    def __del__(self) -> None:
        if self._jobs:
            self._release()
