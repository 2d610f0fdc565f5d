"""What is stored, where, who can read it, and whether there is room for more."""

import os
import shlex
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from addon.accounts import REFUSAL_HOLDS, find_learned
from addon.commands.doctor.report import Finding, broken, note, ok
from addon.config_commands import Advice
from addon.counts import pluralize
from addon.memory import open_memory
from addon.places import state_folder
from addon.recall import RecallFolder, folder_of
from addon.records.file import may_hold_records
from addon.store import StoreError
from masking.config import RecallSettings
from masking.roads import OPTIONAL_ROADS, ROADS

_MEGABYTE = 1_000_000
_LITTLE = 100 * _MEGABYTE
_MOST_NAMED = 8


def check_record_file(path: Path) -> Iterator[Finding]:
    """Yield whether records can be written, and who can read them."""
    there = _find_existing(path.parent)
    if path.exists() and not path.is_file():
        yield broken(
            f"{path} is not a file: no records are kept", "obsmask config | grep metrics.path"
        )
    elif path.exists() and not os.access(path, os.W_OK):
        yield broken(f"{path} cannot be written: no records are kept", f"chmod u+w {_quote(path)}")
    elif path.exists() and os.access(path, os.R_OK) and not may_hold_records(path):
        yield broken(
            f"{path} contains something other than records: no records are kept",
            "obsmask config | grep metrics.path",
        )
    elif not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)) or not _is_on_disk(there):
        fix = f"chmod u+rwx {_quote(there)}"
        yield broken(f"{there} cannot be written: no records are kept", fix)
    else:
        size = f", {render_size(path.stat().st_size)}" if path.exists() else ", none so far"
        yield ok(f"Records are kept in {path}{size}")
    if path.is_file() and _is_open(path):
        yield note(f"{path} can be read by others on this machine", f"chmod 600 {_quote(path)}")


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
    """Yield what one of our folders contains, the largest first, and who can read it."""
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
    yield ok(f"{folder} " + (f"contains {total}: {', '.join(names)}" if files else "is empty"))
    if is_private and _is_open(folder):
        fix = f"chmod 700 {_quote(folder)}"
        yield note(f"{folder} can be read by others on this machine", fix)


def check_accounts(advice: Advice) -> Iterator[Finding]:
    """Yield what was learned of accounts at models that bind their reasoning."""
    try:
        with closing(open_memory(state_folder)) as store:
            found = find_learned(store)
    except StoreError as error:
        yield broken(f"What is known of conversations and accounts cannot be read: {error}")
        return
    for (_, host, model), verdict, learned in found:
        day = datetime.fromtimestamp(learned)
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


_SETTING = "obsmask config | grep recall"


def check_recall(settings: RecallSettings) -> Iterator[Finding]:
    """Yield the state of the folder where masked results are kept, if they are."""
    if not settings.enabled:
        return
    folder = folder_of(settings)
    quoted = _quote(folder)
    if not folder.exists():
        there = _find_existing(folder.parent)
        if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
            yield ok(f"Masked results will be kept in {folder}")
        else:
            yield broken(f"{folder} cannot be created: masked results are not kept", _SETTING)
    elif not folder.is_dir():
        yield broken(f"{folder} is not a folder: masked results are not kept", _SETTING)
    elif os.name == "posix" and folder.stat().st_uid != os.geteuid():
        yield broken(f"{folder} belongs to another user: masked results are not kept", _SETTING)
    elif _is_open(folder):
        yield broken(
            f"Others may enter {folder}: masked results are not kept", f"chmod 700 {quoted}"
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {quoted}"
        yield broken(f"{folder} cannot be written: masked results are not kept", fix)
    else:
        sizes = [each.size for each in RecallFolder(folder).list_files()]
        kept, results = render_size(sum(sizes)), pluralize(len(sizes), "result")
        most = settings.max_megabytes
        says = f"{folder} keeps {results} for recall, {kept} of {most} MB"
        if sum(sizes) > most * _MEGABYTE:
            yield note(f"{says}: the oldest are deleted when the next is stored", _SETTING)
        else:
            yield ok(says)
        yield from check_room(folder / "new")


def render_size(size: int) -> str:
    """Return a number of bytes in a readable unit."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.0f} kB" if size < _MEGABYTE else f"{size / _MEGABYTE:,.1f} MB"


def _find_existing(folder: Path) -> Path:
    """Return the innermost existing folder: this one, or one above it."""
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)


def _is_on_disk(folder: Path) -> bool:
    """Whether files can be made there at all: in Linux's /proc even root makes none."""
    return shutil.disk_usage(folder).total > 0


def _quote(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))


def _is_open(path: Path) -> bool:
    """Whether others on this machine may use a file or a folder in any way."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
