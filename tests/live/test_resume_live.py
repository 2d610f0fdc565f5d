"""A replay that is ended in the middle goes on from there, and comes to the same."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from addon.commands.main import main
from tests.addon.test_interrupted import find_children
from tests.addon.test_journal import count_lines, write_sessions
from tests.live.harness import eventually

SESSIONS = 16


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a process's children")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_a_replay_that_was_ended_goes_on(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, journal = tmp_path / "sessions", tmp_path / "done.jsonl"
    folder.mkdir()
    for name in range(SESSIONS):
        write_sessions(folder / f"{name}.jsonl", 8 + name % 5)
    command = ["replay", str(folder), "--json", "--processes", "2", "--resume", str(journal)]
    started = subprocess.Popen(
        [sys.executable, "-m", "addon.commands.main", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    workers = eventually(lambda: find_children(started.pid))
    eventually(lambda: (journal.exists() and count_lines(journal)) or None)
    os.kill(started.pid, number)
    started.wait()
    eventually(lambda: None if any(map(is_running, workers)) else True)
    done = journal.read_bytes().splitlines(keepends=True)
    whole = [line for line in done if line.endswith(b"\n")]
    assert whole

    found = []
    for more in (["--resume", str(journal)], []):
        assert main(["replay", str(folder), "--json", "--processes", "1", *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert SESSIONS == count_lines(journal)
    assert whole == journal.read_bytes().splitlines(keepends=True)[: len(whole)]


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
