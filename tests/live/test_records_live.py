"""Two proxies with one record file: what one does to it costs the other nothing."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from addon.records.file import read_records
from addon.records.record import RequestRecord
from tests.live.harness import (
    ON,
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    eventually,
    running_addon,
)

BODY = encoded(conversation())
SMALL = ON + b"[observation_masking.metrics]\nmax_megabytes = 1\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "observation-masking" / "requests.jsonl"


@pytest.fixture
def proxies(upstream: Upstream, tmp_path: Path) -> Iterator[tuple[Live, Live]]:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    state = str(tmp_path / "state")
    one, two = (
        running_addon(
            folder, upstream, "--set", f"mask_tag={folder.name}", config=SMALL, XDG_STATE_HOME=state
        )
        for folder in folders
    )
    with one as first, two as second:
        yield first, second


def send(live: Live, number: int, path: Path) -> RequestRecord:
    """Send a request through a proxy; its record, once it is written."""
    asked = f"/{number}/chat/completions"
    live.sink.answers[asked] = answer()
    live.send(asked, BODY)
    return eventually(lambda: next((r for r in read_records(path) if r.path == asked), None))


def test_no_record_is_lost_when_one_of_them_rotates_the_file(
    proxies: tuple[Live, Live], path: Path
) -> None:
    """Before, the other one went on in the renamed file, and rotated again over it."""
    first = send(proxies[0], 0, path)
    line = path.read_bytes()
    path.write_bytes(line * (990_000 // len(line)))
    sent = [send(proxies[number % 2], number, path) for number in range(1, 21)]
    assert ["two", "one"] * 10 == [record.tag for record in sent]
    assert 2 == len({record.run for record in sent})
    assert {first.conversation_id} == {record.conversation_id for record in sent}
    found = [record.path for record in read_records(path) if record.path != first.path]
    assert [record.path for record in sent] == found
    assert path.with_name("requests.jsonl.1").stat().st_size > 900_000


def test_both_survive_the_loss_of_the_folder_and_one_the_end_of_the_other(
    proxies: tuple[Live, Live], path: Path
) -> None:
    for number, live in enumerate(proxies):
        send(live, number, path)
    shutil.rmtree(path.parent)
    for number, live in enumerate(proxies, start=2):
        send(live, number, path)
    with path.open("ab") as file:
        file.write(b'{"kind": "chat", "time": "2026-')  # as a kill in the midst of a line leaves it
    os.kill(proxies[0].proxy.pid, signal.SIGKILL)
    for number in range(4, 7):
        send(proxies[1], number, path)
    paths = [record.path for record in read_records(path)]
    assert [f"/{number}/chat/completions" for number in range(2, 7)] == paths
    said = f"{path} was moved or deleted; a new file is begun"
    assert 1 == eventually(lambda: proxies[0].proxy.log.count(said) or None)
    assert "Traceback" not in proxies[1].proxy.log
