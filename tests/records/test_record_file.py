"""The file of records: private, shared by several processes, and whole whatever happens to it.

No line is lost, torn or doubled; and whoever reads it while others write meets whole records.
"""

import contextlib
import fcntl
import io
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock, Timeout

from addon.places import release_lock, take_lock
from addon.records.file import (
    RecordFile,
    SharedFile,
    default_path,
    read_lines,
    read_records,
)
from masking.config import MetricsSettings

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FILLER = "x" * 2_000
"""Records of a real size: some hundred fill the smallest file."""


LINE = b'{"kind":"chat"}\n'
"""The shortest line of a record."""

HALF = b'{"kind":"chat"' + b"x" * 600_000 + b"\n"
"""A line of which two do not fit into a file of a megabyte."""


def made(**fields: object) -> dict[str, object]:
    """Return a record that has these fields."""
    return {"kind": "chat", **fields}


def settings(path: Path, max_megabytes: int = 50) -> MetricsSettings:
    return MetricsSettings(path=str(path), max_megabytes=max_megabytes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"


@pytest.fixture
def file(path: Path) -> RecordFile:
    return RecordFile(settings(path))


def read(path: Path) -> list[dict[str, Any]]:
    """Read all records; a line that is none fails."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_records_lie_in_the_users_state_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "observation-masking" / "requests.jsonl"
    assert RecordFile(MetricsSettings()).path == default_path()


def test_a_relative_path_is_told_in_full(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.chdir(path.parent)
    assert RecordFile(MetricsSettings(path="requests.jsonl")).path == path


def test_a_record_is_there_as_soon_as_it_is_written(file: RecordFile) -> None:
    file.write(made(model="modèle \ud800"))
    assert file.path.read_bytes() == '{"kind":"chat","model":"modèle ?"}\n'.encode()


def test_records_are_appended_to_those_of_an_earlier_run(path: Path) -> None:
    for n in range(2):
        RecordFile(settings(path)).write(made(n=n))
    assert [made(n=0), made(n=1)] == read(path)


def test_the_file_is_rotated_once_and_never_grows_beyond_its_size(
    tmp_path: Path, path: Path
) -> None:
    file = RecordFile(settings(path, max_megabytes=1))
    for n in range(25):
        file.write(made(n=n, filler="x" * 100_000))
    sizes = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    assert sorted(sizes) == ["requests.jsonl", "requests.jsonl.1", "requests.jsonl.lock"]
    assert max(sizes.values()) <= 1_000_000
    assert read(path)[-1]["n"] == 24


# What is no file of records


def write_notes(path: Path) -> bytes:
    path.write_bytes(b"a line\n" * 200_000)
    return path.read_bytes()


def write_short_notes(path: Path) -> bytes:
    path.write_bytes(b"a line without an end")
    return path.read_bytes()


def write_json(path: Path) -> bytes:
    path.write_bytes(b'{"name":"a"}\n{"kind":"chat"}\n')
    return path.read_bytes()


def write_blank(path: Path) -> bytes:
    path.write_bytes(b"\n" + LINE)
    return path.read_bytes()


@pytest.mark.parametrize(
    "write", [write_notes, write_short_notes, write_json, write_blank], ids=lambda it: it.__name__
)
@pytest.mark.parametrize("is_link", [False, True], ids=["itself", "a link"])
def test_a_file_of_something_else_is_left_as_it_is(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    write: Callable[[Path], bytes],
    is_link: bool,
) -> None:
    """Nothing is laid beside it either; and once it is out of the way, records are written."""
    notes = tmp_path / "notes"
    content, path = write(notes), tmp_path / "link" if is_link else notes
    if is_link:
        path.symlink_to(notes)
    file = RecordFile(settings(path, max_megabytes=1))
    for _ in range(3):
        file.write(made())
    assert content == notes.read_bytes()
    assert sorted({path, notes}) == sorted(tmp_path.iterdir())
    notes.rename(tmp_path / "elsewhere")
    file.write(made())
    file.close()
    assert LINE == notes.read_bytes()
    assert caplog.messages == [
        f"no records in {path}: it holds something else than records, and is left alone",
        f"records lost: 3 ({path})",
    ]


def test_a_file_that_something_else_takes_the_place_of_is_left_alone(
    path: Path, file: RecordFile
) -> None:
    for _ in range(3):
        file.write(made())
    content = write_notes(path)
    file.write(made())
    assert (content, 1) == (path.read_bytes(), file.lost)


def test_a_rotation_leaves_an_older_file_of_something_else_as_it_is(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    older = path.with_name(f"{path.name}.1")
    content, file = write_notes(older), RecordFile(settings(path, max_megabytes=1))
    for n in range(2):
        file.write(made(n=n, filler="x" * 600_000))
    assert (content, [0, 1]) == (older.read_bytes(), [each["n"] for each in read(path)])
    why = f"{older} holds something else than records"
    assert [f"{path} cannot be rotated, and grows: {why}"] == caplog.messages


@pytest.mark.parametrize(
    "first",
    [
        b'{"kind":"mcp","record_schema":1}\n',
        b'{"kind": "chat", "time": "2026-11-22T03:00:00.000+00:00"}\n',
        b'{"time": "2026-11-21T03:00:00.000+00:00", "host": "h", "path": "/p"}\n',
        b'{"kind":"chat","a crash left it',
        b"",
    ],
    ids=["an MCP answer", "earlier", "of version 0.1.0", "without an end", "empty"],
)
def test_records_of_every_kind_and_age_are_continued(path: Path, first: bytes) -> None:
    path.write_bytes(first)
    RecordFile(settings(path)).write(made())
    end = b"\n" if first and not first.endswith(b"\n") else b""
    assert first + end + LINE == path.read_bytes()


# Whose they are


def test_files_and_folders_that_are_made_are_for_their_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "requests.jsonl"
    file = RecordFile(settings(path, max_megabytes=1))
    for _ in range(3):
        file.write(made(filler="x" * 600_000))
    files = [path, *(path.with_name(path.name + end) for end in (".1", ".lock"))]
    assert [0o600] * 3 == list(map(mode, files))
    assert [0o700] * 2 == list(map(mode, path.parents[:2]))


def test_files_and_folders_of_the_users_keep_their_mode(path: Path) -> None:
    path.touch()
    path.chmod(0o644)
    path.parent.chmod(0o755)
    RecordFile(settings(path)).write(made())
    assert (0o644, 0o755) == (mode(path), mode(path.parent))


def test_a_link_stays_and_what_it_leads_to_is_written_and_rotated(path: Path) -> None:
    target = path.parent / "elsewhere" / "records.jsonl"
    path.symlink_to(target)
    file = RecordFile(settings(path, max_megabytes=1))
    for _ in range(2):
        file.write(made(filler="x" * 600_000))
    assert path.is_symlink()
    assert [1, 1] == [len(read(each)) for each in (target, target.with_name("records.jsonl.1"))]


# What happens to it meanwhile


def remove(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def remove_folder(path: Path) -> None:
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()


@pytest.mark.parametrize("happen", [remove, move, remove_folder])
def test_a_file_that_is_gone_is_begun_anew_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, happen: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "requests.jsonl"
    file = RecordFile(settings(path))
    for n in range(3):
        file.write(made(n=n))
        if n < 2:
            happen(path)
    assert [made(n=2)] == read(path)
    assert [f"{path} was moved or deleted; a new file is begun"] == caplog.messages


@pytest.mark.parametrize("rest", [b'{"n": 1, "host', b"\xc3", b"\0\0\0"])
def test_the_rest_of_a_line_is_not_continued(path: Path, rest: bytes) -> None:
    path.write_bytes(LINE + rest)
    RecordFile(settings(path)).write(made())
    assert path.read_bytes() == LINE + rest + b"\n" + LINE


@contextlib.contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_no_part_of_a_record(
    path: Path, file: RecordFile, caplog: pytest.LogCaptureFixture
) -> None:
    file.write(made())
    with disk_of(len(LINE) + 5):
        for _ in range(3):
            file.write(made())
    file.write(made())
    file.close()
    assert path.read_bytes() == LINE * 2
    assert file.lost == 3
    assert caplog.messages == [
        f"no records in {path}: the disk is full",
        f"records lost: 3 ({path})",
    ]


def test_a_file_that_cannot_be_written_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    file = RecordFile(settings(tmp_path / "file" / "requests.jsonl"))
    for _ in range(3):
        file.write(made())
    assert caplog.messages == [f"no records in {file.path}: Not a directory"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~nobody-of-this-name/x", "no records in ~nobody-of-this-name/x: Could not determine"),
        ("/a\0b", "no records in /a\0b: "),
        ("/proc/x", "no records in /proc/x: No such file or directory"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_a_warning(
    path: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    RecordFile(MetricsSettings(path=path)).write(made())
    (said,) = caplog.messages
    assert said.startswith(expected)


def test_the_default_file_is_named_in_full(
    monkeypatch: pytest.MonkeyPatch, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    RecordFile(MetricsSettings()).write(made())
    assert [f"no records in {default_path()}: Not a directory"] == caplog.messages


def test_a_file_that_becomes_writable_is_written(tmp_path: Path) -> None:
    (folder := tmp_path / "folder").touch()
    file = RecordFile(settings(folder / "requests.jsonl"))
    file.write(made(n=1))
    folder.unlink()
    file.write(made(n=2))
    assert [made(n=2)] == read(file.path)


@pytest.mark.parametrize("is_read", [False, True])
def test_a_pipe_is_refused_at_once(
    path: Path, file: RecordFile, caplog: pytest.LogCaptureFixture, is_read: bool
) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if is_read else None
    file.write(made())
    if reader is not None:
        os.close(reader)
    assert caplog.messages == [f"no records in {path}: not a regular file"]


def test_a_folder_is_refused(
    path: Path, file: RecordFile, caplog: pytest.LogCaptureFixture
) -> None:
    path.mkdir()
    file.write(made())
    assert caplog.messages == [f"no records in {path}: not a regular file"]


def test_a_device_is_written_and_nothing_is_laid_beside_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = RecordFile(MetricsSettings(path="/dev/null"))
    file.write(made())
    assert (caplog.messages, Path("/dev/null.lock").exists()) == ([], False)


def test_a_terminal_that_takes_nothing_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = os.openpty()
    file = RecordFile(MetricsSettings(path=os.ttyname(theirs)))
    for _ in range(100):
        file.write(made(filler=FILLER))
    os.close(ours)
    os.close(theirs)
    assert caplog.messages


def test_a_number_that_no_line_can_hold_as_one_is_written_all_the_same(file: RecordFile) -> None:
    file.write(made(n=10**30))
    assert file.path.read_bytes() == b'{"kind":"chat","n":1000000000000000000000000000000}\n'


@pytest.mark.parametrize("happen", [remove, move, remove_folder])
def test_so_it_is_after_several_lines(tmp_path: Path, happen: Callable[[Path], None]) -> None:
    path = tmp_path / "folder" / "requests.jsonl"
    file = RecordFile(settings(path))
    for n in range(6):
        file.write(made(n=n))
        if n == 3:
            happen(path)
    assert [made(n=4), made(n=5)] == read(path)


# Several writers


_WRITE = """
import os, sys
from addon.records.file import RecordFile
from masking.config import MetricsSettings

path, writers, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(writers):
    if pid := os.fork():
        print(pid, flush=True)
        continue
    file = RecordFile(MetricsSettings(path=path, max_megabytes=1))
    for n in range(count):
        file.write({"kind": "chat", "writer": str(number), "n": n, "filler": "x" * 2000})
    file.close()
    sys.exit()
for _ in range(writers):
    os.wait()
"""


def start_writers(path: Path, writers: int, count: int) -> "subprocess.Popen[str]":
    """Start processes that write as many records each, all at the same time, and one before them.

    It prints their ids, waits for them, and has their errors.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(path), str(writers), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def drop_torn(path: Path) -> None:
    """Take out of a file the line that a killed process did not write to its end, if any."""
    lines = path.read_bytes().splitlines(keepends=True)
    torn = [line for line in lines if not line.endswith(b"}\n")]
    assert len(torn) <= 1
    path.write_bytes(b"".join(line for line in lines if line not in torn))


def written(path: Path) -> list[tuple[str, int]]:
    """Return the writer and the number of each record, in the older file and the present one."""
    both = (path.with_name(f"{path.name}.1"), path)
    return [(each["writer"], each["n"]) for one in both if one.exists() for each in read(one)]


def test_no_record_of_several_writers_is_lost_when_the_file_is_rotated(path: Path) -> None:
    # Together they write more than one file holds, and less than two.
    assert "" == start_writers(path, 3, 250).communicate()[1]
    assert Counter(written(path)) == Counter((str(w), n) for w in range(3) for n in range(250))


def test_of_many_rotations_the_latest_two_files_are_whole(path: Path) -> None:
    """Of each writer there is an unbroken run of records, up to its last."""
    assert "" == start_writers(path, 4, 400).communicate()[1]
    by_writer: dict[str, list[int]] = {}
    for name, n in written(path):
        by_writer.setdefault(name, []).append(n)
    assert all(numbers == list(range(numbers[0], 400)) for numbers in by_writer.values())
    assert sum(map(len, by_writer.values())) > 1_000_000 // 2_100
    assert path.stat().st_size <= 1_000_000


def test_a_writer_that_is_killed_harms_no_other(path: Path) -> None:
    started = start_writers(path, 3, 250)
    assert started.stdout
    victim = int(started.stdout.readline())
    while not path.exists() or path.stat().st_size < 100_000:
        time.sleep(0.001)
    os.kill(victim, signal.SIGKILL)
    assert "" == started.communicate()[1]
    for each in path.parent.glob(f"{path.name}*"):
        drop_torn(each)
    found = Counter(written(path))
    assert {(name, n) for name, n in found if name != "0"} == {
        (str(w), n) for w in (1, 2) for n in range(250)
    }
    assert set(found.values()) == {1}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file wait long for its lock."""
    monkeypatch.setattr("addon.records.file._PATIENCE", 0.1)


@pytest.fixture
def held(path: Path, impatient: None) -> Iterator[Path]:
    """Have somebody hold the lock who does not let go, as a stopped process does."""
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield path
    os.close(lock)


def test_a_lock_that_is_never_let_go_costs_the_rotation_alone(held: Path) -> None:
    file = SharedFile(held, 1_000_000)
    told = [*file.append(HALF), *file.append(HALF)]
    assert HALF * 2 == held.read_bytes()
    assert told == ["cannot be rotated, and grows: another process holds its lock"]


def test_a_lock_is_waited_for_and_then_let_go(path: Path) -> None:
    file = SharedFile(path, 1_000_000)
    file.append(HALF)
    lock = os.open(f"{path}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(0.1, os.close, (lock,)).start()
    assert [] == file.append(HALF)
    assert (HALF, HALF) == (path.with_name(f"{path.name}.1").read_bytes(), path.read_bytes())
    lock = os.open(f"{path}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)


@pytest.mark.parametrize("kind", ["the file", "its folder"])
def test_a_link_stays_where_it_is_and_what_it_leads_to_is_rotated(
    tmp_path: Path, kind: str
) -> None:
    folder, link = tmp_path / "real", tmp_path / "link"
    target = folder / "requests.jsonl"
    link.symlink_to(target if kind == "the file" else folder)
    file = SharedFile(link if kind == "the file" else link / target.name, 1_000_000)
    assert [[], []] == [file.append(HALF), file.append(HALF)]
    assert link.is_symlink()
    older = target.with_name(f"{target.name}.1")
    assert (HALF, HALF) == (older.read_bytes(), target.read_bytes())


def test_a_writer_that_locks_by_filelock_is_kept_out_and_keeps_out(
    path: Path, impatient: None
) -> None:
    file = SharedFile(path, 1_000_000)
    with FileLock(f"{path}.lock"):
        told = [*file.append(HALF), *file.append(HALF)]
    assert told == ["cannot be rotated, and grows: another process holds its lock"]
    with file._locked(path), pytest.raises(Timeout):
        FileLock(f"{path}.lock").acquire(timeout=0)


def test_a_lock_that_is_removed_while_it_is_waited_for_is_made_anew(path: Path) -> None:
    file, lock = SharedFile(path, 1_000_000), Path(f"{path}.lock")
    file.append(LINE)
    with lock.open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        threading.Timer(0.1, lock.unlink).start()
        assert [] == file.append(LINE)
    assert (LINE * 2, True) == (path.read_bytes(), lock.exists())


def test_a_lock_that_is_removed_as_it_is_taken_is_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lock nobody out: the next one makes a file of its own."""
    removed: list[Path] = []

    def lock_too_late(file: int) -> None:
        if not removed:
            path.unlink()
            removed.append(path)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    monkeypatch.setattr("addon.places._lock", lock_too_late)
    lock = take_lock(str(path), 60.0)
    assert isinstance(lock, int)
    assert os.path.samestat(os.fstat(lock), path.stat())
    release_lock(lock)


def test_so_does_a_folder_that_takes_no_other_file(path: Path) -> None:
    path.with_name(f"{path.name}.lock").mkdir()
    file = SharedFile(path, 1_000_000)
    told = [*file.append(HALF), *file.append(HALF)]
    assert HALF * 2 == path.read_bytes()
    assert told == ["cannot be rotated, and grows: Is a directory"]


def test_a_line_that_alone_is_too_large_rotates_no_empty_file(path: Path) -> None:
    older = path.with_name(f"{path.name}.1")
    older.write_bytes(LINE)
    path.touch()
    assert [] == SharedFile(path, 10).append(LINE)
    assert (LINE, LINE) == (older.read_bytes(), path.read_bytes())


def test_a_file_that_cannot_be_renamed_grows(path: Path) -> None:
    path.with_name(f"{path.name}.1").mkdir()
    file = SharedFile(path, 1_000_000)
    told = [*file.append(HALF), *file.append(HALF)]
    assert HALF * 2 == path.read_bytes()
    assert told == ["cannot be rotated, and grows: Is a directory"]


# Reading, while others write


def line(host: str, time: str = "2026-01-01T00:00:00.000+00:00", **fields: object) -> bytes:
    least = {"kind": "chat", "time": time, "host": host, "path": "/p", "masking": "on"}
    return json.dumps(least | fields, ensure_ascii=False).encode() + b"\n"


def hosts(path: Path, since: datetime | None = None) -> list[str]:
    return [record.host for record in read_records(path, since)]


def test_the_older_file_comes_first(path: Path) -> None:
    path.with_name("requests.jsonl.1").write_bytes(line("a") + line("b"))
    path.write_bytes(line("c"))
    assert ["a", "b", "c"] == hosts(path)


def test_where_there_is_no_file_there_are_no_records(path: Path) -> None:
    assert [] == hosts(path) == hosts(path / "requests.jsonl" / "b")


@pytest.mark.parametrize("name", ["requests.jsonl", "requests.jsonl.1"])
def test_one_of_the_two_is_enough(path: Path, name: str) -> None:
    path.with_name(name).write_bytes(line("a"))
    assert ["a"] == hosts(path)


def test_a_link_is_followed_to_both(path: Path) -> None:
    target = path.with_name("elsewhere.jsonl")
    target.write_bytes(line("b"))
    target.with_name("elsewhere.jsonl.1").write_bytes(line("a"))
    path.symlink_to(target)
    assert ["a", "b"] == hosts(path)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(line("x")[:-20], id="the beginning of a record"),
        pytest.param(line("x")[20:], id="its end"),
        pytest.param(line("x")[:-20] + line("y"), id="one that runs into the next"),
        pytest.param(line("x", kind="mcp"), id="an answer of an MCP server"),
        pytest.param(line("x", masking="perhaps"), id="a value of no record"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n \n", id="blank lines"),
        pytest.param(b"[1]\n", id="a list"),
        pytest.param(b"1\n", id="a number"),
        pytest.param(b"{}\n", id="an empty object"),
        pytest.param(b"\0" * 4_096, id="what a crash leaves"),
        pytest.param(b"\xff\xfe\n", id="no text"),
        pytest.param(b"[" * 1_500_000, id="a line without an end"),
        pytest.param(b"[" * 100_000 + b"\n", id="very deep"),
    ],
)
@pytest.mark.parametrize("since", [None, datetime(2025, 1, 1, tzinfo=UTC)])
def test_what_is_no_record_is_passed_over(path: Path, odd: bytes, since: datetime | None) -> None:
    path.write_bytes(line("a") + odd + b"\n" + line("b") + odd)
    assert ["a", "b"] == hosts(path, since)


