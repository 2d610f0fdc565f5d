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

from addon.memory import (
    FORM,
    decode_branches,
    decode_shortened,
    encode_branches,
    encode_shortened,
)
from addon.memory import _change_alike as change_alike
from addon.places import MEMORY_FILE
from masking.memory import (
    Anchor,
    BoundaryMemory,
    Branches,
    Memories,
    Move,
    Past,
    Remembered,
    ResultId,
    ShortenedWords,
)
from masking.window import BoundaryPosition
from masking.window.placeholder import Rendering
from tests.live.harness import eventually
from tests.support.marks import as_one_test
from tests.support.remembered import Remembering

PAST = Past(
    met=Anchor(0, b""),
    moves=(
        Move(
            Anchor(9, b"\xff" * 16),
            BoundaryPosition(4, 6),
            (ResultId(0, 0, b"\1" * 8), ResultId(1, 0, b""), ResultId(5, 3, b"\2" * 8)),
            Rendering("é {tool_name} 😀", True),
        ),
    ),
    last=Anchor(12, b"\0" * 16),
    sent=1_750_000_000.25,
)
OPENING = b"\x01" * 16
_LATER = replace(PAST, last=Anchor(14, b"\1" * 16), sent=PAST.sent + 9.0)
_ELSEWHERE = Past(met=PAST.last, last=PAST.last, sent=PAST.sent + 20.0)


def test_what_the_model_had_read_at_a_place_is_a_field_beside_it() -> None:
    """As 0.2.0 wrote the place alone."""
    (move,) = PAST.moves
    moved = replace(PAST, moves=(move._replace(anchor=move.anchor._replace(read=b"\3" * 8)),))
    known = replace(moved, last=PAST.last._replace(read=b"\4" * 8))
    written = json.loads(encode_branches((known,)))
    assert (known,) == decode_branches(json.dumps(written))
    assert ("03" * 8, "04" * 8) == (written[0]["moves"][0].pop("read"), written[0].pop("read"))
    assert written == json.loads(encode_branches((PAST,)))
    written[0]["read"] = 4
    assert () == decode_branches(json.dumps(written))


def test_what_the_provider_cleared_is_no_move_to_an_earlier_version() -> None:
    """It would mask that before bound reasoning."""
    known = replace(PAST, cleared=True)
    (written,) = json.loads(encode_branches((known,)))
    assert (known,) == decode_branches(json.dumps([written]))
    assert ([], 1) == (written["moves"], len(written["cleared"]))


def write(folder: Path, *conversations: tuple[bytes, Branches]) -> None:
    file = Remembering(lambda: folder)
    for opening, branches in conversations:
        file.write(opening, Remembered(branches))
    file.close()


def read(folder: Path) -> list[tuple[bytes, Branches]]:
    file = Remembering(lambda: folder)
    try:
        return [(opening, known.branches) for opening, known in file.read()]
    finally:
        file.close()


def test_what_is_written_is_read_by_the_next_process(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST, PAST)), (b"2", (PAST,)), (b"3", (PAST,)), (b"2", ()))
    assert [(OPENING, (PAST, PAST)), (b"3", (PAST,))] == read(tmp_path)


# What was shortened


WORDS = ShortenedWords(8_000, 3_000, 2_000, "\n[{left_out_chars} é {recall}]\n", 60)
SHORTENED = Remembered(
    (PAST,),
    {b"\0" * 8: WORDS, b"\1" * 8: WORDS._replace(tail_chars=0), b"\2" * 8: WORDS},
    (Anchor(3, b"\3" * 16), Anchor(0, b"")),
)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(SHORTENED, id="all of it"),
        pytest.param(SHORTENED._replace(branches=()), id="without a window"),
        pytest.param(SHORTENED._replace(requests=()), id="the window remembers its requests"),
        pytest.param(Remembered(requests=SHORTENED.requests), id="only requests"),
        pytest.param(Remembered((PAST,)), id="nothing of that"),
    ],
)
def test_what_was_shortened_is_read_by_the_next_process(tmp_path: Path, known: Remembered) -> None:
    file = Remembering(lambda: tmp_path)
    file.write(OPENING, known)
    file.close()
    again = Remembering(lambda: tmp_path)
    assert [(OPENING, known)] == again.read()
    again.write(OPENING, Remembered())
    again.close()
    assert [] == read(tmp_path)


