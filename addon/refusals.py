"""Which conversations a provider has refused for a reason of ours; a restart forgets it.

A conversation is known by its opening, and by the credential that it is sent with.
"""

import threading

from cachetools import LRUCache

from addon.stages import Resent


class Refusals:
    """Which conversations were tried unmasked after a refusal, the latest; threads may share it.

    One that was refused unmasked, too, is not tried again before a masked request of it was taken:
    until then the cause is most likely something else.
    """

    def __init__(self, max_conversations: int = 2_000) -> None:
        self._found: LRUCache[bytes, Resent | None] = LRUCache(max_conversations)
        self._lock = threading.Lock()

    def begin(self, conversation: bytes) -> bool:
        """Whether a conversation is to be tried unmasked: the first to ask may, no other."""
        with self._lock:
            is_new = conversation not in self._found
            self._found.setdefault(conversation, None)
            return is_new

    def settle(self, conversation: bytes, verdict: Resent | None) -> None:
        """Remember the result of a try; None if it says nothing, so that there may be another."""
        with self._lock:
            if verdict is None:
                self._found.pop(conversation, None)
            else:
                self._found[conversation] = verdict

    def note_taken(self, conversation: bytes) -> None:
        """Note that a masked request of a conversation was taken: it may be tried again."""
        with self._lock:
            if self._found.get(conversation) == "refused":
                del self._found[conversation]

    def goes_unmasked(self, conversation: bytes) -> bool:
        """Whether a conversation goes out unmasked from now on."""
        with self._lock:
            return self._found.get(conversation) == "accepted"


class Clearings:
    """The conversations in which the provider ignores or refuses clearing; threads may share it."""

    def __init__(self, max_conversations: int = 2_000) -> None:
        self._in_vain: LRUCache[bytes, int] = LRUCache(max_conversations)
        self._lock = threading.Lock()

    def has_ended(self, conversation: bytes) -> bool:
        """Whether a conversation has stopped asking."""
        with self._lock:
            return self._in_vain.get(conversation, 0) >= _MOST_IN_VAIN

    def end(self, conversation: bytes) -> None:
        """Stop asking in a conversation, because the provider has refused."""
        with self._lock:
            self._in_vain[conversation] = _MOST_IN_VAIN

    def note(self, conversation: bytes, tokens: int, *, is_cleared: bool) -> None:
        """Note whether the provider cleared anything when it was asked to.

        tokens: how many we expected it to clear. If it ignores a small number, that says nothing
            about a larger one.
        """
        with self._lock:
            count = self._in_vain.get(conversation, 0)
            if is_cleared:
                self._in_vain.pop(conversation, None)
            elif tokens >= _LEAST_CLEARED and count < _MOST_IN_VAIN:
                self._in_vain[conversation] = count + 1


_MOST_IN_VAIN = 2
"""How many requests in a row may ask the provider to clear without any effect."""

_LEAST_CLEARED = 1_000
"""The tokens from which on a request without effect counts."""
