"""Whether what is masked can be kept for recall, and how much of its room is taken."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.commands.diagnosis.storage import check_room, find_existing, is_open, render_size
from addon.recall import RecallFolder, folder_of
from addon.replay.numbers import pluralize
from masking.config import RecallSettings

_MEGABYTE = 1_000_000
_SETTING = "obsmask config | grep recall"


def check_recall(settings: RecallSettings) -> Iterator[Finding]:
    """Yield how the folder of what is masked is, if anything is kept there."""
    if not settings.enabled:
        return
    folder = folder_of(settings)
    quoted = shlex.quote(str(folder))
    if not folder.exists():
        yield from _check_parent(find_existing(folder.parent), folder)
    elif not folder.is_dir():
        yield broken(f"{folder} is no folder: what is masked is not kept", _SETTING)
    elif os.name == "posix" and folder.stat().st_uid != os.geteuid():
        yield broken(f"{folder} belongs to another user: what is masked is not kept", _SETTING)
    elif is_open(folder):
        yield broken(
            f"Others may enter {folder}: what is masked is not kept", f"chmod 700 {quoted}"
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        mend = f"chmod u+rwx {quoted}"
        yield broken(f"{folder} cannot be written: what is masked is not kept", mend)
    else:
        yield _describe(folder, settings.max_megabytes)
        yield from check_room(folder / "new")


def _check_parent(there: Path, folder: Path) -> Iterator[Finding]:
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        yield ok(f"What is masked will be kept in {folder}")
    else:
        yield broken(f"{folder} cannot be made: what is masked is not kept", _SETTING)


def _describe(folder: Path, most: int) -> Finding:
    sizes = [kept.size for kept in RecallFolder(folder).list_files()]
    held, results = render_size(sum(sizes)), pluralize(len(sizes), "result")
    told = f"{folder} keeps {results} for recall, {held} of {most} MB"
    if sum(sizes) > most * _MEGABYTE:
        return note(f"{told}: the oldest go when the next is kept", _SETTING)
    return ok(told)
