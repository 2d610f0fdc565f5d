"""What is stored, where, and who can read it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from addon.commands.doctor.storage import (
    check_accounts,
    check_folder,
    check_record_file,
    check_room,
    read_accounts,
    render_size,
)
from addon.config_commands import Advice
from tests.support.findings import levels
from tests.support.remembered import learn


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o600, ["ok"]), (0o644, ["ok", "note"])],
    ids=["private", "readable by others"],
)
def test_a_record_file_is_the_users_alone(home: Path, mode: int, expected: list[str]) -> None:
    file = home / "requests.jsonl"
    file.write_text('{"kind":"chat"}\n')
    file.chmod(mode)
    assert expected == levels(check_record_file(file))


@pytest.mark.parametrize("name", ["new.jsonl", "deep/er/new.jsonl"])
def test_a_record_file_that_is_not_there_can_be_made(home: Path, name: str) -> None:
    assert ["ok"] == levels(check_record_file(home / name))


def test_a_record_file_that_is_a_folder_is_broken(home: Path) -> None:
    assert ["broken"] == levels(check_record_file(home / "work"))


def test_a_record_file_below_a_file_is_broken(home: Path) -> None:
    (home / "file").touch()
    assert ["broken"] == levels(check_record_file(home / "file" / "requests.jsonl"))


def test_a_record_file_of_something_else_is_broken(home: Path) -> None:
    file = home / "notes.txt"
    file.write_text("a line\n")
    (found,) = [each for each in check_record_file(file) if each.level == "broken"]
    assert f"{file} contains something other than records: no records are kept" == found.says


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_broken(home: Path) -> None:
    (home / "work").chmod(0o500)
    assert ["broken"] == levels(check_record_file(home / "work" / "requests.jsonl"))


def test_a_folder_says_how_much_is_in_it_and_who_can_read_it(home: Path) -> None:
    (home / "work" / "runs").mkdir()
    (home / "work" / "small").write_bytes(b"x" * 10)
    (home / "work" / "runs" / "large").write_bytes(b"x" * 2_500_000)
    (home / "work").chmod(0o755)
    held, open_to_others = check_folder(home / "work", is_private=True)
    assert held.says.endswith("contains 2.5 MB in 2 files")
    assert ("note", f"chmod 700 {home / 'work'}") == (open_to_others.level, open_to_others.fix)
    assert ["ok"] == levels(check_folder(home / "work", is_private=False))
    assert [] == [*check_folder(home / "none", is_private=True)]


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "0 bytes"), (1_499, "1 kB"), (2_000_000, "2.0 MB")]
)
def test_a_size_is_told_in_its_unit(size: int, expected: str) -> None:
    assert expected == render_size(size)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no disk that is surely full")
def test_it_is_said_what_was_learned_of_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert [] == [*check_accounts(read_accounts(), Advice())]
    assert not (tmp_path / "state").exists()
    learn("api.anthropic.com", "claude-opus-5-5", "takes")
    learn("api.anthropic.com", "claude-sonnet-5-5", "refuses")
    taking, refusing = check_accounts(read_accounts(), Advice())
    assert ("ok", "note") == (taking.level, refusing.level)
    begin = "api.anthropic.com takes masked requests to claude-opus-5-5 from an account (since 20"
    assert taking.says.startswith(begin)
    begin = "api.anthropic.com refuses an account of yours masked requests to claude-sonnet-5-5: "
    assert refusing.says.startswith(begin)
    assert refusing.says.endswith(": --shorten, --provider-clearing, --drop-reasoning")
    learn("api.anthropic.com", "claude-sonnet-5-5", "refuses_drop")
    assert [*check_accounts(read_accounts(), Advice())][-1].says.endswith(
        ": --shorten, --provider-clearing"
    )


def test_a_full_disk_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = check_room(tmp_path / "requests.jsonl")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=1_000, free=0))
    assert ["broken"] == levels(told)


def test_where_there_is_no_disk_none_is_full() -> None:
    assert [] == levels(check_room(Path("/proc/requests.jsonl")))
    assert ["broken"] == levels(check_record_file(Path("/proc/requests.jsonl")))
