"""What became of the conversations of which a provider refused a masked request.

It is in the process alone: a restart forgets it. A conversation is known by its opening, and by the
credential that it is sent with.
"""

import threading

from cachetools import LRUCache

from addon.metrics.stages import Resent

_MAX_CONVERSATIONS = 2_000


class Refusals:
    """Remembers which conversations were tried whole, the latest of them; threads may share it."""

    def __init__(self, max_conversations: int = _MAX_CONVERSATIONS) -> None:
        self._found: LRUCache[bytes, Resent | None] = LRUCache(max_conversations)
        self._lock = threading.Lock()

    def begin(self, conversation: bytes) -> bool:
        """Whether a conversation is to be tried whole, which no other request does from now on."""
        with self._lock:
            is_new = conversation not in self._found
            self._found.setdefault(conversation, None)
            return is_new

    def settle(self, conversation: bytes, verdict: Resent | None) -> None:
        """Remember what came of a try; None if it says nothing, so that there may be another."""
        with self._lock:
            if verdict is None:
                self._found.pop(conversation, None)
            else:
                self._found[conversation] = verdict

    def is_tried(self, conversation: bytes) -> bool:
        """Whether a conversation was tried whole, or is just now."""
        with self._lock:
            return conversation in self._found

    def goes_whole(self, conversation: bytes) -> bool:
        """Whether a conversation goes out whole from now on."""
        with self._lock:
            return self._found.get(conversation) == "accepted"
