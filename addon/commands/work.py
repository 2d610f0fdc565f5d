"""The same work on each of many sessions: what `obsmask replay` and `obsmask tune` have in common.

Sessions are read one at a time, handed to workers, and their results taken in order, while a bar
shows the progress. Only a worker has a whole session in memory, and its results are small. So the
memory of this process does not grow with the sessions.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from addon.commands.workers import Workers, count_reached, open_workers, tell_reached
from addon.counts import pluralize
from addon.places import abbreviate
from addon.records.file import may_hold_records
from addon.replay.disk import find_passed_over, is_inside
from addon.replay.files import read_conversations
from addon.replay.logs import (
    FoundLogs,
    find_kind,
    find_logs,
    find_logs_at_home,
    list_homes,
    mark_copies,
    merge_newest_first,
)
from addon.replay.logs.log import LogChoice, LogFile
from addon.replay.logs.session import LogSession
from addon.replay.replay import Pause, PausedSession, RecordedRequest, Session
from masking.tokens import TokenCounter

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

# The sessions of files

_CONVERSATIONS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_FLOWS = (".flow", ".flow.xz", ".flows", ".mitm")
_ANY = (*_CONVERSATIONS, *_FLOWS, ".jsonl.zst", ".db", ".traj")
_MOST_TOLD = 3


class SessionFile(NamedTuple):
    """A file of sessions; `is_named` if it was named itself, and not found in a folder."""

    path: Path
    size: int
    is_named: bool


class Opened(NamedTuple):
    """A session, or None if it cannot be replayed, and what the user should know of it."""

    session: Session | None
    warning: str | None = None


class Source(NamedTuple):
    """One session or more that have yet to be opened. It can be pickled.

    size: about how many bytes of its file it takes.
    open: opens its sessions. Raises OSError and ValueError, with the file's name.
    """

    size: int
    open: Callable[[], Iterable[Opened]]


def give(*opened: Opened) -> Iterable[Opened]:
    """Return sessions that have been read, as a source that is opened does."""
    return opened


def _open_recording(file: SessionFile) -> Iterator[Opened]:
    """Open a recording. One that cannot be replayed is left out, unless it was named itself."""
    # mitmproxy takes a second to import, and a log needs nothing of it.
    from addon.recordings.flows import open_recording

    try:
        session = open_recording(file.path)
    except (OSError, ValueError) as error:
        if file.is_named:
            raise
        yield Opened(None, f"left out: {error}")
    else:
        yield Opened(session, session.damage)


def _open_log(log: LogFile, project: str | None, *, is_named: bool) -> Iterator[Opened]:
    """Open the sessions of an agent's log: those of one project, or all.

    A log that cannot be read is left out, unless it was named itself.
    """
    try:
        for conversation in find_kind(log.agent).read(log):
            if project is None or project == conversation.project:
                yield Opened(LogSession(conversation, counter()))
    except (OSError, ValueError) as error:
        if is_named:
            raise
        yield Opened(None, f"left out: {error}")


@cache
def counter() -> TokenCounter:
    """Return this process's own."""
    return TokenCounter()


def list_files(paths: Iterable[Path]) -> list[SessionFile]:
    """Return the files of sessions, by name within a folder.

    A file is taken for a recording unless its ending is that of conversations. In a folder all
    files of both kinds are read, except a `.json` that says what a recording beside it must yield
    (see `tests.tools.golden`). Raises OSError if one is not there.
    """
    return [
        SessionFile(file, file.stat().st_size, is_named=file is path)
        for path in paths
        for file in (sorted(_find_files(path)) if path.is_dir() else (path,))
    ]


def _find_files(folder: Path) -> Iterator[Path]:
    root = folder.resolve()
    for file in folder.iterdir():
        is_one = file.name.endswith((*_CONVERSATIONS, *_FLOWS)) and not _is_golden_file(file)
        if is_one and is_inside(file, root):
            yield file


def _is_golden_file(file: Path) -> bool:
    """Whether there is a recording of the same name, or of all but its last part beside a TOML."""
    if file.suffix != ".json":
        return False
    names = [file, file.with_suffix("")] if file.with_suffix(".toml").exists() else [file]
    return any(name.with_suffix(ending).exists() for name in names for ending in _FLOWS)


