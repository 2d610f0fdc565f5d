"""When the boundary of what is masked moves, given the price of a broken prompt cache.

A provider sells a prompt's cached prefix at a discount. Masking another result breaks that prefix
from there on, which is paid once. Leaving it costs rent, at every request. So the boundary stays
where it is until moving pays, and then moves to the edge of the window.

`Boundary` is all of it. It goes through a conversation request by request: `begin`, `decide`,
`send`. It is derived anew from the messages of every request, because all earlier requests are in
them. There is no state: a restart, a retry and a second replica render the same bytes. Where the
moves that were really sent are remembered, they replace those that the rule would have made, and
only the last request is decided.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

from masking.conversation import Conversation, Request
from masking.history import Copyable, History
from masking.model import KeepReason, Target, make
from masking.prices import (
    LATEST_ENDS,
    PriceSettings,
    PriceStep,
    Pricing,
    ReadsAt,
    find_pricing,
    fits_window,
)
from masking.window.policy import MaskPolicy
from masking.wire.format import Marks, measure_charges

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

_MARKED_EVERYWHERE = Marks(in_head=True, in_list=True)


@dataclass(frozen=True)
class BoundaryPrices:
    """The prices of a cache read and a cache write, relative to an uncached input token.

    read, write: the prices of a cached and of a written token, relative to a plain input token. If
        they are equal, the window slides at every turn.
    steps: the sizes, in tokens, from which on every token of a prompt costs more, lowest first.
    shortest_prefix: a prefix of fewer tokens is not cached.
    reads_at: where a cached prompt can be read from.
    model_window: the tokens of the model's context window; None if it is not known.
    """

    read: float = 1.0
    write: float = 1.0
    steps: tuple[PriceStep, ...] = ()
    shortest_prefix: int = 0
    reads_at: ReadsAt = "any prefix"
    model_window: int | None = None

    @cached_property
    def slides(self) -> bool:
        """Whether moving the boundary never costs anything, so that it moves at every turn."""
        return self.read >= self.write


FREE = BoundaryPrices()
"""The prices where nothing is cached, or nobody knows: the window slides."""


def price_request(
    settings: PriceSettings, host: str | None, model: str | None, request: Request
) -> Pricing:
    """Return the prices of a request, given its marks and its tier, as `find_pricing` does."""
    asked, lifetime = request.marks.are_there, request.marks.last_lifetime
    return find_pricing(
        settings, host, model, is_marked=asked, lifetime=lifetime, tier=request.tier
    )


def price_boundary(
    pricing: Pricing, *, slides: bool = False, marks: Marks = _MARKED_EVERYWHERE
) -> BoundaryPrices:
    """Return the prices by which the boundary of a request moves; free ones if it `slides`.

    `marks` are those of the request: where a cache is read at marks and there is none among the
    messages, no message is cached, and masking breaks nothing.
    """
    if slides or (pricing.cache.reads_at == "marks" and not marks.in_list):
        return BoundaryPrices(model_window=pricing.window)
    return BoundaryPrices(
        pricing.read,
        pricing.write,
        # The maker's steps are good enough for a bill, but another seller may have none.
        pricing.steps if pricing.borrowed_from is None else (),
        pricing.cache.minimum,
        pricing.cache.reads_at,
        pricing.window,
    )


class RequestSize(NamedTuple):
    """A request of a conversation: its unmasked size, its tool turns, and its tool results."""

    size: float
    turns: int
    results: int


class Reasoning(NamedTuple):
    """Bound reasoning: the size of everything before its element, and its own."""

    offset: float
    size: float


class Layout(NamedTuple):
    """The sizes in a request, in any unit, the same throughout.

    requests: all requests of the conversation so far, oldest first, this one last.
    offsets: the size of everything before each tool result.
    turns: the number of tool turns before each tool result.
    sizes: the size of each tool result's content.
    marked: the size of what stands before the list, up to the last cache mark in it.
    reasoning: the bound reasoning in it, in order.
    """

    requests: tuple[RequestSize, ...]
    offsets: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    marked: int = 0
    reasoning: tuple[Reasoning, ...] = ()


def lay_out(conversation: Conversation) -> Layout:
    """Return the sizes in a request, in estimated tokens. Each answer stands for a request."""
    if conversation.head.size is None:
        conversation.head.size = conversation.wire.measure_head(conversation.body)
    head, wire = conversation.head.size, conversation.wire
    size, turns, counts_on, has_turn = head.total, 0, False, False
    requests, reasoning = list[RequestSize](), list[Reasoning]()
    offsets, turns_before, sizes = list[int](), list[int](), list[int]()
    for known in conversation.parsed:
        if known.size is None:
            known.size = wire.measure_element(known.item)
        total, contents = known.size
        element = known.element
        if element.is_bound:
            if known.reasoning_size is None:
                known.reasoning_size = measure_charges(wire.read_reasoning(known.item))
            reasoning.append(Reasoning(size, known.reasoning_size))
        if element.speaker != "assistant":
            counts_on = False
        else:
            if not counts_on:
                requests.append(make(RequestSize, (size, turns, len(offsets))))
                has_turn = False
            counts_on = wire.answers_in_runs
            if not has_turn and element.is_turn:
                turns += 1
                has_turn = True
        for before, own in contents:
            offsets.append(size + before)
            turns_before.append(turns)
            sizes.append(own)
        size += total
    return Layout(
        (*requests, RequestSize(size, turns, len(offsets))),
        tuple(offsets),
        tuple(turns_before),
        tuple(sizes),
        head.marked,
        tuple(reasoning),
    )


class Candidate(NamedTuple):
    """A tool result as the boundary sees it; sizes are in any unit, the same throughout.

    offset: the unmasked size of everything before it.
    saving: what masking it saves on each request; 0 if it is never masked, less than 0 if its
        placeholder is longer.
    tool: None if it does not count among the last K of a tool.
    target: None if it has none.
    images: how many images it holds.
    """

    turn: int | None
    offset: float
    saving: float
    tool: str | None
    target: Target | None = None
    images: int = 0


def window_edge(policy: MaskPolicy, turns: int) -> int:
    """Return the first turn that is in the window after this many turns."""
    return max(0, turns - policy.window_turns)


class BoundaryPosition(NamedTuple):
    """Where masking ends: before `turn`, among the first `results` tool results."""

    turn: int
    results: int


class SentMoves(NamedTuple):
    """The moves that were really sent in a conversation, and what holds at its last request.

    masked: by the number of a request, the places of the results that it masked first.
    first_seen: the first request that could be masked; the conversation was not known before.
    expired: the provider has most likely forgotten the prefix.
    frozen: the boundary must not move.
    """

    masked: Mapping[int, Sequence[int]]
    first_seen: int = 0
    expired: bool = False
    frozen: bool = False


class Boundary(Copyable):
    """Where masking ends, request by request: `begin` a request, `decide` it, then `send` it.

    It keeps two bills: as the requests are sent, and with everything sent. A price step makes every
    token of a long prompt dearer, so each request is billed with the factor of its own size.

    The position never goes back while a conversation grows by appending. Where a cached token costs
    as much as a written one, it is the window's edge. At no request has the bill exceeded
    `1 + policy.estimated_loss` times that of sending everything, in the unit of the sizes. What is
    new in a request has no part in its decision. So the decision is the same whatever follows the
    last message of the assistant, and stands if a request is cancelled and another takes its place.

    `candidates` are the results of the last request, `marked` is the size of what stands before the
    messages, up to the last cache mark in it. With moves that were `sent`, `begin` bills those, and
    only the last request is to be decided. A move also takes out the `reasoning` from there on that
    the provider then drops.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        policy: MaskPolicy,
        prices: BoundaryPrices,
        marked: float = 0.0,
        sent: SentMoves | None = None,
        reasoning: Sequence[Reasoning] = (),
    ) -> None:
        self.position = BoundaryPosition(0, 0)
        self._policy = policy
        self._prices = prices
        self._read, self._write = prices.read, prices.write
        self._marked = marked
        self._moves = sent
        self._reasoning = reasoning
        self._dropped: set[int] = set()
        """The places of the reasoning that was dropped."""
        self._dropped_unsent = 0.0
        """The size of what the current move drops, of reasoning that is new in this request."""
        self._eligible = EligibleResults(candidates, policy)
        self._request = RequestSize(0, 0, 0)
        self._edge = 0
        self._number = 0
        """The number of the request, counted from 0."""
        self._requests: list[RequestSize] = []
        """Those that were sent."""
        self._size = 0.0
        """The size of the last of them with everything sent."""
        self._masked = 0.0
        """What masking takes off each request."""
        self._first_masked = math.inf
        """The size of everything before the first result that was ever masked."""
        self._unmasked_bill = 0.0
        """The bill of sending everything."""
        self._saved = 0.0
        """By how much the bill of what was sent is lower."""
        self._rent = 0.0
        """What leaving the eligible results has cost since the last move."""
        self._price = 0.0
        """The price of the move that the current request makes."""
        self._inputs: tuple[object, ...] = ()
        """All that decided where it stands, once it is kept for the next request."""

    @classmethod
    def at_last(
        cls,
        layout: Layout,
        candidates: Sequence[Candidate],
        policy: MaskPolicy,
        prices: BoundaryPrices,
        sent: SentMoves | None,
        history: History,
        reasoning: Sequence[Reasoning] = (),
    ) -> "Boundary":
        """Return the boundary at the last request of a layout, which has begun.

        Earlier requests were sent with the moves in `sent`, or else with those of the rule. Linear
        in what the `history` does not know of the conversation.
        """
        *earlier, last = layout.requests
        if prices.slides:  # there is nothing to bill
            boundary = cls(candidates, policy, prices, layout.marked, sent)
            boundary._number = len(earlier)
            boundary.begin(last)
            return boundary

        def find_inputs(number: int) -> tuple[object, ...]:
            """Return all that decides where the boundary stands after so many requests."""
            requests = earlier[:number]
            size, _, results = requests[-1] if requests else RequestSize(0, 0, 0)
            dropped = [each for each in reasoning if each.offset < size]
            moves = (
                None
                if sent is None
                else (
                    sent.first_seen if sent.first_seen < number else None,
                    {n: (*places,) for n, places in sent.masked.items() if n < number and places},
                )
            )
            rule = policy, prices, layout.marked
            return rule, requests, candidates[:results], dropped, moves

        kept = history.recall(cls)
        if kept is not None and kept._inputs == find_inputs(kept._number):
            boundary = kept.copy()
            boundary._moves, boundary._reasoning = sent, reasoning
            boundary._eligible.candidates = candidates
        else:
            boundary = cls(candidates, policy, prices, layout.marked, sent, reasoning)
        for request in earlier[boundary._number :]:
            boundary.begin(request)
            if sent is None:
                boundary.decide()
            boundary.send()
        boundary._inputs = find_inputs(boundary._number)
        history.keep(boundary)
        boundary = boundary.copy()
        boundary.begin(last)
        return boundary

    def begin(self, request: RequestSize) -> None:
        """Add the rent of a request, by what was known before it; bill its move if it was sent."""
        self._request = request
        self._edge = window_edge(self._policy, request.turns)
        self._price = 0.0
        if self._prices.slides:
            return
        self._eligible.advance(self._edge)
        # Rent is what would not be paid if all eligible results had been masked by now.
        sent = self._sent
        without = sent - self._eligible.saving
        self._rent += self._read * (self._factor(sent) * sent - self._factor(without) * without)
        moves = self._moves
        if moves is None:
            return
        if moves.first_seen == self._number:  # what was not seen could not be masked
            self._rent = 0.0
        if places := moves.masked.get(self._number):
            # It is billed whatever the rule would have said.
            masked = [self._eligible.candidates[place] for place in places]
            first = min(candidate.offset for candidate in masked)
            saving = sum(candidate.saving for candidate in masked)
            saving += self._measure_dropped(first)
            self._move(saving, self._move_price(saving, first), first)
            self._eligible.mark_sent_masked(places)

    def decide(self) -> bool:
        """Move to the edge of the window if that pays or costs nothing; return whether it moves."""
        moves, eligible = self._moves, self._eligible
        # A move that was sent with this very request stands, so that a second try sends the same.
        if moves is not None and (moves.frozen or self._number in moves.masked):
            return False
        if self._prices.slides:
            self.position = BoundaryPosition(self._edge, self._request.results)
            return True
        saving, offset = eligible.saving, eligible.offset
        if not self._number or saving <= 0 or self._would_be_too_short(saving):
            return False

        # The price of moving is that of one request: with all masked at once, less as it stands.
        # `flat` is the same in a prompt below every price step, where nothing else changes.
        saving += self._measure_dropped(offset)
        flat, sent = self._move_price(saving, offset), self._sent
        stay, go = self._factor(sent), self._factor(sent - saving)
        price = go * (self._read * sent + flat) - stay * self._read * sent

        # Moving pays when it costs nothing; when the prefix must be written anew in any case; when
        # the rent paid so far forces it (ski rental: buy once the rent has reached the price); and
        # earlier if no schedule that waits is cheaper. Whatever pays must also keep the promise.
        is_due = (
            price <= 0
            or (moves is not None and moves.expired)
            or self._rent >= _RENT_FORCES * price
            or (self._rent >= _RENT_ALLOWS * price and self._plan_moves_now(flat))
        )
        if flat > 0 and not (is_due and self._keeps_promise(flat, saving)):
            return False
        self._move(saving, flat, offset)
        eligible.mark_masked()
        self.position = BoundaryPosition(self._edge, eligible.received)
        return True

    def allows_whole(self) -> bool:
        """Whether the request may be sent with nothing masked: it fits, at a bearable price.

        The promise of `max_loss` must hold then, too.
        """
        request = self._request
        if not fits_window(request.size, self._prices.model_window):
            return False
        if self._prices.slides or self._first_masked == math.inf:
            return True
        # The cache then holds what stands before the first result that was ever masked.
        head = self._sent - self._tail_after(self._first_masked)
        if self._prices.reads_at == "any prefix":
            head = min(self._first_masked, self._size)
        if head < self._prices.shortest_prefix:
            head = 0.0
        new, factor = self._write * (request.size - self._size), self._factor(request.size)
        full = factor * (self._read * self._size + new)
        paid = factor * (self._read * head + self._write * (self._size - head) + new)
        saved = self._saved + full - paid - self._price
        return saved >= -self._policy.estimated_loss * (self._unmasked_bill + full)

    def send(self) -> None:
        """Bill the request in both ways, and receive its new results."""
        size = self._request.size
        if not self._prices.slides:
            new = self._write * (size - self._size)
            whole = self._factor(size) * (self._read * self._size + new)
            part = self._read * self._sent + self._price + new
            self._unmasked_bill += whole
            self._saved += whole - self._factor(size - self._masked) * part
            self._masked += self._dropped_unsent
            self._dropped_unsent = 0.0
            self._eligible.receive(self._request.results)
        self._size = size
        self._requests.append(self._request)
        self._number += 1

    @property
    def _sent(self) -> float:
        """What the cache holds of the current request: the size of the last one, as it was sent."""
        return self._size - self._masked

    def _factor(self, size: float) -> float:
        """Return how many times as much each token costs in a prompt of this size."""
        if not self._prices.steps:  # as with most models, and this is asked at every request
            return 1.0
        return max((step.factor for step in self._prices.steps if size > step.above), default=1.0)

    def _would_be_too_short(self, saving: float) -> bool:
        """Whether the masked prompt is not cached any more: it costs more than a longer one.

        Where any prefix of a thousand tokens is cached that is left to the price of the move, as it
        is small.
        """
        least = self._prices.shortest_prefix
        is_small = self._prices.reads_at == "any prefix" and least <= _SMALL_LEAST
        return not is_small and self._sent - saving < least

    def _move_price(self, saving: float, offset: float) -> float:
        """Return the one-time price of moving, in plain tokens of a prompt below every price step.

        What can be read from the cache before the first newly masked result still is, unless it is
        too short to be cached.
        """
        tail = self._tail_after(offset)
        head = max(0.0, self._sent - tail)
        lost = (self._write - self._read) * head if head < self._prices.shortest_prefix else 0.0
        return self._write * (tail - saving) - self._read * tail + lost

    def _tail_after(self, offset: float) -> float:
        """Return the size, as sent, of what a change after `offset` makes the provider read anew.

        A cache that is read at marks has one before the messages. Those in the messages are too far
        behind the window, or were made by earlier requests and with other texts before them. One
        that is read where requests ended has them only before the first result ever masked.
        """
        if self._prices.reads_at == "any prefix":
            return max(0.0, self._size - offset)
        if self._prices.reads_at == "marks":
            return max(0.0, self._sent - self._marked)
        before = bisect_right(
            self._requests, min(offset, self._first_masked), key=lambda request: request.size
        )
        is_near = before > 0 and self._number - before < LATEST_ENDS
        return max(0.0, self._sent - (self._requests[before - 1].size if is_near else 0.0))

    def _move(self, saving: float, price: float, offset: float) -> None:
        self._price = price + self._read * saving
        self._masked += saving
        self._first_masked = min(self._first_masked, offset)
        self._rent = 0.0
        for place in self._find_dropped(offset, self._request.size):
            at, size = self._reasoning[place]
            self._dropped.add(place)
            self._dropped_unsent += size if at >= self._size else 0.0

    def _measure_dropped(self, offset: float) -> float:
        """Return the size of the reasoning that a move drops after an offset, if it was sent."""
        places = self._find_dropped(offset, self._size)
        return sum(self._reasoning[place].size for place in places)

    def _find_dropped(self, offset: float, end: float) -> list[int]:
        """Return the places of the reasoning in between that is not dropped yet."""
        placed = enumerate(self._reasoning)
        between = [place for place, each in placed if offset <= each.offset < end]
        return [place for place in between if place not in self._dropped]

    def _keeps_promise(self, price: float, saving: float) -> bool:
        """Whether the promise would hold if this were the conversation's last request."""
        loss = self._policy.estimated_loss
        sizes = self._size, self._sent - saving
        # What is new in the request may lift either prompt over a price step. The bills rise then,
        # and the promise must hold all the same. Between two steps more that is new only makes it
        # safer, so it is enough to look at nothing new, and at just over what reaches each step.
        reaching = (step.above - size for step in self._prices.steps for size in sizes)
        lifts = ((new, 1) for new in reaching if 0 <= new <= _MOST_NEW)
        for new, over in ((0.0, 0), *lifts):
            whole, part = (self._factor(size + new + over) for size in sizes)
            full = whole * (self._read * self._size + self._write * new)
            paid = part * (self._read * self._sent + price + self._write * new)
            if self._saved + full - paid < -loss * (self._unmasked_bill + full):
                return False
        return True

    def _plan_moves_now(self, price: float) -> bool:
        turns = self._request.turns
        savings, tails = self._eligible.look_ahead(
            min(turns, self._edge + _PLANNED_TURNS), self._size
        )
        if self._prices.reads_at != "any prefix":  # whatever is masked later, all is read anew
            left = self._tail_after(self._eligible.offset) - savings[-1]
            tails = [max(tail, left) for tail in tails[:-1]] + tails[-1:]
        return pays_now(
            requests=max(1, self._number),
            read=self._read,
            write=self._write,
            price=price,
            savings=savings,
            tails=tails,
        )


