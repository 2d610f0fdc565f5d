"""The same work on each of many sessions: what `obsmask replay` and `obsmask tune` have in common.

Sessions are read one at a time, handed to workers, and their results taken in order, while a bar
shows the progress. Only a worker has a whole session in memory, and its results are small. So the
memory of this process does not grow with the sessions.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from addon.commands.workers import Workers, open_workers
from addon.recordings.flows import open_recording
from addon.replay.files import RecordedConversation, read_conversations
from addon.replay.replay import Pause, PausedSession, RecordedRequest, Session

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

# The sessions of files

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
    def size(self) -> int:
        """About how many bytes of its file it takes."""

    def open(self) -> Opened:
        """Open it. Raises OSError and ValueError, with the file's name."""


class RecordingSource(NamedTuple):
    """A recording of mitmproxy's, which is one session."""

    file: Path
    size: int
    is_named: bool

    def open(self) -> Opened:
        """Open it. One that cannot be replayed is left out, unless it was named itself."""
        try:
            session = open_recording(self.file)
        except (OSError, ValueError) as error:
            if self.is_named:
                raise
            return Opened(None, f"left out: {error}")
        return Opened(session, session.damage)


class ConversationSource(NamedTuple):
    """A conversation of a file, which has been read."""

    size: int
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
            _warn(warning)
        if session is not None:
            yield session


def list_files(paths: Iterable[Path]) -> list[SessionFile]:
    """Return the files of sessions, by name within a folder.

    A file is taken for a recording unless its ending is that of conversations. In a folder all
    files of both kinds are read, except a `.json` that says what a recording beside it must yield
    (see `tests.golden`). Raises OSError if one is not there.
    """
    return [
        SessionFile(file, file.stat().st_size, is_named=file is path)
        for path in paths
        for file in (sorted(_find_files(path)) if path.is_dir() else (path,))
    ]


def _find_files(folder: Path) -> Iterator[Path]:
    for file in folder.iterdir():
        if file.name.endswith((*_CONVERSATIONS, *_FLOWS)) and not _is_golden_file(file):
            yield file


def _is_golden_file(file: Path) -> bool:
    """Whether there is a recording of the same name, or of all but its last part beside a TOML."""
    if file.suffix != ".json":
        return False
    names = [file, file.with_suffix("")] if file.with_suffix(".toml").exists() else [file]
    return any(name.with_suffix(ending).exists() for name in names for ending in _FLOWS)


def read_sources(files: Sequence[SessionFile]) -> Iterator[Source]:
    """Yield the sessions of files: conversations one at a time, recordings before they are read.

    Raises OSError and ValueError, with the file's name, for conversations.
    """
    for path, size, is_named in files:
        if path.name.endswith(_CONVERSATIONS):
            for conversation in read_conversations(path):
                yield ConversationSource(conversation.size, conversation)
        else:
            yield RecordingSource(path, size, is_named)


def _warn(problem: str) -> None:
    print(f"obsmask: {problem}", file=sys.stderr)


# The work on each of them

_FEW = 8
"""Up to so many sessions are replayed in this process: to start others takes a second or two."""


