"""Runs a command in the foreground, as a shell does: with the terminal, signals, stops, exit code.

The command is in our own process group. What is typed at the terminal (Ctrl-C, Ctrl-Z) and a new
size of its window therefore reach it without us; what is sent to us alone is passed on.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""The exit codes by which a shell says that a command is missing, or cannot be run."""

KILLED = 128
"""A command that a signal has ended has this plus the signal's number as its exit code."""

_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")
_FROM_TERMINAL = ("SIGINT", "SIGQUIT", "SIGTSTP", "SIGWINCH")
"""A terminal sends these to all processes in its foreground, and so to the command, too.

SIGTSTP is caught for one more reason: we stop when the command has stopped, never by ourselves. A
full-screen program tidies up before it stops, and the shell would take the terminal meanwhile.
"""


def run_foreground(
    command: Sequence[str], environment: Mapping[str, str], on_end: Callable[[int], None]
) -> int:
    """Run a command to its end, and return its exit code.

    Other processes that we have started may end meanwhile: `on_end` is called with the id of each.
    Raises OSError if the command cannot be run.
    """
    with _Signals() as signals:
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own command
        signals.pass_on_to(process.pid)
        while True:
            ended, status = os.waitpid(-1, os.WUNTRACED)
            if ended == process.pid and os.WIFSTOPPED(status):
                # Somebody may have had it go on since, and then we must not stop.
                ended, status = os.waitpid(process.pid, os.WNOHANG | os.WCONTINUED)
                if not ended:
                    _stop_with(process.pid)
            if not ended or os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                continue
            if ended == process.pid:
                process.returncode = _read_exit_code(status)
                return process.returncode
            on_end(ended)


def _stop_with(command: int) -> None:
    """Stop as the command has stopped, so that the shell gets the terminal; go on with it."""
    os.kill(os.getpid(), signal.SIGSTOP)
    with suppress(ProcessLookupError):
        os.kill(command, signal.SIGCONT)


def _read_exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else KILLED - code


class _Signals:
    """Passes signals on to a process; those that come before it is known wait for it."""

    def __init__(self) -> None:
        self._process: int | None = None
        self._waiting: list[int] = []

    def __enter__(self) -> "_Signals":
        numbers = [getattr(signal, name) for name in (*_PASSED_ON, *_FROM_TERMINAL)]
        self._before = {
            number: signal.signal(number, self._receive)
            for number in numbers
            if signal.getsignal(number) is not signal.SIG_IGN  # as by nohup: the command's, too
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_on_to(self, process: int) -> None:
        self._process = process
        for number in self._waiting:
            self._send(process, number)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            self._waiting.append(number)
        else:
            self._send(self._process, number)

    def _send(self, process: int, number: int) -> None:
        if signal.Signals(number).name in _FROM_TERMINAL and _is_in_foreground():
            return
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _is_in_foreground() -> bool:
    """Whether what our terminal sends is for us."""
    try:
        with open(os.ctermid(), "rb") as terminal:  # noqa: PTH123 - no path, but a device
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:  # there is none
        return False
