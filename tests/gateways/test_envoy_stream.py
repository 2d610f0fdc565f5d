"""What is said to Envoy of each part of an exchange, and what is recorded of it."""

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_health", reason="needs the extra envoy")

from envoy.config.core.v3.base_pb2 import HeaderMap, HeaderValue
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingRequest,
    ProcessingResponse,
)

from addon.config import ConfigFile, without_memory
from addon.gateways.envoy import stream as exchanges
from addon.gateways.envoy.messages import ask_for_time
from addon.gateways.envoy.stream import MAX_BODY_BYTES, EnvoyCarrier, Processor
from addon.records.record import RequestRecord
from addon.stages import Run
from tests.live.harness import ON, conversation, encoded, masked

Message = Any
"""One of Envoy's, or one to it: they are made from a description, without types."""

PATH = "/v1/chat/completions"
BODY = encoded(conversation())


def headers(last: bool = False, **fields: str) -> HttpHeaders:
    found = [
        HeaderValue(key=name.replace("_", "-").replace("--", ":"), raw_value=value.encode())
        for name, value in fields.items()
    ]
    return HttpHeaders(headers=HeaderMap(headers=found), end_of_stream=last)


def asked(path: str = PATH, method: str = "POST", last: bool = False, **more: str) -> Message:
    fields = {"__method": method, "__path": path, "__authority": "api.openai.com:443", **more}
    return ProcessingRequest(request_headers=headers(last, **fields))


def sent(body: bytes) -> Message:
    return ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=True))


def answered(last: bool = False, **more: str) -> Message:
    return ProcessingRequest(response_headers=headers(last, __status="200", **more))


def told(body: bytes, last: bool = True) -> Message:
    return ProcessingRequest(response_body=HttpBody(body=body, end_of_stream=last))


class Play:
    """Messages of Envoy's, what was said to them, and what was recorded."""

    waits: Sequence[int] = ()
    """For how many seconds more it asked."""

    def __init__(self, folder: Path) -> None:
        path = folder / "config.toml"
        place = f'[observation_masking.metrics]\npath = "{folder / "requests.jsonl"}"\n'
        path.write_bytes(ON + place.encode())
        self._config = ConfigFile(path, (), without_memory)
        self.records: list[RequestRecord] = []
        self.processor = Processor(self._config, Run("run"), self.records.append)

    def play(
        self,
        *messages: Message,
        host: str | None = None,
        before: Callable[[], object] = lambda: None,
    ) -> list[Message]:
        return asyncio.run(self._play(messages, host, before))

    async def _play(
        self, messages: Sequence[Message], host: str | None, before: Callable[[], object]
    ) -> list[Message]:
        async def tell() -> AsyncIterator[Message]:
            for message in messages:
                yield message

        self.processor.start()
        before()
        said = [each async for each in self.processor.process(tell(), host)]
        await asyncio.to_thread(self.processor.close)
        messages = [ProcessingResponse.FromString(each) for each in said]
        # On a busy machine any request may take so long that more time is asked for.
        self.waits = [e.override_message_timeout.seconds for e in messages if not find_kind(e)]
        return [each for each in messages if find_kind(each)]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def find_kind(message: Message) -> str | None:
    kind: str | None = message.WhichOneof("response")
    return kind


def kinds(said: Sequence[Message]) -> list[str | None]:
    return [*map(find_kind, said)]


def test_a_request_is_masked_and_its_answer_read(play: Play) -> None:
    usage = b'{"usage": {"prompt_tokens": 12, "completion_tokens": 3}}'
    said = play.play(
        asked(content_length=str(len(BODY))),
        sent(BODY),
        answered(),
        told(usage[:9], False),
        told(usage[9:]),
    )
    expected = ["request_headers", "request_body", "response_headers"] + ["response_body"] * 2
    assert expected == kinds(said)
    changes = said[1].request_body.response
    assert masked(BODY) == changes.body_mutation.body
    (length,) = changes.header_mutation.set_headers
    assert (b"%d" % len(masked(BODY))) == length.header.raw_value
    (record,) = play.records
    assert ("api.openai.com", 200, None) == (record.host, record.status, record.error)
    assert (12, 3, None) == (
        record.prompt_tokens,
        record.completion_tokens,
        record.first_chunk_seconds,
    )


def test_a_body_without_a_length_gets_none(play: Play) -> None:
    said = play.play(asked(), sent(BODY))
    assert [] == [*said[1].request_body.response.header_mutation.set_headers]


