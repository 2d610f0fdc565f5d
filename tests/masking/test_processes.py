"""Processes that replays are shared out among: they end with the work."""

import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import active_children
from queue import SimpleQueue
from time import sleep

import pytest

from masking.replay import processes
from masking.replay.processes import end_with_parent, hold_back_ctrl_c, open_processes


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


def test_a_process_ends_with_the_one_that_spawned_it(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = SimpleQueue[int]()
    with open_processes(1) as executor:
        executor.submit(int).result()
        (parent,) = active_children()
        monkeypatch.setattr(processes, "parent_process", lambda: parent)
        end_with_parent(codes.put)
    assert 1 == codes.get()


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Undo what a shell does to the jobs in its background, which ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_waits_until_a_process_has_all_that_it_needs() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), hold_back_ctrl_c():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached


def test_another_thread_is_not_interrupted_and_holds_nothing_back() -> None:
    held: list[object] = []

    def work() -> None:
        with hold_back_ctrl_c():
            held.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [signal.getsignal(signal.SIGINT)] == held
