"""Processes that replays are shared out among: they end with the work."""

import os
import signal
from multiprocessing import active_children
from time import sleep

import pytest

from masking.replay.processes import open_processes


def test_it_gives_processes_that_ctrl_c_does_not_reach() -> None:
    with open_processes(1) as executor:
        worker = executor.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert worker == executor.submit(os.getpid).result()
    assert worker not in {process.pid for process in active_children()}


def test_they_do_not_outlive_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), open_processes(1) as executor:  # noqa: PT012
        worker = executor.submit(os.getpid).result()
        executor.submit(sleep, 1e6)
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
