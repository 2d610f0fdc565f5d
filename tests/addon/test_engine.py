"""The engine by itself: a request from arrival to record, carried by nothing in particular."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.accounts import TRIED_HOST
from addon.config import ConfigFile
from addon.engine import Engine, Exchange
from addon.memory import MemoryRows
from addon.request import HeaderFields, PlainMessage, find_wire_format
from masking.memory import Memories
from masking.wire.format import Purpose
from tests.live.harness import ON, conversation, encoded, policy_of
from tests.support.made_up_requests import Carrier
from tests.support.record_lines import read_lines

BODY = encoded(conversation())
USAGE = {"usage": {"prompt_tokens": 90, "completion_tokens": 7}}
CONFIG = ON + b"[observation_masking.hosts]\nnever = ['closed.example.org']\n"


class Request(PlainMessage):
    method, path = "POST", "/v1/chat/completions?key=secret"

    def __init__(self, host: str = "llm.example.org") -> None:
        super().__init__(headers=HeaderFields([("user-agent", "agent/1.0")]))
        self.pretty_host = host


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_bytes(CONFIG)
    engine = Engine()
    engine.use(ConfigFile(tmp_path / "config.toml"))
    yield engine
    engine.close()


def open_exchange(engine: Engine, request: Request) -> Exchange | None:
    match = find_wire_format(request)
    assert match is not None
    return engine.open(request, match)


def begin(engine: Engine, carrier: Carrier) -> Exchange:
    exchange = open_exchange(engine, Request())
    assert exchange is not None
    asyncio.run(exchange.mask(carrier))
    return exchange


def end(engine: Engine, folder: Path) -> list[dict[str, Any]]:
    engine.close()
    return read_lines(folder / "observation-masking" / "requests.jsonl")


def test_a_request_is_masked_and_leaves_a_record(engine: Engine, tmp_path: Path) -> None:
    carrier = Carrier(BODY)
    begin(engine, carrier).finish(200, PlainMessage(encoded(USAGE)))
    (record,) = end(engine, tmp_path)
    assert len(BODY) > carrier.size == record["bytes_after"]
    names = ("host", "path", "client", "status", "masked", "prompt_tokens", "completion_tokens")
    assert [record[name] for name in names] == [
        *("llm.example.org", "/v1/chat/completions", "agent", 200),
        *(len(conversation()["messages"]) // 2 - policy_of(ON).window_turns, 90, 7),
    ]


def test_it_leaves_one_however_often_it_ends(engine: Engine, tmp_path: Path) -> None:
    exchange = begin(engine, Carrier(BODY))
    exchange.finish(interrupted="client left")
    exchange.finish(200, PlainMessage(encoded(USAGE)))
    (record,) = end(engine, tmp_path)
    assert ("client left", None) == (record["error"], record["status"])


def test_nothing_is_opened_at_a_closed_host_nor_without_a_configuration(engine: Engine) -> None:
    assert open_exchange(engine, Request("closed.example.org")) is None
    assert open_exchange(Engine(), Request()) is None


def send_thinking(engine: Engine, path: str = "/v1/messages") -> None:
    """Send a request to a model whose reasoning is bound to what precedes it."""
    request = Request(TRIED_HOST)
    request.path = path
    exchange = open_exchange(engine, request)
    assert exchange is not None
    said = {"role": "user", "content": "Mend it."}
    body = encoded({"model": "claude-opus-5-5", "max_tokens": 9, "messages": [said]})
    asyncio.run(exchange.mask(Carrier(body)))
    exchange.finish(200)


def test_a_request_that_only_counts_tokens_is_not_remembered(
    engine: Engine, tmp_path: Path
) -> None:
    for end_of_path in ("/count_tokens", "", ""):
        send_thinking(engine, f"/v1/messages{end_of_path}")
    found = [(record["purpose"], record["prefix"]) for record in end(engine, tmp_path)]
    assert [("count", "first met"), ("answer", "first met"), ("answer", "warm")] == found


@pytest.mark.parametrize(
    ("purpose", "replay", "kept"),
    [
        pytest.param("answer", False, 1, id="the model sees the placeholders"),
        pytest.param("count", False, 0, id="only the tokens are counted"),
        pytest.param("answer", True, 0, id="a recording is replayed"),
    ],
)
def test_what_is_masked_is_kept_for_recall_where_a_model_may_ask_for_it(
    engine: Engine, tmp_path: Path, purpose: Purpose, replay: bool, kept: int
) -> None:
    engine.use(ConfigFile(tmp_path / "config.toml", ["recall.enabled=true"]))
    request, carrier = Request(), Carrier(BODY)
    match = find_wire_format(request)
    assert match is not None
    exchange = engine.open(request, match._replace(purpose=purpose), replay=replay)
    assert exchange is not None
    asyncio.run(exchange.mask(carrier))
    engine.close()
    assert BODY != carrier.body
    assert kept == len([*tmp_path.glob("observation-masking/recall/*")])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("on", [False, True], id="masked, so it might be refused"),
        pytest.param("observe", [False], id="only observed, so nothing is changed"),
    ],
)
def test_what_nobody_might_refuse_does_not_wait_for_a_memory_that_is_being_read(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    expected: list[bool],
) -> None:
    engine.use(ConfigFile(tmp_path / "config.toml", [f"mode={mode}"]))
    waits, open_files = list[bool](), MemoryRows.open

    async def open_unread(
        files: MemoryRows, *, observes: bool, patiently: bool = False
    ) -> Memories:
        waits.append(patiently)
        memories = await open_files(files, observes=observes, patiently=patiently)
        return memories._replace(is_being_read=True)

    monkeypatch.setattr(MemoryRows, "open", open_unread)
    send_thinking(engine)
    assert expected == waits


def test_what_fails_inside_is_recorded_by_its_kind_alone(engine: Engine, tmp_path: Path) -> None:
    carrier = Carrier(BODY, fault=ValueError("s3cr3t"))
    begin(engine, carrier).finish(200)
    (record,) = end(engine, tmp_path)
    assert (BODY, "internal error (ValueError)") == (carrier.body, record["passed_through"])


def test_what_fails_around_the_masker_lets_the_request_pass(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("s3cr3t")

    monkeypatch.setattr(engine.masker, "mask", fail)
    carrier = Carrier(BODY)
    begin(engine, carrier).finish(200)
    (record,) = end(engine, tmp_path)
    assert (BODY, "internal error (ValueError)") == (carrier.body, record["passed_through"])
    assert ["a request was not masked (ValueError)"] == caplog.messages


def test_a_part_of_a_conversation_belongs_to_the_request_with_its_history(
    engine: Engine, tmp_path: Path
) -> None:
    whole = begin(engine, Carrier(BODY))
    part = begin(engine, Carrier(b'{"messages": 7}'))
    part.continues(whole)
    whole.finish(200)
    part.finish(200)
    first, second = end(engine, tmp_path)
    assert first["conversation_id"] == second["conversation_id"] is not None


def test_what_was_taken_in_place_of_a_refused_request_is_recorded(
    engine: Engine, tmp_path: Path
) -> None:
    engine.use(ConfigFile(tmp_path / "config.toml", ["schema1.resend_on_400=true"]))
    carrier = Carrier(BODY)
    exchange = begin(engine, carrier)
    assert exchange.may_resend(400, carrier.body)
    second = exchange.begin_second()
    assert second is not None
    assert (BODY, True) == (second.body, second.is_own)

    exchange.end_second(200, carrier)
    exchange.finish(200)
    (record,) = end(engine, tmp_path)
    assert (200, "accepted", 0) == (record["status"], record["resent"], record["masked"])
    assert {"refused"} == {*record["kept"]}


def test_how_another_request_ends_says_nothing_of_a_refusal(engine: Engine, tmp_path: Path) -> None:
    """A conversation that was refused unmasked, too, waits until a masked request is taken."""
    engine.use(ConfigFile(tmp_path / "config.toml", ["schema1.resend_on_400=true"]))

    def refuse() -> bool:
        """Refuse a request, and what goes out in its place; whether anything does."""
        carrier = Carrier(BODY)
        exchange = begin(engine, carrier)
        exchange.begin_answer(400)
        is_sent = exchange.may_resend(400, carrier.body) and exchange.begin_second() is not None
        if is_sent:
            exchange.end_second(400, carrier)
        exchange.finish(400)
        return is_sent

    def answer(status: int) -> None:
        exchange = begin(engine, Carrier(BODY))
        exchange.begin_answer(status)
        exchange.finish(status)

    sent = [refuse(), refuse()]
    for status in (500, 404):
        answer(status)
    sent.append(refuse())
    begin(engine, Carrier(BODY)).finish(interrupted="client left")
    sent.append(refuse())
    answer(200)
    assert [True, False, False, False, True] == [*sent, refuse()]
