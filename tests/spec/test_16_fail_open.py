"""Chapter 16: whatever goes wrong inside, the client's own bytes go out.

Faults of machines, disks and other processes take a real proxy and longer than a test may:
`tests.tools.benchmarks.faults`, `tests/live`. So does a second try after a 400
(`tests/live/test_resend_live.py`).
"""

import asyncio
import gzip
import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from addon.masker import Masker
from addon.stages import Received, Run
from addon.threads import Pool
from masking import conversation, rewrite_request
from masking.config import Settings, parse_settings
from masking.edit.splice import splice
from masking.model import Replacement
from masking.wire import WireFormat
from tests.spec.conftest import CONFIG, Addon
from tests.spec.talk import CHAT, IN_FORMATS_WITH_A_PATH, OUTPUT, SHORT
from tests.support.made_up_format import change
from tests.support.made_up_requests import Carrier
from tests.support.record_lines import fill
from tests.support.wire_conversations import (
    IN_TWO_FORMATS,
    Told,
    User,
    Writer,
    turn,
)

TALK = (User(), *turn("a", OUTPUT), *turn("b", OUTPUT))
SECRET = "hunter2-in-the-content"


# Faults


def send(told: Told, wire: WireFormat, folder: Path) -> tuple[bytes, str | None]:
    """Let the masker have a request; the body that leaves, and why it is untouched."""
    settings = parse_settings(CONFIG.encode())
    assert isinstance(settings, Settings)
    received = Received(
        time=datetime.now(UTC),
        run=Run("test"),
        host="api.example.org",
        path=told.writer.path,
        wire=wire,
        purpose="answer",
        client=None,
        subscription=False,
        account=b"",
        settings=settings,
        replay=False,
        answers_masked=True,
    )
    pool = Pool()
    masker = Masker(lambda: folder, pool)
    body = Carrier(told.body)
    outcome = asyncio.run(masker.mask(body, received))
    pool.close()
    masker.close()
    return body.body, outcome.rewritten.passed_through


def break_down(*_: object) -> NoReturn:
    raise ValueError(f"cannot read {SECRET}")


BREAKS = {
    "reading an element": "read_element",
    "finding its model": "find_model",
    "finding cache marks": "find_marks",
    "measuring it": "measure_head",
}


@IN_TWO_FORMATS
@pytest.mark.parametrize("fault", BREAKS)
def test_an_exception_inside_sends_the_clients_bytes(
    writer: Writer, fault: str, tmp_path: Path
) -> None:
    """And says what kind it was, but never what it says: that may be content."""
    told = writer.tell(*TALK)
    if fault == "measuring it":  # as is done only where a cache has a price, or with a memory
        told = writer.tell(*TALK, User("Write a summary of the conversation so far."))
    expected = (told.body, "internal error (ValueError)")
    assert expected == send(told, change(writer.wire, **{BREAKS[fault]: break_down}), tmp_path)


