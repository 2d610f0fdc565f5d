"""The processes among which replays are shared out."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def open_processes(count: int | None = None) -> ProcessPoolExecutor:
    """Return a pool of so many processes, by default one for each core; for use with `with`.

    They are spawned. A fork would copy the parent's locks as they stand, and its other threads
    (a progress bar's) may hold some of them.
    """
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))
