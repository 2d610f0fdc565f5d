"""The same work on each of many sessions, wherever it is done: in order, noted, and shown.

What holds a whole session is a worker, and what it gives back is small. So the memory that is taken
here does not grow with the sessions.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import msgspec
from rich.console import Console

from addon.commands.in_order import run_in_order
from addon.commands.journal import Entry, Journal, digest_files, digest_work
from addon.commands.sessions import Source, warn
from addon.commands.work_progress import WorkProgress, show_progress
from addon.commands.workers import Workers
from addon.replay.replay import Pause, PausedSession, RecordedRequest, Session

_Result = TypeVar("_Result")


class Done(NamedTuple, Generic[_Result]):
    """What work on a session came to; `result` is None if the session was left out."""

    result: _Result | None
    requests: int
    warning: str | None


class _Task(NamedTuple):
    """A session, and what is done with it.

    key: the journal's; empty if there is none.
    is_last: whether nothing else is done with the session.
    """

    source: Source
    arguments: tuple[object, ...]
    key: str
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWork:
    """Sessions, and how they are worked on.

    read: yields the sessions; it is called again for each run.
    size: the bytes of all of them together.
    progress: where a bar is shown, if it is a terminal.
    journal: what is done is noted there, and not done again.
    pause: is added to the sessions' times.
    warned: what the user was told already, whichever run met it.
    """

    read: Callable[[], Iterator[Source]]
    size: int
    workers: Workers
    progress: Console
    journal: Journal | None = None
    pause: Pause | None = None
    warned: set[str] = field(default_factory=set)

    def run(
        self,
        title: str,
        function: Callable[..., _Result],
        arguments: Sequence[tuple[object, ...]],
        kind: type[_Result],
        files: Sequence[str] = (),
    ) -> Iterator[_Result]:
        """Yield `function(session, *arguments)` for each session, and of each all the arguments.

        `kind` is the type of the results, which msgspec must be able to write and read; `files` are
        those that the arguments name. Sessions that cannot be replayed are left out, with a
        warning. Raises OSError and ValueError, naming the file.
        """
        keys = [self._find_keys(function, each, files) for each in arguments]
        with show_progress(self.progress, title, self.size * len(arguments)) as progress:
            run = _Run(self, function, kind, progress)
            tasks = (
                _Task(source, each, find_key(source), each is arguments[-1])
                for source in self.read()
                for each, find_key in zip(arguments, keys, strict=True)
            )
            for done in run_in_order(run.submit, tasks, self.workers.width, run.take):
                if done.result is not None:
                    yield done.result
            progress.finish()

    def _find_keys(
        self, function: Callable[..., object], arguments: tuple[object, ...], files: Sequence[str]
    ) -> Callable[[Source], str]:
        """Return what gives the journal's key of this work on a session."""
        if self.journal is None:
            return lambda _: ""
        described = (function.__qualname__, arguments, self.pause, digest_files(files))
        return partial(self.journal.make_key, digest_work(*described))


class _Run(Generic[_Result]):
    """One run over all sessions."""

    def __init__(
        self,
        work: SessionWork,
        function: Callable[..., _Result],
        kind: type[_Result],
        progress: WorkProgress,
    ) -> None:
        self._work, self._function, self._kind = work, function, kind
        self._progress = progress

    def submit(self, task: _Task) -> "Future[Done[_Result]]":
        """Look a task up in the journal, or hand it to a worker."""
        journal = self._work.journal
        entry = None if journal is None else journal.find(task.key)
        if entry is None:
            pause, executor = self._work.pause, self._work.workers.executor
            see = self._progress.see if self._work.workers.are_here else None
            return executor.submit(_do, self._function, task.source, pause, task.arguments, see)
        result: _Result | None = msgspec.convert(entry.result, self._kind | None)
        future: Future[Done[_Result]] = Future()
        future.set_result(Done(result, entry.requests, entry.warning))
        return future

    def take(self, task: _Task, done: Done[_Result]) -> None:
        """Note what was done, and show it."""
        source, journal = task.source, self._work.journal
        if done.warning is not None and done.warning not in self._work.warned:
            self._work.warned.add(done.warning)
            warn(done.warning)
        requests = done.requests if task.is_last else None
        if journal is not None and task.key in journal:
            self._progress.note_known(source.size, requests)
            return
        if journal is not None:
            result, name = msgspec.to_builtins(done.result), str(source.file)
            entry = Entry(name, source.number, done.requests, done.warning, result)
            journal.note(task.key, entry)
        self._progress.note(source.size, requests)


def _do(
    function: Callable[..., _Result],
    source: Source,
    pause: Pause | None,
    arguments: tuple[object, ...],
    see: Callable[[int], object] | None = None,
) -> Done[_Result]:
    """Open a session and work on it, wherever this runs.

    `see` is called with the number of each request of the session when it is its turn.
    """
    session, warning = source.open()
    if session is None:
        return Done(None, 0, warning)
    paused = session if pause is None else PausedSession(session, pause)
    counted = _CountedSession(paused, see)
    return Done(function(counted, *arguments), counted.count, warning)


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
