"""The folder of what was masked: private files, whole or not there, no link followed, limits."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from addon.commands.main import main
from addon.shared.recall_folder import (
    ENVIRONMENT,
    Kept,
    RecallFolder,
    find_folder,
    find_kept_folder,
)
from masking.config import RecallSettings
from masking.window.placeholder import RECALL_ID_CHARS, encode_text, recall_id

TEXT = "é old output\r\n\x00"
DATA, ID = encode_text(TEXT), recall_id(TEXT)


@pytest.fixture
def folder(tmp_path: Path) -> RecallFolder:
    folder = RecallFolder(tmp_path / "state" / "recall")
    folder.make()
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def put(folder: RecallFolder, text: str, used: float) -> str:
    """Write a text that was last used then; its id."""
    folder.write(recall_id(text), encode_text(text))
    os.utime(folder.path / recall_id(text), (used, used))
    return recall_id(text)


def ids(folder: RecallFolder) -> list[str]:
    return [kept.recall_id for kept in folder.list_files()]


def test_it_is_in_the_state_directory_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/me")
    assert tmp_path / "observation-masking" / "recall" == find_folder(RecallSettings())
    assert Path("/home/me/kept") == find_folder(RecallSettings(folder="~/kept"))


def test_folder_and_files_are_for_their_user_alone(folder: RecallFolder) -> None:
    before = os.umask(0)
    try:
        inner = RecallFolder(folder.path / "deeper" / "down")
        inner.make()
        inner.write(ID, DATA)
    finally:
        os.umask(before)
    assert [0o700, 0o700, 0o700] == [
        mode(path) for path in (folder.path, inner.path.parent, inner.path)
    ]
    assert 0o600 == mode(inner.path / ID)


@pytest.mark.parametrize("others", [0o750, 0o701, 0o770, 0o707])
def test_a_folder_that_others_may_enter_is_not_used(folder: RecallFolder, others: int) -> None:
    folder.path.chmod(others)
    with pytest.raises(PermissionError, match="chmod 700"):
        folder.make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_used(folder: RecallFolder) -> None:
    os.chown(folder.path, 12345, -1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        folder.make()


def test_a_text_comes_back_byte_by_byte(folder: RecallFolder) -> None:
    folder.write(ID, DATA)
    assert DATA == folder.read(ID) == (folder.path / ID).read_bytes()


@pytest.mark.parametrize("digits", range(RECALL_ID_CHARS))
def test_a_part_of_an_id_is_not_enough(folder: RecallFolder, digits: int) -> None:
    folder.write(ID, DATA)
    for part in (ID[:digits], ID[-digits:] if digits else "", f"{ID[:digits]}*"):
        with pytest.raises(ValueError, match="show all 16 digits of an id"):
            folder.read(part)


@pytest.mark.parametrize(
    "unknown",
    ["", "f" * 16, "../secret", "nothing", ID + "0", ID.upper(), "*", "a\nb\x1b", "x" * 100_000],
)
def test_an_unknown_id_is_said_in_one_short_line(folder: RecallFolder, unknown: str) -> None:
    folder.write(ID, DATA)
    (folder.path.parent / "secret").write_text("no")
    with pytest.raises(ValueError, match=r"no text (with|has) the id") as caught:
        folder.read(unknown)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200 + len(str(folder.path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_no_text(folder: RecallFolder, make: Callable[[Path], None]) -> None:
    make(folder.path / ID)
    with pytest.raises(ValueError, match="no text with the id"):
        folder.read(ID)


def test_no_folder_holds_nothing(tmp_path: Path) -> None:
    nowhere = RecallFolder(tmp_path / "nowhere")
    assert [] == nowhere.list_files()
    assert not nowhere.path.exists()


def test_a_file_that_is_not_what_its_name_says_is_damaged(folder: RecallFolder) -> None:
    (folder.path / ID).write_bytes(DATA[::-1])
    with pytest.raises(ValueError, match="is damaged"):
        folder.read(ID)


def test_a_file_that_was_cut_is_written_again(folder: RecallFolder) -> None:
    folder.write(ID, DATA[:5])
    assert not folder.touch(ID, len(DATA))
    folder.write(ID, DATA)
    assert folder.touch(ID, len(DATA))
    assert DATA == folder.read(ID)


def test_a_planted_link_is_neither_read_nor_written_through(
    folder: RecallFolder, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_bytes(DATA)
    target.chmod(0o644)
    (folder.path / ID).symlink_to(target)
    assert [] == folder.list_files()
    with pytest.raises(ValueError, match="no text with the id"):
        folder.read(ID)
    assert not folder.touch(ID, len(DATA))
    folder.write(ID, DATA)
    assert not (folder.path / ID).is_symlink()
    assert 0o600 == mode(folder.path / ID)
    assert 0o644 == mode(target)


def test_a_folder_in_the_place_of_a_file_is_an_error_that_leaves_nothing(
    folder: RecallFolder,
) -> None:
    (folder.path / ID).mkdir()
    assert not folder.touch(ID, len(DATA))
    with pytest.raises(OSError, match="directory"):
        folder.write(ID, DATA)
    assert [ID] == [path.name for path in folder.path.iterdir()]


def test_a_full_disk_leaves_nothing_of_a_file(folder: RecallFolder) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            folder.write(ID, b"x" * 2_000)
        folder.write(ID, DATA)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [ID] == [path.name for path in folder.path.iterdir()]


def test_what_was_used_longest_ago_is_listed_first_and_deleted_first(folder: RecallFolder) -> None:
    put(folder, "3" * 100, 3)
    written = [put(folder, f"{number}" * 100, number) for number in (1, 2, 3, 4)]
    assert written == ids(folder)
    folder.trim(max_bytes=445, oldest=0, now=5)
    assert 4 == len(folder.list_files())
    folder.trim(max_bytes=444, oldest=0, now=5)
    assert written[1:] == ids(folder)
    folder.trim(max_bytes=1, oldest=0, now=5)
    assert [] == folder.list_files()


def test_reading_and_masking_a_text_again_is_use(folder: RecallFolder) -> None:
    first, second, third = (put(folder, f"{number}", number) for number in (1, 2, 3))
    assert [Kept(first, 1, 1.0), Kept(second, 1, 2.0), Kept(third, 1, 3.0)] == folder.list_files()
    folder.read(first)
    assert folder.touch(second, 1)
    assert third == folder.list_files()[0].recall_id


def test_what_is_too_old_is_deleted_whatever_the_size(folder: RecallFolder) -> None:
    written = [put(folder, f"{number}", number) for number in (1, 2, 3)]
    folder.trim(max_bytes=1_000, oldest=3, now=5)
    assert written[2:] == ids(folder)


def test_only_its_own_files_are_deleted(folder: RecallFolder) -> None:
    others = ["notes.txt", "f" * 15, "F" * 16, ".unfinished-old", ".unfinished-new"]
    for name in others:
        (folder.path / name).write_text("mine")
        os.utime(folder.path / name, (1, 1))
    os.utime(folder.path / ".unfinished-new", (9_000, 9_000))
    folder.trim(max_bytes=1, oldest=9_000, now=10_000)
    left = {path.name for path in folder.path.iterdir()}
    assert {*others} - {".unfinished-old"} == left


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(RecallSettings(enabled=True, folder="/kept"), "/kept", id="it is named"),
        pytest.param(RecallSettings(folder="/kept"), None, id="nothing is kept"),
        pytest.param(RecallSettings(enabled=True, folder="~nobody-at-all/x"), None, id="nowhere"),
    ],
)
def test_a_proxy_tells_where_it_keeps(settings: RecallSettings, expected: str | None) -> None:
    assert expected == find_kept_folder(settings)


def test_the_environment_names_it(
    folder: RecallFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    folder.write(ID, DATA)
    monkeypatch.setenv(ENVIRONMENT, str(folder.path))
    assert 0 == main(["recall", ID])
    assert capsysbinary.readouterr().out == DATA
