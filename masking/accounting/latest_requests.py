"""Conversations by their latest requests: which of them a request continues.

A request continues the conversation whose latest request's messages it begins with; of several, the
one with most messages. Only digests are remembered.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from cachetools import LRUCache

from masking.accounting.prefix_cache import count_common

_Conversation = TypeVar("_Conversation")

_MAX_CHAINS = 64


class Continued(NamedTuple, Generic[_Conversation]):
    """A conversation that a request continues, and how many messages its latest request had."""

    conversation: _Conversation
    messages: int


class LatestRequests(Generic[_Conversation]):
    """Whatever stands for a conversation, by the messages of its latest request.

    It has at most `max_conversations`, those that were continued last; None for no bound.
    """

    def __init__(self, max_conversations: int | None = None) -> None:
        bound = math.inf if max_conversations is None else max_conversations
        self._latest: LRUCache[bytes, _Conversation] = LRUCache(bound)

    def find(self, prefixes: Sequence[bytes]) -> Continued[_Conversation] | None:
        """Return what a request continues, by what `chain` returns for its messages."""
        for messages in range(len(prefixes), 0, -1):
            if (found := self._latest.get(prefixes[messages - 1])) is not None:
                return Continued(found, messages)
        return None

    def replace(
        self,
        continued: Continued[_Conversation] | None,
        prefixes: Sequence[bytes],
        conversation: _Conversation,
    ) -> None:
        """Remember a request as a conversation's latest, in place of the one that it continues.

        One without messages is not remembered: no request continues it.
        """
        if continued is not None:
            del self._latest[prefixes[continued.messages - 1]]
        if prefixes:
            self._latest[prefixes[-1]] = conversation


class Chains:
    """What `chain` returns, worked out anew only from where a request parts from a recent one.

    It remembers the digests of at most `max_requests` requests, with different beginnings.
    """

    def __init__(self, max_requests: int = _MAX_CHAINS) -> None:
        self._recent: LRUCache[bytes, tuple[Sequence[bytes], list[bytes]]] = LRUCache(max_requests)

    def chain(self, seed: bytes, digests: Sequence[bytes]) -> list[bytes]:
        """Return a digest of every prefix of a sequence, as the function of that name does."""
        if not digests:
            return []
        beginning = _extend(seed, digests[0])
        known, prefixes = self._recent.get(beginning, (digests[:1], [beginning]))
        common = count_common(known, digests)
        found = prefixes[:common]
        found += chain(found[-1], digests[common:])
        self._recent[beginning] = (digests, found)
        return found


def chain(seed: bytes, digests: Sequence[bytes]) -> list[bytes]:
    """Return a digest of every prefix of a sequence, the shortest first.

    Sequences with different seeds have nothing in common.
    """
    return [*accumulate(digests, _extend, initial=seed)][1:]


def _extend(prefix: bytes, digest: bytes) -> bytes:
    return blake2b(prefix + digest, digest_size=16).digest()