@IN_TWO_FORMATS
def test_what_cannot_be_proven_does_not_leave(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in what edits, which only the proof can notice: the name of a tool is another."""

    def rename(
        data: bytes,
        value: object,
        replacements: Sequence[Replacement],
        *,
        ascii_only: bool | None = None,
    ) -> bytes:
        spliced = splice(data, value, replacements, ascii_only=ascii_only)
        return spliced.replace(b"shell", b"shelf")

    monkeypatch.setattr(conversation, "splice", rename)
    told = writer.tell(*TALK)
    body, problem = send(told, writer.wire, tmp_path)
    assert problem in (
        "not proven: more of an element changes",
        "not proven: a text is no template's",
    )
    assert told.body == body


@IN_TWO_FORMATS
def test_without_the_fault_it_is_masked(writer: Writer, tmp_path: Path) -> None:
    told = writer.tell(*TALK)
    body, problem = send(told, writer.wire, tmp_path)
    assert problem is None
    assert body != told.body


# Bodies that cannot be read

ODD = {
    "no JSON": (b"hello", "not JSON"),
    "half a JSON": (CHAT.tell(*TALK).body[:-1], "not JSON"),
    "a list": (b"[]", "expected object, got list"),
    "no messages": (b'{"model": "gpt-4o"}', "no messages"),
    "messages that are no list": (
        b'{"messages": {}}',
        "expected list, got dict in 'body.messages'",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_a_body_of_a_wrong_type_goes_out_unchanged_with_a_line_that_says_why(
    addon: Addon, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    body, problem = ODD[case]
    caplog.set_level(logging.INFO)
    addon.start()
    assert body == addon.pass_on(body).raw_content
    addon.stop()
    (record,) = map(fill, addon.read_records().splitlines())
    assert problem in record["passed_through"]
    (line,) = (line for line in caplog.messages if "passed through untouched" in line)
    assert line.endswith(f"passed through untouched, {record['passed_through']}")


def test_values_of_a_wrong_type_inside_harm_nothing() -> None:
    """They are no results, calls or names; what is right beside them is masked."""
    document = CHAT.tell(*TALK).document
    odd = [
        {"role": 7, "content": {}},
        {"role": "assistant", "tool_calls": [None, 3, {"id": {}, "function": []}]},
        {"role": "tool", "tool_call_id": [], "content": OUTPUT},
        {"role": "tool", "tool_call_id": "a", "content": [[], None, {"type": "text", "text": 5}]},
        [[[]]],
    ]
    document["messages"][1:1] = odd
    after = json.loads(rewrite_request(json.dumps(document).encode(), SHORT).body)
    assert odd == after["messages"][1:6]
    assert "<a shell 600>" == after["messages"][7]["content"]


# What is none of our business


@IN_FORMATS_WITH_A_PATH
def test_a_request_of_every_provider_is_masked_on_its_way(addon: Addon, writer: Writer) -> None:
    """With the headers that the client sent, but for the length."""
    told = writer.tell(*TALK)
    addon.start()
    request = addon.pass_on(told.body, writer.path, headers={"x-own": "1"})
    body = request.raw_content or b""
    assert (b"<a shell 600>" if writer.has_ids else b"< shell 600>") in body
    assert [("content-length", str(len(body))), ("x-own", "1")] == [*request.headers.items()]


BODY = CHAT.tell(*TALK).body
OFF = "[observation_masking.schema1]\nenabled = false\n"
OBSERVE = f'[observation_masking]\nmode = "observe"\n{CONFIG}'
ALL_OFF = f"""[observation_masking]
mode = "off"
arrival.enabled = true
redaction = {{ enabled = true, tool_names = ["shell"] }}
reduction = {{ enabled = true, max_input_chars = 1000 }}
{CONFIG}"""
ELSEWHERE = f'{CONFIG}[observation_masking.hosts]\nonly = ["api.openai.com"]\n'
CLOSED = f'{CONFIG}[observation_masking.hosts]\nnever_more = ["*.example.org"]\n'


@pytest.mark.parametrize(
    ("config", "path", "method"),
    [
        pytest.param(OFF, "/v1/chat/completions", "POST", id="the flag is off"),
        pytest.param(OBSERVE, "/v1/chat/completions", "POST", id="only observed"),
        pytest.param(ALL_OFF, "/v1/chat/completions", "POST", id="the mode is off"),
        pytest.param(ELSEWHERE, "/v1/chat/completions", "POST", id="another host"),
        pytest.param(CLOSED, "/v1/chat/completions", "POST", id="a host that is never opened"),
        pytest.param(CONFIG, "/v1/embeddings", "POST", id="another path"),
        pytest.param(CONFIG, "/v1/chat/completions", "PUT", id="another method"),
    ],
)
def test_what_is_not_to_be_masked_is_the_clients_bit_for_bit_headers_included(
    addon: Addon, config: str, path: str, method: str
) -> None:
    addon.start(config)
    headers = {"X-Odd": "  a b", "x-odd": "c", "Authorization": "Bearer k"}
    request = addon.pass_on(BODY, path, method=method, headers=headers)
    assert BODY == request.raw_content
    expected = [(b"content-length", b"%d" % len(BODY))]
    expected += [(b"X-Odd", b"  a b"), (b"x-odd", b"c"), (b"Authorization", b"Bearer k")]
    assert expected == [*request.headers.fields]
    addon.stop()


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=b"},
        {"x-amz-checksum-crc32": "sOO8/Q=="},
        {"content-md5": "Q2hlY2sgSW50ZWdyaXR5IQ=="},
        {"digest": "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="},
        {"content-digest": "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_a_body_that_is_signed_passes_through_and_is_counted(
    addon: Addon, headers: dict[str, str]
) -> None:
    addon.start()
    assert BODY == addon.pass_on(BODY, headers=headers).raw_content
    addon.stop()
    assert "signed" == json.loads(addon.read_records())["passed_through"]


def test_a_body_that_is_compressed_is_masked_and_compressed_again(addon: Addon) -> None:
    addon.start()
    request = addon.pass_on(gzip.compress(BODY), headers={"content-encoding": "gzip"})
    assert b"<a shell 600>" in gzip.decompress(request.raw_content or b"")
