"""The ledger: what masking saved, conversation by conversation, the provider's cache included.

A request continues the latest conversation of the same host, model and credential whose messages
it begins with. Only digests are remembered, a bounded number of them, and in memory only.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count

from masking.accounting.breaker import Breaker
from masking.accounting.cache_points import find_points, find_writable
from masking.accounting.cost import Cost, CountedRequest, PromptTokens, bill_request
from masking.accounting.counted import digest_elements
from masking.accounting.counts import Counts, take_counts
from masking.accounting.latest_requests import Chains, LatestRequests, chain
from masking.accounting.margin import NO_MARGIN, Margin
from masking.accounting.move_price import price_move
from masking.accounting.prefix_cache import Piece, PrefixCache, SentPrompt
from masking.accounting.prompt import Prompt
from masking.conversation import Conversation
from masking.measures.pricing import Pricing
from masking.wire.usage import Usage

_MAX_CONVERSATIONS = 1_000


@dataclass(slots=True)
class Savings:
    """What masking saved so far, with margins of error; less than 0 if it cost more than it saved.

    tokens: in input-token equivalents.
    dollars: of the requests whose price was known; None if there was none.
    unpriced: the number of the other requests.
    """

    tokens: float = 0.0
    dollars: float | None = None
    unpriced: int = 0
    margin: Margin = NO_MARGIN
    dollar_margin: Margin = NO_MARGIN

    def add(self, cost: Cost) -> None:
        """Count what one request saved."""
        self.tokens += cost.saved
        self.margin += cost.margin
        self.dollar_margin += cost.dollar_margin
        if cost.saved_dollars is None:
            self.unpriced += 1
        else:
            self.dollars = (self.dollars or 0.0) + cost.saved_dollars


@dataclass(slots=True)
class ConversationState:
    """What is known of a conversation: its number, its savings, what its last request masked.

    share: the `usual_share` of its next request (see `masking.accounting.cost`).
    counts: what the provider counted.
    cost: what its last request cost.
    """

    number: int
    savings: Savings = field(default_factory=Savings)
    masked: frozenset[int] | None = None
    share: float = 1.0
    counts: Counts | None = None
    cost: Cost | None = None
    breaker: Breaker = field(default_factory=Breaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that was sent.

    seed: tells host, model and credential apart.
    masked: the places of the tool results that were masked, counted from 0.
    is_masked: whether the prompt after masking was sent, or the one before it, as in a recording.
    left_whole: whether it was left whole for once; the conversation goes on as it was before.
    """

    seed: bytes
    prompt: Prompt
    masked: frozenset[int]
    usage: Usage | None
    when: datetime
    is_masked: bool
    left_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A request in the ledger.

    savings, total: what has been saved up to it, in its conversation and in all.
    moved: whether more was masked than in the request before, if that is known.
    move_price: what that cost, in input-token equivalents; None if nothing moved.
    masked_before: what the request before masked, if an answer to it is new in this one; else None.
    held: whether the boundary of the conversation is held.
    tripped: whether that begins with this request.
    """

    cost: Cost
    conversation: int
    savings: Savings
    total: Savings
    moved: bool
    masked_before: frozenset[int] | None
    held: bool
    tripped: bool
    move_price: float | None = None


class Ledger:
    """Enters requests in the order in which they were answered, in one thread.

    Ledgers that are given the same `numbers` number their conversations together.
    """

    def __init__(
        self,
        max_conversations: int = _MAX_CONVERSATIONS,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.total = Savings()
        self._latest: LatestRequests[ConversationState] = LatestRequests(max_conversations)
        self._chains = Chains()
        self._cache_before, self._cache_after = PrefixCache(), PrefixCache()
        self._numbers = count(1) if numbers is None else numbers
        self._holds_any = False
        self._lock = threading.Lock()

    def enter(self, sent: Sent, pricing: Pricing) -> Entry:
        """Enter a request that the provider has answered."""
        conversation, before, is_answered = self._continue(sent)
        moved = before is not None and not sent.masked <= before
        cost = self._bill(sent, pricing, conversation)
        tripped = sent.is_masked and conversation.breaker.watch(
            cost.predicted, sent.usage.cached if sent.usage else None, moved=moved
        )
        move_price = price_move(conversation.cost, cost, pricing).price if moved else None
        conversation.share, conversation.cost = cost.share, cost
        self._holds_any |= tripped
        for savings in (conversation.savings, self.total):
            savings.add(cost)
        return Entry(
            cost=cost,
            conversation=conversation.number,
            savings=replace(conversation.savings),
            total=replace(self.total),
            moved=moved,
            masked_before=before if is_answered else None,
            held=conversation.breaker.tripped,
            tripped=tripped,
            move_price=move_price,
        )

    def find_hold(self, seed: bytes, request: Conversation) -> frozenset[int] | None:
        """Return the only results that may be masked if a request continues a held conversation.

        These are the places of the tool results that the request before it masked. None if nothing
        is held, or if that request is not known; so nothing is ever unmasked. For any thread.
        """
        if not self._holds_any:
            return None
        prefixes = chain(seed, digest_elements(request))
        with self._lock:
            continued = self._latest.find(prefixes)
            if continued is None or not continued.conversation.breaker.tripped:
                return None
            new = request.elements[continued.messages :]
            is_next = sum(element.speaker == "assistant" for element in new) <= 1
            return continued.conversation.masked if is_next else None

    def _continue(self, sent: Sent) -> tuple[ConversationState, frozenset[int] | None, bool]:
        """Return the conversation that the request continues, and what its last request masked.

        And whether an answer to that is new: there is none where a request is sent once more.

        Its new end and what is masked now are remembered at once, because `find_hold` must not
        find one without the other.
        """
        prefixes = self._chains.chain(sent.seed, [p.digest for p in sent.prompt.before[1:]])
        with self._lock:
            continued = self._latest.find(prefixes)
            if continued is None:
                conversation, known = ConversationState(next(self._numbers)), 0
            else:
                conversation, known = continued
            before = conversation.masked
            if continued is None or not sent.left_whole:
                self._latest.replace(continued, prefixes, conversation)
                conversation.masked = sent.masked
        is_answered = any(piece.begins_answer for piece in sent.prompt.before[1 + known :])
        return conversation, before, is_answered

    def _bill(self, sent: Sent, pricing: Pricing, conversation: ConversationState) -> Cost:
        usage = (sent.usage or Usage()).without_slips()
        conversation.counts = take_counts(
            conversation.counts, sent.prompt, usage.prompt, is_masked=sent.is_masked
        )
        request = CountedRequest(
            before=_remember(self._cache_before, sent.prompt.before, sent, pricing),
            after=_remember(self._cache_after, sent.prompt.after, sent, pricing),
            counts=conversation.counts,
            usage=usage,
            usual_share=conversation.share,
        )
        return bill_request(request, pricing)


def _remember(
    cache: PrefixCache, pieces: Sequence[Piece], sent: Sent, pricing: Pricing
) -> PromptTokens:
    """Send a prompt to a cache; return what the cache made of it."""
    prompt, rules = SentPrompt(sent.seed), pricing.cache
    points = find_points(pieces, rules)
    common = cache.send(prompt, pieces, sent.when.timestamp(), rules.ttl, points=points)
    return PromptTokens(
        tokens=prompt.sizes[-1],
        common=common,
        altered=prompt.sizes[min(sent.prompt.altered, len(pieces))],
        pieces=bisect_left(prompt.sizes, common),
        writable=find_writable(prompt.sizes, points, rules),
    )
