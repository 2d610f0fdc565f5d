import contextlib
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import flow, http, tcp
from mitmproxy.test import tflow

from addon.recordings.flows import name_of, read_flows, write_flows


def answered(path: str = "/answered") -> http.HTTPFlow:
    made = tflow.tflow(resp=True)
    made.request.path = path
    return made


def failed(path: str = "/failed") -> http.HTTPFlow:
    made = tflow.tflow(err=True)
    made.request.path = path
    return made


def died_in_its_answer() -> http.HTTPFlow:
    made = answered("/died")
    made.error = flow.Error("gone")
    return made


def unanswered() -> http.HTTPFlow:
    made = tflow.tflow()
    made.request.path = "/unanswered"
    return made


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "some.flow"
    write_flows(path, [answered(), failed(), died_in_its_answer(), unanswered()])
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    flows = [answered(), failed(), died_in_its_answer()]
    assert write_flows(tmp_path / "some.flow", flows) == 3
    read = list(read_flows(tmp_path / "some.flow"))
    assert [each.get_state() for each in read] == [each.get_state() for each in flows]


def test_a_compressed_recording_holds_the_same(tmp_path: Path) -> None:
    flows = [answered(), failed()] * 20
    for name in ("plain.flow", "packed.flow.xz"):
        assert write_flows(tmp_path / name, flows) == 40
    plain, packed = tmp_path / "plain.flow", tmp_path / "packed.flow.xz"
    assert lzma.decompress(packed.read_bytes()) == plain.read_bytes()
    states = [[each.get_state() for each in read_flows(path)] for path in (plain, packed)]
    assert states[0] == states[1]
    assert ["plain", "packed"] == [name_of(path) for path in (plain, packed)]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-40], id="its end is missing"),
        pytest.param(lambda data: data[:60] + b"?" + data[61:], id="a byte is wrong"),
        pytest.param(lzma.decompress, id="not compressed"),
    ],
)
def test_a_damaged_compressed_recording_is_named(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "some.flow.xz"
    write_flows(path, [answered()])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"some\.flow\.xz is no complete mitmproxy recording"):
        list(read_flows(path))


def test_flows_of_other_protocols_are_passed_over(tmp_path: Path) -> None:
    other: tcp.TCPFlow = tflow.ttcpflow()
    write_flows(tmp_path / "some.flow", [answered(), other, failed()])  # type: ignore[list-item]
    assert len(list(read_flows(tmp_path / "some.flow"))) == 2


def test_an_empty_file_holds_no_flow(tmp_path: Path) -> None:
    (tmp_path / "empty.flow").touch()
    assert list(read_flows(tmp_path / "empty.flow")) == []


def test_the_flows_before_the_cut_are_read(recording: Path) -> None:
    recording.write_bytes(recording.read_bytes()[:-100])
    flows = read_flows(recording)
    assert [next(flows).request.path for _ in range(3)] == ["/answered", "/failed", "/died"]
    with pytest.raises(ValueError, match=r"some\.flow is no complete mitmproxy recording"):
        next(flows)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"plain text", id="text"),
        pytest.param(b'{"log": {}}', id="JSON that is no HAR"),
        pytest.param(b"4:true!", id="a value that is no flow"),
        pytest.param(b"0:}", id="a flow without anything"),
        pytest.param(b"22:7:version;7:9999999#;}", id="broken inside"),
        pytest.param(b"20:7:version;6:999999#}", id="a version to come"),
        pytest.param(b"\x00\xff" * 50, id="binary"),
    ],
)
def test_a_foreign_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.flow"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"foreign\.flow is no complete mitmproxy recording"):
        list(read_flows(path))


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_flows(tmp_path / "missing.flow"))


@given(st.integers(0, 400), st.binary(max_size=8))
def test_a_damaged_recording_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, damage: bytes
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "some.flow"
    write_flows(path, [answered()])
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + damage + whole[at + len(damage) :])
    with contextlib.suppress(ValueError):
        list(read_flows(path))
