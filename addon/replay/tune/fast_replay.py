"""What a policy yields on a session: as `addon.replay.replay`, in a hundredth of the time.

Nothing is written, and nothing is decoded again. One pass over a segment gives the boundary at each
request, and between moves only the end of the prompt changes. The cache is simulated, whatever the
provider reported, and forgets by time alone, never for lack of room. Only the window is replayed,
no other strategy.
"""

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from addon.replay.replay import ReplaySettings
from addon.replay.reread import NEVER, NO_REREADS, Rereads, count_left_out, count_rereads
from addon.replay.session_index import Segment, SessionIndex
from masking.accounting import (
    Piece,
    PrefixCache,
    SentPrompt,
    count_writable,
    mask_pieces,
    mean_price,
)
from masking.history import History
from masking.model import Decision
from masking.tokens import TokenCounter
from masking.window import (
    FREE,
    Boundary,
    BoundaryPrices,
    Candidate,
    MaskPolicy,
    PinnedResults,
    RequestSize,
    evaluate,
    measure_candidates,
    price_boundary,
    window_edge,
)


class BilledRequest(NamedTuple):
    """A request under a policy: the estimated tokens of its prompt, and what they cost.

    cost: in input-token equivalents (see `accounting.cost.Bill`).
    dollars: None if the price is not known.
    masked: the number of masked tool results.
    moved: whether one of them was not masked in the conversation's request before.
    """

    tokens: int
    cost: float
    dollars: float | None
    masked: int
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledSession:
    """A session under a policy: its requests in the order in which they were sent.

    rereads, left_out: the calls that refer to what was masked, and to what was left out at arrival.
    shortened: the characters that were left out of each result that was shortened; results are
        known by their conversation and their place.
    """

    requests: tuple[BilledRequest, ...]
    rereads: Rereads
    left_out: Rereads = NO_REREADS
    shortened: Mapping[tuple[int, int], int] = field(default_factory=dict)


class FirstMasked(NamedTuple):
    """The request from which on each tool result is masked, and the prompt with all masked.

    is_whole: whether the prompt is as the client wrote it, with none shortened either.
    """

    first: Sequence[int]
    pieces: Sequence[Piece]
    is_whole: bool = False


class FastReplay:
    """A session on which policies are tried; `plain` are its requests as the client wrote them.

    What the session's index has shortened at arrival is so under every policy.
    """

    def __init__(self, index: SessionIndex, counter: TokenCounter) -> None:
        self._index = index
        self._counter = counter
        self._evaluated: dict[tuple[int, bool, MaskPolicy], EvaluatedSegment] = {}
        self.plain = self._send([_leave_whole(segment) for segment in index.segments])

    def replay(
        self, settings: ReplaySettings, believed: tuple[float, float] | None = None
    ) -> BilledSession:
        """Return what a policy yields, at the prices with which the session was indexed.

        If other prices are `believed`, they decide where the boundary is.
        """
        return self.replay_masks(lambda number, _: self._mask(number, settings, believed))

    def replay_masks(self, find: Callable[[int, Segment], FirstMasked]) -> BilledSession:
        """Return what any rule yields: `find` says for each segment, by number, what is masked.

        Once masked, a result must stay masked.
        """
        masks = [find(number, each) for number, each in enumerate(self._index.segments)]
        rereads = left_out = NO_REREADS
        first_segments, shortened = self._index.first_segments, dict[tuple[int, int], int]()
        for number, (segment, mask) in enumerate(zip(self._index.segments, masks, strict=True)):
            own = {} if mask.is_whole else segment.left_out
            rereads += count_rereads(segment.references, mask.first, own)
            if own:
                left_out += count_left_out(segment.references, mask.first, own)
                shortened |= {(first_segments[number], at): own[at] for at in own}
        return BilledSession(
            requests=self._send(masks), rereads=rereads, left_out=left_out, shortened=shortened
        )

    def _mask(
        self, number: int, settings: ReplaySettings, believed: tuple[float, float] | None
    ) -> FirstMasked:
        segment = self._index.segments[number]
        read, write = believed or segment.pricing.ratios
        pricing = dataclasses.replace(segment.pricing, read=read, write=write)
        policy = settings.policy
        if not settings.strategies.shortens:
            return _leave_whole(segment)
        if not policy.masks:
            return _mask_nothing(segment)
        prices = price_boundary(
            pricing, slides=settings.boundary_slides, marks=segment.conversation.marks
        )
        evaluated = self._evaluate(number, policy, prices)
        if (
            segment.asks_summary
            and Boundary.at_last(
                segment.layout, evaluated.candidates, policy, prices, None, History()
            ).allows_whole()
        ):
            return _mask_nothing(segment)
        return FirstMasked(find_first_masked(segment, evaluated, policy, prices), evaluated.pieces)

    def _evaluate(
        self, number: int, policy: MaskPolicy, prices: BoundaryPrices
    ) -> "EvaluatedSegment":
        # Policies that differ only in when the boundary moves have the same outcome, except for
        # results that were asked for again: these depend on the window.
        key = (
            number,
            prices.slides,
            dataclasses.replace(
                policy,
                window_turns=policy.window_turns if policy.keep_rereads else 1,
                keep_last_k_per_tool=None,
                keep_latest_turns=0,
                keep_last_images=0,
                max_loss=0.0,
            ),
        )
        if key not in self._evaluated:
            segment = self._index.segments[number]
            self._evaluated[key] = evaluate_segment(segment, policy, prices, self._counter)
        return self._evaluated[key]

    def _send(self, masks: Sequence[FirstMasked]) -> tuple[BilledRequest, ...]:
        cache = PrefixCache(max_prefixes=None)
        prompts = []
        for segment, mask in zip(self._index.segments, masks, strict=True):
            followed = None if segment.follows is None else masks[segment.follows].first
            prompts.append(_SegmentPrompt(segment, mask, followed, cache))
        return tuple(prompts[place.segment].send() for place in self._index.order)


