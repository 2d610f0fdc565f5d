"""What a schedule of boundaries costs, and which is the cheapest: by other means than the rule's.

A conversation is its requests and its tool results, as the boundary sees them. A schedule is one
boundary per request. The provider's cache matches whole messages.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from masking.prices import Pricing
from masking.window import MaskPolicy
from masking.window.boundary import Candidate, RequestSize
from tests.support.priced import PricedPolicy, find_boundary


class Conversation(NamedTuple):
    requests: Sequence[RequestSize]
    results: Sequence[Candidate]


Masks = frozenset[int]
"""The places of the results that are masked in a request."""


def masks_of_rule(conversation: Conversation, policy: MaskPolicy, head: int = 0) -> list[Masks]:
    """Return what the rule masks, request by request, as a proxy without a state does."""
    requests, results = conversation
    prefixes = (requests[: number + 1] for number in range(len(requests)))
    return [
        _masks(conversation, find_boundary(sent, results[: sent[-1].results], policy, head))
        for sent in prefixes
    ]


def masks_of_edges(conversation: Conversation, edges: Iterable[int]) -> list[Masks]:
    """Return what is masked if the boundary stands at each of these turns."""
    return [
        _masks(conversation, (edge, request.results))
        for edge, request in zip(edges, conversation.requests, strict=True)
    ]


def _masks(conversation: Conversation, boundary: tuple[int, int]) -> Masks:
    turn, known = boundary
    return frozenset(
        place
        for place, result in enumerate(conversation.results[:known])
        if result.turn is not None and result.turn < turn and result.saving
    )


def bills(conversation: Conversation, masks: Sequence[Masks], prices: Pricing) -> list[float]:
    """Return the bill up to each request."""
    return list(accumulate(costs_of(conversation, masks, prices)))


def costs_of(conversation: Conversation, masks: Sequence[Masks], prices: Pricing) -> list[float]:
    """Return what each request costs."""
    costs = []
    size, before = 0.0, frozenset[int]()
    for request, masked in zip(conversation.requests, masks, strict=True):
        cached = _cached(conversation, size, before, masked)
        size = request.size - _saved(conversation, masked)
        costs.append(prices.read * cached + prices.write * (size - cached))
        before = masked
    return costs


def _cached(conversation: Conversation, size: float, before: Masks, masked: Masks) -> float:
    changed = min(before ^ masked, default=None)
    if changed is None:
        return size
    offset = conversation.results[changed].offset
    earlier = (place for place in before if conversation.results[place].offset < offset)
    return min(size, offset - _saved(conversation, earlier))


def _saved(conversation: Conversation, masked: Iterable[int]) -> float:
    return sum(conversation.results[place].saving for place in masked)


def costs_at_entries(
    conversation: Conversation,
    masks: Sequence[Masks],
    prices: Pricing,
    rule: PricedPolicy,
    head: int,
) -> list[float]:
    """Return what each request costs where a cache is read at entries, not at any prefix.

    An entry stands where a request ended, and holds as long as all before it is masked as it was
    then. At marks only the last request's end is near enough; there is another entry at the `head`.
    """
    costs = []
    entries: list[tuple[RequestSize, Masks]] = []
    for request, masked in zip(conversation.requests, masks, strict=True):
        near = entries[-1:] if rule.reads_at == "marks" else entries[-80:]
        cached = float(head) if rule.reads_at == "marks" and entries else 0.0
        for end, then in near:
            now = frozenset(place for place in masked if place < end.results)
            if now == then:
                cached = max(cached, end.size - _saved(conversation, then))
        size = request.size - _saved(conversation, masked)
        costs.append(prices.read * cached + prices.write * (size - cached))
        entries.append((request, masked))
    return costs


def find_edges(conversation: Conversation, window: int) -> list[int]:
    return [max(0, request.turns - window) for request in conversation.requests]


def optimum(conversation: Conversation, window: int, prices: Pricing) -> float:
    """Return the bill of the cheapest schedule, known only afterwards.

    A dynamic programme over the request at which the boundary last moved. It always moves to the
    edge, because a shorter move costs more now and saves less later.
    """
    edges = find_edges(conversation, window)
    count = len(edges)
    plain = _plain_costs(conversation, prices)
    cheapest = [math.inf] * count
    best = sum(plain)
    for move in range(count):
        starts = [(0.0, frozenset[int](), -1)] + [
            (cheapest[earlier], _masks_at(conversation, edges, earlier), earlier)
            for earlier in range(move)
            if cheapest[earlier] < math.inf and edges[earlier] < edges[move]
        ]
        masked = _masks_at(conversation, edges, move)
        for paid, before, earlier in starts:
            if before != masked:
                between = _standing(conversation, plain, before, earlier, move, prices)
                moving = _moving(conversation, before, masked, move, prices)
                cheapest[move] = min(cheapest[move], paid + between + moving)
        rest = _standing(conversation, plain, masked, move, count, prices)
        best = min(best, cheapest[move] + rest)
    return best


def _masks_at(conversation: Conversation, edges: Sequence[int], request: int) -> Masks:
    return _masks(conversation, (edges[request], conversation.requests[request].results))


def _plain_costs(conversation: Conversation, prices: Pricing) -> list[float]:
    sizes = [0.0, *(request.size for request in conversation.requests)]
    return [prices.read * before + prices.write * (now - before) for before, now in pairwise(sizes)]


def _standing(
    conversation: Conversation,
    plain: Sequence[float],
    masked: Masks,
    after: int,
    until: int,
    prices: Pricing,
) -> float:
    requests = plain[after + 1 : until]
    return sum(requests) - prices.read * _saved(conversation, masked) * len(requests)


def _moving(
    conversation: Conversation, before: Masks, masked: Masks, request: int, prices: Pricing
) -> float:
    sent = conversation.requests[request - 1].size if request else 0.0
    size = conversation.requests[request].size - _saved(conversation, masked)
    cached = _cached(conversation, sent - _saved(conversation, before), before, masked)
    return prices.read * cached + prices.write * (size - cached)
