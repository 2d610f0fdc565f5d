"""Where the proxy of a run keeps its files: at home, else elsewhere, else nowhere."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from addon.places import STATE_VARIABLE, state_folder
from addon.proxy.process import RunFolder
from tests.support.namespaces import NAMESPACE, has_namespaces


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder, and a temporary folder beside it."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "observation-masking"


def test_a_home_that_takes_files_gets_them_and_no_empty_log_stays(state: Path) -> None:
    folder = RunFolder()
    assert (state, None, "") == (folder.path, folder.spare, folder.notice)
    assert folder.log is not None
    assert folder.log.parent == state / "logs"
    with folder.open_log() as log:
        log.write(b"said")
    folder.close()
    assert b"said" == folder.log.read_bytes()
    folder = RunFolder()
    folder.close()
    assert folder.log is not None
    assert not folder.log.exists()


def test_a_home_that_takes_none_is_told_and_a_temporary_folder_gets_them(state: Path) -> None:
    state.parent.write_bytes(b"no folder")
    folder = RunFolder()
    assert folder.path == folder.spare
    assert folder.path.parent == Path(tempfile.gettempdir())
    assert folder.log is not None
    assert folder.log.is_relative_to(folder.path)
    assert folder.notice == (
        f"{state.parent}: cannot be made: File exists. This run keeps its files in {folder.path}, "
        "and removes them at its end"
    )
    folder.close()
    assert not folder.path.exists()


def test_without_any_folder_the_first_reason_is_told(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.parent.write_bytes(b"no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(state / "none"))
    with pytest.raises(OSError, match="cannot be made: File exists"):
        RunFolder()


_WITHOUT_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from addon.proxy.process import RunFolder
folder = RunFolder()
with folder.open_log() as log:
    log.write(b"said")
print(folder.path, folder.spare, folder.read_log(), folder.notice, sep="|")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_without_room_anywhere_the_home_gets_what_it_takes(state: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ROOM], capture_output=True, text=True, check=True
    ).stdout
    notice = f"{state}: No space left on device. What this run cannot write is lost"
    assert f"{state}|None|b'said'|{notice}\n" == said
    assert [] == [*Path(tempfile.gettempdir()).glob("obsmask-*/*")]


def test_a_log_that_is_gone_holds_nothing_up(state: Path) -> None:
    folder = RunFolder()
    assert folder.log is not None
    folder.log.unlink()
    folder.log.parent.rmdir()
    with folder.open_log() as log:
        log.write(b"lost")
    assert b"" == folder.read_log()
    folder.close()


def test_the_proxy_of_a_run_is_led_to_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, "/some/where")
    assert Path("/some/where") == state_folder()


_ON_A_FULL_DISK = """
mount -t tmpfs -o size=160k none "$1"
"$2" -c "$3" "$1" || true
ls "$1"
exec "$2" -c "$4"
"""

_DIE_AMID_A_WRITE = """
import os, sqlite3, sys
database = sqlite3.connect(f"{sys.argv[1]}/memory.sqlite3")
database.execute("CREATE TABLE known (what)")
database.executemany("INSERT INTO known VALUES (?)", [("a" * 3_000,)] * 12)
database.execute("PRAGMA user_version = 1")
database.commit()
database.execute("PRAGMA cache_size = 2")
database.execute("UPDATE known SET what = ?", ("b" * 3_000,))
os._exit(9)
"""

_LOOK = """
import sqlite3
from addon.proxy.process import RunFolder
folder = RunFolder()
copy = folder.path / "memory.sqlite3"
database = sqlite3.connect(copy)
print(folder.path == folder.spare, oct(copy.stat().st_mode), end=" ")
print(*database.execute("SELECT min(what) = max(what) FROM known"), end=" ")
print(*database.execute("PRAGMA user_version"))
folder.close()
"""


@pytest.mark.skipif(not has_namespaces(), reason="NO USER NAMESPACES: a full disk is not tried")
def test_what_is_known_goes_along_to_a_temporary_folder(state: Path) -> None:
    """A conversation that was masked must not go on unmasked, though a process was killed."""
    state.mkdir(parents=True)
    arguments = ("sh", str(state), sys.executable, _DIE_AMID_A_WRITE, _LOOK)
    said = subprocess.run(
        [*NAMESPACE, "sh", "-euc", _ON_A_FULL_DISK, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    files = "memory.sqlite3\nmemory.sqlite3-journal\n"
    assert (f"{files}True 0o100600 (1,) (1,)\n", "") == (said.stdout, said.stderr)
