"""Whether what is masked can be kept for recall."""

import os
from pathlib import Path

import pytest

from addon.commands.diagnosis.recall import check_recall
from addon.recall import RecallFolder
from masking.config import RecallSettings
from masking.window.placeholder import encode_text, recall_id
from tests.findings import levels, mends


def keep(home: Path, *texts: str) -> RecallSettings:
    """Keep texts in a folder; return its settings."""
    folder = RecallFolder(home / "kept")
    folder.make()
    for text in texts:
        folder.write(recall_id(text), encode_text(text))
    return RecallSettings(enabled=True, folder=str(folder.path), max_megabytes=1)


def test_nothing_is_said_where_nothing_is_kept(home: Path) -> None:
    assert [] == list(check_recall(RecallSettings(folder=str(home))))


def test_a_folder_that_is_not_there_will_be_made(home: Path) -> None:
    settings = RecallSettings(enabled=True, folder=str(home / "deep" / "er"))
    assert ["ok"] == levels(check_recall(settings))


def test_a_folder_says_how_much_of_its_room_is_taken(home: Path) -> None:
    (found,) = check_recall(keep(home, "one", "x" * 1_500))
    assert f"{home / 'kept'} keeps 2 results for recall, 2 kB of 1 MB" == found.says
    (found,) = check_recall(keep(home, "y" * 1_000_000))
    assert ("note", True) == (found.level, "1.0 MB of 1 MB: the oldest go" in found.says)


def test_a_folder_that_others_may_enter_keeps_nothing(home: Path) -> None:
    settings = keep(home)
    (home / "kept").chmod(0o755)
    found = list(check_recall(settings))
    assert (["broken"], [f"chmod 700 {home / 'kept'}"]) == (levels(found), mends(found))


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_its_place_keeps_nothing(home: Path, name: str) -> None:
    (home / "file").touch()
    assert ["broken"] == levels(check_recall(RecallSettings(enabled=True, folder=str(home / name))))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_keeps_nothing(home: Path) -> None:
    settings = keep(home)
    (home / "kept").chmod(0o500)
    assert ["broken"] == levels(check_recall(settings))
