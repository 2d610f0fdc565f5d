"""A terminal of a test's own: a program runs in it as its session's leader, in the foreground."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SECONDS = 300.0
"""After which a test gives up: so long that only what hangs gets there."""

HEED_SIGNALS = (
    "import signal; "
    "[signal.signal(each, signal.SIG_DFL)"
    " for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)]; "
)
"""For a test that sends a signal: a job in the background ignores what is typed, one under `nohup`
a hang-up, and whatever they start does, too."""

_LEAD = (
    f"{HEED_SIGNALS}import fcntl, os, sys, termios; "
    "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """What is on its screen so far, a keyboard, and a size."""

    def __init__(self, side: int, process: "subprocess.Popen[bytes]") -> None:
        self._side, self.process = side, process
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: str) -> None:
        """Read until a text is on the screen, after what was waited for before."""
        while text not in self.screen:
            assert self._read(), f"ended without {text!r}: {self.screen!r}"
        self.screen = self.screen.partition(text)[2]

    def wait(self) -> int:
        """Read to the end, and return the program's exit code."""
        while self._read():
            pass
        return self.process.wait(SECONDS)

    def _read(self) -> bool:
        """Read what is there next; false at the end."""
        is_ready, _, _ = select.select([self._side], [], [], SECONDS)
        assert is_ready, f"nothing more after {self.screen!r}"
        try:
            piece = os.read(self._side, 65_536)
        except OSError:  # as Linux says that nobody writes there any more
            return False
        self.screen += piece.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)


@contextlib.contextmanager
def terminal(
    *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Terminal]:
    """Run a program in a terminal; what is left of it then is killed."""
    ours, theirs = pty.openpty()
    lead: Sequence[str] = (sys.executable, "-c", _LEAD, *command)
    process = subprocess.Popen(lead, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd)
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        os.close(ours)
