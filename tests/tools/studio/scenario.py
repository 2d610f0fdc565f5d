"""A scenario: what a user asks of an agent, and what the model does about it, turn by turn.

Scenarios are TOML files in `scenarios/`, each about a project in `projects/`. Both are plain files,
so a recording comes out the same at every time and place, and no command in them prints a time, a
user or a host. Actions are written in words of no client's own: `read: FILE`, `shell: COMMAND` or
`edit: NAME`, which names a table of the same file with `path`, `old` and `new`. A turn may begin
with `think: WORDS`, for formats that show what a model thinks.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tomli

_SCENARIOS = Path(__file__).with_name("scenarios")
PROJECTS = Path(__file__).with_name("projects")

Kind = Literal["read", "edit", "shell"]
_THINK = "think: "
_PLAIN: Mapping[str, Kind] = {"read": "read", "shell": "shell"}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do: `what` is the file to `read` or `edit`, or the `shell` command to run.

    An edit puts `new` in the place of `old`, which the file holds once.
    """

    kind: Kind
    what: str
    old: str = ""
    new: str = ""


Turn = tuple[Action, ...]
"""What the model does at once; several actions are parallel calls."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the user asks, what the model does about it, turn by turn, and what it answers.

    thoughts: what it thinks before a turn, by the turn's index.
    """

    prompt: str
    turns: tuple[Turn, ...]
    answer: str
    thoughts: Mapping[int, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation about a project: its tasks, one after the other."""

    project: str
    tasks: tuple[Task, ...]

    @property
    def actions(self) -> Iterator[Action]:
        """All its actions, in order."""
        return (action for task in self.tasks for turn in task.turns for action in turn)

    @property
    def texts(self) -> frozenset[str]:
        """All its prose: the user's, and the model's."""
        return frozenset(
            text
            for task in self.tasks
            for text in (task.prompt, task.answer, *task.thoughts.values())
        )


def write_project(name: str, folder: Path) -> None:
    """Write a project into `folder`, which need not exist."""
    unwanted = shutil.ignore_patterns("__pycache__")
    source = PROJECTS / name
    shutil.copytree(
        source, folder, ignore=unwanted, copy_function=shutil.copyfile, dirs_exist_ok=True
    )


def read_scenario(name: str) -> Scenario:
    """Read the scenario of that name."""
    document = tomli.loads((_SCENARIOS / f"{name}.toml").read_text(encoding="utf-8"))
    edits = document.get("edits", {})
    return Scenario(document["project"], tuple(_read_task(t, edits) for t in document["tasks"]))


def _read_task(task: Mapping[str, Any], edits: Mapping[str, Any]) -> Task:
    turns = tuple(
        tuple(_read_action(text, edits) for text in turn if not text.startswith(_THINK))
        for turn in task["turns"]
    )
    thoughts = {
        index: turn[0].removeprefix(_THINK)
        for index, turn in enumerate(task["turns"])
        if turn[0].startswith(_THINK)
    }
    return Task(task["prompt"], turns, task["answer"], thoughts)


def _read_action(text: str, edits: Mapping[str, Any]) -> Action:
    kind, _, what = text.partition(": ")
    if kind == "edit":
        edit = edits[what]
        return Action("edit", edit["path"], edit["old"], edit["new"])
    return Action(_PLAIN[kind], what.strip())
