"""Processes that are running, and the environment in which each was started; on Linux alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Process(NamedTuple):
    """A process, and the environment in which it was started."""

    pid: int
    environment: Mapping[str, str]


def find_processes(argument: str) -> Iterator[Process]:
    """Yield the user's processes that were started with this argument."""
    for folder in _PROC.glob("[0-9]*"):
        try:
            if argument in _read_texts(folder / "cmdline"):
                variables = (text.partition("=") for text in _read_texts(folder / "environ"))
                found = {name: value for name, _, value in variables}
                yield Process(int(folder.name), found)
        except OSError:  # it has ended, or is another user's
            continue


def _read_texts(file: Path) -> list[str]:
    return file.read_bytes().decode(errors="replace").split("\0")
