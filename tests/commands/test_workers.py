"""The processes among which work is divided end with it, also where it is interrupted."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from time import sleep

import pytest

from addon.commands.main import INTERRUPTED
from addon.commands.workers import open_processes
from addon.places import shipped
from tests.live.harness import eventually


def test_it_gives_processes_that_ctrl_c_does_not_reach() -> None:
    with open_processes(1) as executor:
        worker = executor.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert worker == executor.submit(os.getpid).result()
    assert worker not in {process.pid for process in active_children()}


def test_to_start_one_leaves_ctrl_c_as_it_was() -> None:
    with open_processes(1) as executor:
        executor.submit(os.getpid).result()
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


@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(os._exit, 3, id="it ended itself"),
        pytest.param(signal.raise_signal, signal.SIGKILL, id="out of memory"),
    ],
)
def test_a_process_that_was_ended_is_told_and_the_others_end(
    end: Callable[[int], object], status: int
) -> None:
    with pytest.raises(ChildProcessError, match="memory ran out"), open_processes(2) as executor:  # noqa: PT012
        waiting = executor.submit(sleep, 1e6)
        executor.submit(end, status).result()
    assert waiting.done()


def test_a_mistake_is_raised_with_its_place() -> None:
    with open_processes(1) as executor:
        with pytest.raises(ValueError, match="invalid literal") as raised:
            executor.submit(int, "ten").result()
        assert "Traceback" in str(raised.value.__cause__)
        assert 10 == executor.submit(int, "10").result()


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
