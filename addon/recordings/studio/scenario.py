"""A scenario: what a user asks of an agent, and what the model does about it, turn by turn.

Scenarios are TOML files in `scenarios/`, each on one of the projects in `projects/`. Both are plain
files, the same to the byte at every time and place, and no command of theirs prints a time, a user
or a host. What is to be done is said in words that no client has to share: `read: FILE`,
`shell: COMMAND` or `edit: NAME`, which names a table of the file's with `path`, `old` and `new`.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli

_SCENARIOS = Path(__file__).with_name("scenarios")
PROJECTS = Path(__file__).with_name("projects")

Kind = Literal["read", "edit", "shell"]
_PLAIN: Mapping[str, Kind] = {"read": "read", "shell": "shell"}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do: `read` or `edit` the file, or run the `shell` command, that `what` names.

    An edit puts `new` in the place of `old`, which stands in the file once.
    """

    kind: Kind
    what: str
    old: str = ""
    new: str = ""


Turn = tuple[Action, ...]
"""What the model does at once; more than one action are parallel calls."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the user asks, what the model does about it turn by turn, and what it answers then."""

    prompt: str
    turns: tuple[Turn, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation: its tasks, one after the other, on the project of that name."""

    project: str
    tasks: tuple[Task, ...]

    @property
    def actions(self) -> Iterator[Action]:
        """All that is done, in order."""
        return (action for task in self.tasks for turn in task.turns for action in turn)

    @property
    def texts(self) -> frozenset[str]:
        """All prose in it: what the user says, and what the model does."""
        return frozenset(text for task in self.tasks for text in (task.prompt, task.answer))


def write_project(name: str, folder: Path) -> None:
    """Write a project into `folder`, which is made where it is missing."""
    unwanted = shutil.ignore_patterns("__pycache__")
    source = PROJECTS / name
    shutil.copytree(
        source, folder, ignore=unwanted, copy_function=shutil.copyfile, dirs_exist_ok=True
    )


def read_scenario(name: str) -> Scenario:
    """Read one of the scenarios."""
    document = tomli.loads((_SCENARIOS / f"{name}.toml").read_text(encoding="utf-8"))
    edits = document.get("edits", {})
    return Scenario(document["project"], tuple(_read_task(t, edits) for t in document["tasks"]))


def _read_task(task: Mapping[str, Any], edits: Mapping[str, Any]) -> Task:
    turns = (tuple(_read_action(text, edits) for text in turn) for turn in task["turns"])
    return Task(task["prompt"], tuple(turns), task["answer"])


def _read_action(text: str, edits: Mapping[str, Any]) -> Action:
    kind, _, what = text.partition(": ")
    if kind == "edit":
        edit = edits[what]
        return Action("edit", edit["path"], edit["old"], edit["new"])
    return Action(_PLAIN[kind], what.strip())
