"""The file of remembered boundaries: private, shared, and never worth a request."""

import asyncio
import json
import logging
import shutil
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from addon.shared.memories import Memories, MemoryFiles
from addon.shared.memory_file import NAME, MemoryFile
from addon.shared.memory_record import decode, encode
from masking.memory.boundary_memory import Anchor, Branches, Move, Past
from masking.memory.identity import ResultId
from masking.strategies.boundary_fold import Boundary
from masking.strategies.placeholder import Rendering

PAST = Past(
    met=Anchor(0, b""),
    moves=(
        Move(
            Anchor(9, b"\xff" * 16),
            Boundary(4, 6),
            (ResultId(0, 0, b"\1" * 8), ResultId(1, 0, b""), ResultId(5, 3, b"\2" * 8)),
            Rendering("é {tool_name} 😀", True),
        ),
    ),
    last=Anchor(12, b"\0" * 16),
    sent=1_750_000_000.25,
)
OPENING = b"\x01" * 16


def write(folder: Path, *conversations: tuple[bytes, Branches]) -> None:
    file = MemoryFile(lambda: folder)
    for opening, branches in conversations:
        file.write(opening, branches)
    file.close()


def read(folder: Path) -> list[tuple[bytes, Branches]]:
    file = MemoryFile(lambda: folder)
    try:
        return file.read()
    finally:
        file.close()


def test_what_is_written_is_read_by_the_next_process(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST, PAST)), (b"2", (PAST,)), (b"3", (PAST,)), (b"2", ()))
    assert [(OPENING, (PAST, PAST)), (b"3", (PAST,))] == read(tmp_path)


def test_a_run_reads_it_in_no_thread_of_asyncio(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    taken = ThreadPoolExecutor(1)
    taken.shutdown()  # work that it is given raises RuntimeError

    async def open_memories() -> Memories:
        asyncio.get_running_loop().set_default_executor(taken)
        return await files.open(observes=False)

    files = MemoryFiles(lambda: tmp_path)
    memories = asyncio.run(open_memories())
    files.close()
    assert memories.observed is None


def test_a_file_that_is_deleted_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    file = MemoryFile(lambda: folder)
    for opening in (b"1", b"2", b"3"):
        file.write(opening, (PAST,))
        assert (opening, (PAST,)) == file.read()[-1]
        shutil.rmtree(folder)
    file.write(OPENING, (PAST,))
    file.close()
    assert [(OPENING, (PAST,))] == read(folder)
    assert caplog.messages == []


def test_how_images_lists_and_arguments_were_masked_is_kept() -> None:
    rendering = Rendering("-", True, in_lists=False, images=True, arguments_chars=9)
    past = replace(PAST, moves=(PAST.moves[0]._replace(rendering=rendering),))
    assert (past,) == decode(encode((past,)))


@pytest.mark.parametrize("known", [2, 4, 5], ids=["images", "arguments", "digests"])
def test_what_was_written_before_they_were_kept_is_read(known: int) -> None:
    (move,) = PAST.moves
    (past,) = json.loads(encode((PAST,)))
    places = [each.place for each in move.results]
    past["moves"] = [[[9, "ff" * 16], [4, 6], places, [*move.rendering][:known]]]
    results = tuple(ResultId(place, None, None) for place in places)
    read_again = replace(PAST, moves=(move._replace(results=results),))
    assert (read_again,) == decode(json.dumps([past])) == decode(encode((read_again,)))


def test_the_latest_come_last(tmp_path: Path) -> None:
    pasts = [Past(met=PAST.met, last=PAST.last, sent=sent) for sent in (3.0, 1.0, 2.0)]
    write(tmp_path, *((bytes([n]), (past,)) for n, past in enumerate(pasts)))
    assert [b"\x01", b"\x02", b"\x00"] == [opening for opening, _ in read(tmp_path)]


def test_no_more_is_kept_than_is_ever_remembered(tmp_path: Path) -> None:
    count = 2_100
    rows = [
        (n.to_bytes(2, "big"), Past(met=PAST.met, last=PAST.last, sent=n)) for n in range(count)
    ]
    write(tmp_path, *((opening, (past,)) for opening, past in rows))
    assert [opening for opening, _ in rows[-2_000:]] == [opening for opening, _ in read(tmp_path)]


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "ours"
    write(folder, (OPENING, (PAST,)))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / NAME)]
    assert [0o700, 0o600] == modes


def test_two_processes_share_it(tmp_path: Path) -> None:
    one, other = MemoryFile(lambda: tmp_path), MemoryFile(lambda: tmp_path)
    assert [] == one.read() == other.read()
    for n in range(50):
        (one if n % 2 else other).write(bytes([n]), (PAST,))
    one.close()
    other.close()
    assert [bytes([n]) for n in range(50)] == sorted(opening for opening, _ in read(tmp_path))


