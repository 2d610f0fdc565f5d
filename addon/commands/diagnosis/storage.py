"""What is kept, where, who can read it, and whether there is room for more."""

import os
import shlex
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.metrics.record_file import BEGINNING
from addon.metrics.shared_file import begins_as
from addon.replay.numbers import pluralize

_MEGABYTE = 1_000_000
_LITTLE = 100 * _MEGABYTE
_MOST_NAMED = 8


def check_record_file(path: Path) -> Iterator[Finding]:
    """Yield whether records can be written, and who can read them."""
    there = find_existing(path.parent)
    if path.exists() and not path.is_file():
        yield broken(
            f"{path} is no file: no records are kept", "obsmask config | grep metrics.path"
        )
    elif path.exists() and not os.access(path, os.W_OK):
        yield broken(f"{path} cannot be written: no records are kept", f"chmod u+w {_quote(path)}")
    elif path.exists() and os.access(path, os.R_OK) and not begins_as(path, BEGINNING):
        yield broken(
            f"{path} holds something else than records: no records are kept",
            "obsmask config | grep metrics.path",
        )
    elif not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)) or not _is_on_disk(there):
        mend = f"chmod u+rwx {_quote(there)}"
        yield broken(f"{there} cannot be written: no records are kept", mend)
    else:
        size = f", {render_size(path.stat().st_size)}" if path.exists() else ", none so far"
        yield ok(f"Records are kept in {path}{size}")
    if path.is_file() and is_open(path):
        yield note(f"{path} can be read by others on this machine", f"chmod 600 {_quote(path)}")


def check_room(path: Path) -> Iterator[Finding]:
    """Yield whether there is room on a file's disk; nothing where there is no disk."""
    there = find_existing(path.parent)
    if not _is_on_disk(there):
        return
    free = shutil.disk_usage(there).free
    if free < _MEGABYTE:
        yield broken(f"The disk of {there} is full: records are lost", f"df -h {_quote(there)}")
    elif free < _LITTLE:
        yield note(f"The disk of {there} has {render_size(free)} left", f"df -h {_quote(there)}")


def check_folder(folder: Path, *, is_private: bool) -> Iterator[Finding]:
    """Yield what one of our folders holds, the largest first, and who can read it."""
    if not folder.is_dir():
        return
    files = [each for each in folder.rglob("*") if each.is_file()]
    sizes: Counter[str] = Counter()
    for file in files:
        name, *inner = file.relative_to(folder).parts
        sizes[f"{name}/" if inner else name] += file.stat().st_size
    names = [f"{name} {render_size(size)}" for name, size in sizes.most_common(_MOST_NAMED)]
    if len(sizes) > _MOST_NAMED:
        names.append(f"{len(sizes) - _MOST_NAMED} more")
    total = f"{render_size(sizes.total())} in {pluralize(len(files), 'file')}"
    yield ok(f"{folder} " + (f"holds {total}: {', '.join(names)}" if files else "is empty"))
    if is_private and is_open(folder):
        mend = f"chmod 700 {_quote(folder)}"
        yield note(f"{folder} can be read by others on this machine", mend)


def render_size(size: int) -> str:
    """Return a number of bytes in a unit that a person reads."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.0f} kB" if size < _MEGABYTE else f"{size / _MEGABYTE:,.1f} MB"


def find_existing(folder: Path) -> Path:
    """Return the innermost of a folder and those above it that is there."""
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)


def _is_on_disk(folder: Path) -> bool:
    """Whether files can be made there at all: in Linux's /proc even root makes none."""
    return shutil.disk_usage(folder).total > 0


def _quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))


def is_open(path: Path) -> bool:
    """Whether others on this machine may use a file or a folder in any way."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
