"""What can be replayed: mitmproxy recordings, and files of conversations."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from addon.recordings.flow_session import open_recording
from addon.replay.files import RecordedConversation, read_conversations
from addon.replay.replay import Session

_CONVERSATIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_FLOWS = (".flow", ".flow.xz", ".flows", ".mitm")


class SessionFile(NamedTuple):
    """A file of sessions; `is_named` if it was named itself, and not found in a folder."""

    path: Path
    size: int
    is_named: bool


class Opened(NamedTuple):
    """A session, or None if it cannot be replayed, and what the user should know of it."""

    session: Session | None
    warning: str | None = None


class Source(Protocol):
    """A session that has yet to be opened. It can be pickled."""

    @property
    def file(self) -> Path:
        """The file that it is in."""

    @property
    def number(self) -> int:
        """Which of the file's sessions it is, from 1."""

    @property
    def size(self) -> int:
        """About how many bytes of the file it takes."""

    def open(self) -> Opened:
        """Open it. Raises OSError and ValueError, with the file's name."""


class RecordingSource(NamedTuple):
    """A recording of mitmproxy's, which is one session."""

    file: Path
    size: int
    is_named: bool
    number: int = 1

    def open(self) -> Opened:
        """Open it; what cannot be replayed is left out, unless it was named itself."""
        try:
            session = open_recording(self.file)
        except (OSError, ValueError) as error:
            if self.is_named:
                raise
            return Opened(None, f"left out: {error}")
        return Opened(session, session.damage)


class ConversationSource(NamedTuple):
    """A conversation of a file, which was read already."""

    file: Path
    size: int
    number: int
    conversation: RecordedConversation

    def open(self) -> Opened:
        """Return the conversation."""
        return Opened(self.conversation)


def read_sessions(paths: Iterable[Path]) -> Iterator[Session]:
    """Yield the sessions of these files and folders, in the order of `list_files`.

    Recordings of a folder that cannot be replayed are left out, with a warning. Raises OSError and
    ValueError, with the file's name.
    """
    for source in read_sources(list_files(paths)):
        session, warning = source.open()
        if warning is not None:
            warn(warning)
        if session is not None:
            yield session


def list_files(paths: Iterable[Path]) -> list[SessionFile]:
    """Return the files of sessions, by name within a folder.

    A file is taken for a recording unless its ending is that of conversations. In a folder all
    files of both kinds are read, except a `.json` that says what a recording beside it must yield
    (see `addon.recordings.expectations`). Raises OSError if one is not there.
    """
    return [
        SessionFile(file, file.stat().st_size, is_named=file is path)
        for path in paths
        for file in (sorted(_find_files(path)) if path.is_dir() else (path,))
    ]


def read_sources(files: Sequence[SessionFile]) -> Iterator[Source]:
    """Yield the sessions of files. Conversations are read one at a time, recordings not yet.

    Raises OSError and ValueError, with the file's name, for conversations.
    """
    for path, size, is_named in files:
        if path.name.endswith(_CONVERSATIONS):
            for number, conversation in enumerate(read_conversations(path), 1):
                yield ConversationSource(path, conversation.size, number, conversation)
        else:
            yield RecordingSource(path, size, is_named)


def warn(problem: str) -> None:
    """Print a problem that ends nothing."""
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
