"""Recordings: their flows, the requests to models in them, and sessions that can be replayed."""

import contextlib
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http, tcp
from mitmproxy.flow import Error
from mitmproxy.test import tflow, tutils
from mitmproxy.websocket import WebSocketMessage
from wsproto.frame_protocol import Opcode

from addon.commands.demo import RECORDS, write_config
from addon.commands.main import main
from addon.config import CONFIG_NAME
from addon.proxy.marks import METADATA_ORIGINAL, find_original, keep_original_message
from addon.proxy.server import running_proxy
from addon.recordings.flows import (
    find_exchanges,
    name_of,
    open_recording,
    read_flows,
    write_flows,
)
from addon.recordings.scrub import FILLER, OwnRecording, scrub, scrub_recording
from addon.records.record import RequestRecord
from addon.records.tally import Tally
from addon.records.words import list_costs
from masking.wire import Usage
from tests.live.harness import SECONDS, environment
from tests.support.marks import as_one_test
from tests.support.record_lines import fill
from tests.support.sessions import CHATS
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Reply


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
    made.error = Error("gone")
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


@as_one_test
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


# The requests in a flow, above all in one that is a WebSocket

TASK = {"role": "user", "content": "Find s3cr3t words."}
CALL = {"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "out"}
DONE = {"role": "assistant", "content": "Done."}
USAGE = {"input_tokens": 9, "output_tokens": 1}


def ask(*items: object, **fields: object) -> bytes:
    message = {"type": "response.create", "model": "gpt-5", "input": [*items], **fields}
    return json.dumps(message).encode()


def after(number: int) -> str:
    return f"resp_{number}"


def answer(number: int, *items: object) -> bytes:
    response = {"id": after(number), "output": [*items], "usage": USAGE}
    return json.dumps({"type": "response.completed", "response": response}).encode()


CREATED = b'{"type": "response.created", "response": {"id": "resp_1"}}'
LIMIT = b'{"type": "error", "status": 429}'


def connection(*messages: bytes, path: str = "/v1/responses") -> http.HTTPFlow:
    """Return a recorded connection; requests are told by what they hold."""
    flow = tflow.twebsocketflow(messages=False)
    flow.request.path = path
    assert flow.websocket is not None
    flow.websocket.messages = [
        WebSocketMessage(Opcode.TEXT, b"response.create" in content[:30], content, 7.0)
        for content in messages
    ]
    return flow


MESSAGES = (
    ask(generate=False),
    answer(0),
    ask(TASK, previous_response_id=after(0)),
    CREATED,
    answer(1, CALL),
    ask(RESULT, previous_response_id=after(1)),
    answer(2, DONE),
)


def histories(flow: http.HTTPFlow) -> list[Any]:
    return [json.loads(each.body or b"").get("input") for each in find_exchanges(flow)]


def test_a_history_is_put_together_from_what_was_sent_bit_by_bit() -> None:
    flow = connection(*MESSAGES)
    assert [[], [TASK], [TASK, CALL, RESULT]] == histories(flow)
    exchanges = list(find_exchanges(flow))
    assert ["count", "answer", "answer"] == [each.match.purpose for each in exchanges]
    assert [MESSAGES[0], MESSAGES[2], MESSAGES[5]] == [each.sent for each in exchanges]
    assert [MESSAGES[1], MESSAGES[4], MESSAGES[6]] == [each.answer for each in exchanges]
    assert {"model", "input"} == json.loads(exchanges[-1].body or b"").keys()


@as_one_test
@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [ask(RESULT, previous_response_id=after(7)), answer(8, DONE)],
            ["previous_response_id"],
            id="joined late",
        ),
        pytest.param(
            [
                ask(RESULT, previous_response_id=after(7)),
                answer(8, DONE),
                ask(TASK, previous_response_id=after(8)),
            ],
            ["previous_response_id", "previous_response_id"],
            id="joined late, and went on",
        ),
        pytest.param(
            [*MESSAGES, ask(TASK), answer(3, CALL), ask(RESULT, previous_response_id=after(3))],
            [None] * 5,
            id="began anew",
        ),
        pytest.param([b'{"type": "response.create", "input": "Go."'], [None], id="not JSON"),
        pytest.param([ask(TASK), b'["error"]'], [None], id="no answer"),
    ],
)
def test_a_history_whose_beginning_is_not_known_stays_a_part(
    messages: list[bytes], expected: list[str | None]
) -> None:
    bodies = [each.body or b"" for each in find_exchanges(connection(*messages))]
    key = "previous_response_id"
    assert expected == [key if key.encode() in body else None for body in bodies]


