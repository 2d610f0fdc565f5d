"""The file of records: private, shared by several processes, and whole whatever happens to it."""

import contextlib
import json
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.metrics.record_file import RecordFile, default_path
from masking.config import MetricsSettings

FILLER = "x" * 2_000
"""Records of a real size: some hundred fill the smallest file."""


LINE = b'{"kind":"chat"}\n'
"""The shortest line of a record."""


def made(**fields: object) -> dict[str, object]:
    """Return a record that has these fields."""
    return {"kind": "chat", **fields}


def settings(path: Path, **others: int) -> MetricsSettings:
    return MetricsSettings(path=str(path), **others)


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
        f"3 records were lost: {path}",
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
        f"3 records were lost: {path}",
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
def test_so_it_is_after_lines_that_were_written_the_quick_way(
    tmp_path: Path, happen: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "requests.jsonl"
    file = RecordFile(settings(path))
    for n in range(6):
        file.write(made(n=n))
        if n == 3:
            happen(path)
    assert [made(n=4), made(n=5)] == read(path)
