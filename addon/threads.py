"""Threads of our own, so that work never delays other traffic, nor the stop.

`Worker` does jobs in a thread. `Pool` has the threads in which bodies are worked on: few, and one
alone for what is large. `LoopLog` logs in the thread of the event loop.
"""

import asyncio
import contextlib
import gc
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

logger = logging.getLogger("observation_masking")

Log = Callable[[int, str], object]
"""What logs a line at a level."""

_Result = TypeVar("_Result")


class Worker:
    """Does jobs one after the other, or in so many threads.

    A job that fails is a warning, which says the `problem`, and of the error its type alone: its
    message may quote content.
    A job that never ends, as on a file system that does not answer, keeps no process from ending.
    """

    def __init__(self, name: str, threads: int = 1, *, problem: str = "a job failed") -> None:
        self._name, self._count, self._problem = name, threads, problem
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(
        self, job: Callable[[], _Result], *, can_be_cancelled: bool = True
    ) -> "Future[_Result | None]":
        """Do a job soon. Its result is None if it fails, or if the worker is closed.

        A job that waits is not begun once its future is cancelled, unless that cannot be.
        """
        future: Future[_Result | None] = Future()
        if not can_be_cancelled:
            future.set_running_or_notify_cancel()
        with self._lock:
            if not self._is_closed:
                self._threads = self._threads or self._start()
                self._jobs.put((job, future))
                return future
        future.set_result(None)  # the proxy is ending
        return future

    def close(self, seconds: float | None = None) -> bool:
        """Wait for all pending jobs, at most so long; return whether all of them are done.

        Those that are not begun by then never are.
        """
        with self._lock:
            self._is_closed = True
        end = None if seconds is None else time.monotonic() + seconds
        self._end_threads()
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            return True
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        self._end_threads()
        return False

    def _start(self) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._work, name=self._name, daemon=True)
            for _ in range(self._count)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _end_threads(self) -> None:
        """Have each thread end after the job that it is at."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (todo := self._jobs.get()) is not None:
            job, future = todo
            if future.running() or future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except Exception as error:  # noqa: BLE001 - the next job must not fail with it
                    logger.warning(f"{self._problem} ({type(error).__name__})")
                    future.set_result(None)
            del todo, job, future  # and with them what they hold, before the next job comes


class LoopLog:
    """Logs in the thread of the event loop, whichever thread a line comes from.

    mitmproxy prints its own lines there, and prints a text and its line end separately: lines
    logged by another thread would run into them. Without an event loop, lines are logged at once.
    """

    def __init__(self) -> None:
        self._lines: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._is_awaited = False
        """Whether the event loop knows that lines wait."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """From now on, log in the thread of the event loop that is running here, if any."""
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def log(self, level: int, line: str) -> None:
        """Log a line as soon as the event loop has time for it."""
        self._lines.put((level, line))
        if self._loop is None:
            self.flush()
        elif not self._is_awaited:
            self._is_awaited = True
            with contextlib.suppress(RuntimeError):  # closed: what is left is flushed
                self._loop.call_soon_threadsafe(self.flush)

    def warn(self, lines: Iterable[str]) -> None:
        """Log some lines as warnings."""
        for line in lines:
            self.log(logging.WARNING, line)

    def flush(self) -> None:
        """Log the waiting lines, in order. To be called in the thread of the loop."""
        self._is_awaited = False  # a line that comes from here on is waited for again
        with contextlib.suppress(Empty):
            while True:
                logger.log(*self._lines.get_nowait())


_THREADS = 2

_SWITCH_SECONDS = 0.0005
"""How long the event loop waits for each of its turns while a body is worked on; an exchange takes
many. Python has it wait ten times as long."""


def share_interpreter() -> None:
    """Have the threads of this process take turns more often than Python has them do.

    What is loaded by now stays, so the collector, which stops all of them, is spared it.

    Without this, other connections wait a quarter longer while large bodies are worked on (the
    mean, and the 99th percentile; `tests.tools.benchmarks.load`).
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()


class Pool:
    """The threads in which requests and answers are worked on; they start with their first work.

    They are few, and one alone for what is large. Such work is Python, of which one thread runs at
    a time: more threads would end none of it sooner, and have the event loop, with all other
    traffic, wait longer for its turn. Who comes too late waits. A request is never sent unmasked
    because of that, which would break its cached prefix. Without the thread for large bodies, other
    connections wait three times as long beside these (`tests.tools.benchmarks.load`). The threads
    are not asyncio's own, because those also resolve names.
    """

    def __init__(self) -> None:
        self._small, self._large = Worker("mask", _THREADS), Worker("mask large")

    async def run(self, size: int, work: Callable[[], _Result]) -> _Result | None:
        """Return what work on so many bytes comes to; None if it fails, or if the run has ended."""
        if size < LARGE_BYTES:
            return await asyncio.wrap_future(self._small.submit(work))
        wait = Wait()

        def job() -> _Result:
            with large_work(size, is_last=False):
                wait.end()
                return work()

        try:
            return await asyncio.wrap_future(self._large.submit(job))
        finally:
            wait.end()  # it may never have had its turn

    def close(self) -> None:
        """Begin no further work, and wait for none."""
        self._small.close(0.0)
        self._large.close(0.0)


