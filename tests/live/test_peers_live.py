"""The benchmark beside the peers, with the sides that need nothing installed."""

import pytest

from masking.measures.tokens import TokenCounter
from tests.benchmarks.peers.__main__ import (
    ASSUMED,
    Tallies,
    making_places,
    read_conversations,
    run_round,
    running_sides,
)
from tests.benchmarks.peers.recorder import Recorder
from tests.benchmarks.peers.sides import DIRECT, OURS
from tests.benchmarks.peers.tables import show_requests
from tests.places import RECORDINGS

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
    assert len(names) + 2 == len(list(show_requests(found)))