@contextmanager
def open_work(
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    scheduler: str | None = None,
    pause: Pause | None = None,
    starts_for_few: bool,
) -> Iterator["SessionWork"]:
    """Yield the work on the sessions of these files and folders.

    Without a number of `processes`, few sessions are worked on in this process alone, unless it
    `starts_for_few`. Raises OSError and ValueError for files that cannot be read, and as
    `open_workers`.
    """
    files = list_files(paths)
    if processes is None and not starts_for_few:
        sources = islice(read_sources(files), _FEW + 1)
        processes = 1 if sum(1 for _ in sources) <= _FEW else None
    with open_workers(scheduler, processes) as workers:
        yield SessionWork(
            read=partial(read_sources, files),
            size=sum(file.size for file in files),
            workers=workers,
            progress=Console(stderr=True),
            pause=pause,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWork:
    """Sessions, and how they are worked on.

    read: yields the sessions; it is called again for each run.
    size: the bytes of all of them together.
    progress: where a bar is shown, if it is a terminal.
    pause: is added to the sessions' times.
    warned: the warnings that were printed, whichever run met their cause.
    """

    read: Callable[[], Iterator[Source]]
    size: int
    workers: Workers
    progress: Console
    pause: Pause | None = None
    warned: set[str] = field(default_factory=set)

    def run(
        self,
        title: str,
        function: Callable[..., _Result],
        arguments: Sequence[tuple[object, ...]],
    ) -> Iterator[_Result]:
        """Yield `function(session, *arguments)` for each session, and of each all the arguments.

        Sessions that cannot be replayed are left out, with a warning. Raises OSError and
        ValueError, naming the file.
        """
        with show_progress(self.progress, title, self.size * len(arguments)) as progress:

            def submit(task: "_SessionTask") -> "Future[_Done[_Result]]":
                see = progress.see if self.workers.are_here else None
                executor = self.workers.executor
                return executor.submit(_do, function, task.source, self.pause, task.arguments, see)

            def take(task: "_SessionTask", done: "_Done[_Result]") -> None:
                if done.warning is not None and done.warning not in self.warned:
                    self.warned.add(done.warning)
                    _warn(done.warning)
                progress.add(task.source.size, done.requests if task.is_last else None)

            tasks = (
                _SessionTask(source, each, each is arguments[-1])
                for source in self.read()
                for each in arguments
            )
            for done in run_in_order(submit, tasks, self.workers.width, take):
                if done.result is not None:
                    yield done.result
            progress.finish()


class _SessionTask(NamedTuple):
    """A session, and what is done with it; `is_last` if nothing else is done with it."""

    source: Source
    arguments: tuple[object, ...]
    is_last: bool


class _Done(NamedTuple, Generic[_Result]):
    """The result of work on a session: None if the session was left out."""

    result: _Result | None
    requests: int
    warning: str | None


def _do(
    function: Callable[..., _Result],
    source: Source,
    pause: Pause | None,
    arguments: tuple[object, ...],
    see: Callable[[int], object] | None = None,
) -> _Done[_Result]:
    """Open a session and work on it, wherever this runs.

    `see` is called with the number of each request of the session when it is its turn.
    """
    session, warning = source.open()
    if session is None:
        return _Done(None, 0, warning)
    counted = _CountedSession(session if pause is None else PausedSession(session, pause), see)
    return _Done(function(counted, *arguments), counted.count, warning)


class _CountedSession:
    """A session that knows how many requests it has, once they were read."""

    def __init__(self, session: Session, see: Callable[[int], object] | None) -> None:
        self._session, self._see = session, see
        self.count = 0

    @property
    def name(self) -> str:
        """The name under which it is shown."""
        return self._session.name

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests."""
        for number, recorded in enumerate(self._session.requests(), 1):
            self.count = max(self.count, number)
            if self._see is not None:
                self._see(number)
            yield recorded


# Their results in order

_PER_WORKER = 4
"""Tasks under way for each that runs at a time: the next is there before one is done."""

_WAITING = 256
"""Results that may wait for an earlier one. Beyond that no task is begun."""


def run_in_order(
    submit: Callable[[_Task], "Future[_Result]"],
    tasks: Iterable[_Task],
    width: int,
    on_done: Callable[[_Task, _Result], None],
) -> Iterator[_Result]:
    """Yield the results of tasks in the order of the tasks; `width` of them run at a time.

    Few tasks are under way at a time, and few results wait, so that any number of tasks takes
    bounded memory: a task may hold a whole conversation.

    `on_done` is called with a task and its result as soon as it is done, in this thread. Raises
    what a task raises, and cancels those that have not begun.
    """
    left = iter(tasks)
    running: dict[Future[_Result], _Task] = {}
    results: deque[Future[_Result]] = deque()
    try:
        while True:
            room = min(_PER_WORKER * width - len(running), _WAITING - len(results))
            for task in islice(left, max(0, room)):
                future = submit(task)
                running[future] = task
                results.append(future)
                if future.done():  # it ran here; hand it on before the next
                    break
            if not results:
                return
            done = wait(running, return_when=FIRST_COMPLETED).done
            for future in [each for each in running if each in done]:
                on_done(running.pop(future), future.result())
            while results and results[0] not in running:
                yield results.popleft().result()
    finally:
        for future in running:
            future.cancel()


# The bar that shows how far they are

_BAR = 8
_PERIOD = 600.0
"""The seconds over which speed is averaged: one session may take minutes."""


class WorkProgress:
    """A bar by the bytes of the sessions; beside it what is done, how fast, and what is left."""

    def __init__(self, progress: Progress, title: str, size: int) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=size, done="")
        self._size = size
        self._sessions = self._requests = self._seen = 0
        self._began = time.monotonic()

    def add(self, size: int, requests: int | None) -> None:
        """Count work on a session of so many requests; None if there is more to do on it."""
        if requests is not None:
            self._sessions += 1
            self._requests += requests
            self.see(0)
        self._progress.update(self._task, advance=size)

    def see(self, number: int) -> None:
        """Show which request of a session it is the turn of: a session may take many minutes."""
        self._seen = number
        requests = self._requests + number
        rate = requests / max(time.monotonic() - self._began, 1e-9)
        done = f"{self._sessions:,} sessions, {requests:,} requests, {rate:,.0f}/s"
        self._progress.update(self._task, done=done)

    def finish(self) -> None:
        """Fill the bar: how much of a file each session takes is an estimate."""
        self._progress.update(self._task, completed=self._size, total=self._size)


@contextmanager
def show_progress(console: Console, title: str, size: int) -> Iterator[WorkProgress]:
    """Show a bar for so many bytes of sessions while the block runs, if this is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(_BAR),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    off = not console.is_terminal
    with Progress(
        *columns, console=console, disable=off, speed_estimate_period=_PERIOD
    ) as progress:
        yield WorkProgress(progress, title, size)
