"""Our folders, the package's own files, and how private files are made, read, replaced and locked.

Whatever this software makes is for its user alone: files have mode 0600, folders 0700. What was
there before keeps its mode.
"""

import contextlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import platformdirs

FILE_MODE = 0o600
_FOLDER_MODE = 0o700

UNFINISHED = ".unfinished-"
"""How the name of a file begins that is still being written, or that a killed process left so."""

_NEVER_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""A pipe that nobody writes or reads must not hold us up, nor a terminal take us over."""

_NAME = "observation-masking"

_POLL = 0.005

STATE_VARIABLE = "OBSMASK_STATE_FOLDER"
"""The variable by which `obsmask run` leads its own proxy to the folder that it uses."""

MEMORY_FILE = "memory.sqlite3"
"""What requests depend on, in the state folder."""

_ADDON = Path(__file__).resolve().parent


def abbreviate(path: Path) -> str:
    """Return a path as a user writes it: `~/.codex/sessions`."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def describe_error(error: Exception) -> str:
    """Return an error as one line; the system's message follows the name of the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


# Folders


def config_folder() -> Path:
    """Return the folder of the user's configuration. Raises RuntimeError if there is no home."""
    return platformdirs.user_config_path(_NAME, appauthor=False)


def state_folder() -> Path:
    """Return the folder of records, logs and memory. Raises RuntimeError if there is no home."""
    if given := os.environ.get(STATE_VARIABLE):
        return Path(given)
    return platformdirs.user_state_path(_NAME, appauthor=False)


def data_folder() -> Path:
    """Return the folder of certificates and prices. Raises RuntimeError if there is no home."""
    return platformdirs.user_data_path(_NAME, appauthor=False)


def make_folder(path: Path) -> None:
    """Make a folder, and those that it is in, where they are missing.

    Raises OSError with the folder that cannot be made.
    """
    if path.is_dir():
        return
    for folder in (*reversed(path.parents), path):
        try:
            folder.mkdir(_FOLDER_MODE, exist_ok=True)
        except OSError as error:
            reason = f"cannot be made: {error.strerror}"
            raise OSError(error.errno, reason, str(folder)) from None


# Files of the package


def shipped(name: str) -> Path:
    """Return a file or folder of the package: in `addon` in a wheel, next to it in a checkout."""
    packaged = _ADDON / "shipped" / name
    return packaged if packaged.exists() else _ADDON.parent / name


# Reading


def open_private(path: str, flags: int) -> int:
    """Open a file, as the `opener` of `open`; a new one is private. Raises OSError."""
    return os.open(path, flags | _NEVER_WAIT, FILE_MODE)


class FileState(NamedTuple):
    """What differs, as a rule, between two states of a file."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    device: int


def read_state(path: Path) -> FileState | None:
    """Return the state of a file; None if there is none that can be seen."""
    try:
        return _state_of(path.stat())
    except (OSError, ValueError):
        return None


def read_regular(
    path: Path, what: str = "configuration", megabytes: int = 1
) -> tuple[bytes, FileState]:
    """Return a file's bytes, and its state just before they were read.

    Raises ConfigError, which says `what` it was to be, if the file cannot be read, is not a regular
    one (a pipe, a folder), or is larger than so many megabytes.
    """
    from masking.errors import ConfigError  # all of `masking` comes with it: `obsmask run` waits

    problem = f"cannot read the {what} {path}"
    try:
        with open(path, "rb", opener=open_private) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{problem}: not a regular file")
            data = file.read(megabytes * 1_000_000 + 1)
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{problem}: {reason}") from None
    if len(data) > megabytes * 1_000_000:
        raise ConfigError(f"{problem}: larger than {megabytes} MB")
    return data, _state_of(found)


def _state_of(found: os.stat_result) -> FileState:
    return FileState(
        found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
    )


# Writing


def write_private(path: Path, data: bytes) -> None:
    """Write a file of ours, in place of whatever has its name; a link there is not followed.

    A reader meets the old file or the whole new one. If the machine itself crashes, the new one may
    be left empty: this is for files whose content is checked before it is used. Raises OSError with
    the path.
    """
    with _replacing(path) as file:
        file.write(data)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that a user may have made, and may have linked to.

    As `write_private`, but a link stays one, a file that was there keeps its permissions and its
    owner, and the data is on the disk before the file has its name. Missing folders are made.
    """
    path = path.resolve()
    make_folder(path.parent)
    with _replacing(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            before = path.stat()
            with contextlib.suppress(OSError, AttributeError):  # another user's; not on Windows
                os.chown(file.name, before.st_uid, before.st_gid)
            Path(file.name).chmod(stat.S_IMODE(before.st_mode))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator["tempfile._TemporaryFileWrapper[bytes]"]:
    """Give a new private file in the same folder, which takes the place of `path` at the end."""
    name = None
    try:
        with tempfile.NamedTemporaryFile(prefix=UNFINISHED, dir=path.parent, delete=False) as file:
            name = Path(file.name)
            yield file
        name.replace(path)  # once it is closed, as Windows asks for
    except BaseException as error:
        if name is not None:
            with contextlib.suppress(OSError):
                name.unlink()
        if isinstance(error, OSError):  # a full disk names no file, and other errors name ours
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


# Locking: the system's own locks, which end with their process


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _unlock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

    _HELD_BY_ANOTHER = (PermissionError,)
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)

    _HELD_BY_ANOTHER = (BlockingIOError,)


def release_lock(lock: int) -> None:
    """Give back what `take_lock` has returned. Raises OSError."""
    try:
        _unlock(lock)  # to close it is not enough while a child process has it, too
    finally:
        os.close(lock)


def take_lock(name: str, patience: float) -> int | str:
    """Return a lock, within so many seconds, or the reason why it cannot be had.

    The lock is on the file of that name, which is made if it is not there.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    end = time.monotonic() + patience
    while True:
        try:
            file = open_private(name, flags)
        except OSError as error:
            return error.strerror or str(error)
        try:
            _lock(file)
            if os.fstat(file).st_nlink:  # else it was removed meanwhile, and locks nobody out
                return file
        except _HELD_BY_ANOTHER:
            pass
        except OSError as error:  # a file system without locks
            os.close(file)
            return error.strerror or str(error)
        os.close(file)
        if time.monotonic() >= end:
            return "another process holds its lock"
        time.sleep(_POLL)