def read_sources(files: Sequence[SessionFile]) -> Iterator[Source]:
    """Yield the sessions of files: conversations one at a time, recordings before they are read.

    A file of conversations that cannot be read is left out, unless it was named itself: then
    OSError or ValueError is raised.
    """
    for file in files:
        path, size, is_named = file
        if path.name.endswith(_CONVERSATIONS):
            try:
                for conversation in read_conversations(path):
                    yield Source(conversation.size, partial(give, Opened(conversation)))
            except (OSError, ValueError) as error:
                problem: Exception = error
                if isinstance(error, ValueError) and may_hold_records(path):
                    problem = ValueError(f"{path}: {_RECORDS}")
                if is_named:
                    raise problem from None
                yield Source(0, partial(give, Opened(None, f"left out: {problem}")))
        else:
            yield Source(size, partial(_open_recording, file))


_RECORDS = (
    "holds records, which say what became of requests and not what was in them: obsmask status "
    "--records shows them, and without a path the logs of your agents are read"
)


class FoundSessions(NamedTuple):
    """What is to be replayed: logs by agent and place, and other files."""

    logs: Sequence[FoundLogs]
    named: frozenset[Path]
    files: Sequence[SessionFile]

    @property
    def size(self) -> int:
        """How many bytes all of it takes."""
        logs = sum(log.size for found in self.logs for log in found.logs)
        return logs + sum(file.size for file in self.files)

    def read(self, project: str | None) -> Iterator[Source]:
        """Yield the logs, the newest first, and then the sessions of the other files."""
        for log in merge_newest_first(self.logs):
            is_named = log.path in self.named
            yield Source(log.size, partial(_open_log, log, project, is_named=is_named))
        yield from read_sources(self.files)


def find_sessions(paths: Sequence[Path], choice: LogChoice) -> FoundSessions:
    """Return what is at these paths; without any, the logs where agents keep them.

    Raises OSError if a path is not there, and ValueError where agents keep no logs.
    """
    _tell_passed_over(paths or [place for _, place in list_homes(Path.home(), os.environ)])
    if not paths:
        home = Path.home()
        found = find_logs_at_home(home, os.environ, choice.since)
        if not found:
            raise ValueError(_describe_homes(home, choice.since))
        return FoundSessions(mark_copies(found), frozenset(), ())
    found, files = [], list[SessionFile]()
    for path in paths:
        logs = find_logs(path)
        are_logs = {place for each in logs for log in each.logs for place in (log.path, log.folder)}
        files += [
            file
            for file in list_files([path])
            if are_logs.isdisjoint((file.path, *file.path.parents))
        ]
        for each in logs:
            new = tuple(x for x in each.logs if choice.since is None or x.changed >= choice.since)
            found.append(each._replace(logs=new))
    return FoundSessions(mark_copies(found), frozenset(paths), files)


def _tell_passed_over(paths: Iterable[Path]) -> None:
    """Say which files of folders are not read, whatever is in them."""
    odd = {file: None for path in paths for file in find_passed_over(path, _ANY)}
    for file in islice(odd, _MOST_TOLD):
        _warn(f"left out: {file}: not a regular file in this folder")
    if len(odd) > _MOST_TOLD:
        _warn(f"left out: {pluralize(len(odd) - _MOST_TOLD, 'more file')} of that kind")


def _describe_homes(home: Path, since: datetime | None) -> str:
    """Return in which places no log was found."""
    homes = list_homes(home, os.environ)
    places = [f"{abbreviate(place)} ({agent})" for agent, place in homes]
    newer = "" if since is None else f" written to since {since.astimezone():%Y-%m-%d}"
    return (
        f"no log of an agent{newer} was found. Looked in {', '.join(places)}. "
        "For others: obsmask replay FILE_OR_FOLDER"
    )


def _warn(problem: str) -> None:
    print(f"obsmask: {problem}", file=sys.stderr)


# The work on each of them

_FEW = 8
"""Up to so many sessions are replayed in this process: to start others takes a second or two."""


_FEW_BYTES = 20_000_000
"""The same for the bytes of their files."""


