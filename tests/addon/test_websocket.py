"""The addon's hooks for WebSockets, where no network is needed."""

import gc
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.addons.save import Save
from mitmproxy.addons.view import View
from mitmproxy.proxy.events import ConnectionClosed
from mitmproxy.test import taddons, tflow, tutils
from mitmproxy.websocket import WebSocketMessage
from wsproto.frame_protocol import Opcode

from addon.mask import ObservationMasking
from addon.proxy.marks import find_original_message
from addon.proxy.websocket import ALONE_SECONDS, Fallbacks
from addon.quota import QuotaWindow
from addon.skip_reasons import HELD, Held
from masking.memory import digest_opening
from masking.rewrite import read_request, rewrite_request
from masking.wire.responses import RESPONSES
from tests.live.harness import OFF, ON, policy_of, read_records
from tests.support.hooks import fire

HTTP = b"[observation_masking.websocket]\nmode = 'http'\n" + ON
OBSERVE = b"[observation_masking]\nmode = 'observe'\n" + HTTP
PASS = HTTP.replace(b"http", b"pass")
CODEX = {"user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64)", "originator": "codex_exec"}
COPILOT = {"user-agent": "OpenAI/JS 5.20.1", "x-initiator": "user"}
LONG = "a line of output é\n" * 500


def history(turns: int = 5, **fields: object) -> dict[str, Any]:
    """Return what a client sends that has lost its connection: everything."""
    items: list[dict[str, object]] = [{"role": "user", "content": "Go on."}]
    for turn in range(turns):
        call = {"call_id": f"call_{turn}", "name": "shell", "arguments": "{}"}
        items += [
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            {"type": "function_call", **call},
            {"type": "function_call_output", "call_id": f"call_{turn}", "output": LONG},
        ]
    return {"type": "response.create", "model": "gpt-5.1", "input": items, **fields}


def delta(**fields: object) -> dict[str, Any]:
    """Return what a client sends otherwise: only what is new."""
    whole = history(1, previous_response_id="resp_1", **fields)
    return whole | {"input": whole["input"][-1:]}


def encoded(message: object) -> bytes:
    return json.dumps(message, ensure_ascii=False, indent=1).encode()


def masked(body: bytes) -> bytes:
    return rewrite_request(body, policy_of(ON), RESPONSES).body


COMPLETED = {
    "type": "response.completed",
    "response": {
        "usage": {
            "input_tokens": 90,
            "input_tokens_details": {"cached_tokens": 64},
            "output_tokens": 7,
        }
    },
}
CREATED = {"type": "response.created", "response": {"usage": None}}
SAID = {"type": "response.output_text.delta", "delta": '{"type": "response.completed"}'}
WARNED = {"type": "response.in_progress", "response": {"error": {"type": "error"}}}
FAILURE = {"type": "error", "status": 429, "error": {"code": "rate_limit_exceeded"}}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[taddons.context]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, config in (("on", ON), ("off", OFF), ("http", HTTP)):
        (tmp_path / f"{name}.toml").write_bytes(config)
    never = b"[observation_masking.hosts]\nnever = ['*']\n"
    (tmp_path / "never.toml").write_bytes(never + HTTP)
    with taddons.context(Proxyserver(), Save(), ObservationMasking()) as context:
        yield context


@pytest.fixture
def addon(context: taddons.context) -> Iterator[ObservationMasking]:
    addon: ObservationMasking = context.master.addons.get("observationmasking")
    configure(context, addon, "on")
    addon.running()
    yield addon
    addon.done()  # before the user's own state directory is the default again


def configure(context: taddons.context, addon: ObservationMasking, name: str) -> None:
    context.configure(addon, mask_config=f"{name}.toml")


def connection(
    path: str = "/v1/responses", client: Mapping[str, str] | None = None
) -> http.HTTPFlow:
    flow = tflow.twebsocketflow(messages=False)
    flow.request.path = path
    flow.request.headers.update(client or {})
    return flow


def say(
    addon: ObservationMasking, flow: http.HTTPFlow, message: object, *, from_client: bool
) -> bytes:
    """Let a message pass; what goes on."""
    assert flow.websocket is not None
    content = message if isinstance(message, bytes) else encoded(message)
    flow.websocket.messages.append(WebSocketMessage(Opcode.TEXT, from_client, content))
    fire(addon, "websocket_message", flow)
    return flow.websocket.messages[-1].content


