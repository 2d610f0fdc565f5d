"""Where the window's edge stands, given the price of a broken prompt cache.

A provider sells a prompt's cached prefix at a discount. Masking another result breaks that prefix
from there on, once; leaving it costs its rent, every time. So the boundary stays where it is until
moving pays, and then moves to the edge of the window.

It is derived anew from the messages of every request, for all the earlier requests are in them: no
state, so that a restart, a retry and a second replica render the same bytes.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from masking.model import Request
from masking.plan import Outlook, pays_now
from masking.policy import MaskPolicy

_RENT_FORCES = 1.5
"""Rent, in prices, that moves the boundary whatever the plan says: where results arrive evenly, a
plan waits too long."""

_RENT_ALLOWS = 0.5
"""Rent, in prices, below which no plan moves it; this keeps the worst case bounded."""

_PLANNED_TURNS = 16
"""Turns of the window that a plan looks at; its time grows with their square."""


class Maskable(NamedTuple):
    """A tool result as the boundary sees it, sizes in any unit, the same throughout.

    `offset` is the size of everything before it, unmasked; `saving` what masking it saves on each
    request, 0 where it is never masked, less where its placeholder is longer; `tool` None where it
    takes no part in the last K.
    """

    turn: int | None
    offset: float
    saving: float
    tool: str | None


class Boundary(NamedTuple):
    """Where masking ends: before `turn`, as it looked when there were `results` results."""

    turn: int
    results: int


def find_boundary(
    requests: Sequence[Request], results: Sequence[Maskable], policy: MaskPolicy
) -> Boundary:
    """Return the boundary at the last of a conversation's requests.

    `requests` are all of them, oldest first; `results` those of the last one, in order. It never
    goes back as a conversation grows by appending. Where a cached token costs as much as a
    written one it is the window's edge. Linear in the conversation. At no request has the bill
    exceeded `1 + policy.max_loss` times that of sending everything, in the unit of the sizes.
    """
    return find_boundaries(requests, results, policy)[-1]


def find_boundaries(
    requests: Sequence[Request], results: Sequence[Maskable], policy: MaskPolicy
) -> list[Boundary]:
    """Return the boundary at each of a conversation's requests, in one pass.

    At each it is the one that `find_boundary` returns for it and those before it: what comes
    later has no part in it.
    """
    if policy.slides:
        return [Boundary(policy.find_edge(turns), count) for _, turns, count in requests]
    conversation = _Conversation(policy)
    boundaries = []
    for request in requests:
        conversation.send(request, results[conversation.results : request.results])
        boundaries.append(conversation.boundary)
    return boundaries


class _Conversation:
    """The fold over the requests. A result is ripe when it could be masked and is not yet."""

    def __init__(self, policy: MaskPolicy) -> None:
        self.boundary = Boundary(0, 0)
        self.results = 0
        self._policy = policy
        self._read, self._write = policy.cache_read_ratio, policy.cache_write_ratio
        self._requests = 0
        self._size = 0.0
        self._edge = 0
        self._in_window: defaultdict[int, list[Maskable]] = defaultdict(list)
        self._last_of_tool: defaultdict[str, deque[Maskable]] = defaultdict(deque)
        self._ripe_saving = 0.0
        self._ripe_offset = math.inf
        self._masked_saving = 0.0
        self._unmasked_bill = 0.0
        self._saved = 0.0
        self._rent = 0.0

    def send(self, request: Request, fresh: Iterable[Maskable]) -> None:
        """Move where that pays, and take in one request with the results that are new in it.

        What is new has no part in the decision. So it is the same for whatever follows the last
        message of the assistant, and stands when a request was cancelled and another takes its
        place.
        """
        self._unmasked_bill += self._read * self._size
        self._saved += self._read * self._masked_saving
        self._advance(self._policy.find_edge(request.turns))
        if self._requests and self._ripe_saving > 0:
            self._weigh(request.turns)
        self._unmasked_bill += self._write * (request.size - self._size)
        for result in fresh:
            self._receive(result)
        self.results = request.results
        self._size = request.size
        self._requests += 1

    def _receive(self, result: Maskable) -> None:
        left = self._count_as_last(result)
        if left is not None and left.turn is not None and left.turn < self._edge:
            self._ripen(left)
        if result.turn is not None and result.turn >= self._edge:
            self._in_window[result.turn].append(result)

    def _count_as_last(self, result: Maskable) -> Maskable | None:
        """Return the result that is not, or is no longer, among the last K of its tool."""
        k = self._policy.keep_last_k_per_tool or 0
        if result.tool is None or k <= 0:
            return result
        last = self._last_of_tool[result.tool]
        last.append(result)
        return last.popleft() if len(last) > k else None

    def _advance(self, edge: int) -> None:
        for turn in range(self._edge, edge):
            for result in self._in_window.pop(turn, ()):
                if result.tool is None or result not in self._last_of_tool[result.tool]:
                    self._ripen(result)
        self._edge = edge

    def _ripen(self, result: Maskable) -> None:
        if result.saving:
            self._ripe_saving += result.saving
            self._ripe_offset = min(self._ripe_offset, result.offset)

    def _weigh(self, turns: int) -> None:
        tail = max(0.0, self._size - self._ripe_offset)
        price = self._write * (tail - self._ripe_saving) - self._read * tail
        self._rent += self._read * self._ripe_saving
        if price <= 0 or (self._is_covered(price) and self._is_due(price, turns)):
            self._saved -= price
            self._masked_saving += self._ripe_saving
            self._rent = self._ripe_saving = 0.0
            self._ripe_offset = math.inf
            self.boundary = Boundary(self._edge, self.results)

    def _is_covered(self, price: float) -> bool:
        """Whether the promise would hold if this were the conversation's last request."""
        return price <= self._policy.max_loss * self._unmasked_bill + self._saved

    def _is_due(self, price: float, turns: int) -> bool:
        if self._rent >= _RENT_FORCES * price:
            return True
        return self._rent >= _RENT_ALLOWS * price and pays_now(self._look_ahead(price, turns))

    def _look_ahead(self, price: float, turns: int) -> Outlook:
        stop = min(turns, self._edge + _PLANNED_TURNS)
        window = [self._in_window.get(turn, ()) for turn in range(self._edge, stop)]
        savings = [sum(result.saving for result in turn) for turn in window]
        tails, first, maskable = [0.0], math.inf, 0.0
        for turn, saving in zip(reversed(window), reversed(savings), strict=True):
            first = min([first, *(result.offset for result in turn if result.saving)])
            maskable += saving
            tails.append(max(0.0, self._size - first - maskable))
        return Outlook(
            requests=max(1, self._requests),
            read=self._read,
            write=self._write,
            price=price,
            savings=[*accumulate(savings, initial=self._ripe_saving)],
            tails=tails[::-1],
        )
