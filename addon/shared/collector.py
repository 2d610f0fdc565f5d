"""Python's collector of cyclic garbage, which rests while a large body is worked on.

What is made of a body is in use until the work is done. Each of the collector's passes over it is
in vain, and of a body with many small elements they took a third of the time. It makes one pass
afterwards, so that no garbage piles up however many large bodies there are.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_resting = 0


@contextmanager
def resting_collector() -> Iterator[None]:
    """Have the collector rest; several threads may ask for it at a time."""
    _rest(1)
    try:
        yield
    finally:
        _rest(-1)
        gc.collect()


def _rest(by: int) -> None:
    global _resting
    with _lock:
        _resting += by
        (gc.disable if _resting else gc.enable)()