@pytest.mark.parametrize(
    ("path", "method"),
    [("/v1/files", "POST"), ("/v1/models", "GET")],
    ids=["no path of a format", "no POST"],
)
def test_nothing_more_is_asked_of_what_is_no_request_to_a_model(
    play: Play, path: str, method: str
) -> None:
    said = play.play(asked(path, method), sent(BODY))
    assert (["request_headers"], False) == (kinds(said), said[0].HasField("mode_override"))
    assert [] == play.records


def test_a_host_that_is_not_to_be_opened_is_left_alone(play: Play) -> None:
    said = play.play(asked(), sent(BODY), host="github.com")
    assert (1, []) == (len(said), play.records)


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([sent(BODY)], "client left"),
        ([sent(BODY), answered()], "broken off"),
        ([sent(BODY), answered(), told(b"{", False)], "broken off"),
        ([sent(BODY), answered(last=True)], None),
    ],
    ids=["before the answer", "after its headers", "in the middle", "not at all"],
)
def test_where_it_breaks_off_is_recorded(
    play: Play, messages: list[Message], error: str | None
) -> None:
    play.play(asked(), *messages)
    assert [error] == [record.error for record in play.records]


@pytest.mark.parametrize("before", [(), (asked(),), (asked(), sent(BODY))], ids=len)
def test_a_message_without_a_part_ends_the_exchange_and_nothing_is_logged(
    play: Play, caplog: pytest.LogCaptureFixture, before: Sequence[Message]
) -> None:
    caplog.set_level("WARNING")
    said = play.play(*before, ProcessingRequest(), answered())
    assert ["request_headers", "request_body"][: len(before)] == kinds(said)
    assert [] == caplog.messages


def test_our_own_end_is_recorded(play: Play) -> None:
    play.play(asked(), sent(BODY), before=play.processor.stop)
    assert ["proxy ended"] == [record.error for record in play.records]


def test_a_body_with_trailers_behind_it_goes_on_as_it_came(play: Play) -> None:
    """They come once an answer to the body was given, and may have its digest."""
    body = ProcessingRequest(request_body=HttpBody(body=BODY, end_of_stream=False))
    trailers = ProcessingRequest(request_trailers=HttpTrailers())
    said = play.play(asked(), body, trailers, answered(), told(b"{}"))
    assert not said[1].request_body.response.HasField("body_mutation")
    assert "trailers follow the body, and may sign it" == play.records[0].passed_through


def test_a_body_that_says_that_it_is_too_long_is_not_asked_for(play: Play) -> None:
    said = play.play(asked(content_length=str(MAX_BODY_BYTES + 1)), answered(last=True))
    mode = said[0].mode_override
    assert (mode.NONE, mode.SEND) == (mode.request_body_mode, mode.response_header_mode)
    (record,) = play.records
    assert ("larger than 128,000,000 bytes", 200) == (record.passed_through, record.status)


def test_a_bomb_is_not_looked_into(play: Play) -> None:
    bomb = gzip.compress(bytes(70_000_000))
    said = play.play(asked(content_encoding="gzip"), sent(bomb))
    assert not said[1].request_body.response.HasField("body_mutation")
    expected = "larger than 64,000,000 bytes once decompressed"
    assert [expected] == [record.passed_through for record in play.records]


def test_a_request_without_a_body_goes_on(play: Play) -> None:
    said = play.play(asked(last=True), answered(last=True))
    assert ["request_headers", "response_headers"] == kinds(said)
    assert [True] == [bool(record.passed_through) for record in play.records]


def test_a_fault_of_ours_lets_each_part_go_on(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(BODY)

    monkeypatch.setattr(exchanges, "EnvoyCarrier", fail)
    said = play.play(asked(), sent(BODY))
    assert ["request_headers", "request_body"] == kinds(said)
    assert not said[1].request_body.response.HasField("body_mutation")
    assert ["Envoy's request_body was not looked at: ZeroDivisionError"] == caplog.messages


def test_more_time_is_asked_for_where_masking_takes_long(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The masker waits until that was asked for."""
    was_asked = threading.Event()

    def note(seconds: int) -> bytes:
        was_asked.set()
        return ask_for_time(seconds)

    def wait(carrier: EnvoyCarrier) -> bytes:
        was_asked.wait()
        return read(carrier)

    read = EnvoyCarrier.read
    monkeypatch.setattr(exchanges, "ask_for_time", note)
    monkeypatch.setattr(EnvoyCarrier, "read", wait)
    said = play.play(asked(), sent(BODY))
    assert [exchanges.MOST_SECONDS] == play.waits
    assert masked(BODY) == said[1].request_body.response.body_mutation.body
