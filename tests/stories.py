"""Lives through a story without a client: its files are read and edited, its commands run."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from addon.recordings.scenarios.scratch import Act, Step


def perform(acts: Iterable[Act], folder: Path) -> Iterator[str]:
    """Do what the acts say in a folder; yield what each step gives, an edit the edited file."""
    for step in (step for act in acts for turn in act.turns for step in turn):
        yield _STEPS[step.kind](step, folder)


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command with this Python's programs, both of its outputs being one."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={"PATH": programs, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _run(step: Step, folder: Path) -> str:
    return run(step.what, folder).stdout


def _read(step: Step, folder: Path) -> str:
    try:
        return (folder / step.what).read_text(encoding="utf-8")
    except OSError as error:
        return f"[Errno {error.errno}] {error.strerror}: {step.what!r}"


def _edit(step: Step, folder: Path) -> str:
    text = _read(step, folder)
    assert text.count(step.old) == 1, f"not once in {step.what}: {step.old}"
    edited = text.replace(step.old, step.new)
    (folder / step.what).write_text(edited, encoding="utf-8")
    return edited


_STEPS = {"shell": _run, "read": _read, "edit": _edit}
