"""The records: one per request, complete, without any content, and never in the traffic's way."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from addon.network import Address
from addon.proxy.health import check_health
from addon.proxy.marks import find_original
from addon.recordings.flows import read_flows, write_flows
from addon.request import one_line
from addon.version import VERSION
from masking.memory import digest_opening
from masking.rewrite import read_request
from tests.live.harness import (
    OFF,
    ON,
    SECONDS,
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    eventually,
    masked,
    read_records,
    run_mitmdump,
    running_addon,
    running_upstream,
    stream,
    waits_for_records,
)

CHAT = "/v1/chat/completions"
BODY = encoded(conversation())
USAGE = {"prompt_tokens": 90, "completion_tokens": 7}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running_upstream(tmp_path_factory.mktemp("upstream")) as running:
        yield running


def test_names_from_the_wire_are_short_and_stay_on_one_line() -> None:
    names = ["h\n{}", "/\x1b[31m", "m" * 1_000, "a\ud800"]
    assert ["h\ufffd{}", "/\ufffd[31m", "m" * 200, "a\ufffd"] == list(map(one_line, names))


# Through the proxy

MONEY = ("cost_", "saved_")
AT_ARRIVAL = {
    **dict.fromkeys(("shortened", "left_out_tokens", "arrival_rereads", "arrival_quotes"), 0),
    **dict.fromkeys(("long_kept", "arrival_saved_tokens", "arrival_saved_tokens_error")),
    "arrival_saved_dollars": None,
}


@pytest.mark.live
def test_a_record_tells_what_was_measured(upstream: Upstream, tmp_path: Path) -> None:
    body = encoded(conversation(turns=4, text="word " * 200))
    upstream.sink.answers[CHAT] = answer(json.dumps({"usage": USAGE}).encode())
    with running_addon(tmp_path, upstream) as live:
        arrived = live.send(CHAT + "?key=k", body, user_agent="agent/1.0").body
        record = live.record(CHAT)
    placeholder = "<call_0 shell 1000>"
    assert record.pop("time")
    assert 0 < record.pop("hook_us") < 10_000_000
    costs = {name: record.pop(name) for name in list(record) if name.startswith(MONEY)}
    tokens = {name: record.pop(name) for name in list(record) if name.endswith(("before", "after"))}
    assert re.fullmatch("[0-9a-f]{12}", record.pop("config_digest"))
    assert re.fullmatch("[0-9a-f]{8}", record.pop("run"))
    assert record == {
        "kind": "chat",
        "record_schema": 4,
        "software_version": VERSION,
        "tag": None,
        "label": None,
        "host": "localhost",
        "path": CHAT,
        "format": "chat",
        "purpose": "answer",
        "client": "agent",
        "session": None,
        "folder": None,
        "subscription": False,
        "model": "gpt-4o",
        "stream": False,
        "masking": "on",
        "group": None,
        "passed_through": None,
        "resent": None,
        "replay": False,
        "prefix": "first met",
        "binding": None,
        "account": None,
        "tried": False,
        "clearing": None,
        "dropping": None,
        "roads": None,
        "slides": True,
        "price_source": "assumed",
        "price_read_ratio": 0.5,
        "price_write_ratio": 1.0,
        "price_entry": ["OpenAI", "gpt-4o"],
        "status": 200,
        "error": None,
        "input_transformations": None,
        "cleared_tool_uses": None,
        "cleared_tokens": None,
        "messages": 9,
        "tool_turns": 4,
        "tool_results": 4,
        "masked": 2,
        "masked_images": 0,
        "redacted": 0,
        "reduced": 0,
        "dropped": 0,
        "rereads": 0,
        "composition": {"user": 7, "assistant": 56, "results": 418, "placeholders": 18},
        "kept": {"in_window": 2},
        "result_reasons": [[2, "masked"], [2, "in_window"]],
        "redaction_scenarios": None,
        "reduction_stage": None,
        "dropped_messages": 0,
        "first_chunk_seconds": None,
        "model_window_tokens": 128_000,
        "fits_unmasked": True,
        "prompt_tokens": 90,
        "cached_tokens": None,
        "written_tokens": None,
        "written_long_tokens": None,
        "completion_tokens": 7,
        "reasoning_tokens": None,
        "quota": None,
        "quota_account": None,
        "learns_quota": False,
        "conversation": 1,
        "conversation_id": digest_opening(read_request(body)).hex(),
        "boundary_moved": False,
        "move_price_tokens": None,
        "boundary_held": False,
        "price_borrowed_from": "OpenAI",
        "service_tier": None,
        "price_is_standard": False,
        "answer_dollars": 7e-05,
        "predicted_cached_tokens": 0,
        "cached_tokens_basis": "simulated",
        **AT_ARRIVAL,
    }
    assert costs["cost_tokens_after"] == 90
    assert costs["cost_tokens_before"] > 90
    assert (tokens["bytes_before"], tokens["bytes_after"]) == (len(body), len(arrived))
    assert tokens["tool_chars_before"] == 4_000
    assert tokens["tool_chars_after"] == 2_000 + 2 * len(placeholder)
    assert 300 < tokens["request_tokens_before"] - tokens["request_tokens_after"] < 400


@pytest.mark.live
def test_a_record_tells_when_the_first_piece_of_a_stream_came(
    recorded: tuple[Live, bytes, bytes],
) -> None:
    found = {record["path"]: record["first_chunk_seconds"] for record in recorded[0].records()}
    assert found[CHAT] is None
    assert 0 < found[f"/s{CHAT}"] < SECONDS


@pytest.mark.live
@pytest.mark.parametrize("config", [ON, OFF])
def test_records_that_cannot_be_written_are_no_reason_to_hold_back_a_request(
    upstream: Upstream, tmp_path: Path, config: bytes
) -> None:
    (tmp_path / "file").touch()
    config += f'[observation_masking.metrics]\npath = "{tmp_path}/file/requests.jsonl"\n'.encode()
    with running_addon(tmp_path, upstream, config=config) as live:
        assert [live.send(CHAT, BODY).body for _ in range(2)] == [masked(BODY, config)] * 2
    assert live.proxy.log.count("no records in ") == 1
    assert "Traceback" not in live.proxy.log


@pytest.mark.live
def test_a_full_disk_loses_records_and_nothing_else(upstream: Upstream, tmp_path: Path) -> None:
    config = ON + b'[observation_masking.metrics]\npath = "/dev/full"\n'
    with running_addon(tmp_path, upstream, *waits_for_records(tmp_path), config=config) as live:
        assert [live.send(CHAT, BODY).body for _ in range(2)] == [masked(BODY)] * 2
        health = check_health(Address("127.0.0.1", live.proxy.port), SECONDS)
    assert health
    assert health.lost_records == 2
    assert health.summary.startswith("2 requests; ")
    assert "records lost: 2 (/dev/full)" in live.proxy.log
    assert live.proxy.log.count("no records in /dev/full: No space left on device") == 1
    assert "2 requests: 2 with masking on (0 failed); 6 results masked" in live.proxy.log
    assert "Traceback" not in live.proxy.log


HANGS = """
from threading import Event
from mitmproxy import ctx
from addon.proxy import health
from addon.records import recorder
recorder._STOP_SECONDS = health._SETTLE_SECONDS = 1.0
def running():
    engine = ctx.master.addons.get("observationmasking").engine
    engine.recorder.sinks.insert(0, lambda _: Event().wait())