@contextmanager
def open_work(
    paths: Sequence[Path],
    *,
    processes: int | None = None,
    scheduler: str | None = None,
    pause: Pause | None = None,
    choice: LogChoice = LogChoice(),  # noqa: B008
    starts_for_few: bool,
) -> Iterator["SessionWork"]:
    """Yield the work on the sessions of these files and folders, or of the agents' own logs.

    Without a number of `processes`, few sessions are worked on in this process alone, unless it
    `starts_for_few`. Raises OSError and ValueError for files that cannot be read, and as
    `open_workers`.
    """
    found = find_sessions(paths, choice)
    if processes is None and not starts_for_few:
        sources = islice(found.read(choice.project), _FEW + 1)
        is_little = not found.logs or found.size <= _FEW_BYTES
        processes = 1 if is_little and sum(1 for _ in sources) <= _FEW else None
    with open_workers(scheduler, processes) as workers:
        yield SessionWork(
            found=found,
            read=partial(found.read, choice.project),
            size=found.size,
            workers=workers,
            progress=Console(stderr=True),
            pause=pause,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWork:
    """Sessions, and how they are worked on.

    found: where they are.
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
    found: FoundSessions = field(default_factory=lambda: FoundSessions((), frozenset(), ()))
    warned: set[str] = field(default_factory=set)

    def run(
        self,
        title: str,
        function: Callable[..., _Result],
        arguments: Sequence[tuple[object, ...]],
        headline: Callable[[], str] | None = None,
    ) -> Iterator[_Result]:
        """Yield `function(session, *arguments)` for each session, and of each all the arguments.

        With a `headline`, which says what is known so far, results come as soon as they are there,
        and it is shown above the bar. Else they come in the order of the sessions. Sessions that
        cannot be replayed are left out, with a warning. Raises OSError and ValueError, naming the
        file.
        """
        total = self.size * len(arguments)
        with show_progress(self.progress, title, total, headline) as progress:

            def submit(task: "_SessionTask") -> "Future[_Done[_Result]]":
                executor = self.workers.executor
                return executor.submit(_do, function, task.source, self.pause, task.arguments)

            def take(task: "_SessionTask", done: "_Done[_Result]") -> None:
                for warning in done.warnings:
                    if warning not in self.warned:
                        self.warned.add(warning)
                        _warn(warning)
                progress.add(
                    task.source.size, done.requests if task.is_last else None, len(done.results)
                )

            tasks = (
                _SessionTask(source, each, each is arguments[-1])
                for source in self.read()
                for each in arguments
            )
            results = run_tasks(submit, tasks, self.workers.width, take, in_order=headline is None)
            for done in results:
                yield from done.results
            progress.finish()


class _SessionTask(NamedTuple):
    """Sessions of a source, and what is done with them; `is_last` if nothing else is."""

    source: Source
    arguments: tuple[object, ...]
    is_last: bool


class _Done(NamedTuple, Generic[_Result]):
    """The results of work on the sessions of a source, without those that were left out."""

    results: Sequence[_Result]
    requests: int
    warnings: Sequence[str]


def _do(
    function: Callable[..., _Result],
    source: Source,
    pause: Pause | None,
    arguments: tuple[object, ...],
) -> _Done[_Result]:
    """Open the sessions of a source and work on each, wherever this runs."""
    results, requests, warnings = list[_Result](), 0, list[str]()
    for session, warning in source.open():
        if warning is not None:
            warnings.append(warning)
        if session is not None:
            counted = _CountedSession(
                session if pause is None else PausedSession(session, pause), requests
            )
            results.append(function(counted, *arguments))
            requests += counted.count
    tell_reached(0)
    return _Done(results, requests, warnings)


class _CountedSession:
    """A session that knows how many requests it has, once they were read.

    before: how many the task has read of other sessions.
    """

    def __init__(self, session: Session, before: int) -> None:
        self.session = session
        self._before = before
        self.count = 0

    @property
    def name(self) -> str:
        """The name under which it is shown."""
        return self.session.name

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests."""
        for number, recorded in enumerate(self.session.requests(), 1):
            self.count = max(self.count, number)
            tell_reached(self._before + number)
            yield recorded


def log_of(session: Session) -> LogSession | None:
    """Return the session of a log behind one that a function was called with; None for others."""
    inner = session.session if isinstance(session, _CountedSession) else session
    inner = inner.session if isinstance(inner, PausedSession) else inner
    return inner if isinstance(inner, LogSession) else None


# Their results


_PER_WORKER = 4
"""Tasks under way for each that runs at a time: the next is there before one is done."""

_WAITING = 256
"""Results that may wait for an earlier one. Beyond that no task is begun."""


def run_tasks(
    submit: Callable[[_Task], "Future[_Result]"],
    tasks: Iterable[_Task],
    width: int,
    on_done: Callable[[_Task, _Result], None],
    *,
    in_order: bool,
) -> Iterator[_Result]:
    """Yield the results of tasks, of which `width` run at a time.

    Few tasks are under way at a time, and few results wait, so that any number of tasks takes
    bounded memory: a task may hold a whole conversation. (`Executor.map` begins all of them.)

    in_order: whether results come in the order of the tasks, or each as soon as it is there.
    on_done: is called with a task and its result as soon as it is done, in this thread.

    Raises what a task raises, and cancels those that have not begun.
    """
    left = iter(tasks)
    running: dict[Future[_Result], _Task] = {}
    results: list[Future[_Result]] = []
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
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                on_done(running.pop(future), future.result())
            choose = takewhile if in_order else filter
            for future in [*choose(lambda each: each not in running, results)]:
                results.remove(future)
                yield future.result()
    finally:
        for future in running:
            future.cancel()


# What shows how far they are: a bar on a terminal, else a line now and then

_BAR = 8
_PERIOD = 600.0
"""The seconds over which speed is averaged: one session may take minutes."""

_FIRST_LINE, _LINES_APART = 5.0, 2.0
"""The first line comes after so many seconds, each further one after so many times as many, and one
as soon as anything is known."""

_LOOKS_APART = 0.25
"""In seconds."""


class WorkProgress:
    """How far the work is, by the bytes of the sessions: what is done, how fast, what is left."""

    def __init__(
        self,
        progress: Progress,
        title: str,
        size: int,
        headline: Callable[[], str] | None,
    ) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=size, done="")
        self._title, self._size, self._headline = title, size, headline
        self._sessions = self._requests = self._bytes = 0
        self._began = time.monotonic()

    def add(self, size: int, requests: int | None, sessions: int = 1) -> None:
        """Count work on sessions of so many requests; None if there is more to do on them."""
        if requests is not None:
            self._sessions += sessions
            self._requests += requests
        self._bytes += size
        self._progress.update(self._task, advance=size)
        self.refresh()

    def refresh(self) -> None:
        """Show how many requests are done, those of sessions under way included.

        A session may take many minutes.
        """
        self._progress.update(self._task, done=self._count())

    def _count(self) -> str:
        requests = self._requests + count_reached()
        rate = requests / max(time.monotonic() - self._began, 1e-9)
        counts = f"{pluralize(self._sessions, 'session')}, {pluralize(requests, 'request')}"
        return f"{counts}, {rate:,.0f}/s"

    def describe(self) -> str:
        """Return a line that says how far the work is."""
        part = self._bytes / self._size if self._size else 0.0
        known = f" {line}" if self._headline and (line := self._headline()) else ""
        return f"obsmask {self._title}: {part:.0%}, {self._count()}.{known}"

    def finish(self) -> None:
        """Fill the bar: how much of a file each session takes is an estimate."""
        self._progress.update(self._task, completed=self._size, total=self._size)


