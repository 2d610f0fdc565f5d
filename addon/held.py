"""Conversations of which the provider holds the history, as far as arrival needs them.

A request of such a conversation has only what is new, and names the answer that it continues: in a
message on a WebSocket, or over HTTP. What its results answer is known from that answer, which has
passed here. A restart forgets all of this; what is not known stays whole.
"""

import threading
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from cachetools import LRUCache

from masking.arrival import NOTHING_ASKED
from masking.model import Call, Element
from masking.window import CallKey
from masking.wire import HeldHistory, Told

_MOST_ANSWERS = 4_000
_MOST_CALLS = 256
"""How many calls of a conversation are kept: of the latest answers, which await their results."""


class Continued(NamedTuple):
    """What is known of a conversation after one of its answers.

    opening: by what it is recognized when all of it is sent at once; None if that is not decided.
    beginning: all elements so far, while it is not.
    calls: the latest, by their ids.
    asked: by call, whether the latest long result was shortened.
    left_out: how many tokens are left out of it so far, by estimate.
    """

    opening: bytes | None = None
    beginning: tuple[Element, ...] = ()
    calls: Mapping[str, Call] = {}
    asked: Mapping[CallKey, bool] = NOTHING_ASKED
    left_out: int = 0


class AwaitedAnswer(NamedTuple):
    """A request whose answer another request may continue.

    place: tells its host and its account apart.
    history: which history it continues.
    continued: what is known of its conversation, but for its answer.
    """

    place: bytes
    history: HeldHistory
    continued: Continued


class HeldHistories:
    """The latest answers that a request may continue; threads may share it."""

    def __init__(self, max_answers: int = _MOST_ANSWERS) -> None:
        self._known: LRUCache[tuple[bytes, str], Continued] = LRUCache(max_answers)
        self._lock = threading.Lock()

    def find(self, place: bytes, history: HeldHistory) -> Continued | None:
        """Return what is known of the conversation that a request continues."""
        with self._lock:
            for name in (history.answer, history.name):
                if name is not None and (found := self._known.get((place, name))) is not None:
                    return found
        return None

    def keep(self, awaited: AwaitedAnswer, told: Told) -> None:
        """Keep what an answer tells for the request that continues it."""
        place, history, continued = awaited
        calls = {**continued.calls, **told.calls}
        late = islice(calls.items(), max(0, len(calls) - _MOST_CALLS), None)
        continued = continued._replace(calls=dict(late))
        with self._lock:
            for name in (told.answer_id, history.name):
                if name is not None:
                    self._known[place, name] = continued
