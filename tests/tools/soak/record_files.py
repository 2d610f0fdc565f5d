"""Keeps each file of records that a soak begins, so that a rotation takes none of them away."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS = 0.05


@contextmanager
def keeping(path: Path, folder: Path) -> Iterator[list[Path]]:
    """Keep every file that is at `path`, under names of their own in `folder`; yield those."""
    kept: list[Path] = []
    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(_SECONDS):
            _keep(path, folder, kept)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield kept
    finally:
        ending.set()
        thread.join()
        _keep(path, folder, kept)


def _keep(path: Path, folder: Path, kept: list[Path]) -> None:
    """Give the file a second name, which it keeps when it is renamed or replaced."""
    name = folder / f"{len(kept)}.jsonl"
    try:
        os.link(path, name)
    except FileNotFoundError:
        return
    if kept and name.samefile(kept[-1]):
        name.unlink()
    else:
        kept.append(name)
