"""The ledger: what masking saved, conversation by conversation, the provider's cache included.

A request continues the latest conversation of the same host, model and credential whose messages
it begins with. Only digests are remembered, a bounded number of them, and in memory only.
"""

import math
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate, count
from typing import Generic, TypeVar

from cachetools import LRUCache

from masking.accounting.bill import NO_BILL, NO_MARGIN, Bill
from masking.accounting.cost import (
    Cost,
    Counts,
    MovePrice,
    PromptTokens,
    make_bill,
    price_left_out,
    price_move,
    price_request,
    update_counts,
)
from masking.accounting.prefix_cache import (
    PrefixCache,
    cache_points,
    count_writable,
)
from masking.accounting.prompt import Prompt, digest_elements
from masking.conversation import Conversation, Piece
from masking.prices import Pricing
from masking.wire import Usage

_MAX_CONVERSATIONS = 1_000

_TOLERANCE = 0.5
"""The part of the predicted tokens that must be cached. Tokens are estimates, and blocks differ."""

_TRUSTED_AFTER = 2
"""How many predictions in a row must come true before a move for those after it to count."""

_TRIPS_AFTER = 3
"""How many predictions in a row must fail from the first one after a move on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that was sent.

    cache_scope: tells apart hosts, models and credentials, none of which shares another's cache.
    masked: the places of the tool results that were masked, counted from 0.
    is_masked: whether the prompt after masking was sent, or the one before it, as in a recording.
    left_unmasked: whether it was sent unmasked for once; the conversation goes on as it was before.
    removed: the tokens that masking took out of the prompt, where the provider says so.
    pieces: those of the prompt that was sent, where that is neither of the two: a recording of a
        session that was masked already. The provider's counts are of this one.
    """

    cache_scope: bytes
    prompt: Prompt
    masked: frozenset[int]
    usage: Usage | None
    when: datetime
    is_masked: bool
    left_unmasked: bool = False
    removed: int | None = None
    pieces: tuple[Piece, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A request in the ledger.

    cost: what its prompt cost, and how its cache did; the bill says the former in all units.
    bill: what it cost, with its answer; `so_far` is that of its conversation up to it.
    move: what it cost to mask more than in the request before; None if no more was masked, or if
        that request is not known.
    left_out: the tokens that were left out at arrival, as the provider counts them; None if nothing
        was.
    masked_before: what the request before masked, if an answer to it is new in this one; else None.
    is_frozen: whether the boundary of the conversation no longer moves, since its breaker tripped.
    recorded: its bill as it was sent, where it was masked already when it was recorded.
    """

    cost: Cost
    conversation: int
    bill: Bill
    so_far: Bill
    masked_before: frozenset[int] | None
    is_frozen: bool
    move: MovePrice | None = None
    left_out: float | None = None
    recorded: Bill | None = None


@dataclass(slots=True)
class Breaker:
    """The circuit breaker of a conversation: whether its cache does what the boundary relies on.

    The boundary's rule relies on a move being paid once, after which the prompt is cached as
    before. If the cache worked until a move and no longer works after it, moving does harm that no
    price shows. Once tripped it stays so; it never trips where nothing is cached.
    """

    tripped: bool = False
    _came_true: int = 0
    _failed: int = 0
    _on_trial: bool = False

    def watch(self, predicted: int, cached: int | None, *, moved: bool) -> bool:
        """Watch a request; return whether this is the one that trips the breaker.

        `predicted` and `cached` are tokens; `cached` is None if the provider did not report any.
        `moved` says whether the boundary moved with this request.
        """
        if self.tripped:
            return False
        if moved:  # the move itself costs what was cached, so it says nothing of the cache
            self._on_trial |= self._came_true >= _TRUSTED_AFTER
            self._came_true = 0
        elif cached is not None and predicted > 0:
            if cached >= _TOLERANCE * predicted:
                self._came_true += 1
                self._failed = 0
                self._on_trial = False
            else:
                self._came_true = 0
                self._failed += 1
        self.tripped = self._on_trial and self._failed >= _TRIPS_AFTER
        return self.tripped


@dataclass(slots=True)
class _State:
    """A conversation in the ledger: its number, its bill so far, what its last request masked.

    hit_rate, cost: of its last request.
    left_out: the tokens that were left out of that at arrival.
    counts: what the provider counted; `other_counts` beside the prompt after masking, where that is
        not what was sent.
    """

    number: int
    so_far: Bill = NO_BILL
    masked: frozenset[int] | None = None
    hit_rate: float = 1.0
    counts: Counts | None = None
    other_counts: Counts | None = None
    cost: Cost | None = None
    left_out: float = 0.0
    breaker: Breaker = field(default_factory=Breaker)


class Ledger:
    """Enters requests in the order in which they were answered, in one thread.

    Ledgers that are given the same `numbers` number their conversations together.
    """

    def __init__(
        self,
        max_conversations: int = _MAX_CONVERSATIONS,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self._latest: LatestRequests[_State] = LatestRequests(max_conversations)
        self._cache_before, self._cache_after = PrefixCache(), PrefixCache()
        self._cache_sent = PrefixCache()
        self._numbers = count(1) if numbers is None else numbers
        self._any_frozen = False
        self._lock = threading.Lock()

    def enter(self, sent: Sent, pricing: Pricing) -> Entry:
        """Enter a request that the provider has answered."""
        # Which conversation it continues, and what the request before it masked. The new end of the
        # conversation and what is masked now are remembered at once, because `frozen_results` must
        # not find one without the other.
        prompt = sent.prompt
        prefixes = hash_prefixes(sent.cache_scope, [piece.digest for piece in prompt.before[1:]])
        with self._lock:
            continued, messages = self._latest.find(prefixes)
            conversation = continued or _State(next(self._numbers))
            masked_before = conversation.masked
            if continued is None or not sent.left_unmasked:
                self._latest.replace(prefixes, messages, conversation)
                conversation.masked = sent.masked
        moved = masked_before is not None and not sent.masked <= masked_before
        # Where a request is sent once more, no answer to the one before is new.
        is_answered = any(piece.begins_answer for piece in prompt.before[1 + messages :])

        # What it cost.
        usage = (sent.usage or Usage()).plausible_only()
        whole = _send(self._cache_before, prompt.before, sent, pricing, prompt.altered)
        masked = _send(self._cache_after, prompt.after, sent, pricing, prompt.altered)
        was = None
        if sent.pieces is None:
            counts = update_counts(
                conversation.counts,
                prompt,
                usage.prompt,
                is_masked=sent.is_masked,
                removed=sent.removed,
            )
            cost = price_request(whole, masked, counts, usage, pricing, conversation.hit_rate)
        else:
            was, cost, counts = self._price_recorded(
                conversation, sent, whole, masked, usage, pricing
            )
        conversation.counts = counts
        left_out = sum(prompt.left_out.values()) * counts.rate.value
        at_arrival = price_left_out(prompt.left_out, whole, counts, cost, pricing)
        move = None
        if moved:
            new = left_out - conversation.left_out
            move = price_move(conversation.cost, cost, pricing, new)
        conversation.hit_rate, conversation.cost = cost.hit_rate, cost
        conversation.left_out = left_out

        # Whether the cache did as predicted.
        if sent.is_masked:
            cached = sent.usage.cached if sent.usage else None
            self._any_frozen |= conversation.breaker.watch(cost.predicted, cached, moved=moved)
        bill = make_bill(cost, counts, usage, pricing, at_arrival)
        conversation.so_far += bill
        return Entry(
            cost=cost,
            conversation=conversation.number,
            bill=bill,
            so_far=conversation.so_far,
            masked_before=masked_before if is_answered else None,
            is_frozen=conversation.breaker.tripped,
            move=move,
            left_out=left_out if prompt.left_out else None,
            recorded=None if was is None else make_bill(was, counts, usage, pricing),
        )

    def _price_recorded(
        self,
        conversation: _State,
        sent: Sent,
        whole: PromptTokens,
        masked: PromptTokens,
        usage: Usage,
        pricing: Pricing,
    ) -> tuple[Cost, Cost, Counts]:
        """Price a request that was masked when it was recorded, as it was, and as it is now.

        There are three prompts, of which the provider has counted one. Both others are derived from
        its count, at one rate. What was sent and what would be sent now may well be the same: then
        so are their bills, and nothing about them is an estimate. Returns also what was counted.
        """
        prompt, last = sent.prompt, conversation.other_counts
        pieces = sent.pieces or ()
        was = replace(prompt, after=pieces)
        counted = _send(self._cache_sent, pieces, sent, pricing, was.altered)
        counts = update_counts(conversation.counts, was, usage.prompt, is_masked=True)
        beside = whole._replace(altered=_measure(prompt.before, was.altered))
        recorded = price_request(beside, counted, counts, usage, pricing, conversation.hit_rate)

        # The prompt after masking beside the one that was sent, the longer one first.
        is_masked = prompt.tokens_after > was.tokens_after
        pair = (prompt.after, pieces) if is_masked else (pieces, prompt.after)
        now = Prompt(before=pair[0], after=pair[1])
        other_counts = counts.beside(now, is_masked=is_masked, last=last)
        conversation.other_counts = other_counts
        if not now.altered:
            return recorded, recorded, counts
        if not prompt.altered:
            return recorded, replace(recorded, after=recorded.before, margin=NO_MARGIN), counts
        masked = masked._replace(altered=_measure(prompt.after, now.altered))
        counted = counted._replace(altered=_measure(pieces, now.altered))
        both = (masked, counted) if is_masked else (counted, masked)
        cost = price_request(*both, other_counts, usage, pricing, conversation.hit_rate)
        after = cost.before if is_masked else cost.after
        cost = replace(recorded, after=after, margin=recorded.margin + cost.margin)
        return recorded, cost, counts

    def frozen_results(self, cache_scope: bytes, request: Conversation) -> frozenset[int] | None:
        """Return the only results that may be masked if a request's conversation is frozen.

        These are the places of the tool results that the request before it masked, so that nothing
        is ever unmasked. None if the conversation is not frozen, or if that request is not known.
        For any thread.
        """
        if not self._any_frozen:
            return None
        prefixes = hash_prefixes(cache_scope, digest_elements(request))
        with self._lock:
            conversation, messages = self._latest.find(prefixes)
            if conversation is None or not conversation.breaker.tripped:
                return None
            new = request.elements[messages:]
            is_next = sum(element.speaker == "assistant" for element in new) <= 1
            return conversation.masked if is_next else None


def _send(
    cache: PrefixCache, pieces: Sequence[Piece], sent: Sent, pricing: Pricing, altered: int
) -> PromptTokens:
    """Send a prompt to a simulated cache; return its tokens, and those that were cached.

    altered: how many pieces there are up to the last one that differs from the other prompt.
    """
    rules = pricing.cache
    points = cache_points(pieces, rules)
    digests = [piece.digest for piece in pieces]
    sizes = [*accumulate([piece.tokens for piece in pieces], initial=0)]
    now = sent.when.timestamp()
    common = sizes[cache.send(sent.cache_scope, digests, now, rules.ttl, points=points)]
    return PromptTokens(
        tokens=sizes[-1],
        common=common,
        altered=sizes[min(altered, len(pieces))],
        pieces=bisect_left(sizes, common),
        writable=count_writable(sizes, points, rules),
    )


def _measure(pieces: Sequence[Piece], count: int) -> int:
    """Return the tokens of so many pieces."""
    return sum([piece.tokens for piece in pieces[:count]])


# Which conversation a request continues.

_Conversation = TypeVar("_Conversation")


class LatestRequests(Generic[_Conversation]):
    """Conversations, or whatever stands for them, by the messages of their latest requests.

    A request continues the conversation whose latest request's messages it begins with; of several,
    the one with most messages. Only digests are remembered, of at most `max_conversations`, those
    that were continued last.
    """

    def __init__(self, max_conversations: float = math.inf) -> None:
        self._latest: LRUCache[int, _Conversation] = LRUCache(max_conversations)

    def find(self, prefixes: Sequence[int]) -> tuple[_Conversation | None, int]:
        """Return the conversation that a request continues, and its latest request's messages.

        `prefixes` are the request's `hash_prefixes`. None and 0 if it continues none.
        """
        for messages in range(len(prefixes), 0, -1):
            if (found := self._latest.get(prefixes[messages - 1])) is not None:
                return found, messages
        return None, 0

    def replace(self, prefixes: Sequence[int], messages: int, conversation: _Conversation) -> None:
        """Remember a request as its conversation's latest, in place of that with so many messages.

        One without messages is not remembered: no request continues it.
        """
        if messages:
            del self._latest[prefixes[messages - 1]]
        if prefixes:
            self._latest[prefixes[-1]] = conversation


def hash_prefixes(cache_scope: bytes, digests: Sequence[bytes]) -> list[int]:
    """Return a hash of every prefix of a sequence, the shortest first.

    Sequences of different scopes have nothing in common. The hashes hold in this process only.
    """
    found, prefix = [], hash(cache_scope)
    for digest in digests:
        prefix = hash((prefix, digest))
        found.append(prefix)
    return found
