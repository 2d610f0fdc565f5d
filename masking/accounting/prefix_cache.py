"""A provider's prefix cache: how much of a prompt it has seen before.

A prompt is a sequence of pieces: its tool schemas, then its messages, each with a digest and its
tokens. The cache matches whole pieces from the front; a changed piece ends the common prefix.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple


class Piece(NamedTuple):
    """A part of a prompt: the digest of its content, and its size in tokens."""

    digest: bytes
    tokens: int


class PrefixCache:
    """All prefixes of the prompts sent so far; at most `max_prefixes`, the last used.

    Times are in seconds, from any origin, and do not go back.
    """

    def __init__(self, max_prefixes: int = 50_000) -> None:
        self._max_prefixes = max_prefixes
        self._last_used: OrderedDict[bytes, float] = OrderedDict()

    def send(
        self, seed: bytes, pieces: Sequence[Piece], now: float = 0.0, ttl: float | None = None
    ) -> int:
        """Add a prompt; return the tokens of its longest prefix that was sent before.

        Prompts with different seeds have nothing in common: another model, another account. A
        prefix that was not used for longer than `ttl` is forgotten.
        """
        prefixes = chain(seed, [piece.digest for piece in pieces])
        known = self._count_known(prefixes, now, ttl)
        for prefix in reversed(prefixes):  # the shorter ones last, so that they outlive the longer
            self._last_used[prefix] = now
            self._last_used.move_to_end(prefix)
        while len(self._last_used) > self._max_prefixes:
            self._last_used.popitem(last=False)
        return sum(piece.tokens for piece in pieces[:known])

    def _count_known(self, prefixes: Sequence[bytes], now: float, ttl: float | None) -> int:
        for count in range(len(prefixes), 0, -1):
            used = self._last_used.get(prefixes[count - 1])
            if used is not None and (ttl is None or now - used <= ttl):
                return count
        return 0


def chain(seed: bytes, digests: Sequence[bytes]) -> list[bytes]:
    """Return a digest of every prefix of a sequence, the shortest first."""
    return [*accumulate(digests, _extend, initial=seed)][1:]


def _extend(prefix: bytes, digest: bytes) -> bytes:
    return blake2b(prefix + digest, digest_size=16).digest()
