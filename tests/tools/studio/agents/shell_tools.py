"""What the small agents of this folder can do: run a command, and read a file."""

import subprocess
from collections.abc import Callable
from pathlib import Path

SYSTEM = "You work in the current folder by running shell commands, until the task is done."


def run_command(command: str) -> str:
    """Return both outputs of a command, and its exit code if that is not 0."""
    done = subprocess.run(  # running what the model says is what an agent does
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout + (f"Exit code: {done.returncode}\n" if done.returncode else "")


def read_file(path: str) -> str:
    """Return the text of a file, or why there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        return f"{error}\n"


TOOLS: dict[str, Callable[..., str]] = {"shell": run_command, "read_file": read_file}

PURPOSES = {
    "shell": ("Runs a command and gives back its output.", "command", "What to run."),
    "read_file": ("Reads a file and gives back its text.", "path", "Which file."),
}
"""What each tool is for, its argument, and what that means."""


def describe_argument(name: str) -> dict[str, object]:
    """Return the schema of a tool's arguments."""
    _, argument, meaning = PURPOSES[name]
    return {
        "type": "object",
        "properties": {argument: {"type": "string", "description": meaning}},
        "required": [argument],
    }