def pays_now(
    *,
    requests: int,
    read: float,
    write: float,
    price: float,
    savings: Sequence[float],
    tails: Sequence[float],
) -> bool:
    """Whether the cheapest schedule that moves now costs no more than the cheapest that waits.

    The results in the window are known, and leave it one turn at a time. Suppose that nothing new
    arrives, and that as many requests follow as there have been so far.

    requests: how many requests are still expected.
    read, write: the price of a cached token and of one that is not, relative to a plain token.
    price: what moving to the edge costs now, once. Sizes are in any unit.
    savings: what masking saves on each request with the boundary at the edge, and 1, 2, ... turns
        beyond it.
    tails: for each of these places, the size from the first result of the turns beyond it that can
        be masked to the end, with everything masked.
    """
    # A dynamic programme over "the boundary stands j turns beyond the edge", from the last place
    # back. All costs are relative to having everything masked that is eligible at each request.
    broken = write - read
    totals = [0.0, *accumulate(savings)]
    beyond = max(0, requests - len(savings))
    everything = totals[min(requests, len(savings))] + beyond * savings[-1]

    # `ways_on` has the cost of the cheapest way on from each place visited so far, without what
    # depends on where the boundary comes from; `later` is the cheapest way on from this place.
    later = 0.0
    ways_on: list[tuple[int, float]] = []
    for place in reversed(range(min(len(savings), requests))):
        rent = read * savings[place]
        # Either the boundary stays here to the end, and pays rent for what leaves the window ...
        staying = read * (everything - totals[place + 1]) - rent * (requests - place - 1)
        # ... or it leaves for a place further on, and breaks the prefix there.
        leaving = broken * (tails[place] + savings[-1])
        leaving += rent * (place + 1) - read * totals[place + 1]
        later = min([staying, *[leaving + way - rent * further for further, way in ways_on]])
        ways_on.append((place, read * totals[place] - broken * savings[place] + later))

    # Moving now is moving to place 0. Waiting is never moving, or moving first to a later place:
    # the last of `ways_on` is place 0 itself.
    moving = price + read * savings[0]
    first = moving + broken * savings[0]
    return moving + later <= min([read * everything, *[first + way for _, way in ways_on[:-1]]])