def _mask_nothing(segment: Segment) -> FirstMasked:
    return FirstMasked([NEVER] * len(segment.conversation.results), segment.pieces)


def _leave_whole(segment: Segment) -> FirstMasked:
    return _mask_nothing(segment)._replace(is_whole=True)


class _SegmentPrompt:
    """A segment's masked prompt, as it grows from request to request.

    `_first` has for each piece the request from which on it is masked, `_changes` for each request
    the first piece that is masked from there on. The results of one piece are masked at once: they
    are of one turn.
    """

    def __init__(
        self,
        segment: Segment,
        masks: FirstMasked,
        followed: Sequence[int] | None,
        cache: PrefixCache,
    ) -> None:
        self._segment = segment
        self._cache = cache
        self._plain = segment.client_pieces if masks.is_whole else segment.pieces
        self._masked = masks.pieces
        self._first = [NEVER] * len(segment.pieces)
        self._changes: dict[int, int] = {}
        for result, request in zip(segment.conversation.results, masks.first, strict=True):
            at = result.element + 1
            self._first[at] = min(self._first[at], request)
            self._changes[request] = min(self._changes.get(request, at), at)
        self._moves = _moving_requests(masks.first, followed)
        self._counted = sorted(masks.first)
        self._request = -1
        self._pieces: list[Piece] = []
        self._prompt = SentPrompt(segment.seed)

    def send(self) -> BilledRequest:
        """Send the next request."""
        self._request += 1
        request, pricing = self._segment.requests[self._request], self._segment.pricing
        unchanged = self._change(request.messages + 1)
        now, rules = request.when.timestamp(), pricing.cache
        known = self._cache.send(
            self._prompt, self._pieces, now, rules.ttl, unchanged=unchanged, points=request.points
        )
        tokens, cached = self._prompt.sizes[-1], rules.round(known)
        writable = count_writable(self._prompt.sizes, request.points, rules)
        uncached = (
            None
            if writable is None
            else mean_price(tokens - cached, writable - cached, pricing.write)
        )
        cost = pricing.cost_of(tokens, cached, uncached)
        return BilledRequest(
            tokens=tokens,
            cost=cost,
            dollars=pricing.in_dollars(cost),
            masked=bisect_right(self._counted, self._request),
            moved=self._request in self._moves,
        )

    def _change(self, pieces: int) -> int:
        """Add what is new or newly masked; return how many pieces stay as they were."""
        request, first = self._request, self._first
        unchanged = min(self._changes.get(request, NEVER), len(self._pieces))
        self._pieces[unchanged:] = [
            (self._masked if first[at] <= request else self._plain)[at]
            for at in range(unchanged, pieces)
        ]
        return unchanged


def _moving_requests(first: Sequence[int], followed: Sequence[int] | None) -> set[int]:
    """Return the requests that mask a result which the conversation's one before did not."""
    moves = {request for request in first if request > 0}
    before = [*(followed or ()), *[NEVER] * len(first)]
    pairs = zip(first, before, strict=False)
    if followed is not None and any(at == 0 and was == NEVER for at, was in pairs):
        moves.add(0)
    return moves


# For each tool result of a segment, the first request that masks it. Once masked, a result stays
# so: one number for each result says what every request looks like.


