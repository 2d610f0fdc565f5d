"""Work on a large body: one at a time, once the main thread has little to do, without collections.

Other connections wait for two things. The interpreter runs one thread at a time, so the main one,
with the event loop, shares it with each thread that works. And Python's collector of cyclic
garbage stops them all for as long as it looks at what is in use, of which a body with many small
elements is hundreds of thousands of objects. So there is one turn for all work of this kind, be it
masking or measuring, which threads get in the order in which they come: what is masked is measured
before many others are begun. Work begins when the main thread pauses. Meanwhile the collector
rests, as what is made of a body is in use until the work is done. Afterwards it looks at what is
new, and now and then at all, so that no garbage piles up however many large bodies there are.
"""

import gc
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LARGE_BYTES = 2_000_000
"""From here on a body is large."""

_PAUSE_SECONDS = 0.005
_BUSY = 0.25
"""The main thread pauses if it works for less than this part of so many seconds."""

_PATIENCE = 5e-8
"""For how many seconds a body waits for that at most, for each of its bytes: 0.1 s for 2 MB."""

_PASS_BYTES = 64_000_000
"""After work on bodies of so many bytes the collector looks at all that is in use."""

_ALL, _NEW = 2, 1


@contextmanager
def large_work(size: int, *, is_last: bool = True) -> Iterator[None]:
    """Take the turn for work on a body of so many bytes, and have the collector rest meanwhile.

    Unless it `is_last`, what was made of the body stays in use, so the collector does not look at
    all of that afterwards.
    """
    global _worked
    with _TURN:
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


_TURN = FairLock()

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
        while time.monotonic() < end:
            worked = time.clock_gettime(clock)
            time.sleep(_PAUSE_SECONDS)
            if time.clock_gettime(clock) - worked < _BUSY * _PAUSE_SECONDS:
                return
