"""What is stored, where, who can read it, and whether there is room for more."""

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from addon.accounts import REFUSAL_HOLDS, Learned, find_learned
from addon.commands.doctor.report import Finding, broken, note, ok
from addon.config_commands import Advice
from addon.counts import pluralize
from addon.memory import open_memory
from addon.places import state_folder
from addon.records.file import may_hold_records
from masking.roads import OPTIONAL_ROADS, ROADS

_MEGABYTE = 1_000_000
_LITTLE = 100 * _MEGABYTE


def check_record_file(path: Path) -> Iterator[Finding]:
    """Yield whether records can be written, and who can read them."""
    there, lost = _find_existing(path.parent), "no records are kept"
    setting = "obsmask config | grep metrics.path"
    if path.exists() and not path.is_file():
        yield broken(f"{path} is not a file: {lost}", setting)
    elif path.exists() and not os.access(path, os.W_OK):
        yield broken(f"{path} cannot be written: {lost}", f"chmod u+w {_quote(path)}")
    elif path.exists() and os.access(path, os.R_OK) and not may_hold_records(path):
        yield broken(f"{path} contains something other than records: {lost}", setting)
    elif not _is_writable(there) or not _is_on_disk(there):
        yield broken(f"{there} cannot be written: {lost}", f"chmod u+rwx {_quote(there)}")
    else:
        size = f", {render_size(path.stat().st_size)}" if path.exists() else ", none so far"
        yield ok(f"Records are kept in {path}{size}")
        yield from _check_private(path)


def check_room(path: Path) -> Iterator[Finding]:
    """Yield whether there is room on a file's disk; nothing where there is no disk."""
    there = _find_existing(path.parent)
    if not _is_on_disk(there):
        return
    free = shutil.disk_usage(there).free
    if free < _MEGABYTE:
        yield broken(f"The disk of {there} is full: records are lost", f"df -h {_quote(there)}")
    elif free < _LITTLE:
        yield note(f"The disk of {there} has {render_size(free)} left", f"df -h {_quote(there)}")


def check_folder(folder: Path, *, is_private: bool) -> Iterator[Finding]:
    """Yield how much one of our folders contains, and who can read it."""
    if folder.is_dir():
        sizes = [each.stat().st_size for each in folder.rglob("*") if each.is_file()]
        total = f"{render_size(sum(sizes))} in {pluralize(len(sizes), 'file')}"
        yield ok(f"{folder} contains {total}")
        if is_private:
            yield from _check_private(folder)


def read_accounts() -> list[Learned]:
    """Return what was learned of the user's accounts. Raises StoreError."""
    with closing(open_memory(state_folder)) as store:
        return find_learned(store)


def check_accounts(learned: Iterable[Learned], advice: Advice) -> Iterator[Finding]:
    """Yield what was learned of accounts at models that bind their reasoning."""
    for (_, host, model), verdict, when in learned:
        day = datetime.fromtimestamp(when)
        if verdict == "takes":
            yield ok(
                f"{host} takes masked requests to {model} from an account (since {day:%Y-%m-%d})"
            )
        else:
            until = day + REFUSAL_HOLDS
            ways = [road.option for road in OPTIONAL_ROADS]
            if verdict == "refuses_drop":
                ways.remove(ROADS["drop"].option)
            yield note(
                f"{host} refuses an account of yours masked requests to {model}: none is tried "
                f"before {until:%Y-%m-%d}; obsmask run has other ways to save: {', '.join(ways)}",
                advice.set(ROADS["clear"].settings),
            )


def render_size(size: int) -> str:
    """Return a number of bytes in a readable unit."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.0f} kB" if size < _MEGABYTE else f"{size / _MEGABYTE:,.1f} MB"


def _find_existing(path: Path) -> Path:
    """Return a path, or the innermost one above it that exists."""
    return next((each for each in (path, *path.parents) if each.exists()), path)


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _is_on_disk(folder: Path) -> bool:
    """Whether files can be made there at all: in Linux's /proc even root makes none."""
    return shutil.disk_usage(folder).total > 0


def _check_private(path: Path) -> Iterator[Finding]:
    if path.exists() and path.stat().st_mode & 0o077:  # for others, in any way
        mode = "700" if path.is_dir() else "600"
        yield note(f"{path} can be read by others on this machine", f"chmod {mode} {_quote(path)}")


def _quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))