def test_a_failure_is_an_obstacle() -> None:
    flow = connection(ask(TASK), LIMIT, ask(TASK))
    assert ["status 429", None] == [each.obstacle for each in find_exchanges(flow)]


def test_after_a_masked_history_the_answers_are_to_another_one() -> None:
    whole, more = RESULT | {"output": "long"}, ask(TASK, previous_response_id=after(1))
    flow = connection(ask(TASK, CALL, RESULT), answer(1, DONE), more, answer(2), *MESSAGES[:2])
    keep_original_message(flow, 0, ask(TASK, CALL, whole))
    exchanges = [*find_exchanges(flow)]
    bodies = [json.loads(each.body or b"")["input"] for each in exchanges]
    counted = [each.counted and json.loads(each.counted)["input"] for each in exchanges]
    assert [[TASK, CALL, whole], [TASK, CALL, whole, DONE, TASK], []] == bodies
    assert [[TASK, CALL, RESULT], [TASK, CALL, RESULT, DONE, TASK], None] == counted
    assert [answer(1, DONE), answer(2), MESSAGES[1]] == [each.answer for each in exchanges]


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/chat/completions"])
def test_other_connections_have_none(path: str) -> None:
    assert [] == [*find_exchanges(connection(*MESSAGES, path=path))]


def test_a_request_over_http_is_one() -> None:
    flow = tflow.tflow(req=tutils.treq(method=b"POST", path=b"/v1/responses", content=ask(TASK)))
    (found,) = find_exchanges(flow)
    assert (ask(TASK), ask(TASK)) == (found.body, found.sent)


def test_a_connection_can_be_scrubbed_and_replayed(tmp_path: Path) -> None:
    flow = connection(*MESSAGES)
    keep_original_message(flow, 0, MESSAGES[0])
    write_flows(tmp_path / "in.flow", [flow, connection(path="/v1/responses")])
    assert scrub_recording(tmp_path / "in.flow", tmp_path / "out.flow") == 1
    (scrubbed,) = read_flows(tmp_path / "out.flow")
    assert scrubbed.websocket is not None
    text = b"".join(message.content for message in scrubbed.websocket.messages).decode()
    assert ("s3cr3t" in text, "out" in text, FILLER[:4] in text) == (False, True, True)
    assert [0, 1, 3] == [len(history) for history in histories(scrubbed)]
    (first, second) = open_recording(tmp_path / "out.flow").requests()
    assert (Usage(prompt=9, completion=1), None) == (first.usage, first.passed_over)
    assert second.path == "/v1/responses"


def test_of_our_own_recording_our_own_texts_stay() -> None:
    own = OwnRecording(texts=frozenset((TASK["content"],)))
    assert histories(connection(*MESSAGES)) == histories(scrub(connection(*MESSAGES), own=own))


# Recordings of a user's own: made with masking on, cut off, or none at all

