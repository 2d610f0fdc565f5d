"""A file of lines that several processes append to: no line is lost, torn or doubled."""

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.metrics.record_file import BEGINNING
from addon.metrics.shared_file import SharedFile

HALF = b'{"kind":"chat"' + b"x" * 600_000 + b"\n"
"""A line of which two do not fit into a file of a megabyte."""

LINE = b'{"kind":"chat"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"


_WRITE = """
import sys
from pathlib import Path
from addon.metrics.record_file import RecordFile
from masking.config import MetricsSettings

name, count, path = sys.argv[1:]
file = RecordFile(MetricsSettings(path=path, max_megabytes=1))
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(count)):
    file.write({"kind": "chat", "writer": name, "n": n, "filler": "x" * 2000})
file.close()
"""


def start_writers(path: Path, writers: int, count: int) -> list[subprocess.Popen[str]]:
    """Start processes that write as many records each, all at the same time."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITE, str(number), str(count), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for each in started:
        assert each.stdout
        assert each.stdout.readline() == "ready\n"
    for each in started:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    return started


def read(path: Path) -> list[dict[str, Any]]:
    """Read all lines; one that is no record fails."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


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
    told = [each.communicate()[1] for each in start_writers(path, 3, 250)]
    assert told == [""] * 3
    assert Counter(written(path)) == Counter((str(w), n) for w in range(3) for n in range(250))


def test_of_many_rotations_the_latest_two_files_are_whole(path: Path) -> None:
    """Of each writer there is an unbroken run of records, up to its last."""
    told = [each.communicate()[1] for each in start_writers(path, 4, 600)]
    assert told == [""] * 4
    by_writer: dict[str, list[int]] = {}
    for name, n in written(path):
        by_writer.setdefault(name, []).append(n)
    assert all(numbers == list(range(numbers[0], 600)) for numbers in by_writer.values())
    assert sum(map(len, by_writer.values())) > 1_000_000 // 2_100
    assert path.stat().st_size <= 1_000_000


def test_a_writer_that_is_killed_harms_no_other(path: Path) -> None:
    victim, *others = start_writers(path, 3, 250)
    while not path.exists() or path.stat().st_size < 100_000:
        time.sleep(0.001)
    victim.kill()
    victim.communicate()
    told = [each.communicate()[1] for each in others]
    assert told == [""] * 2
    for each in path.parent.glob(f"{path.name}*"):
        drop_torn(each)
    found = Counter(written(path))
    assert {(name, n) for name, n in found if name != "0"} == {
        (str(w), n) for w in (1, 2) for n in range(250)
    }
    assert set(found.values()) == {1}


@pytest.fixture
def held(path: Path) -> Iterator[Path]:
    """Have somebody hold the lock who does not let go, as a stopped process does."""
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield path
    os.close(lock)


def test_a_lock_that_is_never_let_go_costs_the_rotation_alone(held: Path) -> None:
    file = SharedFile(held, 1_000_000, BEGINNING)
    told = [*file.append(HALF), *file.append(HALF)]
    assert HALF * 2 == held.read_bytes()
    assert told == ["cannot be rotated, and grows: another process holds its lock"]


def test_a_lock_is_waited_for_and_then_let_go(path: Path) -> None:
    file = SharedFile(path, 1_000_000, BEGINNING)
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
    file = SharedFile(link if kind == "the file" else link / target.name, 1_000_000, BEGINNING)
    assert [[], []] == [file.append(HALF), file.append(HALF)]
    assert link.is_symlink()
    older = target.with_name(f"{target.name}.1")
    assert (HALF, HALF) == (older.read_bytes(), target.read_bytes())


def test_so_does_a_folder_that_takes_no_other_file(path: Path) -> None:
    path.with_name(f"{path.name}.lock").mkdir()
    file = SharedFile(path, 1_000_000, BEGINNING)
    told = [*file.append(HALF), *file.append(HALF)]
    assert HALF * 2 == path.read_bytes()
    assert told == ["cannot be rotated, and grows: Is a directory"]


def test_a_line_that_alone_is_too_large_rotates_no_empty_file(path: Path) -> None:
    older = path.with_name(f"{path.name}.1")
    older.write_bytes(LINE)
    path.touch()
    assert [] == SharedFile(path, 10, BEGINNING).append(LINE)
    assert (LINE, LINE) == (older.read_bytes(), path.read_bytes())


def test_a_file_that_cannot_be_renamed_grows(path: Path) -> None:
    path.with_name(f"{path.name}.1").mkdir()
    file = SharedFile(path, 1_000_000, BEGINNING)
    told = [*file.append(HALF), *file.append(HALF)]
    assert HALF * 2 == path.read_bytes()
    assert told == ["cannot be rotated, and grows: Is a directory"]