def ask(addon: ObservationMasking, flow: http.HTTPFlow, message: object) -> bytes:
    return say(addon, flow, message, from_client=True)


def answer(addon: ObservationMasking, flow: http.HTTPFlow, *events: object) -> None:
    for event in events:
        content = event if isinstance(event, bytes) else encoded(event)
        assert content == say(addon, flow, content, from_client=False)


def end(addon: ObservationMasking, tmp_path: Path) -> list[dict[str, Any]]:
    """End the proxy; its records."""
    addon.done()
    return read_records(tmp_path)


def test_a_whole_history_is_observed_and_stays_as_it_is(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    (tmp_path / "observe.toml").write_bytes(OBSERVE)
    configure(context, addon, "observe")
    flow, body = connection(), encoded(history())
    assert body == ask(addon, flow, body)
    answer(addon, flow, COMPLETED)
    (record,) = end(addon, tmp_path)
    assert ("observed", 3, len(masked(body))) == (
        *(record["masking"], record["masked"], record["bytes_after"]),
    )
    assert "" == flow.comment


def test_a_whole_history_is_masked_and_recorded(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    context.master.addons.add(View())
    flow, body = connection(), encoded(history())
    assert masked(body) == ask(addon, flow, body) != body
    answer(addon, flow, CREATED, SAID, WARNED, COMPLETED)
    (record,) = end(addon, tmp_path)
    found = ("format", "model", "path", "status", "masked", "tool_results", "passed_through")
    assert [record[name] for name in found] == (
        ["responses", "gpt-5.1", "/v1/responses", 200, 3, 5, None]
    )
    tokens = [record[f"{name}_tokens"] for name in ("prompt", "cached", "completion")]
    assert tokens == [90, 64, 7]
    assert (record["bytes_before"], record["bytes_after"]) == (len(body), len(masked(body)))
    assert isinstance(record["first_chunk_seconds"], float)
    assert record["conversation_id"] == digest_opening(read_request(body, RESPONSES)).hex()
    assert flow.comment.startswith("masked 3 tool results")


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "from a recording"])
def test_what_is_told_of_a_plans_quota_counts_while_it_is_true(
    addon: ObservationMasking, is_live: bool
) -> None:
    flow, primary = connection(), {"used_percent": 12.5, "window_minutes": 300}
    flow.live = is_live
    ask(addon, flow, history())
    limits = {"type": "codex.rate_limits", "rate_limits": {"primary": primary}}
    answer(addon, flow, CREATED, limits, SAID, COMPLETED)
    addon.done()
    totals = addon.engine.recorder.totals
    tally = (totals.sent if is_live else totals.replayed).tally
    assert 1 == tally.count
    told = [(len(account), reading.window) for (account, _), reading in tally.quota.items()]
    assert ([(4, QuotaWindow("primary", 0.125, None, 300))] if is_live else []) == told


def test_a_message_with_only_what_is_new_passes_and_the_record_says_why(
    addon: ObservationMasking, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    flow = connection()
    for _ in range(2):
        body = encoded(delta())
        assert body == ask(addon, flow, body)
        answer(addon, flow, CREATED, COMPLETED)
    records = end(addon, tmp_path)
    assert [(HELD["unknown"], 90, "gpt-5.1", None)] * 2 == [
        (r["passed_through"], r["prompt_tokens"], r["model"], r["masked"]) for r in records
    ]
    told = "If it does, have it refused: obsmask config set "
    assert 1 == sum(told in line for line in caplog.messages)
    assert any(line.endswith(f"passed through: 2 {HELD['unknown']}") for line in caplog.messages)
    assert [None, None] == [record["conversation_id"] for record in records]


def test_a_message_with_only_what_is_new_belongs_to_the_history_before_it(
    addon: ObservationMasking, tmp_path: Path
) -> None:
    flow, other = connection(), connection()
    talks = [history(), delta(), history(instructions="Another one."), delta(), delta()]
    for message in talks:
        ask(addon, flow, message)
        answer(addon, flow, COMPLETED)
    ask(addon, other, delta())
    answer(addon, other, COMPLETED)
    ids = [record["conversation_id"] for record in end(addon, tmp_path)]
    first, second = (
        digest_opening(read_request(encoded(talks[place]), RESPONSES)).hex() for place in (0, 2)
    )
    assert [first, first, second, second, second, None] == ids


def test_masking_off_says_nothing_and_changes_nothing(
    context: taddons.context,
    addon: ObservationMasking,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    configure(context, addon, "off")
    flow = connection()
    for message in (history(), delta()):
        assert encoded(message) == ask(addon, flow, message)
        answer(addon, flow, COMPLETED)
    assert ["off", "off"] == [record["masking"] for record in end(addon, tmp_path)]
    assert not any("websocket.mode" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("fields", "purpose"),
    [
        ({"generate": False}, "count"),
        ({"generate": True}, "answer"),
        ({"metadata": {"generate": False}}, "answer"),
    ],
)
def test_a_message_that_wants_no_answer_is_counted_apart(
    addon: ObservationMasking, tmp_path: Path, fields: dict[str, Any], purpose: str
) -> None:
    flow = connection()
    ask(addon, flow, history(**fields))
    answer(addon, flow, COMPLETED)
    assert [purpose] == [record["purpose"] for record in end(addon, tmp_path)]


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        pytest.param(connection("/v1/realtime"), history(), id="another path"),
        pytest.param(connection("/v1/chat/completions"), history(), id="another format"),
        pytest.param(connection(), {"type": "response.cancel"}, id="another message"),
        pytest.param(connection(), b"\x00\xff", id="no text"),
    ],
)
def test_what_is_left_alone(
    addon: ObservationMasking, tmp_path: Path, flow: http.HTTPFlow, message: object
) -> None:
    content = message if isinstance(message, bytes) else encoded(message)
    assert content == ask(addon, flow, content)
    answer(addon, flow, COMPLETED)
    assert [] == end(addon, tmp_path)


