"""The bills of a conversation's requests so far, and by them where its boundary stands.

See `boundary.py` for what it follows.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from masking.history import Copyable
from masking.model import Maskable, Request
from masking.prices import LATEST_ENDS
from masking.strategies.lookahead import Outlook, pays_now
from masking.strategies.policy import MaskPolicy
from masking.strategies.ripening import Ripening

_RENT_FORCES = 1.5
"""The boundary moves once the rent is this many prices, whatever the plan says: where results
arrive evenly, a plan waits too long."""

_RENT_ALLOWS = 0.5
"""The boundary stays while the rent is less than this many prices. That bounds the worst case."""

_PLANNED_TURNS = 16
"""How many turns of the window a plan looks at; its time grows with their square."""

_SMALL_LEAST = 1_024
"""The least cacheable prompt, in tokens, that costs next to nothing where it is not cached."""

_MOST_NEW = 150_000
"""How many new tokens a request may have: that many may lift it over a price step."""


class Boundary(NamedTuple):
    """Where masking ends: before `turn`, among the first `results` tool results."""

    turn: int
    results: int


class Made(NamedTuple):
    """The moves that were really made in a conversation, and the state at its last request.

    masked: by the number of a request, the places of the results that it masked first.
    met: the first request that could be masked; the conversation was not known before.
    expired: the provider has most likely forgotten the prefix.
    held: the boundary must not move.
    """

    masked: Mapping[int, Sequence[int]]
    met: int = 0
    expired: bool = False
    held: bool = False


class BoundaryFold(Copyable):
    """The fold over the requests, in two bills: as they are sent, and with everything sent.

    A price step makes every token of a long prompt dearer, so each request is billed with the
    factor of its own size. What is new in a request has no part in its decision. So the decision
    is the same whatever follows the last message of the assistant, and stands if a request is
    cancelled and another takes its place.
    """

    def __init__(self, policy: MaskPolicy, marked: float) -> None:
        self.boundary = Boundary(0, 0)
        self._policy = policy
        self._marked = marked
        self._read, self._write = policy.cache_read_ratio, policy.cache_write_ratio
        self._steps = policy.price_steps
        self._ripening = Ripening(policy)
        self._requests = 0
        self._size = 0.0
        self._masked = 0.0
        """What masking takes off each request."""
        self._unmasked_bill = 0.0
        self._saved = 0.0
        self._rent = 0.0
        self._price = 0.0
        """The price of the move that the current request makes."""
        self._ends: list[float] = []
        """The sizes of the requests so far."""
        self._first_masked = math.inf
        """The size of everything before the first result that was ever masked."""
        self._met: int | None = None
        """The request at which rent was last forgotten."""
        self._taken: dict[int, tuple[int, ...]] = {}
        """The moves that were taken, by the number of the request."""

    def continues(self, results: Sequence[Maskable], made: Made | None) -> bool:
        """Whether it stands where these results and moves lead to."""
        if not self._ripening.has_received(results):
            return False
        if made is None:
            return True
        met = made.met if made.met < self._requests else None
        taken = {
            n: (*places,) for n, places in made.masked.items() if n < self._requests and places
        }
        return met == self._met and taken == self._taken

    def begin(self, request: Request) -> None:
        """Add the rent of a request, by what was known before it."""
        self._price = 0.0
        self._ripening.advance(request.turns)
        sent = self._size - self._masked
        left = sent - self._ripening.saving
        self._rent += self._read * (self._factor(sent) * sent - self._factor(left) * left)

    def decide(self, request: Request, *, expired: bool = False) -> None:
        """Move to the edge of the window if that pays or costs nothing."""
        saving = self._ripening.saving
        if not self._requests or saving <= 0 or self._would_be_too_short(saving):
            return
        flat = self._find_price(saving, self._ripening.offset)
        stay, go = self._find_factors()
        price = go * (self._read * self._sent + flat) - stay * self._read * self._sent
        is_due = price <= 0 or expired or self._is_due(price, flat, request.turns)
        if flat <= 0 or (is_due and self._is_covered(flat)):
            self._move(saving, flat, self._ripening.offset)
            self._ripening.harvest()
            self.boundary = Boundary(self._policy.find_edge(request.turns), self._ripening.received)

    def take_move(self, places: Sequence[int], results: Sequence[Maskable]) -> None:
        """Bill a move that was made, whatever the rule would have said."""
        if places:
            self._taken[self._requests] = (*places,)
            saving = sum(results[place].saving for place in places)
            first = min(results[place].offset for place in places)
            self._move(saving, self._find_price(saving, first), first)
            self._ripening.take(places)

    def forget_rent(self) -> None:
        """Start counting rent from here."""
        self._met = self._requests
        self._rent = 0.0

    def send(self, request: Request, results: Sequence[Maskable]) -> None:
        """Bill the request, and receive its new results."""
        size = request.size
        new = self._write * (size - self._size)
        whole = self._factor(size) * (self._read * self._size + new)
        part = self._read * (self._size - self._masked) + self._price + new
        self._unmasked_bill += whole
        self._saved += whole - self._factor(size - self._masked) * part
        self._ripening.receive(results[self._ripening.received : request.results])
        self._size = size
        self._ends.append(size)
        self._requests += 1

    def covers_whole(self, request: Request) -> bool:
        """Whether the promise holds if the request is sent with nothing masked.

        The cache then holds what stands before the first result that was ever masked.
        """
        if self._first_masked == math.inf:
            return True
        head = self._sent - self._find_tail(self._first_masked)
        if self._policy.reads_at == "any prefix":
            head = min(self._first_masked, self._size)
        if head < self._policy.shortest_prefix:
            head = 0.0
        new, factor = self._write * (request.size - self._size), self._factor(request.size)
        full = factor * (self._read * self._size + new)
        paid = factor * (self._read * head + self._write * (self._size - head) + new)
        saved = self._saved + full - paid - self._price
        return saved >= -self._policy.estimated_loss * (self._unmasked_bill + full)

    @property
    def _sent(self) -> float:
        """What the cache holds of the current request: the size of the last one, as it was sent."""
        return self._size - self._masked

    def _factor(self, size: float) -> float:
        """Return how many times as much each token costs in a prompt of this size."""
        if not self._steps:  # as with most models, and this is asked at every request
            return 1.0
        return max((step.factor for step in self._steps if size > step.above), default=1.0)

    def _find_factors(self) -> tuple[float, float]:
        """Return the factors of the current request: as it stands, and with all ripe masked."""
        return self._factor(self._sent), self._factor(self._sent - self._ripening.saving)

    def _would_be_too_short(self, saving: float) -> bool:
        """Whether the masked prompt is not cached any more: it costs more than a longer one.

        Where any prefix of a thousand tokens is cached that is left to the price of the move, as it
        is small.
        """
        least = self._policy.shortest_prefix
        is_small = self._policy.reads_at == "any prefix" and least <= _SMALL_LEAST
        return not is_small and self._sent - saving < least

    def _find_price(self, saving: float, offset: float) -> float:
        """Return the one-time price of moving, in plain tokens of a prompt below every price step.

        What can be read from the cache before the first newly masked result still is, unless it is
        too short to be cached.
        """
        tail = self._find_tail(offset)
        head = max(0.0, self._sent - tail)
        lost = (self._write - self._read) * head if head < self._policy.shortest_prefix else 0.0
        return self._write * (tail - saving) - self._read * tail + lost

    def _find_tail(self, offset: float) -> float:
        """Return the size, as sent, of what a change after `offset` makes the provider read anew.

        A cache that is read at marks has one before the messages. Those in the messages are too far
        behind the window, or were made by earlier requests and with other texts before them. One
        that is read where requests ended has them only before the first result ever masked.
        """
        if self._policy.reads_at == "any prefix":
            return max(0.0, self._size - offset)
        if self._policy.reads_at == "marks":
            return max(0.0, self._sent - self._marked)
        before = bisect_right(self._ends, min(offset, self._first_masked))
        is_near = before > 0 and len(self._ends) - before < LATEST_ENDS
        return max(0.0, self._sent - (self._ends[before - 1] if is_near else 0.0))

    def _move(self, saving: float, price: float, offset: float) -> None:
        self._price = price + self._read * saving
        self._masked += saving
        self._first_masked = min(self._first_masked, offset)
        self._rent = 0.0

    def _is_covered(self, price: float) -> bool:
        """Whether the promise would hold if this were the conversation's last request.

        What is new in it may lift either prompt over a price step. The bills rise then, and the
        promise must hold all the same. Between two steps more that is new only makes it safer.
        """
        loss, masked = self._policy.estimated_loss, self._sent - self._ripening.saving
        sizes = self._size, masked
        lifts = (step.above - size for step in self._steps for size in sizes)
        for new in (0.0, *(lift for lift in lifts if 0 <= lift <= _MOST_NEW)):
            whole, part = (self._factor(size + new + (new > 0)) for size in sizes)
            full = whole * (self._read * self._size + self._write * new)
            paid = part * (self._read * self._sent + price + self._write * new)
            if self._saved + full - paid < -loss * (self._unmasked_bill + full):
                return False
        return True

    def _is_due(self, price: float, flat: float, turns: int) -> bool:
        if self._rent >= _RENT_FORCES * price:
            return True
        return self._rent >= _RENT_ALLOWS * price and pays_now(self._look_ahead(flat, turns))

    def _look_ahead(self, price: float, turns: int) -> Outlook:
        savings, tails = self._ripening.look_ahead(
            min(turns, self._policy.find_edge(turns) + _PLANNED_TURNS), self._size
        )
        if self._policy.reads_at != "any prefix":  # whatever is masked later, all is read anew
            left = self._find_tail(self._ripening.offset) - savings[-1]
            tails = [max(tail, left) for tail in tails[:-1]] + tails[-1:]
        return Outlook(
            requests=max(1, self._requests),
            read=self._read,
            write=self._write,
            price=price,
            savings=savings,
            tails=tails,
        )
