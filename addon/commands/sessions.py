"""What can be replayed: recordings of mitmproxy's, and files of conversations."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from addon.recordings.flow_session import FlowSession
from masking.replay.conversation_files import read_conversations
from masking.replay.replay import Session

_CONVERSATIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_FLOWS = (".flow", ".flow.xz", ".flows", ".mitm")


def read_sessions(paths: Iterable[Path]) -> Iterator[Session]:
    """Yield the sessions of these files and folders, by name within a folder.

    A file that is none of conversations by its ending is taken for a recording. In a folder all
    files of either kind are read, but for a `.json` that tells what a recording beside it must
    yield (see `addon.recordings.expectations`). Raises OSError and ValueError, naming the file.
    """
    for path in paths:
        for file in sorted(_find_files(path)) if path.is_dir() else (path,):
            if file.name.endswith(_CONVERSATIONS):
                yield from read_conversations(file)
            else:
                yield FlowSession(path=file)


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
