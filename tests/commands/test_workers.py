"""The processes among which work is divided end with it, also where it is interrupted."""

import os
import signal
import struct
import subprocess
import sys
import threading
from functools import partial
from multiprocessing import Pipe, active_children
from pathlib import Path
from queue import SimpleQueue
from time import sleep

import pytest

from addon.commands import workers
from addon.commands.main import INTERRUPTED
from addon.commands.workers import end_with_parent, open_processes, serve
from addon.places import shipped
from tests.live.harness import eventually


def test_it_gives_processes_that_ctrl_c_does_not_reach() -> None:
    with open_processes(1) as executor:
        worker = executor.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert worker == executor.submit(os.getpid).result()
    assert worker not in {process.pid for process in active_children()}


def test_to_start_one_leaves_ctrl_c_as_it_was() -> None:
    started = workers._Workers()
    started.start()
    started.kill()
    started.close()
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
    started = workers._Workers()
    started.kill()
    with pytest.raises(ChildProcessError, match="after an interruption"):
        started.start()


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
        monkeypatch.setattr(workers, "parent_process", lambda: parent)
        end_with_parent(codes.put)
    assert 1 == codes.get()


# A command and its processes

LONG = shipped("recordings") / "qwen-code-scratch.flow"


def _heed_ctrl_c() -> None:
    """Undo what a shell does to the jobs in its background, which ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a process's children")
def test_ctrl_c_ends_a_command_and_its_processes_with_one_line() -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "addon.commands.main", "tune", str(LONG)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_heed_ctrl_c,
        text=True,
    )
    workers = eventually(lambda: find_children(started.pid))
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does: all of them
    out, said = started.communicate()
    # On a slow machine there is progress before it.
    lines = [line for line in said.splitlines() if line and "obsmask tune: " not in line]
    assert (INTERRUPTED, "", ["obsmask: interrupted"]) == (started.returncode, out, lines)
    assert [] == [worker for worker in workers if Path(f"/proc/{worker}").exists()]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a process's children")
def test_the_processes_of_a_command_that_is_killed_end_with_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "addon.commands.main", "tune", str(LONG)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as started:
        workers = eventually(lambda: find_children(started.pid))
        started.kill()
    eventually(lambda: None if any(map(is_running, workers)) else True)


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def find_children(parent: int) -> list[int] | None:
    """Return the processes that it has spawned to share out its work, once there are any."""
    lists = Path(f"/proc/{parent}/task").glob("*/children")  # of each of its threads
    listed = [pid for each in lists for pid in each.read_text().split()]
    workers = [pid for pid in listed if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return [int(pid) for pid in workers] or None