def test_what_cannot_be_read_passes(addon: ObservationMasking, tmp_path: Path) -> None:
    flow, broken = connection(), encoded(history())[:-1] + b', "generate": false'
    ask(addon, flow, history())
    answer(addon, flow, COMPLETED)
    assert broken == ask(addon, flow, broken)
    answer(addon, flow, b'{"type": "error", "status": 400', FAILURE)
    *_, record = end(addon, tmp_path)
    assert ("not JSON", 429) == (record["passed_through"], record["status"])
    assert record["conversation_id"] is None


@pytest.mark.parametrize(
    ("closed_by_client", "expected"), [(True, "client left"), (False, "provider failed")]
)
def test_a_connection_can_end_before_the_answer(
    addon: ObservationMasking, tmp_path: Path, closed_by_client: bool, expected: str
) -> None:
    flow = connection()
    assert flow.websocket is not None
    ask(addon, flow, history())
    flow.websocket.closed_by_client = closed_by_client
    fire(addon, "websocket_end", flow)
    fire(addon, "websocket_end", flow)
    assert [expected] == [record["error"] for record in end(addon, tmp_path)]


def test_so_can_the_proxy(addon: ObservationMasking, tmp_path: Path) -> None:
    flow = connection()
    ask(addon, flow, history())
    (record,) = end(addon, tmp_path)
    assert ("proxy ended", None) == (record["error"], record["first_chunk_seconds"])


def test_a_failure_without_a_number_is_one_of_the_providers(
    addon: ObservationMasking, tmp_path: Path
) -> None:
    flow = connection()
    ask(addon, flow, history())
    answer(addon, flow, {"type": "error", "code": "server_error"})
    assert [500] == [record["status"] for record in end(addon, tmp_path)]