DAMAGED = [
    "",
    "7",
    "[]",
    "{}",
    '{"words":[],"results":{"00":0}}',
    '{"words":[],"results":{"0":0}}',
    '{"words":[],"results":[]}',
    '{"words":[{}],"results":{}}',
    '{"words":[],"results":{},"requests":[[1]]}',
    '{"words":[],"results":{},"requests":7}',
    "[" * 100_000,
    encode_shortened(SHORTENED).replace("8000", "-1"),  # type: ignore[union-attr]
    encode_shortened(SHORTENED).replace("8000", "1e3"),  # type: ignore[union-attr]
    encode_shortened(SHORTENED).replace("{recall}", "{x}"),  # type: ignore[union-attr]
    encode_shortened(SHORTENED).replace('"arguments_chars":60', '"z":1'),  # type: ignore[union-attr]
    encode_shortened(SHORTENED)[:-9],  # type: ignore[index]
]


@pytest.mark.parametrize("text", DAMAGED)
def test_what_is_damaged_of_it_costs_its_own_row_that_alone(tmp_path: Path, text: str) -> None:
    file = Remembering(lambda: tmp_path)
    file.write(OPENING, SHORTENED)
    file.write(b"2", SHORTENED)
    file.close()
    database = sqlite3.connect(tmp_path / MEMORY_FILE)
    with database:
        database.execute("UPDATE conversations SET shortened = ? WHERE opening = ?", (text, b"2"))
    database.close()
    again = Remembering(lambda: tmp_path)
    assert {OPENING: SHORTENED, b"2": Remembered((PAST,))} == dict(again.read())
    again.close()


def test_a_request_that_changes_nothing_else_waits_for_others(tmp_path: Path) -> None:
    """Where the window remembers none, as well; what is newly shortened does not wait."""
    alone = SHORTENED._replace(branches=())
    later = alone._replace(requests=(Anchor(4, b"\4" * 16),))
    more = later._replace(shortened={**later.shortened, b"\5" * 8: WORDS})
    for before, after, expected in (
        (Remembered(), alone, False),
        (alone, later, True),
        (later, more, False),
        (more, Remembered(), False),
        (SHORTENED, alone, False),
    ):
        assert expected == change_alike(after, before)


