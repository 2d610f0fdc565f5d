"""The contract of the boundary in plain lines: when masking moves on, where moving has a price.

A provider sells a prompt's cached prefix at a discount, which is lost from the first changed byte
on. `tests/spec/reference.py` says what may be masked; read that first. This says up to where it is,
as section 2 of the contract has it: a fold over the conversation's own requests, which weighs what
is paid for carrying what could be masked against the price of masking it.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.spec.reference import Fate, Read, Reference


class Step(NamedTuple):
    """A size of a prompt above which every token costs so many times as much."""

    above: float
    factor: float


class Prices(NamedTuple):
    """What a token costs that is read from a cache, and one that is not; section 2.

    steps: the sizes from which on every token of a prompt costs more.
    shortest_prefix: a shorter prefix is not cached.
    reads_at: where a cached prompt can be read from: "any prefix", "marks", "request ends".
    """

    read: float = 1.0
    write: float = 1.0
    steps: tuple[Step, ...] = ()
    shortest_prefix: int = 0
    reads_at: str = "any prefix"

    @property
    def slides(self) -> bool:
        """Whether moving the boundary never costs anything, so that it moves at every turn."""
        return self.read >= self.write


class Sizes(NamedTuple):
    """How many tokens a request has.

    head, marked: before the list, in all and up to the last cache mark.
    elements: for each element, its tokens, and for each result in it those before and of it.
    """

    head: int
    marked: int
    elements: Sequence[tuple[int, Sequence[tuple[int, int]]]]


class Edge(NamedTuple):
    """Where masking ends: before a turn, among the first results."""

    turn: int
    results: int


_RENT_FORCES, _RENT_ALLOWS = 1.5, 0.5
"""So many prices of rent force a move, since a plan waits too long on smooth traffic; less than so
many forbid one, which keeps the worst case bounded."""

_PLANNED_TURNS = 16
"""A plan looks at so many turns of the window: the slow formula takes their square."""

_SMALL_LEAST = 1_024
"""A least prompt of up to so many tokens costs next to nothing where any prefix is cached: that is
left to the price of the move."""

_MOST_NEW = 150_000
"""So many new tokens may lift a request over a price step before the promise is looked at anew."""

_LATEST_ENDS = 80
"""Where a cache is read at the ends of requests, it is taken to know so many."""

_CERTAIN = 0.95
"""Sizes are estimates, so that part of the promise is left to their error."""


class _Request(NamedTuple):
    size: float
    turns: int
    results: int


class Bill:
    """The fold over the conversation's own requests: one before each answer, and this one."""

    def __init__(
        self, reference: "Reference", found: "Read", fates: "Sequence[Fate]", sizes: Sizes
    ) -> None:
        self._reference, self._prices, self._given = reference, reference.prices, found.given
        self._marked = sizes.marked
        ends = [*accumulate((total for total, _ in sizes.elements), initial=sizes.head)]
        self._requests = [
            _Request(ends[at], found.turns[at], found.counts[at])
            for at in (*found.starts, len(found.spoken))
        ]
        inside = [size for _, results in sizes.elements for size in results]
        self._offsets = [
            ends[at] + before for at, (before, _) in zip(found.places, inside, strict=True)
        ]
        self._savings = [
            reference.measure(given, fate, own)
            for given, fate, (_, own) in zip(found.given, fates, inside, strict=True)
        ]
        self._loss = _CERTAIN * reference.policy.max_loss
        self._number, self._edge, self._known = 0, 0, 0
        self._gone: set[int] = set()
        """The results that are masked."""
        self._masked = 0.0
        """What they take off each request."""
        self._first_masked = inf
        self._size = self._unmasked_bill = self._saved = self._rent = 0.0

    def go(self) -> Edge:
        """Return where masking ends at the last request."""
        read, write = self._prices.read, self._prices.write
        position = Edge(0, 0)
        for request in self._requests:
            # What is new in a request has no part in its decision.
            self._edge = self._reference.open_window(request.turns)
            ready = self._find_ready()
            saving = sum(self._savings[place] for place in ready)
            sent, without = self._size - self._masked, self._size - self._masked - saving
            self._rent += read * (self._factor(sent) * sent - self._factor(without) * without)
            price = 0.0
            if self._number and saving > 0:
                offset = min(self._offsets[place] for place in ready if self._savings[place])
                flat = self._price_of(saving, offset)
                if self._moves(saving, offset, flat):
                    position = Edge(self._edge, self._known)
                    price = flat + read * saving  # it is `saving` less from the next request on
                    self._gone |= {*ready}
                    self._masked += saving
                    self._first_masked = min(self._first_masked, offset)
                    self._rent = 0.0
            # Both bills: everything sent, and as it is.
            sent = self._size - self._masked
            new = write * (request.size - self._size)
            whole = self._factor(request.size) * (read * self._size + new)
            part = self._factor(request.size - self._masked) * (read * sent + price + new)
            self._unmasked_bill += whole
            self._saved += whole - part
            self._size, self._known = request.size, request.results
            self._number += 1
        return position

    def _find_ready(self) -> list[int]:
        """Return what was sent, could be masked by now, and is not."""
        kept = self._reference.find_protected(self._given[: self._known], self._edge)
        return [
            place
            for place, given in enumerate(self._given[: self._known])
            if given.turn is not None and given.turn < self._edge
            if place not in kept and place not in self._gone
        ]

    def _moves(self, saving: float, offset: float, flat: float) -> bool:
        """Whether moving to the window's edge pays, and keeps the promise."""
        prices, sent = self._prices, self._size - self._masked
        is_small = prices.reads_at == "any prefix" and prices.shortest_prefix <= _SMALL_LEAST
        if not is_small and sent - saving < prices.shortest_prefix:
            return False  # a prompt that is not cached any more costs more than a longer one
        if flat <= 0:
            return True
        go, stay = self._factor(sent - saving), self._factor(sent)
        price = go * (prices.read * sent + flat) - stay * prices.read * sent
        is_due = (
            price <= 0
            or self._rent >= _RENT_FORCES * price
            or (self._rent >= _RENT_ALLOWS * price and self._plan_says_now(flat, saving, offset))
        )
        return is_due and self._keeps_promise(flat, saving)

    def _factor(self, size: float) -> float:
        """Return how many times as much each token costs in a prompt of this size."""
        return max((step.factor for step in self._prices.steps if size > step.above), default=1.0)

    def _price_of(self, saving: float, offset: float) -> float:
        """Return the one-time price of moving, as if no step made a token dearer.

        What stands before the change is read from the cache still, unless it is too short.
        """
        read, write = self._prices.read, self._prices.write
        tail = self._tail_after(offset)
        head = max(0.0, self._size - self._masked - tail)
        lost = (write - read) * head if head < self._prices.shortest_prefix else 0.0
        return write * (tail - saving) - read * tail + lost

    def _tail_after(self, offset: float) -> float:
        """Return the size, as sent, of what a change after `offset` makes the provider read anew.

        A cache that is read at marks has one before the messages; one that is read where requests
        ended has them before the first result that was ever masked.
        """
        sent = self._size - self._masked
        if self._prices.reads_at == "any prefix":
            return max(0.0, self._size - offset)
        if self._prices.reads_at == "marks":
            return max(0.0, sent - self._marked)
        ends = [request.size for request in self._requests[: self._number]]
        before = [end for end in ends if end <= min(offset, self._first_masked)]
        is_near = before and self._number - len(before) < _LATEST_ENDS
        return max(0.0, sent - (before[-1] if is_near else 0.0))

    def _keeps_promise(self, flat: float, saving: float) -> bool:
        """Whether the promise holds if this is the last request, whatever is new in it.

        What is new may lift either prompt over a price step, so each step is looked at.
        """
        read, write, sent = self._prices.read, self._prices.write, self._size - self._masked
        sizes = self._size, sent - saving
        lifts = [step.above - size for step in self._prices.steps for size in sizes]
        for new in (0.0, *(lift for lift in lifts if 0 <= lift <= _MOST_NEW)):
            whole, part = (self._factor(size + new + (new > 0)) for size in sizes)
            full = whole * (read * self._size + write * new)
            paid = part * (read * sent + flat + write * new)
            if self._saved + full - paid < -self._loss * (self._unmasked_bill + full):
                return False
        return True

    def _plan_says_now(self, flat: float, saving: float, offset: float) -> bool:
        """Whether the cheapest schedule that moves now costs no more than the cheapest that waits.

        Suppose that nothing new arrives, and as many requests follow as there were. The results in
        the window leave it one turn at a time: `leaving` has what each turn then saves, and the
        first of its results.
        """
        read, broken = self._prices.read, self._prices.write - self._prices.read
        turns = self._requests[self._number].turns
        leaving = [
            self._find_leaving(turn)
            for turn in range(self._edge, min(turns, self._edge + _PLANNED_TURNS))
        ]
        c = [*accumulate((own for own, _ in leaving), initial=saving)]
        a = [0.0] * len(c)
        for j in range(len(leaving)):
            first = min(at for _, at in leaving[j:])
            a[j] = max(0.0, self._size - first - sum(own for own, _ in leaving[j:]))
        if self._prices.reads_at != "any prefix":  # whatever is masked later, all is read anew
            a[:-1] = [max(each, self._tail_after(offset) - c[-1]) for each in a[:-1]]

        requests, end = max(1, self._number), len(c) - 1
        last = min(end, requests - 1)

        def rent(start: int, stop: int, at: int | None = None) -> float:
            """Return the rent from one request to another with the boundary `at` a place."""
            base = 0.0 if at is None else c[at]
            return sum(read * (c[min(m, end)] - base) for m in range(start, stop))

        cheapest = [0.0] * (last + 1)
        for i in reversed(range(last + 1)):
            ways = [
                rent(i + 1, j, i) + broken * (a[i] + c[end] - c[j]) + cheapest[j]
                for j in range(i + 1, last + 1)
            ]
            cheapest[i] = min([rent(i + 1, requests, i), *ways])
        now = flat + read * c[0]
        waits = [
            rent(0, j) + now - broken * (c[j] - c[0]) + cheapest[j] for j in range(1, last + 1)
        ]
        return now + cheapest[0] <= min([rent(0, requests), *waits])

    def _find_leaving(self, turn: int) -> tuple[float, float]:
        """Return what is saved by the results that leave the window with a turn, and the first.

        The latest of a target leaves later. One that has been the latest bounds the first result
        of the turn with which it would have left.
        """
        policy = self._reference.policy
        later = max(0, policy.keep_latest_turns - policy.window_turns)
        known = self._given[: self._known]
        latest = {
            self._reference.find_target(given): place
            for place, given in enumerate(known)
            if given.turn is not None and not given.early
        }
        saving, first = 0.0, inf
        for place, given in enumerate(known):
            if given.turn is None:
                continue
            target = None if given.early else self._reference.find_target(given)
            has_target = policy.keep_latest_turns > 0 and target is not None
            is_latest = has_target and latest.get(target) == place
            leaves = given.turn + (later if is_latest else 0)
            is_there = leaves == turn and place not in self._gone
            if is_there:
                saving += self._savings[place]
            if self._savings[place] and (is_there or (has_target and given.turn + later == turn)):
                first = min(first, self._offsets[place])
        return saving, first
