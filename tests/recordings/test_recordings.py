"""Replaying a recording yields what lies beside it, through a real mitmdump."""

import hashlib
import json
from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http

from addon.config import ConfigFile
from addon.places import shipped
from addon.proxy.mcp import EventStream
from addon.recordings.flows import find_exchanges, read_flows
from addon.request import is_event_stream
from masking.history_summary import find_blocks
from masking.mcp import McpSettings, cut_text, mask_payload_bytes, read_methods
from masking.request_cache import RequestCache
from masking.rewrite import read_request
from tests.masking.test_request_cache import is_remembered
from tests.support.builders import list_replacements
from tests.support.places import recordings
from tests.support.priced import at_prices, rewrite_request
from tests.support.sessions import CHATS, each_of, marks_of
from tests.tools.golden import (
    Replay,
    find_configs,
    find_differences,
    golden_file,
    read_golden,
    replay_recording,
)
from tests.tools.studio.scenario import write_project


def cases(paths: Iterable[Path], thorough: Container[str] = ()) -> pytest.MarkDecorator:
    """Try these recordings under each of their configurations; `thorough` has names of cases."""
    found = []
    for path in paths:
        for config in find_configs(path):
            name = golden_file(path, config).stem
            marks = [pytest.mark.thorough] if name in thorough else [*marks_of(path)]
            marks += [pytest.mark.smoke] if name == "mini-swe-agent-scratch" else []
            found.append(pytest.param(path, config, id=name, marks=marks))
    return pytest.mark.parametrize(("recording", "config"), found)


QUESTIONS = shipped("recordings") / "openai-questions.flow"
FILES = shipped("recordings") / "mcp-files.flow"


def beside(name: str) -> Path:
    return QUESTIONS.with_suffix(f".{name}.toml")


@pytest.mark.live
@cases(
    recordings(),
    thorough=(
        *("openai-questions", "openai-questions.redaction", "openai-questions.reduction"),
        "mcp-files",
    ),
)
def test_a_replay_yields_what_is_expected(
    recording: Path, config: Path | None, replay_once: Replay
) -> None:
    records = replay_once(recording, config)
    assert [] == find_differences(recording, records, config)


@each_of("recording", CHATS)
def test_a_process_that_remembers_masks_a_recording_as_any_other(recording: Path) -> None:
    settings = ConfigFile(shipped("config.toml"), ()).settings.strategies
    priced = at_prices(settings.schema1, cache_read_ratio=0.1, cache_write_ratio=1.25)
    strategies, table = replace(settings, schema1=priced), RequestCache()
    found = [exchange for flow in read_flows(recording) for exchange in find_exchanges(flow)]
    bodies = [(each.body, each.match.wire) for each in found if each.body]
    assert len(bodies) >= 15
    for body, wire in bodies:
        warm, cold = (known.read(body, wire, "") for known in (table, RequestCache(0)))
        assert is_remembered(warm.request)
        expected = rewrite_request(cold, strategies)
        assert expected == rewrite_request(warm, strategies)


@cases(CHATS)
def test_a_recording_is_worth_replaying(recording: Path, config: Path | None) -> None:
    """Something is changed in the end, and then less is sent."""
    last = read_golden(recording, config)[-1]
    changed = [last[name] for name in ("masked", "redacted", "reduced", "dropped")]
    assert last["tool_turns"] >= 15
    assert last["masked"] > 0 if config is None else any(changed)
    assert last["request_tokens_after"] < last["request_tokens_before"]


@pytest.mark.thorough
@pytest.mark.live
def test_the_switch_of_the_environment_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAM_REDACTION_ENABLED", "false")
    config = beside("redaction")
    assert [] == find_differences(QUESTIONS, replay_recording(QUESTIONS, config), config)


def test_redaction_follows_the_answers() -> None:
    """Results of the named tool alone go, all of them at once with the answer that follows."""
    records = read_golden(QUESTIONS, beside("redaction"))
    redacted = [record["redacted"] for record in records]
    assert redacted == [0] * 4 + [4] * 4 + [5] * 5 + [7] * 5 + [9] * 3
    scenarios = [record["redaction_scenarios"] for record in records]
    assert [any(column) for column in zip(*scenarios, strict=True)] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert [one + five for one, *_, five in scenarios] == redacted


def test_reduction_reaches_every_stage() -> None:
    records = read_golden(QUESTIONS, beside("reduction"))
    stages = {record["reduction_stage"] for record in records}
    assert stages == {0, "masking", "summarization", "fallback"}
    assert {bool(record["dropped_messages"]) for record in records} == {True, False}


