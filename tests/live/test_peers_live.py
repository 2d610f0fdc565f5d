"""The benchmark beside the peers, with the sides that need nothing installed."""

import json
from pathlib import Path

import pytest

from masking.tokens import TokenCounter
from tests.support.places import RECORDINGS
from tests.tools.benchmarks.peers.__main__ import (
    ASSUMED,
    Tallies,
    making_places,
    read_conversations,
    run_round,
    running_sides,
)
from tests.tools.benchmarks.peers.harm import Harm
from tests.tools.benchmarks.peers.recorder import Recorder
from tests.tools.benchmarks.peers.sides import DIRECT, OURS, SHORTENING
from tests.tools.benchmarks.peers.tables import show_requests

pytestmark = pytest.mark.live


def test_sides_are_billed_and_compared_by_what_reached_the_provider() -> None:
    conversations = read_conversations([RECORDINGS / "qwen-code-scratch.flow"])
    names = [DIRECT, "mitmdump", OURS, "relay"]
    tallies: Tallies = {wire: {} for wire in conversations}
    sides = {name: (name, ASSUMED) for name in names}
    with (
        Recorder() as provider,
        making_places(sides, {}, provider) as places,
        running_sides(places) as targets,
    ):
        done = list(run_round(conversations, targets, provider, tallies, TokenCounter()))
    assert ["qwen-code-scratch"] == done
    found = tallies["chat"]
    assert names == [*found]
    ends = {(each.requests, each.refused, each.lost, *each.failed) for each in found.values()}
    assert {(21, 0, 0)} == ends
    assert [0] * 4 == [sum(each.outside for each in one.differences) for one in found.values()]
    results = {name: sum(each.results for each in one.differences) for name, one in found.items()}
    assert results.pop(OURS) > 0
    assert {DIRECT: 0, "mitmdump": 0, "relay": 0} == results
    assert found[DIRECT].costs == found["mitmdump"].costs == found["relay"].costs
    assert found[OURS].costs != found[DIRECT].costs
    assert Harm(27) == found[DIRECT].harms[0] == found["mitmdump"].harms[0]
    assert found[OURS].harms[0].rereads > 0
    assert len(names) + 2 == len(list(show_requests(found)))


def test_a_file_of_conversations_is_sent_where_and_as_its_api_wants_it(tmp_path: Path) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    thought = {"type": "thinking", "thinking": "Files.", "signature": "of another provider"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    ask, done = {"role": "user", "content": "List."}, {"role": "assistant", "content": "One."}
    conversations = [
        [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
        ],
        [{"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [result]}],
    ]
    lines = [json.dumps({"messages": [ask, *middle, done]}) for middle in conversations]
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join(lines))
    read = read_conversations([path])
    tallies: Tallies = {wire: {} for wire in read}
    with (
        Recorder() as provider,
        making_places({DIRECT: (DIRECT, ASSUMED)}, {}, provider) as places,
        running_sides(places) as targets,
    ):
        list(run_round(read, targets, provider, tallies, TokenCounter()))
    ends = {
        wire: (found[DIRECT].requests, found[DIRECT].refused, found[DIRECT].lost)
        for wire, found in tallies.items()
    }
    assert {"chat": (2, 0, 0), "messages": (2, 0, 0)} == ends


def test_what_was_shortened_at_arrival_is_cheaper_and_may_be_asked_for_again(
    tmp_path: Path,
) -> None:
    lines = "\n".join(f"{n}: test number {n} of many has passed" for n in range(1_000))
    asked = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        for n in range(2)
    ]
    messages: list[dict[str, object]] = [{"role": "user", "content": "Test."}]
    for each in asked:
        messages.append({"role": "assistant", "tool_calls": [each]})
        messages.append({"role": "tool", "tool_call_id": each["id"], "content": lines})
    path = tmp_path / "one.jsonl"
    path.write_text(
        json.dumps({"messages": [*messages, {"role": "assistant", "content": "Fine."}]})
    )
    conversations = read_conversations([path])
    names = [DIRECT, SHORTENING, f"{SHORTENING} alone"]
    tallies: Tallies = {wire: {} for wire in conversations}
    with (
        Recorder() as provider,
        making_places({name: (name, ASSUMED) for name in names}, {}, provider) as places,
        running_sides(places) as targets,
    ):
        list(run_round(conversations, targets, provider, tallies, TokenCounter()))
    found = tallies["chat"]
    harms = {name: one.harms[0] for name, one in found.items()}
    assert {DIRECT: Harm(2), names[1]: Harm(2, 1), names[2]: Harm(2, 1)} == harms
    assert found[names[1]].costs == found[names[2]].costs < found[DIRECT].costs
