"""What is computed from the paired runs of others: held to values worked out by hand."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from masking.prices import Pricing
from tests.support.pages import fill_tables
from tests.support.places import EVIDENCE, ROOT
from tests.tools.benchmarks.paired_runs import (
    estimate_ratio,
    estimate_share,
    find_share,
    make_tables,
    model_run,
    send_all,
    show_solved,
    show_work,
    slide,
    wait,
)
from tests.tools.benchmarks.pairs import (
    Experiment,
    Pair,
    Run,
    find_openhands,
    find_repeated,
    find_sweagent,
    read_runs,
)

pytestmark = pytest.mark.skipif(find_spec("scipy") is None, reason="needs the extra lab")

HEAD = "experiment,instance_id,cost,turn_count,mean_completion_tokens,mean_prompt_tokens,outcome\n"


def write(path: Path, *rows: str) -> Path:
    path.write_text(HEAD + "\n".join(rows), encoding="utf-8")
    return path


def test_runs_of_one_task_are_paired(tmp_path: Path) -> None:
    raw, masked = "local-m-1-agent-baseline_raw.0", "local-m-1-agent-baseline_N_1_M_10.0"
    path = write(
        tmp_path / "runs.csv",
        f"{raw},a,0.5,10,50,2000,1",
        f"{raw},only raw,0.5,10,50,2000,1",
        f"{masked},only masked,0.5,10,50,2000,1",
        f"{masked},a,0.25,12,40,1000,0",
        "local-m-1-agent-summaries.0,a,1,1,1,1,1",
    )
    pair = Pair("a", Run(10, 0.5, 2000, 50, True), Run(12, 0.25, 1000, 40, False))
    assert [Experiment("SWE-agent, m-1", 10, [pair])] == find_sweagent(read_runs(path))
    with pytest.raises(ValueError, match=r"runs\.csv:3: a is there twice"):
        read_runs(write(path, f"{raw},a,0.5,10,50,2000,1", f"{raw},a,0.5,10,50,2000,1"))


def test_a_window_of_openhands_counts_an_action_and_its_observation(tmp_path: Path) -> None:
    names = (
        "g-hint-raw_agent-run_1",
        "g-hint-observation_masking-M_72-observation_masking_for_eval-run_1",
        "g-hint-observation_masking-observation_masking_for_eval-run_1",
        "g-hint-raw_agent-verified_50-run_1",
        "g-hint-observation_masking-M_29-verified_50-observation_masking_for_eval-run_1",
    )
    rows = [f"{name},a,1,{turns},1,1,1" for turns, name in enumerate(names)]
    found = read_runs(write(tmp_path / "runs.csv", *rows))

    def show(tasks: str) -> list[tuple[object, int, int]]:
        experiments = [*find_openhands(found, tasks), find_repeated(found)]
        return [
            (each.window, each.pairs[0].raw.turns, each.pairs[0].masked.turns)
            for each in experiments
        ]

    both = "all", 0, 3
    assert [(5, 0, 2), (36, 0, 1), both] == show("")
    assert [(14, 3, 4), both] == show("-verified_50")


def make_pairs(won: int, lost: int, both: int = 0, neither: int = 0) -> list[Pair]:
    """Return pairs in which masking doubles the turns and halves the cost."""
    outcomes = [(False, True)] * won + [(True, False)] * lost
    outcomes += [(True, True)] * both + [(False, False)] * neither
    return [
        Pair(str(at), Run(130, 2.0, 9, 9, raw), Run(260, 1.0, 9, 9, masked))
        for at, (raw, masked) in enumerate(outcomes)
    ]


def test_what_is_solved() -> None:
    # Of six coins five or six, or one or none, fall on one side: 2 * (6 + 1) of 64.
    row = [*show_solved([Experiment("x", 10, make_pairs(won=5, lost=1, both=2, neither=2))])][-1]
    assert "| x | 10 | 10 | 30.0% (11 to 60) | 70.0% (40 to 89) | 5, 1 | 0.22 | +40.0 " in row
    # Of ten coins all on one side: 2 of 1,024. Of none, nothing is unlikely.
    assert " 0, 10 | below .01 |" in [*show_solved([Experiment("x", 1, make_pairs(0, 10))])][-1]
    same = [*show_solved([Experiment("x", 1, make_pairs(0, 0, 2, 2))])][-1]
    assert " 0, 0 | 1.00 | +0.0 (+0.0 to +0.0) |" in same


def test_the_intervals() -> None:
    # Wilson's of none in four ends at z² / (4 + z²), with z = 1.96.
    assert (0, 0, 0.4899) == pytest.approx(estimate_share(0, 4), abs=1e-4)
    # Of two tasks, one draw in four has the first alone, and one the second.
    assert (0.5, 0, 1) == estimate_ratio([("a", 0, 1), ("b", 1, 1)])
    # What two models made of one task is drawn together, so here is nothing to draw.
    assert (0.5, 0.5, 0.5) == estimate_ratio([(task, up, 1) for task in "ab" for up in (0, 1)])


def test_turns_and_costs() -> None:
    row = [*show_work([Experiment("x", 10, make_pairs(won=1, lost=1, both=2))])][-1]
    halved = "0.50 (0.50 to 0.50)"
    assert f"| x | 10 | 2.00 (2.00 to 2.00) | 0 to 4 | 0 to 0 | {halved} | {halved} |" == row


def test_a_run_is_modeled_from_its_means() -> None:
    # Prompts of 1,500, 2,100 and 2,700: each turn adds 100 that were written, and a result of 500.
    raw = send_all(model_run(Run(3, 0, prompt=2100, written=100, solved=True)))
    assert 6300 == raw.cost(Pricing(1, 1))
    assert 1500 + (150 + 600) + (210 + 600) == pytest.approx(raw.cost(Pricing(0.1, 1)))
    assert 3600 / 6300 == pytest.approx(find_share([raw]))
    # Prompts of 1,500, 2,350 and 2,450: results of 750, of which the third shows one. It shares
    # 1,600 tokens with the second: what precedes the first result.
    run = model_run(Run(3, 0, prompt=2100, written=100, solved=True), window=1)
    masked = slide(run, 1)
    assert 6300 == masked.cost(Pricing(1, 1))
    assert 1500 + (150 + 850) + (160 + 850) == pytest.approx(masked.cost(Pricing(0.1, 1)))


def test_a_boundary_that_waits_until_it_pays() -> None:
    # Prompts of 1,500, 2,100, 2,700 and, with the first result masked, 2,800. It saves 500, and
    # the 1,200 tokens behind it would be paid for in full.
    run = model_run(Run(4, 0, prompt=2275, written=100, solved=True), window=2)
    before = 1500 + (150 + 600) + (210 + 600)
    assert before + (160 + 1200) == pytest.approx(slide(run, 2).cost(Pricing(0.1, 1)))
    assert before + (270 + 600) == pytest.approx(
        wait(run, 2, Pricing(0.1, 1)).cost(Pricing(0.1, 1))
    )
    assert slide(run, 2).masks == wait(run, 2, Pricing(1, 1)).masks


@pytest.mark.parametrize(("turns", "prompt"), [(0, 0.0), (1, 900.0), (2, 0.0), (4, 1600.0)])
def test_a_short_run_has_the_mean_that_it_had(turns: int, prompt: float) -> None:
    run = model_run(Run(turns, 0, prompt, written=500, solved=False), 10)
    assert turns * prompt == pytest.approx(send_all(run).cost(Pricing(1, 1)))


@pytest.mark.thorough
@pytest.mark.skipif(not EVIDENCE.exists(), reason="the runs of others are not here")
def test_the_page_has_what_the_command_prints() -> None:
    name = "experiment_instance_costs_{}.csv"
    tables = make_tables(*(EVIDENCE / name.format(each) for each in ("sweagent", "openhands")))
    page = (ROOT / "docs" / "measured" / "harm.md").read_text(encoding="utf-8")
    assert page == fill_tables(page, "paired runs", tables)
    assert all(f"<!-- paired runs: {each} -->" in page for each in tables)
