"""`obsmask demo`: what it plays, what it picks as an example, and how it shows it."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from addon.commands.demo import (
    BOUNDARY,
    RECORDING,
    SESSIONS,
    Example,
    PlayedRequest,
    find_example,
    render_example,
)
from addon.commands.main import main
from addon.places import shipped
from addon.records.record import REPLACED
from addon.records.words import INPUT_TOKENS
from addon.replay.replay import ReplaySettings, replay
from masking.accounting import Bill, Cost
from masking.prices import PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.golden import read_golden
from tests.support.sessions import ReadSession, read_chat

HALF_A_CENT = 0.005
SESSION = shipped("recordings") / RECORDING


@pytest.mark.live
def test_the_demo_shows_each_request_and_the_way_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    expected = read_golden(SESSION)
    assert [f"{each['masked']} of {each['tool_results']}" for each in expected] == [
        " ".join(row[1:4]) for row in demo_rows(shown)
    ]
    assert "mini-swe-agent" in shown
    assert "[bash: 9505 chars masked]" in shown
    assert BOUNDARY in " ".join(shown.split())
    assert "every answer intact" in shown
    assert shown.splitlines()[-1].endswith("obsmask run -- AGENT")
    assert "tokens" not in shown
    assert 80 >= max(map(len, shown.splitlines()))


def demo_rows(shown: str) -> list[list[str]]:
    """Return the rows of the demo's table: number, replaced, "of", results, costs, ..."""
    lines = (line.split() for line in shown.splitlines())
    return [cells for cells in lines if cells[2:3] == ["of"] and cells[0].isdecimal()]


@pytest.mark.live
@pytest.mark.parametrize(
    ("agent", "wanted"),
    [
        ("claude-code", "obsmask run -- claude"),
        ("codex", "obsmask run -- codex"),
    ],
)
def test_the_demo_plays_sessions_of_other_wire_formats(
    agent: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each at the prices of its vendor, which are those under which it was recorded."""
    recording = shipped("recordings") / SESSIONS[agent].recording
    expected = read_golden(recording)
    assert main(["demo", agent]) == 0
    shown = capsys.readouterr().out
    assert [f"{each['masked']}" for each in expected] == [row[1] for row in demo_rows(shown)]
    assert wanted in " ".join(shown.split())
    cost = re.search(r"input cost \$([\d.]+), without masking \$([\d.]+): saved", shown)
    assert cost is not None
    after, before = map(float, cost.groups())
    assert after < 0.99 * before
    assert shown.splitlines()[-1].endswith(wanted)


@pytest.mark.live
@pytest.mark.parametrize("strategy", ["redaction", "reduction", "all"])
def test_the_demo_shows_the_other_strategies_and_claims_no_more_than_a_replay(
    strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the session costs without masking is what its replay says, or up to 1% less."""
    recording = shipped("recordings") / SESSIONS[strategy].recording
    expected = read_golden(recording, recording.with_suffix(f".{strategy}.toml"))
    assert main(["demo", strategy]) == 0
    shown = capsys.readouterr().out
    assert [f"{sum(each[name] for name in REPLACED)}" for each in expected] == [
        row[1] for row in demo_rows(shown)
    ]
    uncounted = tuple(replace(each, usage=None) for each in read_chat(recording).kept)
    unmasked = ReplaySettings(
        strategies=Strategies(schema1=MaskPolicy(enabled=False)),
        price_settings=PriceSettings(cache_pricing=(0.5, 1.0)),
    )
    requests = replay(ReadSession("uncounted", uncounted), unmasked, TokenCounter())
    replayed = sum(each.entry.cost.after.dollars or 0.0 for each in requests)
    cost = re.search(r"without masking (?:about )?\$([\d.]+)", shown)
    assert cost is not None
    assert 0.99 * replayed - HALF_A_CENT <= float(cost[1]) <= replayed + HALF_A_CENT
    assert BOUNDARY not in " ".join(shown.split())


def played(written: Sequence[str], sent: Sequence[str]) -> PlayedRequest:
    """Return a request with tool results of these texts, before and after."""
    bill = Bill(prompt=0.0, cached=0.0, cost=0.0, dollars=None)
    cost = Cost(
        before=bill, before_warm=bill, after=bill, predicted=0, hit_rate=1.0, basis="simulated"
    )
    return PlayedRequest(written, sent, cost, INPUT_TOKENS, record={})


WHOLE = played(["task", "long result"], ["task", "long result"])
MASKED = played(["task", "result", "long result"], ["task", "[1]", "[2]"])
DROPPED = played(["task", "the longest of all results"], ["task"])


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([WHOLE, MASKED, MASKED], Example(2, "long result", "[2]"), id="the longest"),
        pytest.param([DROPPED, MASKED], Example(2, "long result", "[2]"), id="results lost"),
        pytest.param([WHOLE], None, id="no text was replaced"),
        pytest.param([], None, id="nothing was played"),
    ],
)
def test_the_example_is_the_longest_result_where_it_was_replaced_first(
    requests: list[PlayedRequest], expected: Example | None
) -> None:
    assert expected == find_example(requests)


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        pytest.param("[shell: 9 chars masked]", "    [shell: 9 chars masked]", id="like markup"),
        pytest.param("x" * 400, " ...", id="too long to show"),
    ],
)
def test_a_placeholder_is_shown_as_it_is(after: str, shown: str) -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(render_example(Example(14, "x" * 9_505, after)), highlight=False)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert "characters the model reads" in " ".join(lines)
    assert any(line.endswith(shown) for line in lines)
