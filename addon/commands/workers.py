"""Where `obsmask tune` runs its tasks: in processes of its own, or on a cluster."""

import importlib
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from masking.replay.processes import open_processes


class Workers(NamedTuple):
    """Where tasks run, and how many at a time."""

    executor: Executor
    width: int


@contextmanager
def open_workers(scheduler: str | None = None) -> Iterator[Workers]:
    """Give a process for each core, or the workers of the Dask cluster at this address.

    Raises ValueError if Dask is not installed, OSError if the cluster does not answer.
    """
    if scheduler is None:
        count = os.cpu_count() or 1
        with open_processes(count) as executor:
            yield Workers(executor, count)
    else:
        with _import_dask().Client(scheduler) as client, client.get_executor() as executor:
            yield Workers(executor, max(1, sum(client.nthreads().values())))


def _import_dask() -> ModuleType:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ValueError("--scheduler needs Dask: pip install 'distributed>=2024.2'") from None