def test_a_dispatch_result_survives_a_reduction() -> None:
    config = ConfigFile(beside("reduction"))
    records = read_golden(QUESTIONS, beside("reduction"))
    kept = 0
    for flow, record in zip(read_flows(QUESTIONS), records, strict=True):
        body = flow.request.content or b""
        outcome = rewrite_request(read_request(body), config.settings.strategies)
        assert hashlib.sha256(outcome.body).hexdigest() == record["sha256"]
        for replacement in list_replacements(outcome.decisions):
            blocks = find_blocks(replacement.text)
            assert blocks == find_blocks(replacement.placeholder)
            kept += len(blocks)
    assert kept > 5


def test_each_strategy_settles_results_beside_the_others() -> None:
    records = read_golden(QUESTIONS, beside("all"))
    for record in records:
        counts = [record[name] for name in ("masked", "redacted", "reduced", "dropped")]
        assert sum(counts) + sum((record["kept"] or {}).values()) == record["tool_results"]
    for name in ("masked", "redacted", "reduced", "dropped"):
        assert max(record[name] for record in records) > 0


# What MCP servers answer

POLICY = McpSettings(enabled=True)


def digests(bodies: Iterable[bytes]) -> list[str]:
    return [hashlib.sha256(body).hexdigest() for body in bodies]


def answer(flow: http.HTTPFlow) -> bytes:
    assert flow.response
    return flow.response.content or b""


def cut(flow: http.HTTPFlow) -> bytes:
    """Return what the client would have got from the strategy."""
    methods = read_methods(flow.request.content or b"")
    assert flow.response
    assert methods is not None

    def mask(data: bytes) -> bytes:
        return mask_payload_bytes(data, POLICY, methods).body

    edit = EventStream(mask).feed if is_event_stream(flow.response) else mask
    return edit(answer(flow))


def messages(body: bytes) -> list[Any]:
    """Return the JSON-RPC messages in a document, or in an event stream."""
    lines = body.splitlines() if body.startswith(b"event: ") else [b"data: " + body]
    found = (line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: "))
    return [json.loads(text) for text in found if text]


def results(path: str) -> dict[int, Any]:
    """Return the last message of each cut answer that came from a path, by id."""
    found = (messages(cut(flow)) for flow in read_flows(FILES) if flow.request.path == path)
    return {each[-1]["id"]: each[-1] for each in found if each}


@pytest.mark.live
def test_switched_off_answers_arrive_bit_for_bit_and_nothing_is_recorded(
    replay_once: Replay,
) -> None:
    found = digests(answer(flow) for flow in read_flows(FILES))
    assert [{"sha256": digest} for digest in found] == replay_once(FILES, None)


def test_answers_are_cut_and_recorded() -> None:
    records = read_golden(FILES, FILES.with_suffix(".mcp.toml"))
    flows = list(read_flows(FILES))
    assert [record["sha256"] for record in records] == digests(map(cut, flows))
    changed = [answer(flow) != cut(flow) for flow in flows]
    assert [record["cut_strings"] > 0 for record in records] == changed
    strings = [record["cut_strings"] for record in records]
    assert strings == [0, 0, 0, 2, 0, 0, 1, 1] * 2
    assert [record["passed_through"] for record in records] == [0] * 16


@pytest.mark.parametrize("path", ["/documents", "/streams"])
def test_long_files_are_cut_and_short_ones_and_the_messages_of_errors_are_not(
    path: str, tmp_path: Path
) -> None:
    write_project("tally", tmp_path)
    log, orders, readme = (
        (tmp_path / name).read_text(encoding="utf-8")
        for name in ("logs/import.log", "data/orders.json", "README.md")
    )
    found = results(path)
    assert "[KIMI_PROXY_OBSERVATION_MASKED original_chars=8101 " in cut_text(log, POLICY)
    for number, text in ((2, cut_text(log, POLICY)), (3, readme)):
        assert found[number]["result"]["content"] == [{"type": "text", "text": text}]
        assert found[number]["result"]["structuredContent"] == {"result": text}
    assert found[4]["result"]["isError"]
    assert found[4]["result"]["content"][0]["text"].endswith("directory: 'logs/refused.log'")
    (resource,) = found[5]["result"]["contents"]
    assert resource["uri"] == "project://data/orders.json"
    assert resource["text"] == cut_text(orders, POLICY) != orders
    assert found[6]["error"]["message"].endswith(f":\n{orders}")
    assert len(found[6]["error"]["message"]) > POLICY.max_chars
    assert found[6]["error"]["data"] == {"log": cut_text(log, POLICY)}


def test_documents_and_event_streams_say_the_same() -> None:
    assert results("/documents") == results("/streams")


def test_progress_stays_as_it_was() -> None:
    for flow in read_flows(FILES):
        before, after = messages(answer(flow)), messages(cut(flow))
        assert before[:-1] == after[:-1]
    (called,) = (m for m in map(messages, map(answer, read_flows(FILES))) if len(m) > 2)
    assert [each.get("method") for each in called] == ["notifications/progress"] * 3 + [None]
