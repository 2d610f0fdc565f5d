"""Files that are none, files without an end, and links that lead out of the folder given."""

import gzip
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from addon.commands.main import main
from addon.replay import disk
from addon.replay.disk import (
    bound,
    find_files,
    find_inside,
    find_passed_over,
    open_bounded,
    read_bounded,
)
from addon.replay.files import read_conversations
from addon.replay.logs import LOGS
from tests.support.marks import as_one_test
from tests.support.places import ROOT

NAMES = ("x.jsonl", "x.json", "x.traj.json", "x.flow", "x.flow.xz", "x.jsonl.gz", "x.jsonl.zst")


def link_to(target: Path | str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


ODD: dict[str, Callable[[Path], None]] = {
    "a link to a device without an end": link_to("/dev/zero"),
    "a link to noise": link_to("/dev/urandom"),
    "a pipe that nobody writes": os.mkfifo,
    "a link out of the folder": link_to(__file__),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": link_to("nothing"),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_an_odd_file_of_a_folder_is_passed_over_and_that_is_said(
    tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Git keeps symbolic links: the folder may be a stranger's repository."""
    for name in NAMES:
        make(tmp_path / name)
    assert main(["replay", str(tmp_path)])
    said = capsys.readouterr().err
    first = sorted(NAMES)[0]
    assert f"left out: {tmp_path / first}: not a regular file in this folder" in said
    assert f"left out: {len(NAMES) - 3} more files of that kind" in said


@pytest.mark.parametrize("command", ["replay", "tune"])
def test_at_home_they_are_passed_over_too(
    tmp_path: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(os, "environ", {**os.environ, "HOME": str(tmp_path)})
    place = tmp_path / ".claude" / "projects" / "x"
    place.mkdir(parents=True)
    (place / "a.jsonl").symlink_to("/dev/zero")
    os.mkfifo(place / "b.jsonl")
    assert main([command])
    said = capsys.readouterr().err
    assert all(f"left out: {place / name}.jsonl: not a regular" in said for name in "ab")


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "real.jsonl").write_bytes(b"{}")
    (tmp_path / "link.jsonl").symlink_to("a/real.jsonl")
    assert {"real.jsonl", "link.jsonl"} == {p.name for p in find_files(tmp_path, (".jsonl",))}
    assert [] == find_passed_over(tmp_path, (".jsonl",))


@pytest.mark.parametrize("make", [os.mkfifo, link_to("/dev/zero")], ids=["a pipe", "a device"])
def test_one_that_is_named_is_an_error(
    tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    make(path)
    assert main(["replay", str(path)])
    assert f"{path}: not a regular file" in capsys.readouterr().err


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MAX_BYTES", 10_000)
    monkeypatch.setattr(disk, "_FREE_BYTES", 2_000)
    monkeypatch.setattr(disk, "_BUFFER_BYTES", 100)


@as_one_test
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("data", "packed_bytes", "is_read"),
    [
        (b"x" * 1_000, None, True),
        (b"x" * 1_101, None, False),
        ((b"x" * 999 + b"\n") * 10, None, True),
        ((b"x" * 999 + b"\n") * 11, None, False),
        (b"\n" * 2_000, 1, True),
        (b"\n" * 2_101, 1, False),
        (b"\n" * 5_000, 100, True),
        (b"\n" * 5_101, 100, False),
        (b"\n" * 10_101, 1_000_000, False),
    ],
)
def test_lines_and_bytes_have_a_bound(data: bytes, packed_bytes: int | None, is_read: bool) -> None:
    file = bound(io.BytesIO(data), Path("a.jsonl"), packed_bytes, longest_line=1_000)
    if is_read:
        assert data == file.read()
    else:
        with pytest.raises(OSError, match=r"^a\.jsonl: "):
            file.readlines()


CODEX = b"""\
{"timestamp":"2026-11-01T10:00:00Z","type":"session_meta","payload":{"id":"x","cwd":"/x"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":"%s"}}
"""
BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "rollout-2026-11-01T10-00-00-0199.jsonl.zst": lambda data: zstandard.compress(CODEX % data),
    "x.jsonl.gz": lambda data: gzip.compress(b'{"messages": "%s"}\n' % data * 2),
    "x.flow.xz": lambda data: lzma.compress(b"%d:%s," % (len(data), data)),
    "x.jsonl": lambda data: b'{"messages": "%s"}\n' % data * 2,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_grows_without_a_bound_is_left_out(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """120 kB of Zstandard can be one line of 4 GB."""
    monkeypatch.setattr(disk, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(disk, "_FREE_BYTES", 1_000_000)
    (tmp_path / name).write_bytes(BOMBS[name](b"x" * 3_000_000))
    assert main(["replay", str(tmp_path)])
    assert f"left out: {tmp_path / name}" in capsys.readouterr().err


def test_what_is_read_whole_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"[]")
    assert b"[]" == read_bounded(path)
    monkeypatch.setattr(disk, "MAX_BYTES", 1)
    with pytest.raises(OSError, match="too large"):
        read_bounded(path)
    with pytest.raises(OSError, match="too large"), open_bounded(path) as file:
        file.readline()
    with pytest.raises(OSError, match="too large"):
        [*read_conversations(path)]


def test_a_name_in_a_file_leads_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "sub").mkdir(parents=True)
    for each in (tmp_path / "outside", folder / "file"):
        each.touch()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "round").symlink_to("round")
    names = ("file", "./sub/../file", str(folder / "file"))
    assert [find_inside(folder, name) for name in names] == [folder / "file"] * 3
    others = (
        "../outside",
        str(tmp_path / "outside"),
        "link",
        "round",
        "sub",
        "",
        "a\0b",
        "x" * 999,
    )
    assert not any(find_inside(folder, name) for name in others)


def test_no_reader_opens_a_file_by_itself() -> None:
    assert LOGS
    folder = ROOT / "addon" / "replay"
    signs = (".open(", "read_bytes(", "read_text(")
    readers = [*(folder / "logs").glob("*.py"), folder / "files.py"]
    found = [path.name for path in readers if any(sign in path.read_text() for sign in signs)]
    assert [] == found
