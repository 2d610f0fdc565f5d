"""Reading the file of records: both files, whole records alone, and while others write."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from addon.metrics.record_file import RecordFile
from addon.metrics.record_reader import read_lines, read_records
from masking.config import MetricsSettings

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"


def line(host: str, time: str = "2026-01-01T00:00:00.000+00:00", **fields: object) -> bytes:
    least = {"kind": "chat", "time": time, "host": host, "path": "/p", "masking": "on"}
    return json.dumps(least | fields, ensure_ascii=False).encode() + b"\n"


def hosts(path: Path, since: datetime | None = None) -> list[str]:
    return [record.host for record in read_records(path, since)]


def test_the_older_file_comes_first(path: Path) -> None:
    path.with_name("requests.jsonl.1").write_bytes(line("a") + line("b"))
    path.write_bytes(line("c"))
    assert ["a", "b", "c"] == hosts(path)


def test_where_there_is_no_file_there_are_no_records(path: Path) -> None:
    assert [] == hosts(path) == hosts(path / "requests.jsonl" / "b")


@pytest.mark.parametrize("name", ["requests.jsonl", "requests.jsonl.1"])
def test_one_of_the_two_is_enough(path: Path, name: str) -> None:
    path.with_name(name).write_bytes(line("a"))
    assert ["a"] == hosts(path)


def test_a_link_is_followed_to_both(path: Path) -> None:
    target = path.with_name("elsewhere.jsonl")
    target.write_bytes(line("b"))
    target.with_name("elsewhere.jsonl.1").write_bytes(line("a"))
    path.symlink_to(target)
    assert ["a", "b"] == hosts(path)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(line("x")[:-20], id="the beginning of a record"),
        pytest.param(line("x")[20:], id="its end"),
        pytest.param(line("x")[:-20] + line("y"), id="one that runs into the next"),
        pytest.param(line("x", kind="mcp"), id="an answer of an MCP server"),
        pytest.param(line("x", masking="perhaps"), id="a value of no record"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n \n", id="blank lines"),
        pytest.param(b"[1]\n", id="a list"),
        pytest.param(b"1\n", id="a number"),
        pytest.param(b"{}\n", id="an empty object"),
        pytest.param(b"\0" * 4_096, id="what a crash leaves"),
        pytest.param(b"\xff\xfe\n", id="no text"),
        pytest.param(b"[" * 1_500_000, id="a line without an end"),
        pytest.param(b"[" * 100_000 + b"\n", id="very deep"),
    ],
)
@pytest.mark.parametrize("since", [None, datetime(2025, 1, 1, tzinfo=UTC)])
def test_what_is_no_record_is_passed_over(path: Path, odd: bytes, since: datetime | None) -> None:
    path.write_bytes(line("a") + odd + b"\n" + line("b") + odd)
    assert ["a", "b"] == hosts(path, since)


def test_a_record_without_the_end_of_its_line_is_one(path: Path) -> None:
    path.write_bytes(line("a").rstrip())
    assert ["a"] == hosts(path)


TIMES = {
    "before": "2026-03-01T11:59:59.999+00:00",
    "just then": "2026-03-01T12:00:00.000+00:00",
    "after": "2026-03-01T12:00:00.001+00:00",
    "before, elsewhere": "2026-03-01T13:00:00+02:00",
    "after, elsewhere": "2026-03-01T11:00:00-02:00",
    "nonsense": "yesterday",
}


@pytest.mark.parametrize(
    "since",
    [
        pytest.param(datetime(2026, 3, 1, 12, tzinfo=UTC), id="in UTC"),
        pytest.param(datetime(2026, 3, 1, 8, tzinfo=timezone(timedelta(hours=-4))), id="elsewhere"),
        pytest.param(
            datetime(2026, 3, 1, 12, tzinfo=UTC).astimezone().replace(tzinfo=None), id="local"
        ),
    ],
)
def test_what_arrived_before_a_time_is_passed_over(path: Path, since: datetime) -> None:
    path.write_bytes(b"".join(line(host, time) for host, time in TIMES.items()))
    assert list(TIMES) == hosts(path)
    assert ["just then", "after", "after, elsewhere"] == hosts(path, since)


def test_a_text_that_looks_like_a_time_is_none(path: Path) -> None:
    model = 'm"time": "1999-01-01T00:00:00.000+00:00"'
    path.write_bytes(line("a", model=model) + line('"time": "1999"'))
    assert ["a", '"time": "1999"'] == hosts(path, datetime(2025, 1, 1, tzinfo=UTC))


def test_a_pipe_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert [] == hosts(path)


def test_a_file_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        hosts(path)


class Growing(io.RawIOBase):
    """A file that ends after each of these pieces until it is read again."""

    def __init__(self, *pieces: bytes) -> None:
        self._left = [part for piece in pieces for part in (piece, b"")]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        piece = self._left.pop(0) if self._left else b""
        memoryview(buffer)[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        pytest.param((b"a\nb", b"\nc\n"), [b"a\n", b"b\n", b"c\n"], id="in two"),
        pytest.param((b"a", b"b", b"\n"), [b"ab\n"], id="in three"),
        pytest.param((b"a\nb",), [b"a\n", b"b"], id="without an end"),
    ],
)
def test_a_line_that_is_half_written_is_read_to_its_end(
    pieces: tuple[bytes, ...], lines: list[bytes]
) -> None:
    assert lines == [*read_lines(io.BufferedReader(Growing(*pieces)))]


def test_what_is_longer_than_any_record_is_read_in_pieces() -> None:
    parts = [len(part) for part in read_lines(io.BufferedReader(io.BytesIO(b"x" * 2_500_000)))]
    assert [1_000_000, 1_000_000, 500_000] == parts


_WRITE = """
import sys
from pathlib import Path
from addon.metrics.record_file import RecordFile
from masking.config import MetricsSettings

file = RecordFile(MetricsSettings(path=sys.argv[1], max_megabytes=1))
record = {"kind": "chat", "time": "2026", "path": "x" * 2000, "masking": "on"}
for n in range(3000):
    file.write({**record, "host": str(n)})
"""


@pytest.fixture
def writer(path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", _WRITE, str(path)]) as process:
        yield process


def test_a_reader_meets_whole_records_in_order_however_often_the_file_is_rotated(
    path: Path, writer: "subprocess.Popen[bytes]"
) -> None:
    """Of one writer, all records that a reader meets are an unbroken run."""
    last = 0
    while writer.poll() is None:
        if numbers := list(map(int, hosts(path))):
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert numbers[-1] >= last
            last = numbers[-1]
    assert 2_999 == int(hosts(path)[-1])


def test_what_is_written_is_read(path: Path) -> None:
    file = RecordFile(MetricsSettings(path=str(path)))
    for record in read_records(path):
        pytest.fail(f"not written yet: {record}")
    file.write(json.loads(line("modèle \U0001f600", kept={"error": 1})))
    (record,) = read_records(path)
    assert (record.host, record.kept) == ("modèle \U0001f600", {"error": 1})
