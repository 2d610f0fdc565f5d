"""Processes that replays are shared out among: they end with the work."""

import os
import signal
import struct
import sys
import threading
from functools import partial
from multiprocessing import Pipe, active_children
from pathlib import Path
from queue import SimpleQueue
from time import sleep

import pytest

from addon.commands import processes
from addon.commands.processes import end_with_parent, open_processes, serve


def test_it_gives_processes_that_ctrl_c_does_not_reach() -> None:
    with open_processes(1) as executor:
        worker = executor.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert worker == executor.submit(os.getpid).result()
    assert worker not in {process.pid for process in active_children()}


def test_to_start_one_leaves_ctrl_c_as_it_was() -> None:
    workers = processes._Workers()
    workers.start()
    workers.kill()
    workers.close()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_they_do_not_outlive_an_interruption() -> None:
    threads = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), open_processes(2) as executor:  # noqa: PT012
        worker = executor.submit(os.getpid).result()
        waiting = [executor.submit(sleep, 1e6) for _ in range(3)]
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert set(threading.enumerate()) <= threads
    assert all(future.done() for future in waiting)


def test_an_interruption_waits_for_no_task_that_is_on_its_way() -> None:
    with pytest.raises(KeyboardInterrupt), open_processes(1) as executor:  # noqa: PT012
        os.kill(executor.submit(os.getpid).result(), signal.SIGSTOP)
        executor.submit(len, bytes(10_000_000))
        raise KeyboardInterrupt


def test_no_process_is_started_after_an_interruption() -> None:
    workers = processes._Workers()
    workers.kill()
    with pytest.raises(ChildProcessError, match="after an interruption"):
        workers.start()


def test_what_ended_a_process_is_told() -> None:
    with open_processes(1) as executor, pytest.raises(ChildProcessError, match="by SIGKILL"):
        executor.submit(signal.raise_signal, signal.SIGKILL).result()
    with open_processes(1) as executor, pytest.raises(ChildProcessError, match="ended: 3"):
        executor.submit(os._exit, 3).result()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for what a process has open")
def test_nobody_waits_for_the_rest_of_a_result() -> None:
    with open_processes(1) as executor, pytest.raises(ChildProcessError, match="by SIGKILL"):
        executor.submit(end_amid_a_result).result()


def end_amid_a_result() -> None:
    """Give back the length of a result and its first bytes, and be killed."""
    for opened in Path("/proc/self/fd").iterdir():
        if opened.is_socket():
            os.write(int(opened.name), struct.pack("!i", 100) + b"and so")
    signal.raise_signal(signal.SIGKILL)


def test_tasks_are_served_until_their_pipe_ends() -> None:
    ours, theirs = Pipe()
    server = threading.Thread(target=serve, args=(theirs,))
    server.start()
    with ours:
        ours.send(partial(int, "10"))
        assert (10, None) == ours.recv()
        ours.send(partial(int, "ten"))
        assert isinstance(ours.recv()[1], ValueError)
    server.join()


def test_a_mistake_is_raised_with_its_place() -> None:
    with open_processes(1) as executor:
        with pytest.raises(ValueError, match="invalid literal") as raised:
            executor.submit(int, "ten").result()
        assert "Traceback" in "".join(raised.value.__notes__)
        assert 10 == executor.submit(int, "10").result()


def test_a_process_ends_with_the_one_that_spawned_it(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = SimpleQueue[int]()
    with open_processes(1) as executor:
        executor.submit(int).result()
        (parent,) = active_children()
        monkeypatch.setattr(processes, "parent_process", lambda: parent)
        end_with_parent(codes.put)
    assert 1 == codes.get()
