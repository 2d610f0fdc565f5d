"""Servers whose certificate the proxy cannot verify: the client is to judge them itself.

A client may trust what the proxy does not know: an authority of its own, or everything, as
`curl -k` does. So after a failure, connections to that server pass through unopened for a while.
"""

import time
from collections import Counter
from collections.abc import Callable

SECONDS = 3600.0
"""How long; after that a connection is opened again, and fails if nothing has changed."""

_MAX_REMEMBERED = 1_000

Place = tuple[str, int]
"""A server's host and port."""


class Unverified:
    """The servers of a run, in a table that forgets its oldest entry.

    `passed` counts the connections that passed unopened, by host.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[Place, float] = {}
        self.passed: Counter[str] = Counter()

    def note(self, place: Place) -> bool:
        """Note that a certificate could not be verified; return whether that is new."""
        is_new = self._clock() >= self._until.pop(place, 0.0)
        self._until[place] = self._clock() + SECONDS
        if len(self._until) > _MAX_REMEMBERED:
            del self._until[next(iter(self._until))]
        return is_new

    def passes(self, place: Place) -> bool:
        """Return whether to pass a connection on unopened; if so, count it."""
        if self._clock() >= self._until.get(place, 0.0):
            return False
        self.passed[place[0]] += 1
        return True
