"""Pairs of runs that others made and published: one task with everything sent, and masked.

They are in two files of the experiments behind "The Complexity Trap" (arXiv 2508.21433),
`experiment_instance_costs_sweagent.csv` and `..._openhands.csv`. A row is one task of SWE-bench
Verified, run once: what it cost at the vendor's prices, how many turns it took, the means of its
prompts and of its answers in tokens, and whether it was solved. A task that only one of two
experiments ran is left out.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

SWEAGENT_WINDOW = 10
"""In tool turns."""


class Run(NamedTuple):
    """A task, run once.

    prompt, written: the means of its prompts and of its answers, in tokens.
    """

    turns: int
    cost: float
    prompt: float
    written: float
    solved: bool


Runs = Mapping[str, Run]
"""The runs of an experiment, by task."""


class Pair(NamedTuple):
    """One task with everything sent, and masked."""

    task: str
    raw: Run
    masked: Run


class Experiment(NamedTuple):
    """Pairs of one model in one scaffold.

    window: in tool turns; `all` if nothing was masked.
    """

    name: str
    window: int | Literal["all"]
    pairs: Sequence[Pair]


def read_runs(path: Path) -> dict[str, dict[str, Run]]:
    """Return the runs of a file by experiment and task. Raises ValueError for two of one task."""
    found: dict[str, dict[str, Run]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            runs, task = found.setdefault(row["experiment"], {}), row["instance_id"]
            if task in runs:
                raise ValueError(f"{path}:{number}: {task} is there twice")
            runs[task] = Run(
                int(row["turn_count"]),
                float(row["cost"]),
                float(row["mean_prompt_tokens"]),
                float(row["mean_completion_tokens"]),
                row["outcome"] == "1",
            )
    return found


def pair_up(raw: Runs, masked: Runs) -> list[Pair]:
    """Return the tasks that both ran."""
    return [Pair(task, raw[task], masked[task]) for task in sorted(raw.keys() & masked.keys())]


def find_sweagent(found: Mapping[str, Runs]) -> list[Experiment]:
    """Return the experiments of SWE-agent, whose window counts tool turns."""
    experiments = []
    for name, raw in found.items():
        masked = found.get(name.replace("baseline_raw", "baseline_N_1_M_10"))
        if "baseline_raw" in name and masked is not None:
            model = re.sub(r"^local-|(-agent|-baseline).*", "", name).replace("_", " ")
            name = f"SWE-agent, {model}"
            experiments.append(Experiment(name, SWEAGENT_WINDOW, pair_up(raw, masked)))
    return experiments


def find_openhands(found: Mapping[str, Runs], tasks: str = "") -> list[Experiment]:
    """Return the experiments of OpenHands, whose window counts actions and observations.

    tasks: what the names of those that ran fewer tasks say of that (`-verified_50`).
    """
    raw = _find_raw(found, tasks)
    experiments = []
    for name, masked in found.items():
        match = re.search(rf"observation_masking(?:-M_(\d+))?{tasks}-observation_masking", name)
        if match is not None:
            events = int(match[1] or 10)
            pairs = pair_up(raw, masked)
            experiments.append((events // 2, pairs))
    name = "OpenHands, gemini 2.5 flash"
    return [Experiment(name, *each) for each in sorted(experiments)]


def find_repeated(found: Mapping[str, Runs]) -> Experiment:
    """Return the tasks that OpenHands ran twice with everything sent."""
    pairs = pair_up(_find_raw(found), _find_raw(found, "-verified_50"))
    return Experiment("OpenHands, gemini 2.5 flash", "all", pairs)


def _find_raw(found: Mapping[str, Runs], tasks: str = "") -> Runs:
    return next(runs for name, runs in found.items() if f"raw_agent{tasks}-run" in name)