def test_a_record_without_the_end_of_its_line_is_one(path: Path) -> None:
    path.write_bytes(line("a").rstrip())
    assert ["a"] == hosts(path)


TIMES = {
    "before": "2026-03-01T11:59:59.999+00:00",
    "just then": "2026-03-01T12:00:00.000+00:00",
    "after": "2026-03-01T12:00:00.001+00:00",
    "before, elsewhere": "2026-03-01T13:00:00+02:00",
    "after, elsewhere": "2026-03-01T11:00:00-02:00",
    "nonsense": "yesterday",
}


@pytest.mark.parametrize(
    "since",
    [
        pytest.param(datetime(2026, 3, 1, 12, tzinfo=UTC), id="in UTC"),
        pytest.param(datetime(2026, 3, 1, 8, tzinfo=timezone(timedelta(hours=-4))), id="elsewhere"),
        pytest.param(
            datetime(2026, 3, 1, 12, tzinfo=UTC).astimezone().replace(tzinfo=None), id="local"
        ),
    ],
)
def test_what_arrived_before_a_time_is_passed_over(path: Path, since: datetime) -> None:
    path.write_bytes(b"".join(line(host, time) for host, time in TIMES.items()))
    assert list(TIMES) == hosts(path)
    assert ["just then", "after", "after, elsewhere"] == hosts(path, since)