@pytest.mark.parametrize("length", [0, 1, 100, 5_000])
def test_a_torn_file_is_begun_anew(
    tmp_path: Path, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    file = tmp_path / NAME
    file.write_bytes(b"x" * length)
    assert [] == read(tmp_path)
    write(tmp_path, (OPENING, (PAST,)))
    assert [(OPENING, (PAST,))] == read(tmp_path)
    assert (length > 1) == ("damaged" in caplog.text)


def test_a_file_that_is_torn_in_its_middle_costs_no_more_than_what_it_held(tmp_path: Path) -> None:
    write(tmp_path, *((bytes([n]), (PAST,) * 8) for n in range(200)))
    file = tmp_path / NAME
    file.write_bytes(file.read_bytes()[:20_000])
    read(tmp_path)
    write(tmp_path, (OPENING, (PAST,)))
    assert (OPENING, (PAST,)) in read(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_warning_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    file = MemoryFile(lambda: tmp_path / "file" / "folder")
    file.write(OPENING, (PAST,))
    file.write(OPENING, (PAST,))
    assert [] == file.read()
    file.close()
    (record,) = caplog.records
    assert (logging.WARNING, True) == (record.levelno, "in the process alone" in record.message)


def test_a_full_disk_is_a_warning_and_what_was_written_stays_readable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    full = MemoryFile(lambda: tmp_path)
    assert full.read()
    assert full._database is not None
    full._database.execute("PRAGMA max_page_count = 1")
    for n in range(50):
        full.write(bytes([n]), (PAST,) * 8)
    full.close()
    assert "full" in caplog.text
    assert (OPENING, (PAST,)) in read(tmp_path)


def test_a_file_that_is_locked_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    holder = sqlite3.connect(tmp_path / NAME)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("addon.shared.memory_file.PATIENCE", 0.05)
    assert [] == read(tmp_path)
    holder.close()
    assert "locked" in caplog.text
    assert [(OPENING, (PAST,))] == read(tmp_path)


def test_a_row_that_cannot_be_read_costs_no_other_one(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    database = sqlite3.connect(tmp_path / NAME)
    for n, branches in enumerate(["CAST(x'ff' AS TEXT)", "x'ff'", "7", "'[1]'", "''"]):
        database.execute(f"INSERT INTO conversations VALUES ({n}, {branches}, 0)")
    database.commit()
    database.close()
    assert [(OPENING, (PAST,))] == read(tmp_path)


def test_what_waits_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job for all of it: each would hold up the end of the proxy by a lock's whole patience."""
    written: list[int] = []
    write_waiting = MemoryFile._write

    def write_and_count(file: MemoryFile) -> None:
        written.append(len(file._waiting))
        write_waiting(file)

    monkeypatch.setattr(MemoryFile, "_write", write_and_count)
    file, gate = MemoryFile(lambda: tmp_path), threading.Event()
    file._thread.submit(gate.wait)
    for n in range(100):
        file.write(bytes([n]), (PAST,))
    gate.set()
    file.close()
    assert [100] == written
    assert 100 == len(read(tmp_path))


_LATER = replace(PAST, last=Anchor(14, b"\1" * 16), sent=PAST.sent + 9.0)
_MOVED = replace(_LATER, moves=(*PAST.moves, PAST.moves[0]))


def test_a_request_that_masks_nothing_new_waits_for_others_or_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.shared.memory_file._WAIT", 600.0)
    file = MemoryFile(lambda: tmp_path)
    file.write(OPENING, (PAST,))
    file.read()
    file.write(OPENING, (_LATER,))
    assert [(OPENING, (PAST,))] == read(tmp_path)
    assert [(OPENING, (_LATER,))] == file.read()
    file.write(OPENING, (PAST,))
    file.close()
    assert [(OPENING, (PAST,))] == read(tmp_path)


def test_it_waits_no_longer_than_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.shared.memory_file._WAIT", 0.01)
    file = MemoryFile(lambda: tmp_path)
    file.write(OPENING, (PAST,))
    file.read()
    file.write(OPENING, (_LATER,))
    while [(OPENING, (_LATER,))] != read(tmp_path):
        pass
    file.close()


@pytest.mark.parametrize(
    ("opening", "branches"),
    [
        (OPENING, (_MOVED,)),
        (OPENING, (replace(_LATER, met=PAST.last),)),
        (OPENING, (_LATER, PAST)),
        (OPENING, ()),
        (b"2", (_LATER,)),
    ],
    ids=["a move", "a new meeting", "another branch", "forgotten", "another conversation"],
)
def test_all_else_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opening: bytes, branches: Branches
) -> None:
    monkeypatch.setattr("addon.shared.memory_file._WAIT", 600.0)
    file = MemoryFile(lambda: tmp_path)
    file.write(OPENING, (PAST,))
    file.read()
    file.write(opening, branches)
    while dict(read(tmp_path)).get(opening, ()) != branches:
        pass
    file.close()


def test_closed_it_takes_nothing_more(tmp_path: Path) -> None:
    file = MemoryFile(lambda: tmp_path)
    file.close()
    file.write(OPENING, (PAST,))
    file.close()
    assert not (tmp_path / NAME).exists()


# As text


def test_a_conversation_as_text_is_the_same_again() -> None:
    assert (PAST, PAST) == decode(encode((PAST, PAST)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}}",
        "7",
        "[7]",
        "[{}]",
        '[{"met":[0,""],"moves":[],"last":[0,"zz"],"sent":1}]',
        '[{"met":[-1,""],"moves":[],"last":[0,""],"sent":1}]',
        '[{"met":[true,""],"moves":[],"last":[0,""],"sent":1}]',
        '[{"met":[0,""],"moves":[],"last":[0,""],"sent":"x"}]',
        f'[{{"met":[0,""],"moves":[],"last":[0,""],"sent":1{"0" * 400}}}]',
        '[{"met":[0,""],"moves":[],"last":[0,""],"sent":NaN}]',
        '[{"met":[0,""],"moves":[],"last":[0,""],"sent":1e999}]',
        '[{"met":[0,""],"moves":[[1]],"last":[0,""],"sent":1}]',
        '[{"met":[0,""],"moves":[[[1,""],[0,0],[0],["{x}",true]]],"last":[0,""],"sent":1}]',
        '[{"met":[0,""],"moves":[[[1,""],[0,0],[0],[7,true]]],"last":[0,""],"sent":1}]',
        "[" * 100_000,
    ],
)
def test_any_other_text_gives_no_conversations(text: str) -> None:
    assert () == decode(text)
