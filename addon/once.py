"""Says a thing once, however often there is a reason to."""

import threading
from collections.abc import Hashable

from cachetools import LRUCache


class Once:
    """Remembers what was said, for the things that came up last; from any thread."""

    def __init__(self, most: int = 1_000) -> None:
        self._said: LRUCache[Hashable, bool] = LRUCache(most)
        self._lock = threading.Lock()

    def is_first(self, key: Hashable = None) -> bool:
        """Whether a thing comes up for the first time, as far as is remembered."""
        with self._lock:
            is_first = not self._said.get(key, False)  # which also makes it the latest
            self._said[key] = True
        return is_first