def test_a_text_that_looks_like_a_time_is_none(path: Path) -> None:
    model = 'm"time": "1999-01-01T00:00:00.000+00:00"'
    path.write_bytes(line("a", model=model) + line('"time": "1999"'))
    assert ["a", '"time": "1999"'] == hosts(path, datetime(2025, 1, 1, tzinfo=UTC))


def test_a_pipe_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert [] == hosts(path)


def test_a_folder_of_the_older_file_s_name_is_passed_over(path: Path) -> None:
    path.with_name(f"{path.name}.1").mkdir()
    path.write_bytes(line("a"))
    assert ["a"] == hosts(path)


def test_a_file_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        hosts(path)


class Growing(io.RawIOBase):
    """A file that ends after each of these pieces until it is read again."""

    def __init__(self, *pieces: bytes) -> None:
        self._left = [part for piece in pieces for part in (piece, b"")]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        piece = self._left.pop(0) if self._left else b""
        memoryview(buffer)[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        pytest.param((b"a\nb", b"\nc\n"), [b"a\n", b"b\n", b"c\n"], id="in two"),
        pytest.param((b"a", b"b", b"\n"), [b"ab\n"], id="in three"),
        pytest.param((b"a\nb",), [b"a\n", b"b"], id="without an end"),
    ],
)
def test_a_line_that_is_half_written_is_read_to_its_end(
    pieces: tuple[bytes, ...], lines: list[bytes]
) -> None:
    assert lines == [*read_lines(io.BufferedReader(Growing(*pieces)))]


