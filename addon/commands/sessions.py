"""What can be replayed: mitmproxy recordings, and files of conversations."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from addon.recordings.flow_session import FlowSession, open_recording
from masking.replay.conversation_files import read_conversations
from masking.replay.replay import Session

_CONVERSATIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_FLOWS = (".flow", ".flow.xz", ".flows", ".mitm")


def read_sessions(paths: Iterable[Path]) -> Iterator[Session]:
    """Yield the sessions of these files and folders, by name within a folder.

    A file is taken for a recording unless its ending is that of conversations. In a folder all
    files of both kinds are read, except a `.json` that says what a recording beside it must yield
    (see `addon.recordings.expectations`). Recordings of a folder that cannot be replayed are left
    out, with a warning. Raises OSError and ValueError, with the file's name.
    """
    for path in paths:
        for file in sorted(_find_files(path)) if path.is_dir() else (path,):
            if file.name.endswith(_CONVERSATIONS):
                yield from read_conversations(file)
            elif session := _open_recording(file, is_alone=file is path):
                yield session


def _open_recording(file: Path, *, is_alone: bool) -> FlowSession | None:
    try:
        session = open_recording(file)
    except (OSError, ValueError) as error:
        if is_alone:
            raise
        _warn(f"left out: {error}")
        return None
    if session.damage:
        _warn(session.damage)
    return session


def _warn(problem: str) -> None:
    print(f"obsmask: {problem}", file=sys.stderr)


def _find_files(folder: Path) -> Iterator[Path]:
    for file in folder.iterdir():
        if file.name.endswith((*_CONVERSATIONS, *_FLOWS)) and not _is_expectation(file):
            yield file


def _is_expectation(file: Path) -> bool:
    """Whether there is a recording of the same name, or of all but its last part beside a TOML."""
    if file.suffix != ".json":
        return False
    names = [file, file.with_suffix("")] if file.with_suffix(".toml").exists() else [file]
    return any(name.with_suffix(ending).exists() for name in names for ending in _FLOWS)