# Which results could be masked by now and are not, as a conversation goes on. One is eligible once
# its turn has left the window, unless another rule pins it: it is among the last K of its tool,
# holds one of the last images, or is the latest of its target. It stays so until it is masked.


class PinnedResults(Copyable):
    """The results that stay because of the others: the last of a tool, the last images, the latest.

    Results are added in the order of the request. What is pinned changes with each.
    """

    def __init__(self, policy: MaskPolicy) -> None:
        self._last_k = policy.keep_last_k_per_tool or 0
        self._kept_images = policy.kept_images
        self._keep_latest_turns = policy.keep_latest_turns
        self.beyond_window = max(0, policy.keep_latest_turns - policy.window_turns)
        """For how many turns the latest result of a target stays once it has left the window."""
        self._last_of_tool: dict[str, tuple[int, ...]] = {}
        self._by_tool: set[int] = set()
        self._with_images: tuple[tuple[int, int], ...] = ()
        """The places of the last results with images, and how many images each holds."""
        self._latest: dict[Target, tuple[int, int]] = {}
        """The place and the turn of the latest result of each target."""

    def add(self, place: int, tool: str | None, images: int) -> list[int]:
        """Add the next result; return those that it releases from the last of a tool or images."""
        released = []
        if tool is not None and self._last_k > 0:
            last = (*self._last_of_tool.get(tool, ()), place)
            self._by_tool.add(place)
            if len(last) > self._last_k:
                released.append(last[0])
                self._by_tool.remove(last[0])
            self._last_of_tool[tool] = last[-self._last_k :]
        if images and self._kept_images:
            last_images = (*self._with_images, (place, images))
            while sum(count for _, count in last_images[1:]) >= self._kept_images:
                released.append(last_images[0][0])
                last_images = last_images[1:]
            self._with_images = last_images
        return released

    def add_latest(self, place: int, turn: int, target: Target) -> tuple[int, int] | None:
        """Make a result the latest of its target; return place and turn of the one that was."""
        if self._keep_latest_turns <= 0:
            return None
        older = self._latest.get(target)
        self._latest[target] = place, turn
        return older

    def is_pinned(self, place: int) -> bool:
        """Whether a result is among the last of its tool, or holds one of the last images."""
        return place in self._by_tool or any(place == at for at, _ in self._with_images)

    def reasons(self, edge: int) -> dict[int, KeepReason]:
        """Return why results of turns before the edge stay, by place."""
        found: dict[int, KeepReason] = {}
        for place, turn in self._latest.values():
            if turn + self.beyond_window >= edge:
                found[place] = "latest"
        found |= {place: "last_images" for place, _ in self._with_images}
        found |= dict.fromkeys(self._by_tool, "last_k")
        return found


