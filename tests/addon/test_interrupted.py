"""Ctrl-C: one line, and nothing left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from addon.commands.main import INTERRUPTED
from addon.places import shipped
from tests.live.harness import eventually

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
    assert (INTERRUPTED, "", "obsmask: interrupted") == (started.returncode, out, said.strip())
    assert [] == [worker for worker in workers if Path(f"/proc/{worker}").exists()]


def find_children(parent: int) -> list[int] | None:
    """Return the processes that it has spawned to share out its work, once there are any."""
    lists = Path(f"/proc/{parent}/task").glob("*/children")  # of each of its threads
    listed = [pid for each in lists for pid in each.read_text().split()]
    workers = [pid for pid in listed if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return [int(pid) for pid in workers] or None
