"""The quick way to append a line, and what it leaves to the other."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from addon.metrics.quick_append import append
from addon.metrics.record_file import BEGINNING

LINE = b'{"kind":"chat"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_bytes(LINE)
    path.with_name(f"{path.name}.lock").touch()
    return path


def test_a_line_is_appended(path: Path) -> None:
    assert [True, True] == [append(str(path), LINE, 1_000, BEGINNING) for _ in range(2)]
    assert LINE * 3 == path.read_bytes()


def remove(path: Path) -> None:
    path.unlink()


def remove_lock(path: Path) -> None:
    path.with_name(f"{path.name}.lock").unlink()


def link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def tear(path: Path) -> None:
    path.write_bytes(LINE[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def fill(path: Path) -> None:
    path.write_bytes(LINE * 200)


def replace(path: Path) -> None:
    path.write_bytes(b"something else\n")


@pytest.mark.parametrize(
    "happen", [remove, remove_lock, link, make_pipe, tear, empty, fill, replace]
)
def test_whatever_is_otherwise_is_left_alone(path: Path, happen: Callable[[Path], None]) -> None:
    happen(path)
    regular = path.is_file() and path.read_bytes()
    assert not append(str(path), LINE, 1_000, BEGINNING)
    assert regular == (path.is_file() and path.read_bytes())