# Work on a large body: one at a time, once the main thread has little to do, without collections.
#
# Other connections wait for two things. The interpreter runs one thread at a time, so the main one,
# with the event loop, shares it with each thread that works. And Python's collector of cyclic
# garbage stops them all for as long as it looks at what is in use, of which a body with many small
# elements is hundreds of thousands of objects.
#
# So there is one turn for all work of this kind, be it masking or measuring, which threads get in
# the order in which they come: what is masked is measured before many others are begun. Work begins
# when the main thread pauses. The collector rests meanwhile, as what is made of a body is in use
# until the work is done. Afterwards it looks at what is new, and now and then at all, so that no
# garbage piles up however many large bodies there are. With four bodies of 11.5 MB at once, a
# collector that does not rest takes 1.4 times the CPU, and other connections wait 1.9 times as long
# (99th percentile; `tests.tools.benchmarks.load`).
#
# With twenty such bodies at once another connection waits for some 0.25 s. With a plain lock it
# waits 0.55 s, and the process takes 0.15 GB more; without the pause, or without the collector
# being spared what is loaded at the start, some 0.05 s more each.
#
# No request waits for others to be measured for longer than a second in all: whoever measures then
# gives up what takes long.

LARGE_BYTES = 2_000_000
"""From here on a body is large."""

_PAUSE_SECONDS = 0.005
_BUSY = 0.25
"""The main thread pauses if it works for less than this part of so many seconds."""

_PATIENCE = 5e-8
"""For how many seconds a body waits for that at most, for each of its bytes: 0.1 s for 2 MB."""

_MOST_MEASURING = 1.0
"""For how many seconds a request waits for others to be measured."""

_PASS_BYTES = 64_000_000
"""After work on bodies of so many bytes the collector looks at all that is in use."""

_ALL, _NEW = 2, 1


@contextmanager
def large_work(size: int, *, is_last: bool = True) -> Iterator[None]:
    """Take the turn for work on a body of so many bytes, and have the collector rest meanwhile.

    The last work on a body is to measure it. Before that, what was made of the body stays in use,
    so the collector does not look at all of it afterwards.
    """
    global _worked
    with _TURN, _MEASURING.measure() if is_last else nullcontext():
        _wait_for_pause(size)
        was_enabled = gc.isenabled()  # a host may do without the collector
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
            _worked += size
            is_due = is_last and _worked >= _PASS_BYTES
            _worked = 0 if is_due else _worked
            gc.collect(_ALL if is_due else _NEW)


class FairLock:
    """A lock that threads get in the order in which they ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False


class OverdueError(Exception):
    """A request has waited for others to be measured for as long as any may."""


class _Measuring:
    """How long there has been measuring, and how long there had been as each request came."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since: float | None = None
        self._waiting: dict[object, float] = {}
        self._oldest: float | None = None
        self._lock = threading.Lock()

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Let the time run; in one's turn alone."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._seconds, self._since = self._now(), None

    def wait(self, request: object) -> None:
        """Wait for one's turn, until `leave`."""
        with self._lock:
            self._waiting[request] = self._now()
            self._oldest = next(iter(self._waiting.values()))

    def leave(self, request: object) -> None:
        """Wait no longer, be it for one's turn or because one was cancelled."""
        with self._lock:
            self._waiting.pop(request, None)
            self._oldest = next(iter(self._waiting.values()), None)

    @property
    def is_overdue(self) -> bool:
        """Whether the measuring under way has to end; asked often, so without the lock."""
        oldest = self._oldest
        if oldest is None or self._since is None:
            return False
        return self._now() - oldest >= _MOST_MEASURING

    def _now(self) -> float:
        since = self._since
        return self._seconds + (0.0 if since is None else time.monotonic() - since)


_TURN, _MEASURING = FairLock(), _Measuring()


class Wait:
    """The wait of a request for its turn to be masked, from now on until it is over."""

    def __init__(self) -> None:
        _MEASURING.wait(self)

    def end(self) -> None:
        """End it, once or more often."""
        _MEASURING.leave(self)


def check_turn() -> None:
    """Raise OverdueError if a request has waited for others to be measured for as long as it may.

    To be called by whoever measures, as often as it is cheap.
    """
    if _MEASURING.is_overdue:
        raise OverdueError


_worked = 0
"""Of bodies in bytes since the collector last looked at all; changed in one's turn alone."""


def _wait_for_pause(size: int) -> None:
    """Sleep until the main thread has little to do, or until patience is at its end."""
    main = threading.main_thread().ident
    if main is None or main == threading.get_ident():
        return
    end = time.monotonic() + _PATIENCE * size
    with suppress(AttributeError, OSError):  # not on every platform
        clock = time.pthread_getcpuclockid(main)
        while time.monotonic() < end and not _MEASURING.is_overdue:
            worked = time.clock_gettime(clock)
            time.sleep(_PAUSE_SECONDS)
            if time.clock_gettime(clock) - worked < _BUSY * _PAUSE_SECONDS:
                return
