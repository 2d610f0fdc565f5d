"""What is masked is kept: private files, whole or not there, no link followed, within limits.

They are written once, off the request's path, and a failure is one warning.
"""

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from addon.commands.main import main
from addon.recall import (
    FOLDER_VARIABLE,
    Kept,
    RecallFolder,
    RecallWriter,
    folder_of,
    kept_folder,
)
from masking.config import RecallSettings
from masking.model import Decision
from masking.rewrite import rewrite_request
from masking.window.placeholder import RECALL_ID_CHARS, encode_text, recall_id
from tests.live.harness import conversation, encoded
from tests.support.builders import policy
from tests.support.clock import Clock

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
    assert tmp_path / "observation-masking" / "recall" == folder_of(RecallSettings())
    assert Path("/home/me/kept") == folder_of(RecallSettings(folder="~/kept"))


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
    assert expected == kept_folder(settings)


def test_the_environment_names_it(
    folder: RecallFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    folder.write(ID, DATA)
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder.path))
    assert 0 == main(["recall", ID])
    assert capsysbinary.readouterr().out == DATA


# Keeping the texts of requests


DAY = 86_400.0
MEGABYTE = 1_000_000


def decide(*texts: str) -> tuple[Decision, ...]:
    """Return the decisions on a conversation in which each of these texts is masked."""
    request = conversation(len(texts) + 1)
    for text, result in zip(texts, request["messages"][2::2], strict=False):
        result["content"] = text
    return rewrite_request(encoded(request), policy(window_turns=1)).decisions


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000 * DAY)


@pytest.fixture
def settings(tmp_path: Path) -> RecallSettings:
    return RecallSettings(enabled=True, folder=str(tmp_path / "recall"), max_megabytes=1)


def keep(settings: RecallSettings, *texts: str, clock: Clock | None = None) -> None:
    """Keep these texts, as a proxy of its own would."""
    writer = RecallWriter(clock or Clock(1_000 * DAY))
    writer.keep(decide(*texts), 100, settings)
    writer.close()


def kept_ids(settings: RecallSettings) -> set[str]:
    return {*ids(RecallFolder(Path(settings.folder)))}


def test_nothing_is_written_when_it_is_off(settings: RecallSettings) -> None:
    keep(replace(settings, enabled=False), "old")
    assert not Path(settings.folder).exists()


def test_each_text_is_written_once_by_whomever(settings: RecallSettings) -> None:
    keep(settings, "a", "b", "a")
    before = {path.name: path.stat().st_ino for path in Path(settings.folder).iterdir()}
    assert {recall_id("a"), recall_id("b")} == before.keys()
    keep(settings, "b", "a", "c")
    after = {path.name: path.stat().st_ino for path in Path(settings.folder).iterdir()}
    assert {**before, recall_id("c"): after[recall_id("c")]} == after


def test_a_folder_that_was_deleted_is_made_again(settings: RecallSettings) -> None:
    writer, decisions = RecallWriter(), decide("a")

    def deleting() -> Iterator[Decision]:
        """Delete the folder between two requests, in the thread that writes."""
        shutil.rmtree(settings.folder)
        yield from ()

    writer.keep(decisions, 100, settings)
    writer.keep(deleting(), 100, settings)
    writer.keep(decisions, 100, settings)
    writer.close()
    assert {recall_id("a")} == kept_ids(settings)


def test_the_folder_stays_within_its_size(settings: RecallSettings) -> None:
    writer = RecallWriter()
    texts = [f"{number}" * 40_000 for number in range(1, 10)]
    for number in range(100):
        writer.keep(decide(*(f"{number:03} {text}" for text in texts)), 100, settings)
    writer.close()
    kept = RecallFolder(Path(settings.folder)).list_files()
    assert 0.5 * MEGABYTE < sum(file.size for file in kept) <= MEGABYTE
    assert {recall_id(f"099 {text}") for text in texts} <= {file.recall_id for file in kept}


def test_of_too_large_a_request_the_texts_masked_last_are_kept(settings: RecallSettings) -> None:
    texts = ["a" * 200_000, "b" * 600_000, "c" * 200_000, "d" * 200_000]
    keep(settings, *texts)
    assert {recall_id(texts[2]), recall_id(texts[3])} == kept_ids(settings)


def test_what_was_not_used_for_some_days_is_deleted(settings: RecallSettings, clock: Clock) -> None:
    keep(settings, "a", "b")
    for recalled, days in ((recall_id("a"), 31), (recall_id("b"), 29)):
        used = clock.now - days * DAY
        os.utime(Path(settings.folder) / recalled, (used, used))
    keep(settings, clock=clock)
    assert {recall_id("b")} == kept_ids(settings)


def test_age_is_looked_at_again_after_an_hour(settings: RecallSettings, clock: Clock) -> None:
    writer, path = RecallWriter(clock), Path(settings.folder) / recall_id("a")
    found = []

    def later(seconds: float) -> Iterator[Decision]:
        """Let the text be old, and time pass, in the thread that writes."""
        os.utime(path, (1, 1))
        clock.now += seconds
        yield from ()

    def look() -> Iterator[Decision]:
        found.append(path.exists())
        yield from ()

    for decisions in (decide("a"), later(3_599), look(), later(1), look()):
        writer.keep(decisions, 100, settings)
    writer.close()
    assert [True, False] == found


def block(path: Path) -> None:
    path.write_text("in the way")


def open_to_others(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


def block_parent(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("in the way")


@pytest.mark.parametrize("spoil", [block, open_to_others, block_parent])
def test_a_folder_that_cannot_be_used_is_one_warning(
    spoil: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "parent" / "recall"
    path.parent.mkdir()
    spoil(path)
    settings = RecallSettings(enabled=True, folder=str(path))
    writer = RecallWriter()
    for _ in range(3):
        writer.keep(decide("a", "b"), 100, settings)
    writer.close()
    assert 1 == len(caplog.messages)
    assert caplog.messages[0].startswith("masked content is not kept for recall: ")


def test_a_full_disk_is_one_warning(
    settings: RecallSettings, caplog: pytest.LogCaptureFixture
) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = RecallWriter()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        for number in range(3):
            writer.keep(decide(f"{number}" * 2_000), 100, settings)
        writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ["masked content is not kept for recall: File too large"] == caplog.messages
    assert [] == [*Path(settings.folder).iterdir()]


@pytest.mark.parametrize("folder", ["~nobody-of-this-name/recall", "/nul\0l"])
def test_a_name_that_cannot_be_is_one_warning(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep(RecallSettings(enabled=True, folder=folder), "a")
    assert 1 == len(caplog.messages)


def test_bodies_beyond_a_bound_do_not_wait_for_a_slow_disk(
    settings: RecallSettings, caplog: pytest.LogCaptureFixture
) -> None:
    writer, refused = RecallWriter(), threading.Event()

    def decisions() -> Iterator[Decision]:
        """Hold up the thread, as a disk does, until the others were refused."""
        refused.wait()
        yield from ()

    writer.keep(decisions(), 65_000_000, settings)
    for _ in range(3):
        writer.keep(decide("a"), 100, settings)
    refused.set()
    writer.close()
    assert ["some masked content is not kept for recall: the disk is too slow"] == caplog.messages
    assert set() == kept_ids(settings)


def test_a_closed_writer_takes_nothing(settings: RecallSettings) -> None:
    writer = RecallWriter()
    writer.close()
    writer.keep(decide("a"), 100, settings)
    assert set() == kept_ids(settings)
