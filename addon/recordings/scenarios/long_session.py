"""A session as long as real ones: some 80 tool turns on a project of 25 files.

The project, a small spreadsheet engine with eight mistakes in it, and the story are files of their
own, in a folder whose name is no identifier, so that none of them is imported by accident. The
story has the shape of real work: long files are read once and edited some twenty turns later, tests
are run again and again, and calls fail now and then.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli

from addon.recordings.scenarios.scratch import Act, Step, read, shell

MODEL = "gpt-5.5"

FOLDER = Path(__file__).with_name("cells-session")


def write_project(folder: Path) -> None:
    """Write the project into `folder`, which is made where it is missing."""
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(FOLDER / "project", folder, ignore=unwanted, dirs_exist_ok=True)


def read_act(text: str) -> Act:
    """Read a story: what the user asks, what the model does about it, and what it says then.

    A step is `read: FILE`, `shell: COMMAND` or `edit: NAME`, the latter being a table of
    its own with `path`, `old` and `new`.
    """
    story = tomli.loads(text)
    turns = (tuple(_read_step(step, story["edits"]) for step in turn) for turn in story["turns"])
    return Act(story["task"], tuple(turns), story["ending"])


def _read_step(text: str, edits: Mapping[str, Any]) -> Step:
    kind, _, what = text.partition(": ")
    if kind == "edit":
        edit = edits[what]
        return Step("edit", edit["path"], edit["old"], edit["new"])
    return {"read": read, "shell": shell}[kind](what.strip())


ACTS = (read_act((FOLDER / "story.toml").read_text(encoding="utf-8")),)
