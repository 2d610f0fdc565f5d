"""`obsmask demo`: what it plays, what it picks as an example, and how it shows it."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from addon.commands.demo import (
    BOUNDARY,
    RECORDING,
    SESSIONS,
    Example,
    PlayedRequest,
    choose_rows,
    find_example,
    render_example,
)
from addon.commands.main import main
from addon.places import shipped
from masking.accounting import NO_BILL
from tests.support.made_up_records import record
from tests.support.places import ROOT
from tests.tools.golden import read_golden

SESSION = shipped("recordings") / RECORDING
SESSIONS_OF_CLAUDE = shipped("recordings") / SESSIONS["claude-code"].recording


@pytest.mark.smoke
@pytest.mark.live
def test_the_demo_shows_each_request_and_the_way_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["demo", "--all-rows"]) == 0
    assert not (tmp_path / "state").exists()  # no session of the history, and no record
    shown = capsys.readouterr().out
    expected = read_golden(SESSION)
    assert [f"{each['masked']} of {each['tool_results']}" for each in expected] == [
        " ".join(row[1:4]) for row in demo_rows(shown)
    ]
    assert re.match(r"Input cost \$[\d.]+, without masking \$[\d.]+: saved ", shown)
    assert "mini-swe-agent" in shown
    assert "[bash: 9505 chars masked]" in shown
    assert BOUNDARY in " ".join(shown.split())
    assert "every response arrived intact" in " ".join(shown.split())
    assert shown.splitlines()[-1].endswith("obsmask run -- AGENT")
    assert "tokens" not in shown
    assert 80 >= max(map(len, shown.splitlines()))


@pytest.mark.live
def test_of_a_long_session_a_screen_shows_what_happens_around_each_move(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo", "claude-code"]) == 0
    shown = capsys.readouterr().out
    rows = demo_rows(shown)
    expected = [f"{each['masked']}" for each in read_golden(SESSIONS_OF_CLAUDE)]
    assert [row[1] for row in rows] == [expected[int(row[0]) - 1] for row in rows]
    assert {*expected} == {row[1] for row in rows}
    assert 24 > len(rows) > 5
    assert 80 >= max(map(len, shown.splitlines()))
    # The README shows this, without the margin.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.partition("```\nInput cost")[2].partition("\n```")[0]
    lines = {line.strip() for line in shown.splitlines()}
    assert 20 > len(block.splitlines()) > 10
    assert {line.strip() for line in f"Input cost{block}".splitlines()} <= lines


@pytest.mark.parametrize(
    ("replaced", "without", "with_it", "expected"),
    [
        pytest.param([0], [1], [1], [0], id="one request"),
        pytest.param([0] * 9, [*range(9)], [*range(9)], [0, 8], id="no move"),
        pytest.param(
            [0, 0, 0, 4, 4, 4, 4, 4],
            [1, 2, 3, 4, 5, 6, 7, 8],
            [1, 2, 3, 5, 5.5, 5.9, 6.2, 6.5],
            [0, 2, 3, 4, 5, 7],
            id="a move that pays off two requests later",
        ),
        pytest.param([0, 0, 0, 2], [1, 2, 3, 4], [1, 2, 3, 5], [0, 2, 3], id="at the end"),
    ],
)
def test_the_rows_that_tell_the_most(
    replaced: list[int], without: list[float], with_it: list[float], expected: list[int]
) -> None:
    assert expected == choose_rows(replaced, without, with_it)


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
    assert main(["demo", agent, "--all-rows"]) == 0
    shown = capsys.readouterr().out
    assert [f"{each['masked']}" for each in expected] == [row[1] for row in demo_rows(shown)]
    assert wanted in " ".join(shown.split())
    cost = re.search(r"Input cost \$([\d.]+), without masking \$([\d.]+): saved", shown)
    assert cost is not None
    after, before = map(float, cost.groups())
    assert after < 0.99 * before
    assert shown.splitlines()[-1].endswith(wanted)


def played(written: Sequence[str], sent: Sequence[str]) -> PlayedRequest:
    """Return a request with tool results of these texts, before and after."""
    return PlayedRequest(written, sent, NO_BILL, record=record())


WHOLE = played(["task", "long result"], ["task", "long result"])
MASKED = played(["task", "result", "long result"], ["task", "[1]", "[2]"])


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([WHOLE, MASKED, MASKED], Example(2, "long result", "[2]"), id="the longest"),
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
    assert "characters) is masked. The model reads" in " ".join(lines)
    assert any(line.endswith(shown) for line in lines)
