"""Tasks that run elsewhere, with their results in the order of the tasks.

Few tasks are on their way at a time, so that any number of them takes bounded memory: a task may
hold a whole conversation. Results that wait for an earlier one are bounded, too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import TypeVar

_PER_WORKER = 4
"""Tasks on their way for each that runs at a time: the next is there before one is done."""

_WAITING = 256
"""Results that may wait for an earlier one. Beyond that no task is begun."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def run_in_order(
    submit: Callable[[_Task], "Future[_Result]"],
    tasks: Iterable[_Task],
    width: int,
    on_done: Callable[[_Task, _Result], None],
) -> Iterator[_Result]:
    """Yield the results of tasks in order; `width` tells how many run at a time.

    `on_done` is called with a task and its result as soon as it is done, in this thread. Raises
    what a task raises, and cancels those that have not begun.
    """
    left = iter(tasks)
    running: dict[Future[_Result], _Task] = {}
    results: deque[Future[_Result]] = deque()
    try:
        while True:
            room = min(_PER_WORKER * width - len(running), _WAITING - len(results))
            for task in islice(left, max(0, room)):
                future = submit(task)
                running[future] = task
                results.append(future)
                if future.done():  # it ran here; hand it on before the next
                    break
            if not results:
                return
            done = wait(running, return_when=FIRST_COMPLETED).done
            for future in [each for each in running if each in done]:
                on_done(running.pop(future), future.result())
            while results and results[0] not in running:
                yield results.popleft().result()
    finally:
        for future in running:
            future.cancel()
