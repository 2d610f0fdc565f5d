"""A command in the foreground is as it would be without us: its signals, its stops, its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from addon.commands.foreground import run_foreground
from tests.support.terminals import HEED_SIGNALS, SECONDS, terminal

RUN_AS_STARTED = (
    "import os, sys; from addon.commands.foreground import run_foreground; "
    "sys.exit(run_foreground(sys.argv[1:], os.environ, print))"
)
RUN = HEED_SIGNALS + RUN_AS_STARTED

LISTENER = """
import os, signal, sys, time
heard = []
def hear(number, frame):
    heard.append(signal.Signals(number).name)
    if number == signal.SIGWINCH:
        heard.append("{0.columns}x{0.lines}".format(os.get_terminal_size()))
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), hear)
print("listening", flush=True)
while not heard:
    time.sleep(0.01)
time.sleep(0.2)  # for what should not come a second time
print("heard", *heard, flush=True)
sys.exit(7)
"""


def listen(*names: str) -> tuple[str, ...]:
    """Return a command that tells which of these signals it got, and ends with 7."""
    return (sys.executable, "-c", LISTENER, *names)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_the_exit_code_is_the_commands_or_that_of_a_shell(script: str, code: int) -> None:
    assert code == run_foreground(["sh", "-c", script], os.environ, print)


def test_a_command_that_is_missing_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_foreground(["no-such-command"], os.environ, print)


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    run_foreground(["true"], os.environ, print)
    assert before == signal.getsignal(signal.SIGTERM)


def test_the_end_of_another_process_is_told() -> None:
    ended: list[int] = []
    with subprocess.Popen(["true"]) as other:
        script = f"while kill -0 {other.pid}; do sleep 0.01; done 2>/dev/null"  # until it is told
        run_foreground(["sh", "-c", script], os.environ, ended.append)
        other.returncode = 0
    assert [other.pid] == ended


def start(*command: str) -> "subprocess.Popen[str]":
    """Start a command in the foreground of no terminal, and wait for its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *command],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    assert "listening\n" == process.stdout.readline()
    return process


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_that_is_sent_to_us_alone_reaches_the_command_once(name: str) -> None:
    with start(*listen(name)) as process:
        process.send_signal(getattr(signal, name))
        assert f"heard {name}\n" == process.communicate(timeout=SECONDS)[0]
    assert 7 == process.returncode


def test_a_signal_that_is_ignored_is_ignored_by_the_command_too(tmp_path: Path) -> None:
    script = f"trap '' HUP; exec {sys.executable} -c \"$0\" sh -c 'kill -HUP $$; echo alive'"
    command = ["sh", "-c", script, RUN_AS_STARTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "alive\n" == done.stdout


@pytest.mark.parametrize(("key", "name"), [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")])
def test_what_is_typed_reaches_the_command_once_and_not_us(key: str, name: str) -> None:
    with terminal(sys.executable, "-c", RUN, *listen(name)) as screen:
        screen.wait_for("listening")
        screen.type(key)
        screen.wait_for(f"heard {name}\n")
        assert 7 == screen.wait()


def test_the_command_hears_of_a_new_size_of_the_window() -> None:
    with terminal(sys.executable, "-c", RUN, *listen("SIGWINCH")) as screen:
        screen.wait_for("listening")
        screen.resize(40, 132)
        screen.wait_for("heard SIGWINCH 132x40\n")
        assert 7 == screen.wait()


def test_the_command_reads_what_is_typed() -> None:
    with terminal(sys.executable, "-c", RUN, "sh", "-c", "read name; echo got $name") as screen:
        screen.type("something\n")
        screen.wait_for("got something")
        assert 0 == screen.wait()


def test_a_command_that_goes_on_before_its_stop_is_told_does_not_stop_us() -> None:
    late = (
        "wait = os.waitpid\n"
        "def told_late(pid, options):\n"
        "    ended, status = wait(pid, options)\n"
        "    if os.WIFSTOPPED(status): os.kill(ended, signal.SIGCONT)\n"
        "    return ended, status\n"
        "os.waitpid = told_late\n"
    )
    script = f"import os, signal, sys\n{late}{RUN}"
    command = (sys.executable, "-c", script, "sh", "-c", "kill -STOP $$; exit 5")
    process = subprocess.Popen(command)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    process.kill()
    assert 5 == os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("stop", ["\x1a", "itself"])
def test_a_stopped_command_gives_the_terminal_back_and_goes_on_with_fg(
    stop: str, tmp_path: Path
) -> None:
    """Whether Ctrl-Z stops both, or a command alone stops itself, as full-screen programs do."""
    script = tmp_path / "command.sh"
    body = "kill -STOP $$" if stop == "itself" else "read line"
    script.write_text(f"echo begun\n{body}\necho went on\nexit 5\n")
    env = {**os.environ, "TERM": "dumb", "PS1": "ready "}
    with terminal("bash", "--norc", "--noprofile", "-i", env=env) as shell:
        shell.wait_for("ready ")
        shell.type(f"{sys.executable} -c '{RUN}' sh {script}\n")
        shell.wait_for("begun\n")
        if stop != "itself":
            shell.type(stop)
        shell.wait_for("Stopped")
        # What is typed before the prompt may be lost, as bash sets the terminal up anew.
        shell.wait_for("\nready ")
        shell.type("echo shell is back\n")
        shell.wait_for("\nshell is back\nready ")
        shell.type("fg\n")
        if stop != "itself":
            shell.wait_for(f"{script}\n")
            shell.type("a line\n")
        shell.wait_for("went on\nready ")
        shell.type("echo code $?\n")
        shell.wait_for("\ncode 5")


def test_a_command_that_tidies_up_before_it_stops_keeps_the_terminal_until_then(
    tmp_path: Path,
) -> None:
    script = tmp_path / "command.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "def stop(*_):\n"
        "    time.sleep(0.3)\n"
        "    os.write(1, b'tidied up\\n')\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    sys.exit(5)\n"
        "signal.signal(signal.SIGTSTP, stop)\n"
        "print('begun', flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    env = {**os.environ, "TERM": "dumb", "PS1": "ready "}
    with terminal("bash", "--norc", "--noprofile", "-i", env=env) as shell:
        shell.wait_for("ready ")
        shell.type(f"{sys.executable} -c '{RUN}' {sys.executable} {script}\n")
        shell.wait_for("begun\n")
        shell.type("\x1a")
        shell.wait_for("tidied up\n")
        shell.wait_for("Stopped")
        shell.wait_for("\nready ")
        shell.type("fg\n")
        shell.wait_for("\nready ")
        shell.type("echo code $?\n")
        shell.wait_for("\ncode 5")