RECORDING = CHATS[0]
BODIES = [flow.request.content or b"" for flow in read_flows(RECORDING)]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that a user made: `mitmdump -w session.flow -s addon/mask.py`."""
    folder = tmp_path_factory.mktemp("masked")
    path = folder / "session.flow"
    config = write_config(folder, "none")
    options = ("-w", str(path), "--set", f"mask_config={config}")
    with (
        Provider(lambda _: Reply(content="Done.")) as provider,
        running_proxy(folder, *options, env=environment(folder)) as proxy,
        httpx.Client(proxy=proxy.url, timeout=SECONDS) as client,
    ):
        for body in BODIES:
            client.post(f"{provider.url}/chat/completions", content=body).raise_for_status()
    return path


def replay_files(capsys: pytest.CaptureFixture[str], *paths: Path | str) -> Any:  # noqa: ANN401 - JSON
    assert main(["replay", *map(str, paths), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.live
def test_a_masked_recording_is_replayed_by_what_the_client_wrote(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = list(read_flows(masked))
    changed = [flow.request.content != body for flow, body in zip(flows, BODIES, strict=True)]
    assert sum(changed) > 10
    for flow, body in zip(flows, BODIES, strict=True):
        flow.metadata.clear()
        flow.request.content = body
    write_flows(tmp_path / "session.flow", flows)
    assert result_counts(capsys, tmp_path / "session.flow") == result_counts(capsys, masked)


@pytest.mark.live
def test_a_masked_recording_costs_in_a_replay_what_its_records_say(
    masked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", str(masked.parent / CONFIG_NAME)]
    (session,) = replay_files(capsys, masked, *config)["conversations"]
    lines = (masked.parent / RECORDS).read_text("utf-8").splitlines()
    for record, replayed in zip(map(fill, lines), session["per_request"], strict=True):
        names = replayed.keys() & {each for each in record if each.startswith(("cost", "saved"))}
        assert {name: record[name] for name in names} == {name: replayed[name] for name in names}
        assert "reported" == record["cached_tokens_basis"]

    # Its sentence is the one of `status`.
    tally = Tally()
    for line in lines:
        tally.add(RequestRecord.model_validate_json(line))
    assert 0 == main(["replay", str(masked), *config])
    (sentence,) = list_costs(tally.masked_bill, tally.count)
    assert f"when it was recorded: {sentence}." in " ".join(capsys.readouterr().out.split())


@pytest.mark.live
def test_a_masked_recording_is_scrubbed_with_what_the_client_wrote(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scrubbed = tmp_path / "session.flow"
    scrub_recording(masked, scrubbed)
    text = "".join(str(find_original(flow) or b"") for flow in read_flows(scrubbed))
    assert "these words stand where other words stood" in text
    assert "import complete" not in text
    assert result_counts(capsys, masked) == result_counts(capsys, scrubbed)


def result_counts(capsys: pytest.CaptureFixture[str], path: Path) -> list[tuple[int, int]]:
    """Return, request by request, how many results it holds and how many had been masked before."""
    (session,) = replay_files(capsys, path)["conversations"]
    requests = session["per_request"]
    return [(each["tool_results"], each["kept"].get("already_masked", 0)) for each in requests]


def without_originals(path: Path, out: Path) -> Path:
    flows = list(read_flows(path))
    for flow in flows:
        flow.metadata.pop(METADATA_ORIGINAL, None)
    write_flows(out, flows)
    return out


def with_damaged_originals(path: Path, out: Path) -> Path:
    flows = list(read_flows(path))
    for flow in flows:
        if METADATA_ORIGINAL in flow.metadata:
            flow.metadata[METADATA_ORIGINAL] = b"damaged"
    write_flows(out, flows)
    return out


def cut_off(path: Path, out: Path) -> Path:
    out.write_bytes(path.read_bytes()[:-1_000])
    return out


def foreign(_: Path, out: Path) -> Path:
    out.write_bytes(b"plain text")
    return out


REFUSED = pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(without_originals, "21 requests recorded as masked", id="no originals"),
        pytest.param(with_damaged_originals, "21 requests recorded as masked", id="damaged"),
        pytest.param(foreign, "is no complete mitmproxy recording", id="no recording"),
    ],
)


@pytest.mark.live
@REFUSED
@pytest.mark.parametrize("command", ["replay", "tune"])
def test_a_recording_that_says_nothing_is_refused_by_its_name(
    make: Callable[[Path, Path], Path],
    problem: str,
    command: str,
    masked: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = make(masked, tmp_path / "mine.flow")
    assert main([command, str(refused)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]  # on a slow machine, progress comes before it
    assert said.startswith(f"obsmask: {refused}")
    assert problem in said


@pytest.mark.live
@REFUSED
def test_in_a_folder_it_is_left_out_by_its_name(
    make: Callable[[Path, Path], Path],
    problem: str,
    masked: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = make(masked, tmp_path / "mine.flow")
    write_flows(tmp_path / "whole.flow", read_flows(RECORDING))
    assert main(["replay", str(tmp_path), "--json"]) == 0
    shown, said = capsys.readouterr()
    assert ["whole"] == [each["name"] for each in json.loads(shown)["conversations"]]
    assert f"obsmask: left out: {refused}" in said
    assert problem in said


def test_the_whole_flows_of_a_truncated_recording_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = cut_off(RECORDING, tmp_path / "cut.flow")
    for path in (cut, tmp_path):
        assert main(["replay", str(path), "--json"]) == 0
        shown, said = capsys.readouterr()
        assert len(BODIES) - 1 == json.loads(shown)["total"]["requests"]
        assert f"obsmask: {cut} is no complete mitmproxy recording: " in said
        assert f"; only {len(BODIES) - 1} flows before that could be read\n" in said


def test_several_prices_read_a_recording_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = cut_off(RECORDING, tmp_path / "cut.flow")
    assert main(["replay", str(cut), "--prices", "0.1,1", "--prices", "0.5,1"]) == 0
    assert 1 == capsys.readouterr().err.count("is no complete mitmproxy recording")


@pytest.mark.live
def test_a_recording_from_behind_a_masking_proxy_is_warned_of(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds no word of the addon's, but placeholders."""
    flows = list(read_flows(masked))
    for flow in flows:
        flow.metadata.clear()
    write_flows(tmp_path / "behind.flow", flows)
    assert main(["replay", str(tmp_path / "behind.flow"), "--json"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("obsmask: behind")
    assert ": old results were masked before this was recorded" in said