class _HeadedProgress(Progress):
    """A bar with what is known so far above it."""

    headline: Callable[[], str] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the parts of the display, from top to bottom."""
        if self.headline is not None and (line := self.headline()):
            yield Text(line)
        yield self.make_tasks_table(self.tasks)


@contextmanager
def show_progress(
    console: Console,
    title: str,
    size: int,
    headline: Callable[[], str] | None = None,
) -> Iterator[WorkProgress]:
    """Show how far the work on so many bytes of sessions is while the block runs.

    A terminal gets a bar, which goes away with a `headline` above it. Else there is a line after a
    few seconds, and from then on each after twice as long.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(_BAR),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    bar = _HeadedProgress(
        *columns,
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=_PERIOD,
        transient=headline is not None,
    )
    bar.headline = headline
    over = threading.Event()
    with bar:
        progress = WorkProgress(bar, title, size, headline)

        def print_lines() -> None:
            began, due, is_known = time.monotonic(), _FIRST_LINE, False
            while not over.wait(_LOOKS_APART):
                passed = time.monotonic() - began
                is_new = not is_known and headline is not None and bool(headline())
                if passed >= due or is_new:
                    print(progress.describe(), file=sys.stderr, flush=True)
                    due = max(_FIRST_LINE, passed) * _LINES_APART
                    is_known = is_known or is_new

        def refresh() -> None:
            while not over.wait(_LOOKS_APART):
                progress.refresh()

        shown = refresh if console.is_terminal else print_lines
        thread = threading.Thread(target=shown, daemon=True)
        thread.start()
        try:
            yield progress
        finally:
            over.set()
            thread.join()
            progress.refresh()
