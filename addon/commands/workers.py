"""Where sessions are worked on: here, in processes of one's own, or on a cluster."""

import importlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple, ParamSpec, TypeVar

from addon.commands.processes import open_processes

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class Workers(NamedTuple):
    """Where tasks run, and how many at a time; `are_here` if that is this very thread."""

    executor: Executor
    width: int
    are_here: bool = False


@contextmanager
def open_workers(scheduler: str | None = None, processes: int | None = None) -> Iterator[Workers]:
    """Give so many processes, by default one for each core, or a Dask cluster at this address.

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


def _import_dask() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ValueError("--scheduler needs Dask: pip install 'distributed>=2024.2'") from None
