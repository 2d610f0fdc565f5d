"""What is done already: found again for the same files and settings, and for no others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from addon.commands.journal import Journal
from addon.commands.main import main
from addon.stored_prices import stored_path
from tests.live.harness import conversation
from tests.places import ROOT


def write_sessions(path: Path, *turns: int) -> Path:
    """Write a file of conversations with so many tool turns each."""
    lines = []
    for number, count in enumerate(turns, 1):
        request = conversation(count, "one more line of output\n" * 100)
        request["messages"].append({"role": "assistant", "content": "Done."})
        lines.append(json.dumps(request | {"name": f"talk {number}"}))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    write_sessions(folder / "one.jsonl", 9, 12)
    write_sessions(folder / "two.jsonl", 10)
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "done.jsonl"


Replay = Callable[..., dict[str, Any]]


@pytest.fixture
def replay(folder: Path, capsys: pytest.CaptureFixture[str]) -> Replay:
    def run(*arguments: str | Path) -> dict[str, Any]:
        assert main(["replay", str(folder), *map(str, arguments), "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


def count_lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n")


def test_what_is_done_is_not_done_again_and_comes_to_the_same(
    replay: Replay, journal: Path
) -> None:
    plain, first = replay(), replay("--resume", journal)
    lines = journal.read_bytes()
    assert plain == first == replay("--resume", journal)
    assert (3, lines) == (count_lines(journal), journal.read_bytes())


def test_it_may_lie_beside_the_sessions(replay: Replay, folder: Path) -> None:
    first = replay("--resume", folder / "done.jsonl")
    assert first == replay("--resume", folder / "done.jsonl")
    assert 3 == count_lines(folder / "done.jsonl")


def test_names_may_hold_half_a_character(replay: Replay, folder: Path, journal: Path) -> None:
    written = (folder / "two.jsonl").read_text()
    for name in ('"name": "talk 1"', '"model": "gpt-4o"'):
        assert name in written
        written = written.replace(name, f'{name[:-1]}\\ud800"')
    (folder / "two.jsonl").write_text(written)
    assert replay("--resume", journal) == replay("--resume", journal)
    assert 3 == count_lines(journal)


@pytest.mark.parametrize("end", [0, 1, 8, -1], ids=["all of it", "a byte", "a key", "but its end"])
def test_a_line_that_was_torn_is_done_again(end: int, replay: Replay, journal: Path) -> None:
    first = replay("--resume", journal)
    *whole, last, _ = journal.read_bytes().split(b"\n")
    torn = last if end == -1 else last[:end]
    journal.write_bytes(b"".join(line + b"\n" for line in whole) + torn)
    assert first == replay("--resume", journal)
    assert [*whole, last] == journal.read_bytes().splitlines()


@pytest.mark.parametrize(
    "others",
    [
        ("--window-turns", "3"),
        ("--prices", "0.5,1"),
        ("--model", "gpt-4o"),
        ("--cache-ttl", "300"),
        ("--pause", "2,600"),
        ("--no-memory",),
        ("--total",),
    ],
    ids=" ".join,
)
def test_other_settings_are_done_anew_and_stand_beside(
    others: tuple[str, ...], replay: Replay, journal: Path
) -> None:
    first = replay("--resume", journal)
    assert replay(*others) == replay(*others, "--resume", journal)
    assert 6 == count_lines(journal)
    assert first == replay("--resume", journal)
    assert 6 == count_lines(journal)


def test_another_price_list_is_another_setting(
    replay: Replay, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    replay("--resume", journal)
    shipped = (ROOT / "masking/prices/prices.json").read_text(encoding="utf-8")
    stored_path().parent.mkdir(parents=True)
    for number, text in enumerate((shipped, f" {shipped}"), 2):
        stored_path().write_text(text, encoding="utf-8")
        replay("--resume", journal)
        assert 3 * number == count_lines(journal)


def test_a_file_that_was_changed_is_done_anew(replay: Replay, folder: Path, journal: Path) -> None:
    replay("--resume", journal)
    write_sessions(folder / "two.jsonl", 11)
    assert replay() == replay("--resume", journal)
    assert 4 == count_lines(journal)


def test_what_was_left_out_is_said_again(
    folder: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.flow").write_text("no recording")
    for _ in range(2):
        assert main(["replay", str(folder), "--resume", str(journal)]) == 0
        assert "obsmask: left out: " in capsys.readouterr().err
    assert 4 == count_lines(journal)


def test_a_tuning_goes_on_too(
    folder: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["tune", str(folder), "--processes", "1"]
    printed = []
    for more in ([], ["--resume", str(journal)], ["--resume", str(journal)]):
        assert main([*command, *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed == [printed[0]] * 3
    assert 3 == count_lines(journal)
    assert main([*command, "--set", "schema1.min_chars=7", "--resume", str(journal)]) == 0
    assert 6 == count_lines(journal)


@pytest.mark.parametrize(
    "text", ["no JSON", '{"messages": []}\n', '{"key": 1}\n', "\n", "\xff\n"], ids=repr
)
def test_a_file_of_something_else_is_left_alone(
    text: str, folder: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.write_text(text, encoding="latin-1")
    assert main(["replay", str(folder), "--resume", str(journal)]) == 1
    assert f"obsmask: {journal}:1: no line of --resume\n" == capsys.readouterr().err
    assert text == journal.read_text(encoding="latin-1")


def test_two_runs_cannot_write_to_it(
    folder: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal(journal):
        assert main(["replay", str(folder), "--resume", str(journal)]) == 1
    assert f"obsmask: {journal}: another run writes to it\n" == capsys.readouterr().err
    assert main(["replay", str(folder), "--resume", str(journal)]) == 0