def test_what_is_longer_than_any_record_is_read_in_pieces() -> None:
    parts = [len(part) for part in read_lines(io.BufferedReader(io.BytesIO(b"x" * 2_500_000)))]
    assert [1_000_000, 1_000_000, 500_000] == parts


_WRITE_MANY = """
import sys
from pathlib import Path
from addon.records.file import RecordFile
from masking.config import MetricsSettings

file = RecordFile(MetricsSettings(path=sys.argv[1], max_megabytes=1))
record = {"kind": "chat", "time": "2026", "path": "x" * 2000, "masking": "on"}
for n in range(2000):
    file.write({**record, "host": str(n)})
"""


@pytest.fixture
def writer(path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", _WRITE_MANY, str(path)]) as process:
        yield process


def test_a_reader_meets_whole_records_in_order_however_often_the_file_is_rotated(
    path: Path, writer: "subprocess.Popen[bytes]"
) -> None:
    """Of one writer, all records that a reader meets are an unbroken run."""
    last = 0
    while writer.poll() is None:
        if numbers := list(map(int, hosts(path))):
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert numbers[-1] >= last
            last = numbers[-1]
    assert 1_999 == int(hosts(path)[-1])


def test_what_is_written_is_read(path: Path) -> None:
    file = RecordFile(MetricsSettings(path=str(path)))
    for record in read_records(path):
        pytest.fail(f"not written yet: {record}")
    file.write(json.loads(line("modèle \U0001f600", kept={"error": 1})))
    (record,) = read_records(path)
    assert (record.host, record.kept) == ("modèle \U0001f600", {"error": 1})