class EvaluatedSegment(NamedTuple):
    """What would be decided about a segment's tool results if all were old enough.

    `candidates` has the results as the boundary sees them, `pieces` the prompt with all of them
    masked.
    """

    decisions: tuple[Decision, ...]
    candidates: list[Candidate]
    pieces: list[Piece]


def evaluate_segment(
    segment: Segment, policy: MaskPolicy, prices: BoundaryPrices, counter: TokenCounter
) -> EvaluatedSegment:
    """Evaluate a segment's tool results.

    Policies that differ only in when the boundary moves have the same outcome.
    """
    conversation = segment.conversation
    decisions = tuple(evaluate(conversation.results, policy, prices, History()))
    return EvaluatedSegment(
        decisions,
        measure_candidates(decisions, segment.layout, History()),
        mask_pieces(segment.conversation, decisions, counter),
    )


def find_first_masked(
    segment: Segment, evaluated: EvaluatedSegment, policy: MaskPolicy, prices: BoundaryPrices
) -> list[int]:
    """Return, for each tool result, the first request of the segment that masks it."""
    if prices.slides:
        return find_first_masked_sliding(segment, evaluated, policy)
    layout = segment.layout
    boundary = Boundary(evaluated.candidates, policy, prices, layout.marked)
    # The boundary counts each answer of the assistant as a request, and nothing between two answers
    # moves it. So at each request it stands where it stands at the next answer.
    answers = [request.answers for request in segment.requests]
    newly_masked = list_newly_masked(boundary, layout.requests)
    by_request = ((bisect_left(answers, n), places) for n, places in enumerate(newly_masked))
    return _find_first_masked(segment, evaluated, by_request)


def find_first_masked_sliding(
    segment: Segment, evaluated: EvaluatedSegment, policy: MaskPolicy
) -> list[int]:
    """Return the same for a boundary that moves to the window's edge at every request."""
    candidates = [
        Candidate(result.turn, 0, 0, result.tool, result.target, len(result.images))
        for result in segment.conversation.results
    ]
    requests = [RequestSize(0, request.turns, request.results) for request in segment.requests]
    before = segment.layout.turns
    if any(
        c.turn is not None and c.turn >= turns for c, turns in zip(candidates, before, strict=True)
    ):
        found = list_masked_sliding(candidates, requests, policy)
    else:
        found = list_newly_masked(Boundary(candidates, policy, FREE), requests)
    first = _find_first_masked(segment, evaluated, enumerate(found))
    # What stands behind a request's last answer is not masked yet, though its call may be old.
    earlier = segment.layout.requests
    read = [earlier[r.answers - 1].results if r.answers else 0 for r in segment.requests]
    unread = {place: bisect_right(read, place) for place in range(len(first))}
    return [
        max(at, unread[place]) if at != NEVER and unread[place] < len(read) else NEVER
        for place, at in enumerate(first)
    ]


def list_newly_masked(
    boundary: Boundary, requests: Sequence[RequestSize]
) -> Iterator[Sequence[int]]:
    """Yield for each request the places of the results that it is the first to mask."""
    for request in requests:
        boundary.begin(request)
        boundary.decide()
        yield boundary.newly_masked()
        boundary.send()


def list_masked_sliding(
    candidates: Sequence[Candidate], requests: Sequence[RequestSize], policy: MaskPolicy
) -> Iterator[Sequence[int]]:
    """Yield for each request the places of all results that a sliding window masks.

    A result may stand before its own call, and only the call says which tool it is of. So each
    request is looked at by itself, in a time of requests times results.
    """
    for _, turns, count in requests:
        edge, pinned = window_edge(policy, turns), PinnedResults(policy)
        for place, result in enumerate(candidates[:count]):
            turn = result.turn
            is_called = turn is not None and turn < turns
            pinned.add(place, result.tool if is_called else None, result.images)
            if turn is not None and is_called and result.target is not None:
                pinned.add_latest(place, turn, result.target)
        reasons = pinned.reasons(edge)
        yield [
            place
            for place, result in enumerate(candidates[:count])
            if result.turn is not None and result.turn < edge and place not in reasons
        ]


def _find_first_masked(
    segment: Segment, evaluated: EvaluatedSegment, masked: Iterable[tuple[int, Sequence[int]]]
) -> list[int]:
    """Return the first request for each place, from requests in order and the places they mask."""
    first = [NEVER] * len(evaluated.decisions)
    for request, places in masked:
        for place in places:
            if evaluated.decisions[place].reason == "masked" and request < len(segment.requests):
                first[place] = min(first[place], request)
    return first
