"""Redaction and reduction through a real proxy: what arrives, what is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from masking.config import Settings, parse_settings
from masking.rewrite import read_request
from tests.live.harness import (
    OFF,
    Live,
    Upstream,
    conversation,
    encoded,
    eventually,
    running_addon,
)
from tests.support.priced import rewrite_request

CHAT = "/v1/chat/completions"
REDACTION = OFF + b'[observation_masking.redaction]\nenabled = true\ntool_names = ["shell"]\n'
REDUCTION = (
    OFF + b"[observation_masking.reduction]\nenabled = true\nmax_input_chars = 900\n"
    b"preserve_recent_raw_turns = 2\n"
)
ANSWER = {"role": "assistant", "content": "So it is."}


def talk(*more: object, turns: int = 3) -> dict[str, Any]:
    request = conversation(turns)
    request["messages"] += more
    return request


def expected(body: bytes, config: bytes) -> bytes:
    settings = cast(Settings, parse_settings(config))
    return rewrite_request(read_request(body), settings.strategies).body


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Live]:
    """One proxy for all tests that configure it and then ask it at a path of their own."""
    with running_addon(tmp_path_factory.mktemp("live"), upstream) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("redaction", REDACTION),
        ("reduction", REDUCTION),
        ("both", REDACTION + REDUCTION[len(OFF) :]),
    ],
)
@pytest.mark.parametrize("turns", [3, 9])
def test_what_arrives_is_what_the_core_gives(
    live: Live, name: str, config: bytes, turns: int
) -> None:
    live.configure(config)
    path = f"/{name}/{turns}{CHAT}"
    body = encoded(talk(ANSWER, {"role": "user", "content": f"{path}?"}, turns=turns))
    arrived = live.send(path, body).body
    record = live.record(path)
    assert expected(body, config) == arrived != body
    assert "on" == record["masking"]
    assert record["request_tokens_after"] < record["request_tokens_before"]
    assert record["cost_tokens_after"] < record["cost_tokens_before"]


def test_a_record_tells_what_redaction_did(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=REDACTION) as live:
        live.send(CHAT, encoded(talk(ANSWER, *conversation(1)["messages"])))
        record = live.record(CHAT)
    assert (3, 0, [1, 0, 1, 0, 2]) == (
        record["redacted"],
        record["masked"],
        record["redaction_scenarios"],
    )
    assert {"in_use": 1} == record["kept"]
    assert "masked 0 of 4 tool results, redacted 3, " in live.proxy.log
    assert "; 3 results redacted" in live.proxy.log.splitlines()[-1]


def test_each_new_redaction_is_told_once_and_never_its_content(
    upstream: Upstream, tmp_path: Path
) -> None:
    request = talk(ANSWER)
    request["messages"][2]["content"] = "s3cr3t " * 20
    with running_addon(tmp_path, upstream, config=REDACTION) as live:
        live.send(CHAT, encoded(talk()))
        live.send(CHAT, encoded(request))
        request["messages"] += [{"role": "user", "content": "And?"}, ANSWER]
        live.send(CHAT, encoded(request))
        eventually(lambda: live.records()[2:] or None)
    lines = [line for line in live.proxy.log.splitlines() if "redacted {" in line]
    told = [json.loads(line[line.index("{") :]) for line in lines]
    assert [("call_0", 2), ("call_1", 4), ("call_2", 6)] == [
        (line["tool_call_id"], line["position"]) for line in told
    ]
    assert told[0]["chars_before"] == 140 > told[0]["chars_after"] - 100
    assert "s3cr3t" not in live.proxy.log


def test_in_verbose_mode_every_decision_is_logged(upstream: Upstream, tmp_path: Path) -> None:
    quiet, verbose = ("termlog_verbosity=info",), ("termlog_verbosity=debug",)
    shown = []
    for number, (option,) in enumerate((quiet, verbose)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with running_addon(folder, upstream, "--set", option, config=REDACTION) as live:
            live.send(CHAT, encoded(talk()))
            live.record(CHAT)
        shown.append("redaction: {" in live.proxy.log)
    assert [False, True] == shown


@pytest.mark.parametrize(
    ("value", "config", "redacts", "warns"),
    [
        pytest.param("FALSE", REDACTION, False, False, id="switched off"),
        pytest.param(
            "nein", REDACTION.replace(b"true\ntool", b"false\ntool"), True, True, id="unreadable"
        ),
    ],
)
def test_the_environment_overrides_the_switch(
    upstream: Upstream, tmp_path: Path, value: str, config: bytes, redacts: bool, warns: bool
) -> None:
    body = encoded(talk(ANSWER))
    with running_addon(tmp_path, upstream, config=config, STREAM_REDACTION_ENABLED=value) as live:
        arrived = live.send(CHAT, body).body
    assert expected(body, REDACTION if redacts else OFF) == arrived
    assert warns == ("expected true or false, got 'nein'" in live.proxy.log)


def test_a_message_of_no_known_role_is_one_warning(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=REDACTION) as live:
        for _ in range(3):
            live.send(CHAT, encoded(talk({"role": "narrator", "content": "Meanwhile"})))
        eventually(lambda: live.records()[2:] or None)
    assert live.proxy.log.count("has no known role and counts as an answer") == 1


def test_a_record_tells_what_a_reduction_did(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=REDUCTION) as live:
        for turns in (1, 3, 30):
            live.send(CHAT, encoded(talk(turns=turns)))
        records = eventually(lambda: live.records() if len(live.records()) == 3 else None)
    assert [None, "masking", "summarization"] == [r["reduction_stage"] for r in records]
    assert [0, 2, 0] == [r["reduced"] for r in records]
    assert [0, 0, 29] == [r["dropped"] for r in records]
    assert [0, 0, 59] == [r["dropped_messages"] for r in records]
    assert "reduced by summarization, dropped 59 of 61 messages" in live.proxy.log
    assert "1 reduced by masking; 1 reduced by summarization" in live.proxy.log


def test_a_reduction_that_would_leave_nothing_sends_the_original(
    upstream: Upstream, tmp_path: Path
) -> None:
    config = OFF + (
        b"[observation_masking.reduction]\nenabled = true\nmax_input_chars = 5\n"
        b"preserve_recent_raw_turns = 0\nsummary_max_chars = 0\n"
    )
    request = talk()
    request["messages"].append({"role": "assistant", "content": "Done."})  # it has read all results
    body = encoded(request)
    with running_addon(tmp_path, upstream, config=config) as live:
        arrived = live.send(CHAT, body).body
        record = live.record(CHAT)
    assert body == arrived
    assert ("fallback", 0) == (record["reduction_stage"], record["dropped_messages"])


def test_the_start_names_every_strategy_that_is_on(upstream: Upstream, tmp_path: Path) -> None:
    config = REDACTION + REDUCTION[len(OFF) :] + b"[observation_masking.mcp]\nenabled = true\n"
    with running_addon(tmp_path, upstream, config=config) as live:
        assert (
            "ON: redacts the results of shell; reduces requests to 900 characters; "
            "cuts strings of MCP servers from 4,000 characters on ("
        ) in live.proxy.log