"""


@pytest.mark.live
def test_records_that_hang_hold_up_neither_traffic_nor_the_stop(
    upstream: Upstream, tmp_path: Path
) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    with running_addon(tmp_path, upstream, "-s", str(tmp_path / "hangs.py")) as live:
        sent = [live.send(CHAT, BODY).body for _ in range(2)]
        health = check_health(Address("127.0.0.1", live.proxy.port), SECONDS)
    assert [masked(BODY)] * 2 == sent
    assert health
    assert (0, "") == (health.lost_records, health.summary)
    assert "2 requests are not recorded: that took too long at the end" in live.proxy.log
    assert "Traceback" not in live.proxy.log


SECRETS = {
    name: f"s3cr3t-{name}"
    for name in ("message", "argument", "result", "answer", "bearer", "api", "cookie", "query")
}


@pytest.mark.live
def test_no_content_and_no_credential_is_in_any_record_log_or_mark(
    upstream: Upstream, tmp_path: Path
) -> None:
    asked = conversation(text=SECRETS["result"] * 20)
    asked["messages"][0]["content"] = SECRETS["message"]
    for message in asked["messages"][1::2]:
        message["tool_calls"][0]["function"]["arguments"] = json.dumps({"a": SECRETS["argument"]})
    said = json.dumps({"error": SECRETS["answer"], "usage": USAGE}).encode()
    headers = {
        "authorization": f"Bearer {SECRETS['bearer']}",
        "api_key": SECRETS["api"],
        "x_api_key": SECRETS["api"],
        "cookie": SECRETS["cookie"],
    }
    bodies = [encoded(asked), encoded(asked)[:-9], encoded({"messages": SECRETS["message"]})]
    replies = [answer(said), answer(said, status=500), stream(said), [answer(said)[0][:-9]], []]  # type: ignore[index]
    # mitmdump's own line for every request, which shows its query, is switched off
    quiet = ("--set", "flow_detail=0", "-w", str(tmp_path / "out.flow"))
    with running_addon(tmp_path, upstream, *quiet) as live:
        for number, reply in enumerate(replies):
            path = f"/{number}{CHAT}"
            upstream.sink.answers[path] = reply
            for body in bodies:
                with contextlib.suppress(httpx.RemoteProtocolError):
                    live.send(f"{path}?key={SECRETS['query']}", body, **headers)
                    live.send(path, body, **headers)
        eventually(lambda: len(live.records()) >= 4 * len(bodies) or None)
    flows = list(read_flows(tmp_path / "out.flow"))
    marks = [str((flow.metadata["observation_masking"], flow.comment)) for flow in flows
             if "observation_masking" in flow.metadata]  # fmt: skip
    assert any("masked 3 tool results" in mark for mark in marks)
    told = [live.proxy.log, json.dumps(live.records()), *marks]
    assert [name for name, secret in SECRETS.items() for text in told if secret in text] == []


# Recordings


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, upstream: Upstream
) -> tuple[Live, bytes, bytes]:
    """A proxy that saved a plain and a streamed exchange (`-w`), and the bytes of both answers."""
    folder = tmp_path_factory.mktemp("recorded")
    plain, streamed = json.dumps({"usage": USAGE}).encode(), b'data: {"choices": []}\n\n'
    upstream.sink.answers |= {CHAT: answer(plain), f"/s{CHAT}": stream(streamed, streamed)}
    with running_addon(folder, upstream, "-w", str(folder / "out.flow")) as live:
        live.send(CHAT, BODY)
        live.send(f"/s{CHAT}", encoded(conversation(stream=True)))
    return live, plain, streamed * 2


@pytest.mark.live
def test_a_recording_holds_what_was_sent_and_what_was_answered(
    recorded: tuple[Live, bytes, bytes],
) -> None:
    live, *answers = recorded
    flows = list(read_flows(live.folder / "out.flow"))
    assert [flow.request.content for flow in flows] == [
        masked(BODY),
        masked(encoded(conversation(stream=True))),
    ]
    assert [flow.response.content for flow in flows if flow.response] == answers
    assert [len(flow.metadata["observation_masking"]) for flow in flows] == [5, 5]


@pytest.mark.live
def test_a_recording_holds_the_clients_own_bodies(recorded: tuple[Live, bytes, bytes]) -> None:
    flows = read_flows(recorded[0].folder / "out.flow")
    assert [BODY, encoded(conversation(stream=True))] == [find_original(flow) for flow in flows]
    assert "out.flow keeps the client's own body of each masked request" in recorded[0].proxy.log


class Replayed(NamedTuple):
    """A run of `mitmdump -nr`: its folder, the recording that it wrote, its log."""

    folder: Path
    out: Path
    log: str


def replay(source: Path, folder: Path, metrics: str = "") -> Replayed:
    """Replay a recording with masking on."""
    config, out = folder / "config.toml", folder / "again.flow"
    config.write_bytes(ON + metrics.encode())
    options = ("-n", "-r", str(source), "-w", str(out))
    ended = run_mitmdump(folder, *options, OBSMASK_CONFIG=str(config))
    assert (ended.returncode, "Traceback" in ended.stdout) == (0, False)
    return Replayed(folder, out, ended.stdout)


@pytest.fixture(scope="module")
def replayed(
    tmp_path_factory: pytest.TempPathFactory, recorded: tuple[Live, bytes, bytes]
) -> Replayed:
    """What was recorded with masking on, replayed; no file is named for the records."""
    return replay(recorded[0].folder / "out.flow", tmp_path_factory.mktemp("replayed"))


@pytest.mark.live
def test_replaying_a_recording_masks_nothing_further(
    recorded: tuple[Live, bytes, bytes], replayed: Replayed
) -> None:
    paths = (recorded[0].folder / "out.flow", replayed.out)
    bodies = [[flow.request.content for flow in read_flows(path)] for path in paths]
    assert bodies[0] == bodies[1]
    assert replayed.log.count("replay localhost gpt-4o 200: masked 0 of 5") == 2


@pytest.mark.live
def test_replayed_requests_leave_no_records_among_those_of_live_traffic(replayed: Replayed) -> None:
    assert read_records(replayed.folder) == []
    assert replayed.log.count("replayed requests leave no records among those of live traffic") == 1


@pytest.mark.live
def test_replayed_requests_are_counted_and_recorded_in_a_file_of_their_own(
    recorded: tuple[Live, bytes, bytes], tmp_path: Path
) -> None:
    flows = list(read_flows(recorded[0].folder / "out.flow"))
    for flow in flows:
        flow.request.content = find_original(flow)
    write_flows(tmp_path / "unmasked.flow", flows)
    path = tmp_path / "own.jsonl"
    metrics = f'[observation_masking.metrics]\npath = "{path}"\n'
    log = replay(tmp_path / "unmasked.flow", tmp_path, metrics).log
    told = [(r["replay"], r["masked"], r["kept"]) for r in map(json.loads, path.open())]
    assert told == [(True, 3, {"in_window": 2})] * 2
    assert "2 replayed requests: 6 results masked, " in log
    assert "leave no records" not in log
