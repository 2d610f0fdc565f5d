"""What schedules of the boundary cost where a cache is read at certain blocks alone.

A conversation is its blocks in the order in which they are rendered, its requests, and the results
that can be masked. A schedule says at which requests the boundary moves, always to the edge of the
window. `vendor_caches` bills any schedule; the cheapest is found by dynamic programming.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tests.tools.provider.vendor_caches import LOOKBACK, Block, Prices


class Maskable(NamedTuple):
    """A result: the place of its block, what masking saves, when its turn leaves the window."""

    block: int
    saving: int
    ripe: int


class Request(NamedTuple):
    """A request: how many of the blocks it has, and which are marked, each with a lifetime."""

    blocks: int
    marks: Sequence[tuple[int, float]]


class BlockConversation(NamedTuple):
    """A conversation; `ends` are the blocks with which a request ends."""

    tokens: Sequence[int]
    requests: Sequence[Request]
    results: Sequence[Maskable]
    ends: frozenset[int] = frozenset()


def send_all(talk: BlockConversation, since: Sequence[int]) -> list[list[Block]]:
    """Return the blocks of each request; `since` has the request that masks each result first."""
    return [[*send(talk, number, since)] for number in range(len(talk.requests))]


def send(talk: BlockConversation, number: int, since: Sequence[int]) -> Iterator[Block]:
    """Yield the blocks of one request."""
    blocks, marks = talk.requests[number]
    lifetimes = dict(marks)
    masked = {
        result.block: result.saving
        for result, first in zip(talk.results, since, strict=True)
        if first <= number
    }
    for at, tokens in enumerate(talk.tokens[:blocks]):
        content = (at, at in masked)
        is_end = at in talk.ends or at == blocks - 1
        yield Block(content, tokens - masked.get(at, 0), lifetimes.get(at, 0.0), is_end)


def move_at(talk: BlockConversation, moves: Sequence[int]) -> list[int]:
    """Return the request that masks each result first, if the boundary moves at these requests."""
    places = [bisect_left(moves, result.ripe) for result in talk.results]
    return [moves[place] if place < len(moves) else NEVER for place in places]


NEVER = 1 << 60


def find_cheapest(
    talk: BlockConversation, prices: Prices, whole: Sequence[float], max_loss: float = math.inf
) -> list[int]:
    """Return the moves of the cheapest schedule; `whole` is what sending everything costs.

    A dynamic programme over the request of the last move. What an earlier move has left in the
    cache is taken to be readable only before all that is ever masked; with a window of more turns
    than a mark looks back, that is exact. With a `max_loss`, no bill so far may exceed
    `1 + max_loss` times that of sending everything.
    """
    count = len(talk.requests)
    plain = [*accumulate(whole)]
    best: dict[int, tuple[float, int]] = {-1: (0.0, -1)}
    finals: dict[int, float] = {}
    for last in range(-1, count):
        if last not in best:
            continue
        standing = _Standing(talk, prices, last)
        bill = best[last][0]
        for number in range(last + 1, count):
            if standing.changes(number):
                moved = bill + standing.cost_moving(number)
                is_kept = moved <= (1 + max_loss) * plain[number] * (1 + 1e-12)
                if is_kept and moved < best.get(number, (math.inf, 0))[0]:
                    best[number] = moved, last
            bill += standing.cost(number)
        finals[last] = bill
    move = min(finals, key=finals.__getitem__)
    moves = []
    while move >= 0:
        moves.append(move)
        move = best[move][1]
    return moves[::-1]


class _Standing:
    """The boundary as it stands after a move at the request `last`; -1 is no move at all."""

    def __init__(self, talk: BlockConversation, prices: Prices, last: int) -> None:
        self._talk, self._prices, self._last = talk, prices, last
        self._sizes = [0, *accumulate(talk.tokens)]
        self._saved = [0, *accumulate(result.saving for result in talk.results)]
        self._blocks = [result.block for result in talk.results]
        self._ripe = [result.ripe for result in talk.results]
        self._masked = bisect_right(self._ripe, last)
        self._entries: set[int] = set()
        for number in range(max(0, last)):
            self._keep(number, self._blocks[0] if self._blocks else 0)
        if last >= 0:
            self._keep(last, len(talk.tokens))

    def changes(self, number: int) -> bool:
        """Whether a move at a request masks anything more."""
        return bisect_right(self._ripe, number) > self._masked

    def cost(self, number: int) -> float:
        """Return what a request costs, and keep what it leaves in the cache."""
        cost = self._bill(number, self._masked, len(self._talk.tokens))
        self._keep(number, len(self._talk.tokens))
        return cost

    def cost_moving(self, number: int) -> float:
        """Return what a request costs at which the boundary moves."""
        return self._bill(number, bisect_right(self._ripe, number), self._blocks[self._masked])

    def _keep(self, number: int, limit: int) -> None:
        self._entries |= {at + 1 for at, _ in self._marks(number) if at + 1 <= limit}

    def _marks(self, number: int) -> Sequence[tuple[int, float]]:
        request = self._talk.requests[number]
        return [(request.blocks - 1, 1.0)] if self._talk.ends else request.marks

    def _bill(self, number: int, masked: int, unchanged: int) -> float:
        """Return what a request costs with so many results masked; so many blocks are as before."""
        request, prices = self._talk.requests[number], self._prices
        marks = self._marks(number)
        if self._talk.ends:
            ends = sorted(at for at in self._talk.ends if at < request.blocks)[-LATEST:]
            seen = {at + 1 for at in ends} | {request.blocks}
        else:
            seen = {at + 1 - back for at, _ in marks for back in range(LOOKBACK)}
        hits = (at for at in seen & self._entries if at <= unchanged)
        read = self._size(max(hits, default=0), masked)
        last = self._size(max((at + 1 for at, _ in marks), default=0), masked)
        total = self._size(request.blocks, masked)
        read = read if read >= prices.least else 0
        written = max(0, last - read) if last >= prices.least else 0
        hour = any(lifetime > 300 for _, lifetime in marks)
        write = prices.write_for_an_hour if hour else prices.write
        cost = read * prices.read + written * write + (total - read - written)
        return cost * prices.factor_at(total)

    def _size(self, blocks: int, masked: int) -> int:
        return self._sizes[blocks] - self._saved[min(masked, bisect_left(self._blocks, blocks))]


LATEST = 80