def test_a_run_reads_it_in_no_thread_of_asyncio(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    taken = ThreadPoolExecutor(1)
    taken.shutdown()  # work that it is given raises RuntimeError

    async def open_memories() -> Memories:
        asyncio.get_running_loop().set_default_executor(taken)
        return await files.memory.open(observes=False)

    files = Remembering(lambda: tmp_path)
    memories = asyncio.run(open_memories())
    files.close()
    assert memories.observed is None


def test_a_file_that_is_deleted_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    file = Remembering(lambda: folder)
    for opening in (b"1", b"2", b"3"):
        file.write(opening, Remembered((PAST,)))
        assert (opening, Remembered((PAST,))) == file.read()[-1]
        shutil.rmtree(folder)
    file.write(OPENING, Remembered((PAST,)))
    file.close()
    assert {b"1", b"2", b"3", OPENING} == dict(read(folder)).keys()
    assert caplog.messages == []


def test_how_images_lists_and_arguments_were_masked_is_kept() -> None:
    rendering = Rendering("-", True, in_lists=False, images=True, arguments_chars=9)
    past = replace(PAST, moves=(PAST.moves[0]._replace(rendering=rendering),))
    assert (past,) == decode_branches(encode_branches((past,)))


def test_what_version_0_2_0_wrote_is_read() -> None:
    written = (
        '[{"met":[0,""],"moves":[{"at":[9,"ff"],"boundary":[4,6],"results":[[0,0,"01"],[5,3,"02"]],'
        '"rendering":{"template":"-","must_shrink":true,"in_lists":true,"images":false,'
        '"arguments_chars":120,"min_chars":0}}],"last":[12,"00"],"sent":1.5}]'
    )
    results = (ResultId(0, 0, b"\1"), ResultId(5, 3, b"\2"))
    rendering = Rendering("-", True, in_lists=True, images=False, arguments_chars=120)
    move = Move(Anchor(9, b"\xff"), BoundaryPosition(4, 6), results, rendering)
    past = Past(met=Anchor(0, b""), moves=(move,), last=Anchor(12, b"\0"), sent=1.5)
    assert (past,) == decode_branches(written)


def test_what_version_0_3_0_wrote_is_read() -> None:
    """What the model had read, what its provider cleared or dropped, and what was shortened."""
    branches = (
        '[{"met":[3,"00"],"moves":[],"last":[12,"0a"],"sent":1.5,"read":"0b","cleared":[{"at":[9,'
        '"ff"],"boundary":[4,6],"results":[[5,3,"02"]],"rendering":{"template":"-",'
        '"must_shrink":false,"in_lists":true,"images":true,"arguments_chars":120,"min_chars":0},'
        '"read":"0c"}],"drops_reasoning":true}]'
    )
    rendering = Rendering("-", False, in_lists=True, images=True, arguments_chars=120)
    anchor = Anchor(9, b"\xff", b"\x0c")
    move = Move(anchor, BoundaryPosition(4, 6), (ResultId(5, 3, b"\2"),), rendering)
    past = Past(
        met=Anchor(3, b"\0"),
        moves=(move,),
        last=Anchor(12, b"\n", b"\x0b"),
        sent=1.5,
        cleared=True,
        drops_reasoning=True,
    )
    assert (past,) == decode_branches(branches)
    shortened = (
        '{"words":[{"max_chars":8000,"head_chars":3000,"tail_chars":2000,"marker_template":'
        '"{recall}","arguments_chars":60}],"results":{"0001":0},"requests":[[3,"03"]]}'
    )
    words = ShortenedWords(8_000, 3_000, 2_000, "{recall}", 60)
    assert ({b"\0\1": words}, (Anchor(3, b"\3"),)) == decode_shortened(shortened)


def change(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / MEMORY_FILE)
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()


def ask(folder: Path, question: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(folder / MEMORY_FILE)
    found = database.execute(question).fetchall()
    database.close()
    return found


def test_a_column_and_a_table_that_a_later_version_adds_stay(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    added = "ALTER TABLE conversations ADD COLUMN account TEXT"
    change(tmp_path, added, "UPDATE conversations SET account = 'a'", "CREATE TABLE later (id)")
    write(tmp_path, (OPENING, (_LATER,)), (b"2", (PAST,)))
    assert [(b"2", (PAST,)), (OPENING, (_LATER,))] == read(tmp_path)
    assert [("a",), (None,)] == ask(
        tmp_path, "SELECT account FROM conversations ORDER BY sent DESC"
    )
    assert [] == ask(tmp_path, "SELECT * FROM later")


def test_a_file_of_a_later_version_is_read_and_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    change(tmp_path, f"PRAGMA user_version = {FORM.version + 1}")
    before = (tmp_path / MEMORY_FILE).read_bytes()
    assert [(OPENING, (PAST,))] == read(tmp_path)
    write(tmp_path, (OPENING, (_LATER,)), (b"2", (PAST,)))
    assert before == (tmp_path / MEMORY_FILE).read_bytes()
    assert "was written by a later version" in caplog.text


def test_a_file_that_a_later_version_takes_over_is_not_written_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = Remembering(lambda: tmp_path)
    file.write(OPENING, Remembered((PAST,)))
    assert file.read()
    change(tmp_path, f"PRAGMA user_version = {FORM.version + 1}")
    before = (tmp_path / MEMORY_FILE).read_bytes()
    file.write(OPENING, Remembered((_LATER,)))
    file.close()
    assert before == (tmp_path / MEMORY_FILE).read_bytes()
    assert "was written by a later version" in caplog.text


def test_two_processes_put_a_damaged_file_aside_once(tmp_path: Path) -> None:
    one, other = Remembering(lambda: tmp_path), Remembering(lambda: tmp_path)
    one.write(b"1", Remembered((PAST,)))
    assert one.read() == other.read()
    other.write(b"2", Remembered((PAST,)))
    assert 2 == len(other.read())
    damaged = b"x" * 20_000
    (tmp_path / MEMORY_FILE).write_bytes(damaged)
    for number in range(3):
        one.write(b"one %d" % number, Remembered((PAST,)))
        one.read()
        other.write(b"other %d" % number, Remembered((PAST,)))
        other.read()
    one.close()
    other.close()
    assert damaged == (tmp_path / f"{MEMORY_FILE}.damaged").read_bytes()
    written = dict(read(tmp_path))
    assert {b"1", b"2"} | {b"%s %d" % (n, i) for n in (b"one", b"other") for i in range(3)} == {
        *written
    }


def test_a_file_of_another_form_is_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(
        tmp_path, f"PRAGMA user_version = {FORM.version + 1}", "CREATE TABLE conversations (key)"
    )
    before = (tmp_path / MEMORY_FILE).read_bytes()
    write(tmp_path, (OPENING, (PAST,)))
    assert before == (tmp_path / MEMORY_FILE).read_bytes()
    assert [logging.WARNING] == [record.levelno for record in caplog.records]


def test_what_could_not_be_written_is_once_it_can_be(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    file = Remembering(lambda: tmp_path)
    file.read()
    holder = sqlite3.connect(tmp_path / MEMORY_FILE)
    holder.execute("BEGIN EXCLUSIVE")
    file.write(b"2", Remembered((PAST,)))
    file.rows._worker.submit(lambda: None).result()  # it was tried in vain
    holder.close()
    file.write(b"3", Remembered((PAST,)))
    file.close()
    assert {OPENING, b"2", b"3"} == dict(read(tmp_path)).keys()


def test_what_waits_for_a_file_that_takes_nothing_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = Remembering(lambda: tmp_path / "file")
    memory = BoundaryMemory(file.write)
    memory.load((n.to_bytes(2, "big"), Remembered((PAST,))) for n in range(15_000))
    file.close()
    assert 8_000 == len(file.rows._waiting)


def test_all_requests_wait_for_one_reading(tmp_path: Path) -> None:
    async def open_memories() -> None:
        opened = await asyncio.gather(*(files.memory.open(observes=n > 3) for n in range(8)))
        assert [False] * 8 == [memories.is_being_read for memories in opened]
        assert [id(opened[0].sent)] * 8 == [id(memories.sent) for memories in opened]

    write(tmp_path, (OPENING, (PAST,)))
    files = Remembering(lambda: tmp_path)
    asyncio.run(open_memories())
    files.close()


def test_a_locked_file_holds_requests_up_for_a_while_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, (OPENING, (PAST,)), (b"2", (PAST,)))
    holder = sqlite3.connect(tmp_path / MEMORY_FILE)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("addon.memory._REQUEST_PATIENCE", 0.0)
    monkeypatch.setattr("addon.memory.PATIENCE", 60.0)
    files = Remembering(lambda: tmp_path)

    async def meet() -> Memories:
        memories = await files.memory.open(observes=False)
        assert memories.is_being_read
        memories.sent._put(
            OPENING, Remembered((_ELSEWHERE,))
        )  # met while the file could not be read
        memories.sent._put(b"3", Remembered((PAST,)))
        holder.rollback()
        return await files.memory.open(observes=False, patiently=True)

    memories = asyncio.run(meet())
    assert not memories.is_being_read
    assert [b"2", OPENING, b"3"] == [*memories.sent._known]
    files.close()
    holder.close()
    both = {OPENING: (_ELSEWHERE, PAST), b"2": (PAST,), b"3": (PAST,)}
    assert both == dict(read(tmp_path))


def test_a_file_that_is_locked_for_good_holds_up_neither_requests_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    holder = sqlite3.connect(tmp_path / MEMORY_FILE)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("addon.memory._REQUEST_PATIENCE", 0.0)
    files = Remembering(lambda: tmp_path)
    memories = asyncio.run(files.memory.open(observes=False))
    memories.sent._put(OPENING, Remembered((_ELSEWHERE,)))
    files.close()
    holder.close()
    assert [(OPENING, (PAST,))] == read(tmp_path)
    assert "locked" in caplog.text


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
    write(tmp_path, (rows[-1][0], (rows[-1][1],)))
    assert [opening for opening, _ in rows[-2_000:]] == [opening for opening, _ in read(tmp_path)]


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "ours"
    write(folder, (OPENING, (PAST,)))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / MEMORY_FILE)]
    assert [0o700, 0o600] == modes


def test_two_processes_share_it(tmp_path: Path) -> None:
    one, other = Remembering(lambda: tmp_path), Remembering(lambda: tmp_path)
    assert [] == one.read() == other.read()
    for n in range(50):
        (one if n % 2 else other).write(bytes([n]), Remembered((PAST,)))
    one.close()
    other.close()
    assert [bytes([n]) for n in range(50)] == sorted(opening for opening, _ in read(tmp_path))


@pytest.mark.parametrize("length", [0, 1, 100, 5_000])
def test_a_torn_file_is_begun_anew(
    tmp_path: Path, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    file = tmp_path / MEMORY_FILE
    file.write_bytes(b"x" * length)
    assert [] == read(tmp_path)
    write(tmp_path, (OPENING, (PAST,)))
    assert [(OPENING, (PAST,))] == read(tmp_path)
    assert (length > 1) == ("damaged" in caplog.text)
    assert (length > 1) == ((tmp_path / f"{MEMORY_FILE}.damaged").exists())


def test_a_file_that_is_torn_in_its_middle_costs_no_more_than_what_it_held(tmp_path: Path) -> None:
    write(tmp_path, *((bytes([n]), (PAST,) * 8) for n in range(200)))
    file = tmp_path / MEMORY_FILE
    file.write_bytes(file.read_bytes()[:20_000])
    read(tmp_path)
    write(tmp_path, (OPENING, (PAST,)))
    assert (OPENING, (PAST,)) in read(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_warning_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    file = Remembering(lambda: tmp_path / "file" / "folder")
    file.write(OPENING, Remembered((PAST,)))
    file.write(OPENING, Remembered((PAST,)))
    assert [] == file.read()
    file.close()
    (record,) = caplog.records
    assert (logging.WARNING, True) == (record.levelno, "kept in memory only" in record.message)


def test_a_full_disk_is_a_warning_and_what_was_written_stays_readable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    full = Remembering(lambda: tmp_path)
    assert full.read()
    full.store.read(lambda database: database.execute("PRAGMA max_page_count = 1").fetchall())
    for n in range(50):
        full.write(bytes([n]), Remembered((PAST,) * 8))
    full.close()
    assert "full" in caplog.text
    assert (OPENING, (PAST,)) in read(tmp_path)


def test_a_file_that_is_locked_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    holder = sqlite3.connect(tmp_path / MEMORY_FILE)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("addon.memory.PATIENCE", 0.05)
    assert [] == read(tmp_path)
    holder.close()
    assert "locked" in caplog.text
    assert [(OPENING, (PAST,))] == read(tmp_path)


def test_a_row_that_cannot_be_read_costs_no_other_one(tmp_path: Path) -> None:
    write(tmp_path, (OPENING, (PAST,)))
    database = sqlite3.connect(tmp_path / MEMORY_FILE)
    for n, branches in enumerate(["CAST(x'ff' AS TEXT)", "x'ff'", "7", "'[1]'", "''"]):
        database.execute(f"INSERT INTO conversations VALUES (0, {n}, {branches}, NULL, 0)")
    database.commit()
    database.close()
    assert [(OPENING, (PAST,))] == read(tmp_path)


def test_what_waits_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job for all of it: each would hold up the end of the proxy by a lock's whole patience."""
    file, gate = Remembering(lambda: tmp_path), threading.Event()
    written: list[int] = []
    monkeypatch.setattr(file.rows, "_write_rows", lambda _, rows: written.append(len(rows)))
    file.rows._worker.submit(gate.wait)
    for n in range(100):
        file.write(bytes([n]), Remembered((PAST,)))
    gate.set()
    file.close()
    assert [100] == written


_MOVED = replace(_LATER, moves=(*PAST.moves, PAST.moves[0]))


def test_a_request_that_masks_nothing_new_waits_for_others_or_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.memory._WRITE_DELAY", 600.0)
    file = Remembering(lambda: tmp_path)
    file.write(OPENING, Remembered((PAST,)))
    file.read()
    file.write(OPENING, Remembered((_LATER,)))
    assert [(OPENING, (PAST,))] == read(tmp_path)
    assert [(OPENING, Remembered((_LATER,)))] == file.read()
    file.write(OPENING, Remembered((PAST,)))
    file.close()
    assert [(OPENING, (PAST,))] == read(tmp_path)


def test_a_hurry_while_it_writes_does_not_hurry_what_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.memory._WRITE_DELAY", 600.0)
    file = Remembering(lambda: tmp_path)

    def encode_in_a_hurry(branches: Branches) -> str:
        file.rows._hurry.set()
        return encode_branches(branches)

    monkeypatch.setattr("addon.memory.encode_branches", encode_in_a_hurry)
    file.write(OPENING, Remembered((PAST,)))
    file.read()
    file.write(OPENING, Remembered((_LATER,)))
    assert not file.rows._hurry.is_set()
    file.close()
    assert [(OPENING, (_LATER,))] == read(tmp_path)


def test_what_replaces_it_while_it_is_written_is_written_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, next_ones = Remembering(lambda: tmp_path), [Remembered((_MOVED,))]

    def encode_and_go_on(branches: Branches) -> str:
        if next_ones:
            file.write(OPENING, next_ones.pop())
        return encode_branches(branches)

    monkeypatch.setattr("addon.memory.encode_branches", encode_and_go_on)
    file.write(OPENING, Remembered((PAST,)))
    file.close()
    assert [(OPENING, (_MOVED,))] == read(tmp_path)


def test_it_waits_no_longer_than_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("addon.memory._WRITE_DELAY", 0.01)
    file = Remembering(lambda: tmp_path)
    file.write(OPENING, Remembered((PAST,)))
    file.read()
    file.write(OPENING, Remembered((_LATER,)))
    eventually(lambda: [(OPENING, (_LATER,))] == read(tmp_path) or None)
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
    monkeypatch.setattr("addon.memory._WRITE_DELAY", 600.0)
    file = Remembering(lambda: tmp_path)
    file.write(OPENING, Remembered((PAST,)))
    file.read()
    file.write(opening, Remembered(branches))
    eventually(lambda: dict(read(tmp_path)).get(opening, ()) == branches or None)
    file.close()


def test_closed_it_takes_nothing_more(tmp_path: Path) -> None:
    file = Remembering(lambda: tmp_path)
    file.close()
    file.write(OPENING, Remembered((PAST,)))
    file.close()
    assert not (tmp_path / MEMORY_FILE).exists()


# As text


def test_a_conversation_as_text_is_the_same_again() -> None:
    assert (PAST, PAST) == decode_branches(encode_branches((PAST, PAST)))


@as_one_test
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
        '[{"met":[0,""],"moves":[[[1,""],[0,0],[0],["-",true]]],"last":[0,""],"sent":1}]',
        "[" * 100_000,
    ],
)
def test_any_other_text_gives_no_conversations(text: str) -> None:
    assert () == decode_branches(text)
