"""Work on a large body: one at a time, once the main thread has little to do, without collections.

Other connections wait for two things. The interpreter runs one thread at a time, so the main one,
with the event loop, shares it with each thread that works. And Python's collector of cyclic
garbage stops them all for as long as it looks at what is in use, of which a body with many small
elements is hundreds of thousands of objects. So there is one turn for all work of this kind, be it
masking or measuring, which threads get in the order in which they come: what is masked is measured
before many others are begun. No request waits for others to be measured for longer than a second in
all: whoever measures then gives up what takes long. Work begins when the main thread pauses.
Meanwhile the collector rests, as what is made of a body is in use until the work is done.
Afterwards it looks at what is new, and now and then at all, so that no garbage piles up however
many large bodies there are.
"""

import gc
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

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
