"""Carries out a scenario without a client: reads and edits files, runs commands."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.tools.studio.scenario import Action


def perform(actions: Iterable[Action], folder: Path) -> Iterator[str]:
    """Carry out actions in a folder; yield what each returns, for an edit the edited file."""
    for action in actions:
        yield _ACTIONS[action.kind](action, folder)


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command with this Python's programs; return both of its outputs as one."""
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


def _run(action: Action, folder: Path) -> str:
    return run(action.what, folder).stdout


def _read(action: Action, folder: Path) -> str:
    try:
        return (folder / action.what).read_text(encoding="utf-8")
    except OSError as error:
        return f"[Errno {error.errno}] {error.strerror}: {action.what!r}"


def _edit(action: Action, folder: Path) -> str:
    text = _read(action, folder)
    assert text.count(action.old) == 1, f"not once in {action.what}: {action.old}"
    edited = text.replace(action.old, action.new)
    (folder / action.what).write_text(edited, encoding="utf-8")
    return edited


_ACTIONS = {"shell": _run, "read": _read, "edit": _edit}
