"""The addon's hooks where no network is needed: its options, its guards, its names."""

import gzip
import json
import re
import sys
import time
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from mitmproxy import exceptions, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.addons.save import Save
from mitmproxy.addons.savehar import SaveHar
from mitmproxy.addons.view import View
from mitmproxy.connection import ConnectionState
from mitmproxy.test import taddons, tflow, tutils

from addon.engine import ResponseCopy
from addon.mask import ObservationMasking
from addon.proxy.marks import find_original
from addon.proxy.server import ADDON
from addon.records import recorder as metrics_module
from tests.live.harness import OFF, ON, conversation, encoded, masked, read_records
from tests.support.hooks import fire
from tests.support.images import png

BODY = encoded(conversation())


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[taddons.context]:
    """The addon with a configuration of its own, in mitmproxy's test harness."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "on.toml").write_bytes(ON)
    (tmp_path / "off.toml").write_bytes(OFF)
    with taddons.context(Proxyserver(), Save(), SaveHar(), ObservationMasking()) as context:
        yield context


@pytest.fixture
def addon(context: taddons.context) -> Iterator[ObservationMasking]:
    addon: ObservationMasking = context.master.addons.get("observationmasking")
    context.configure(addon, mask_config="on.toml")
    addon.running()
    yield addon
    addon.done()


def chat_flow(body: bytes = BODY) -> http.HTTPFlow:
    request = tutils.treq(method=b"POST", path=b"/v1/chat/completions", content=body)
    return tflow.tflow(req=request)


def run(addon: ObservationMasking, flow: http.HTTPFlow) -> bytes:
    """Let a request pass; the body that leaves."""
    fire(addon, "request", flow)
    return flow.request.raw_content or b""


# Its options


def test_another_file_holds_from_the_next_request_on(
    context: taddons.context, addon: ObservationMasking
) -> None:
    assert run(addon, chat_flow()) == masked(BODY)
    context.configure(addon, mask_config="off.toml")
    assert run(addon, chat_flow()) == BODY


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("mask_config", "nowhere.toml", "nowhere.toml"),
        ("mask_set", ["schema1.window_turn=4"], "schema1.window_turn"),
        ("stream_large_bodies", "1m", "past the addon"),
    ],
)
def test_a_mistake_while_running_is_refused_and_changes_nothing(
    context: taddons.context, addon: ObservationMasking, option: str, value: object, reason: str
) -> None:
    with pytest.raises(exceptions.OptionsError, match=reason):
        context.configure(addon, **{option: value})
    assert run(addon, chat_flow()) == masked(BODY)


# Replays


def test_a_replay_does_not_outrun_its_records(
    addon: ObservationMasking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "_MAX_PENDING_BYTES", 1)
    addon.engine.recorder._worker.submit(
        lambda: time.sleep(0.2)
    )  # whatever else the thread has to do
    for _ in range(3):
        flow = chat_flow()
        flow.live = False
        run(addon, flow)
    assert "" == str(addon.engine.recorder.left_out)


# What it does not look into


def test_a_request_that_is_too_large_for_any_model_passes_untouched(
    addon: ObservationMasking, tmp_path: Path
) -> None:
    many = b'{"model": "gpt-4o", "messages": [' + b'"",' * 1_000_000 + b'""]}'
    bomb = chat_flow(gzip.compress(b" " * 1_000_000) * 65)
    bomb.request.headers["content-encoding"] = "gzip"
    for flow in (chat_flow(many), bomb):
        before = flow.request.raw_content
        assert before == run(addon, flow)
        fire(addon, "error", flow)
    addon.done()
    assert ["more than 1,000,000 elements", "larger than 64,000,000 bytes once decompressed"] == [
        record["passed_through"] for record in read_records(tmp_path)
    ]


# Its marks


def test_a_flow_is_marked_for_the_interfaces(
    context: taddons.context, addon: ObservationMasking
) -> None:
    context.master.addons.add(View())
    flow = chat_flow()
    run(addon, flow)
    first, *_, last = flow.metadata["observation_masking"]
    assert flow.comment == "masked 3 tool results: 1,140 -> 54 characters"
    assert first == {
        "call_id": "call_0",
        "tool": "shell",
        "turn": 0,
        "strategy": "schema1",
        "reason": "masked",
        "chars_before": 380,
        "chars_after": 18,
        "images_masked": 0,
    }
    assert (last["call_id"], last["reason"]) == ("call_4", "in_window")


def test_a_flow_is_marked_with_the_images_that_are_masked(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    context.master.addons.add(View())
    (tmp_path / "images.toml").write_bytes(ON + b"mask_images = true\nkeep_last_images = 0\n")
    context.configure(addon, mask_config="images.toml")
    messages = conversation()["messages"]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}}
    messages[2]["content"] = [{"type": "text", "text": messages[2]["content"]}, image]
    flow = chat_flow(encoded({"messages": messages}))
    assert b"[image: png 1280x800 masked]" in run(addon, flow)
    assert flow.comment == "masked 3 tool results: 1,140 -> 54 characters, 1 image"
    marks = flow.metadata["observation_masking"]
    assert [mark["images_masked"] for mark in marks] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("option", ["save_stream_file", "hardump"])
def test_a_flow_is_marked_for_a_file(
    context: taddons.context, addon: ObservationMasking, option: str
) -> None:
    kept_by = {"save_stream_file": "save", "hardump": "savehar"}[option]
    context.configure(context.master.addons.get(kept_by), **{option: "out.flow"})
    flow = chat_flow()
    run(addon, flow)
    assert flow.comment == "masked 3 tool results: 1,140 -> 54 characters"


def test_a_flow_that_nobody_sees_again_is_not_marked(addon: ObservationMasking) -> None:
    flow = chat_flow()
    assert masked(BODY) == run(addon, flow)
    assert ("", {}) == (flow.comment, flow.metadata)


def test_a_marked_flow_can_be_saved_whatever_its_names(
    context: taddons.context, addon: ObservationMasking
) -> None:
    context.master.addons.add(View())
    request = conversation()
    request["messages"][1]["tool_calls"][0]["function"]["name"] = "\ud800"
    flow = chat_flow(json.dumps(request).encode())
    run(addon, flow)
    assert flow.metadata["observation_masking"][0]["tool"] == "?"


# The client's own body


@pytest.mark.parametrize(
    ("setting", "turns", "recording", "kept"),
    [
        pytest.param("true", 5, True, True, id="kept where a request was changed"),
        pytest.param("true", 2, True, False, id="not where nothing was changed"),
        pytest.param("true", 5, False, False, id="not where nothing is recorded"),
        pytest.param("false", 5, True, False, id="not where that is switched off"),
    ],
)
def test_a_recording_keeps_the_clients_own_body(
    context: taddons.context,
    addon: ObservationMasking,
    tmp_path: Path,
    setting: str,
    turns: int,
    recording: bool,
    kept: bool,
) -> None:
    config = ON + f"[observation_masking.recording]\nkeep_original = {setting}\n".encode()
    (tmp_path / "keeping.toml").write_bytes(config)
    context.configure(addon, mask_config="keeping.toml")
    if recording:
        context.configure(context.master.addons.get("save"), save_stream_file="out.flow")
    body = encoded(conversation(turns=turns))
    flow = chat_flow(body)
    run(addon, flow)
    assert find_original(flow) == (body if kept else None)


# Its guards


@pytest.mark.parametrize(
    ("message", "version", "connected", "expected"),
    [
        ("stream reset by client (CANCEL)", "HTTP/2.0", True, "client left"),
        ("stream reset by client (CANCEL)", "HTTP/1.1", True, "provider failed"),
        ("stream reset by client (INTERNAL_ERROR)", "HTTP/2.0", True, "provider failed"),
        ("stream closed by client (H3_REQUEST_CANCELLED)", "HTTP/3", True, "client left"),
        ("Client disconnected.", "HTTP/1.1", False, "client left"),
        ("server closed connection", "HTTP/1.1", True, "provider failed"),
        ("stream reset by server (REFUSED_STREAM)", "HTTP/2.0", True, "provider failed"),
        ("bad status line: stream reset by client (CANCEL)", "HTTP/2.0", True, "provider failed"),
        ("peer closed connection", "HTTP/1.1", True, "provider failed"),
    ],
)
def test_an_error_is_put_down_to_the_one_who_caused_it(
    addon: ObservationMasking,
    tmp_path: Path,
    message: str,
    version: str,
    connected: bool,
    expected: str,
) -> None:
    flow = chat_flow()
    flow.request.http_version = version
    run(addon, flow)
    flow.error = tflow.terr(message)
    if not connected:
        flow.client_conn.state = ConnectionState.CLOSED
    fire(addon, "error", flow)
    addon.done()
    assert [record["error"] for record in read_records(tmp_path)] == [expected]


def test_an_exchange_is_recorded_once_however_it_ends(
    addon: ObservationMasking, tmp_path: Path
) -> None:
    flow = chat_flow()
    run(addon, flow)
    flow.response = tutils.tresp()
    fire(addon, "responseheaders", flow)
    fire(addon, "response", flow)
    flow.error = tflow.terr()
    fire(addon, "error", flow)
    addon.done()
    assert len(read_records(tmp_path)) == 1


def test_a_stream_that_another_addon_has_claimed_stays_its_own(addon: ObservationMasking) -> None:
    flow = chat_flow()
    run(addon, flow)
    flow.response = tutils.tresp(headers=http.Headers(content_type="text/event-stream"))
    flow.response.stream = claimed = bytes.upper
    fire(addon, "responseheaders", flow)
    assert flow.response.stream is claimed


def test_without_a_configuration_everything_passes() -> None:
    addon, flow = ObservationMasking(), chat_flow()
    assert run(addon, flow) == BODY
    fire(addon, "responseheaders", flow)
    fire(addon, "response", flow)
    addon.done()


def test_a_copy_gives_what_it_got_and_keeps_no_more_than_it_should() -> None:
    copy, chunk = ResponseCopy(), b"x" * 1_000_000
    assert (copy(b""), copy.body) == (b"", b"")
    assert [copy(chunk) is chunk for _ in range(16)] == [True] * 16
    assert copy.body == chunk * 16
    assert copy(b"x") == b"x"
    assert copy.body is None


def test_a_copy_tells_when_its_first_piece_came() -> None:
    copy = ResponseCopy()
    copy(b"")
    assert copy.first_chunk_seconds is None
    copy(b"x")
    first = copy.first_chunk_seconds
    copy(b"y")
    assert first is not None
    assert first >= 0
    assert copy.first_chunk_seconds == first


# Its records


def record_one(addon: ObservationMasking, folder: Path, **headers: str) -> dict[str, object]:
    flow = chat_flow()
    flow.request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    run(addon, flow)
    flow.response = tutils.tresp()
    fire(addon, "response", flow)
    addon.done()
    (record,) = read_records(folder)
    return record


def test_a_record_tells_the_run_its_tag_and_the_client(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    context.configure(addon, mask_tag="nightly\n\x1b")
    headers = {"user_agent": "claude-cli/2.1 (x)", "authorization": "Bearer sk-ant-oat01-x"}
    record = record_one(addon, tmp_path, **headers)
    assert record["tag"] == "nightly\ufffd\ufffd"
    assert (record["client"], record["subscription"]) == ("claude-cli", True)
    assert re.fullmatch("[0-9a-f]{8}", str(record["run"]))
    assert record["run"] != ObservationMasking().engine.run.name


def test_a_run_without_a_tag_has_none(addon: ObservationMasking, tmp_path: Path) -> None:
    assert record_one(addon, tmp_path)["tag"] is None


RULES = b"""
[[observation_masking.rules]]
header = { x-team = "blue*" }
label = "blue"
schema1 = { enabled = false }
[[observation_masking.rules]]
model = "gpt-*"
label = "by model"
schema1 = { enabled = false }
[[observation_masking.rules]]
model = "claude-*"
label = "watched"
mode = "observe"
[[observation_masking.rules]]
path = "/v1/chat/*"
client = "claude-*"
label = "by client"
"""


@pytest.mark.parametrize(
    ("headers", "model", "label", "masking"),
    [
        pytest.param({}, None, None, "on", id="no rule fits"),
        pytest.param({"X-Team": "blue 7"}, None, "blue", "off", id="a header"),
        pytest.param({"X-Team": "red"}, "gpt-5", "by model", "off", id="the model"),
        pytest.param({}, "claude-x", "watched", "observed", id="a model that is observed"),
        pytest.param({"User-Agent": "claude-cli/2.1"}, "x", "by client", "on", id="the client"),
        pytest.param({"X-Team": "blue"}, "gpt-5", "blue", "off", id="the first of two"),
    ],
)
def test_the_first_rule_that_fits_a_request_holds(
    context: taddons.context,
    addon: ObservationMasking,
    tmp_path: Path,
    headers: dict[str, str],
    model: str | None,
    label: str | None,
    masking: str,
) -> None:
    (tmp_path / "rules.toml").write_bytes(ON + RULES)
    context.configure(addon, mask_config="rules.toml")
    flow = chat_flow(json.dumps({**json.loads(BODY), "model": model}).encode())
    flow.request.headers.update(headers)
    before = flow.request.raw_content
    assert (masking == "on") == (run(addon, flow) != before)
    flow.response = tutils.tresp()
    fire(addon, "response", flow)
    addon.done()
    (record,) = read_records(tmp_path)
    assert (label, masking) == (record["label"], record["masking"])


def test_what_cannot_be_read_has_the_label_of_a_rule_that_asks_for_no_model(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_bytes(ON + RULES)
    context.configure(addon, mask_config="rules.toml")
    flow = chat_flow(b"{")
    flow.request.headers["user-agent"] = "claude-cli/2.1"
    run(addon, flow)
    flow.response = tutils.tresp()
    fire(addon, "response", flow)
    addon.done()
    (record,) = read_records(tmp_path)
    assert "by client" == record["label"]


# Its names


def test_no_file_shadows_a_module_that_mitmproxy_may_import() -> None:
    """mitmproxy puts the script's folder first on the path, for good."""
    own = {path.stem for path in ADDON.parent.glob("[!_]*.py")}
    assert set() == own & {*sys.stdlib_module_names, *packages_distributions()}