def test_messages_are_forgotten_unless_somebody_wants_them(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    flow, body = connection(), encoded(history())
    assert flow.websocket is not None
    for expected in (1, 1):
        ask(addon, flow, body)
        assert expected == len(flow.websocket.messages)
    context.configure(addon, save_stream_file=str(tmp_path / "out.flow"))
    ask(addon, flow, body)
    answer(addon, flow, COMPLETED)
    assert 3 == len(flow.websocket.messages)
    assert (None, body) == (find_original_message(flow, 0), find_original_message(flow, 1))


# `mode = "http"`


def upgrade(path: str = "/v1/responses", client: Mapping[str, str] | None = None) -> http.HTTPFlow:
    flow = connection(path, client)
    flow.response = flow.websocket = None
    return flow


@pytest.mark.parametrize(
    ("config", "flow", "expected"),
    [
        pytest.param("http", upgrade(), 426, id="asked for"),
        pytest.param("http", upgrade("/backend-api/codex/responses"), 426, id="of ChatGPT"),
        pytest.param("http", upgrade("/v1/realtime"), None, id="another path"),
        pytest.param("http", tflow.tflow(), None, id="no upgrade"),
        pytest.param("on", upgrade(), None, id="not asked for"),
        pytest.param("never", upgrade(), None, id="a host that is never opened"),
    ],
)
def test_a_client_is_told_to_use_http(
    context: taddons.context,
    addon: ObservationMasking,
    config: str,
    flow: http.HTTPFlow,
    expected: int | None,
) -> None:
    configure(context, addon, config)
    fire(addon, "request", flow)
    assert expected == (flow.response and flow.response.status_code)


@pytest.mark.parametrize(
    "config",
    [HTTP.replace(b"enabled = true", b"enabled = false"), OBSERVE],
    ids=["masking is off", "masking is only observed"],
)
def test_else_it_is_not(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path, config: bytes
) -> None:
    (tmp_path / "http.toml").write_bytes(config)
    configure(context, addon, "http")
    flow = upgrade()
    fire(addon, "request", flow)
    assert flow.response is None


# `mode = "auto"`


class Handler:
    """mitmproxy's side of a client's connection; `closed` holds what was closed on it."""

    def __init__(self, flow: http.HTTPFlow) -> None:
        self.transports = {flow.client_conn: None, flow.server_conn: None}
        self.closed: list[object] = []

    async def server_event(self, event: ConnectionClosed) -> None:
        self.closed.append(event.connection)


def is_closed(
    context: taddons.context, addon: ObservationMasking, flow: http.HTTPFlow, message: object
) -> bool:
    """Let a client ask on a connection that is alive; whether that is closed."""
    handler = Handler(flow)
    proxy = context.master.addons.get("proxyserver")
    proxy.connections[flow.client_conn.id] = handler
    content = encoded(message)
    assert content == ask(addon, flow, content)
    assert flow.websocket is not None
    is_dropped = flow.websocket.messages[-1].dropped
    assert handler.closed == ([flow.server_conn] if is_dropped else [])
    return is_dropped


def is_refused(addon: ObservationMasking, client: Mapping[str, str]) -> bool:
    """Let a client ask for a WebSocket; whether it is told 426."""
    flow = upgrade(client=client)
    fire(addon, "request", flow)
    return flow.response is not None and flow.response.status_code == 426


def post(addon: ObservationMasking, client: Mapping[str, str]) -> None:
    flow = tflow.tflow(
        req=tutils.treq(host="example.com", port=80, method=b"POST", path=b"/v1/responses")
    )
    flow.request.headers.update(client)
    fire(addon, "request", flow)


PREPARING = history(0, generate=False)
BINDING: dict[str, Any] = {"model": "gpt-5.6-sol"}
ENCRYPTED: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}


@pytest.mark.parametrize(
    ("client", "message", "config", "reason"),
    [
        pytest.param(CODEX, PREPARING, ON, None, id="codex, before it asks"),
        pytest.param(CODEX, history(), ON, None, id="codex, with a whole history"),
        pytest.param(CODEX, delta(), ON, None, id="codex, later"),
        pytest.param(COPILOT, history(0), ON, None, id="Copilot CLI"),
        pytest.param(CODEX, delta(model="my-glm-4.7", **ENCRYPTED), ON, None, id="no OpenAI"),
        pytest.param({}, delta(), ON, "unknown", id="another client"),
        pytest.param(
            CODEX | {"user-agent": "codex_exec/0.144.9"}, delta(), ON, "unknown", id="an older one"
        ),
        pytest.param(
            {"user-agent": COPILOT["user-agent"]}, delta(), ON, "unknown", id="OpenAI's package"
        ),
        pytest.param(CODEX, delta(), PASS, "pass", id="not wanted"),
        pytest.param(CODEX, delta(**BINDING), ON, "bound", id="a model that binds its reasoning"),
        pytest.param(CODEX, delta(model="mine", **ENCRYPTED), ON, "bound", id="one that may do so"),
        pytest.param(
            CODEX,
            delta(**BINDING),
            ON + b'bound_reasoning = "drop"\n',
            None,
            id="reasoning is given up",
        ),
        pytest.param(
            CODEX,
            delta(),
            b"[observation_masking]\nmode = 'observe'\n" + ON,
            "unmasked",
            id="masking is only observed",
        ),
        pytest.param(
            CODEX,
            delta(),
            ON + b"[[observation_masking.rules]]\nmodel = 'gpt-5.1'\nmode = 'observe'\n",
            "unmasked",
            id="masking is only observed for the model",
        ),
        pytest.param(CODEX, delta(model=7), OFF, "unmasked", id="masking is off"),
    ],
)
def test_a_connection_is_closed_where_something_could_be_masked(
    context: taddons.context,
    addon: ObservationMasking,
    tmp_path: Path,
    client: Mapping[str, str],
    message: object,
    config: bytes,
    reason: Held | None,
) -> None:
    (tmp_path / "own.toml").write_bytes(config)
    configure(context, addon, "own")
    flow = connection(client=client)  # held until the end, as mitmproxy does while it is open
    assert (reason is None) == is_closed(context, addon, flow, message)
    assert (reason is None) == is_refused(addon, client)
    gc.collect()
    expected = [] if reason is None else [HELD[reason]]
    assert expected == [record["passed_through"] for record in end(addon, tmp_path)]


