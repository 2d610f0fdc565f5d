"""Keeping what was masked: once, within limits, off the request's path; a failure warns once."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from addon.shared.recall_folder import RecallFolder
from addon.shared.recall_writer import RecallWriter
from masking.config import RecallSettings
from masking.model import Decision
from masking.rewrite import rewrite_request
from masking.window.placeholder import recall_id
from tests.builders import policy
from tests.live.harness import conversation, encoded

DAY = 86_400.0
MEGABYTE = 1_000_000


def decide(*texts: str) -> tuple[Decision, ...]:
    """Return the decisions on a conversation in which each of these texts is masked."""
    request = conversation(len(texts) + 1)
    for text, result in zip(texts, request["messages"][2::2], strict=False):
        result["content"] = text
    return rewrite_request(encoded(request), policy(window_turns=1)).decisions


class Clock:
    now = 1_000 * DAY

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings(tmp_path: Path) -> RecallSettings:
    return RecallSettings(enabled=True, folder=str(tmp_path / "recall"), max_megabytes=1)


def keep(settings: RecallSettings, *texts: str, clock: Clock | None = None) -> None:
    """Keep these texts, as a proxy of its own would."""
    writer = RecallWriter(clock or Clock())
    writer.keep(decide(*texts), 100, settings)
    writer.close()


def ids(settings: RecallSettings) -> set[str]:
    return {kept.recall_id for kept in RecallFolder(Path(settings.folder)).list_files()}


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
    assert {recall_id("a")} == ids(settings)


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
    assert {recall_id(texts[2]), recall_id(texts[3])} == ids(settings)


def test_what_was_not_used_for_some_days_is_deleted(settings: RecallSettings, clock: Clock) -> None:
    keep(settings, "a", "b")
    for recalled, days in ((recall_id("a"), 31), (recall_id("b"), 29)):
        used = clock.now - days * DAY
        os.utime(Path(settings.folder) / recalled, (used, used))
    keep(settings, clock=clock)
    assert {recall_id("b")} == ids(settings)


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
    assert caplog.messages[0].startswith("what is masked is not kept for recall: ")


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
    assert ["what is masked is not kept for recall: File too large"] == caplog.messages
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
    assert ["what is masked is not kept at all times: the disk is too slow"] == caplog.messages
    assert set() == ids(settings)


def test_a_closed_writer_takes_nothing(settings: RecallSettings) -> None:
    writer = RecallWriter()
    writer.close()
    writer.keep(decide("a"), 100, settings)
    assert set() == ids(settings)