class EligibleResults(Copyable):
    """The results of a conversation, in order, and which of them could be masked.

    Each waits for a turn to leave the window. That changes to an earlier turn at most once, when a
    later result of its target arrives, so the work is linear in the conversation.

    candidates: the results, whether they have arrived or not.
    received: how many have.
    saving: what masking the eligible results would save on each request.
    """

    def __init__(self, candidates: Sequence[Candidate], policy: MaskPolicy) -> None:
        self.candidates = candidates
        self.received = 0
        self.saving = 0.0
        self._pinned = PinnedResults(policy) if policy.pins else None
        self._edge = 0
        self._heap: list[int] = []
        """The eligible results that save anything. Some may have been masked since."""
        self._counted: set[int] = set()
        """The results that are eligible or masked."""
        self._sent_masked: set[int] = set()
        """The results that were masked by a move that was really sent."""
        self._leaves: dict[int, int] = {}
        """The turns with which the results leave the window that wait for that."""
        self._waiting: list[tuple[int, int]] = []
        """A heap of these turns with their results; what leaves earlier stands in it twice."""
        self._firsts: dict[int, float] = {}
        """By turn, the size of everything before the first result that ever waited for it."""

    @property
    def offset(self) -> float:
        """The size of everything before the first eligible result; infinite without one."""
        return self.candidates[self._heap[0]].offset if self._heap else math.inf

    def advance(self, edge: int) -> None:
        """Move the edge of the window to this turn."""
        self._edge = edge
        while self._waiting and self._waiting[0][0] < edge:
            turn, place = heappop(self._waiting)
            self._firsts.pop(turn, None)
            if self._leaves.get(place) == turn:
                del self._leaves[place]
                self._add_eligible(place)

    def receive(self, count: int) -> None:
        """Let the first `count` results have arrived."""
        candidates, pinned = self.candidates, self._pinned
        for place in range(self.received, count):
            self.received = place + 1
            turn, _, _, tool, target, images = candidates[place]
            if pinned is None:
                if turn is not None:
                    self._wait(place, turn)
                continue
            released = pinned.add(place, tool, images)
            if turn is not None:
                older = None if target is None else pinned.add_latest(place, turn, target)
                self._wait(place, turn if target is None else turn + pinned.beyond_window)
                if older is not None:
                    self._wait(*older)
            for each in released:
                self._add_eligible(each)

    def mark_masked(self) -> None:
        """Count all eligible results as masked."""
        self._heap.clear()
        self.saving = 0.0

    def mark_sent_masked(self, places: Sequence[int]) -> None:
        """Count these results as masked, eligible or not: they were."""
        for place in places:
            self._leaves.pop(place, None)
            if place in self._counted and place not in self._sent_masked:
                self.saving -= self.candidates[place].saving
        self._counted.update(places)
        self._sent_masked.update(places)
        while self._heap and self._heap[0] in self._sent_masked:
            heappop(self._heap)
        if not self._heap:
            self.saving = 0.0

    def look_ahead(self, stop: int, size: float) -> tuple[list[float], list[float]]:
        """Return two lists: what masking saves, and what follows, for each turn up to `stop`.

        The first has, for each turn from the edge on, the saving with every result before that
        turn masked. The second has the size, with everything masked, from the first result that
        could be masked at that turn or later to the end of a prompt of this `size`. One that no
        longer waits for its turn gives a bound.
        """
        own = dict.fromkeys(range(self._edge, stop), 0.0)
        for place, turn in self._leaves.items():
            if turn < stop:
                own[turn] += self.candidates[place].saving
        tails, first, saving = [0.0], math.inf, 0.0
        for turn in reversed(own):
            first = min(first, self._firsts.get(turn, math.inf))
            saving += own[turn]
            tails.append(max(0.0, size - first - saving))
        return [*accumulate(own.values(), initial=self.saving)], tails[::-1]

    def _wait(self, place: int, turn: int) -> None:
        """Let a result wait for this turn; if the edge has passed it, it is eligible."""
        self._leaves.pop(place, None)
        if turn < self._edge:
            self._add_eligible(place)
            return
        _, offset, saving, *_ = self.candidates[place]
        if saving:
            self._firsts[turn] = min(self._firsts.get(turn, math.inf), offset)
        self._leaves[place] = turn
        heappush(self._waiting, (turn, place))

    def _add_eligible(self, place: int) -> None:
        """Count a result as eligible, unless something pins it, or it waits or is counted."""
        if place in self._leaves or place in self._counted:
            return
        if self._pinned is not None and self._pinned.is_pinned(place):
            return
        candidate = self.candidates[place]
        if candidate.turn is None:
            return
        self._counted.add(place)
        if candidate.saving:
            heappush(self._heap, place)
            self.saving += candidate.saving