def test_it_is_said_once_what_becomes_of_a_client(
    context: taddons.context, addon: ObservationMasking, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for message in (history(), history(), delta(**BINDING), delta(**BINDING)):
        is_closed(context, addon, connection(client=CODEX), message)
        post(addon, CODEX)
    told = [line for line in caplog.messages if "codex_exec" in line]
    reasons = "codex_exec is asked to speak HTTP", "gpt-5.6-sol would silently lose its reasoning"
    assert [*reasons] == [words for line in told for words in reasons if words in line]
    assert 2 == len(told)


def test_nothing_is_closed_while_an_answer_is_under_way(
    context: taddons.context, addon: ObservationMasking, tmp_path: Path
) -> None:
    flow = connection(client=CODEX)
    assert not is_closed(context, addon, flow, history(**BINDING))
    assert not is_closed(context, addon, flow, delta())
    answer(addon, flow, COMPLETED, COMPLETED)
    assert is_closed(context, addon, flow, delta())
    passed = [record["passed_through"] for record in end(addon, tmp_path)]
    assert [None, HELD["answering"]] == passed


def test_a_connection_that_cannot_be_closed_carries_the_message(
    addon: ObservationMasking, tmp_path: Path
) -> None:
    flow = connection(client=CODEX)
    ask(addon, flow, history())
    assert flow.websocket is not None
    assert not flow.websocket.messages[-1].dropped
    assert not is_refused(addon, CODEX)
    answer(addon, flow, COMPLETED)
    assert [3] == [record["masked"] for record in end(addon, tmp_path)]


def test_each_session_is_refused_once_and_no_other(
    context: taddons.context, addon: ObservationMasking
) -> None:
    one, other = (CODEX | {"thread-id": name, "session-id": "one for both"} for name in "ab")
    assert not is_refused(addon, one)
    for _ in range(5):  # one after the other, as when it is resumed
        assert is_closed(context, addon, connection(client=one), PREPARING)
        assert [False, True] == [is_refused(addon, each) for each in (other, one)]
        post(addon, one)
        assert not is_refused(addon, one)


def test_a_client_that_does_not_fall_back_is_left_alone(
    context: taddons.context,
    addon: ObservationMasking,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert is_closed(context, addon, connection(client=CODEX), PREPARING)
    assert [True, False, False] == [is_refused(addon, CODEX) for _ in range(3)]
    assert not is_closed(context, addon, connection(client=CODEX), delta())
    assert is_closed(context, addon, connection(client=COPILOT), PREPARING)
    assert [HELD["alone"]] == [record["passed_through"] for record in end(addon, tmp_path)]
    assert 1 == sum(
        "did not speak HTTP when it was refused one" in each for each in caplog.messages
    )


def test_it_is_left_alone_for_a_day() -> None:
    now = 0.0
    fallbacks = Fallbacks(lambda: now)
    asking = upgrade(client=CODEX).request
    for _ in range(2):
        fallbacks.note_closed(asking)
        assert [True, False] == [fallbacks.refuses(asking) for _ in range(2)]
        now += ALONE_SECONDS - 1
        assert fallbacks.is_left_alone(asking)
        now += 2
        assert not fallbacks.is_left_alone(asking)


def test_nor_is_a_client_closed_again_and_again_that_has_a_new_name_each_time(
    context: taddons.context, addon: ObservationMasking
) -> None:
    sessions = [CODEX | {"thread-id": str(number)} for number in range(5)]
    closed = [is_closed(context, addon, connection(client=each), PREPARING) for each in sessions]
    assert [True, True, True, False, False] == closed
