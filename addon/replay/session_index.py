"""A session, decoded once, so that many policies can be tried on it.

It is split into segments: requests of which each begins with all messages of the one before, with
the same tools and at the same prices. What the last request of a segment shows holds for all of
them.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from addon.replay.replay import RecordedRequest, ReplaySettings, Session, measure_left_out
from addon.replay.reread import Reference, find_references
from masking.accounting import (
    CachePoints,
    LatestRequests,
    Piece,
    cache_points,
    chain,
    digest_elements,
    digest_head,
    marked_pieces,
    read_pieces,
)
from masking.arrival import ArrivalPolicy, Arrived, LongResult, decide_arrivals, shorten
from masking.conversation import Conversation, find_answers, with_targets
from masking.errors import WireError
from masking.memory import BoundaryMemory
from masking.prices import Pricing
from masking.request_cache import RequestCache
from masking.tokens import TokenCounter
from masking.window import Layout, is_summary_request, lay_out


class IndexedRequest(NamedTuple):
    """A request of a segment: how many of the last one's messages it had, and what was in them.

    `answers` counts the assistant's answers, `turns` and `results` tool turns and tool results.
    `points` say where a cache is read and written; None if anywhere.
    """

    when: datetime
    messages: int
    answers: int
    turns: int
    results: int
    points: CachePoints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Requests of which each continues the one before. Most fields are the last request's.

    seed: different for prompts that have nothing in common.
    follows: the segment whose conversation this one continues with other tools or at other prices.
    requests: all requests of the segment.
    pieces: the tool schemas, then the messages; `conversation` as well is after arrival, and
        `client_pieces` are before it.
    left_out: the characters that were left out of each result that was shortened, by its place.
    asks_summary: whether its one request is an agent's for a summary.
    """

    seed: bytes
    pricing: Pricing
    follows: int | None
    requests: tuple[IndexedRequest, ...]
    pieces: tuple[Piece, ...]
    client_pieces: tuple[Piece, ...]
    conversation: Conversation
    layout: Layout
    references: tuple[Reference, ...]
    left_out: Mapping[int, int] = field(default_factory=dict)
    asks_summary: bool = False


class RequestPlace(NamedTuple):
    """A request of a session: its segment, and its number in that."""

    segment: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIndex:
    """The segments of a session, and its requests in the order in which they were sent."""

    segments: tuple[Segment, ...]
    order: tuple[RequestPlace, ...]

    @property
    def first_segments(self) -> list[int]:
        """For each segment the first of its conversation."""
        found: list[int] = []
        for number, segment in enumerate(self.segments):
            follows = segment.follows
            found.append(number if follows is None else found[follows])
        return found

    @property
    def conversations(self) -> list[list[int]]:
        """For each conversation, in order, which of the requests are its own, counted from 0."""
        first_segments = self.first_segments
        conversations: defaultdict[int, list[int]] = defaultdict(list)
        for request, place in enumerate(self.order):
            conversations[first_segments[place.segment]].append(request)
        return list(conversations.values())

    def references_by_request(self) -> Mapping[RequestPlace, Sequence[Reference]]:
        """Return, by request, what the calls that answer it refer to."""
        found: defaultdict[RequestPlace, list[Reference]] = defaultdict(list)
        for number, segment in enumerate(self.segments):
            for reference in segment.references:
                found[RequestPlace(number, reference.request)].append(reference)
        return found


def index_session(
    session: Session, settings: ReplaySettings, counter: TokenCounter
) -> SessionIndex:
    """Decode a session. Only prices, model, time to live and arrival of the settings matter.

    What is shortened at arrival is the same under every policy, unless masking is off.

    A request that cannot be masked is skipped. A message is as the last request spells it,
    but for cache marks, of which each request has its own. The time is that of decoding and
    digesting all requests; the tokens of a message are counted once.
    """
    indexer, cache = _Indexer(settings), RequestCache()
    for recorded in session.requests():
        try:
            conversation = recorded.read(cache)
        except WireError:
            continue
        indexer.add(recorded, conversation)
    targets = settings.policy.target_arguments
    return SessionIndex(
        segments=tuple(segment.finish(counter, targets) for segment in indexer.segments),
        order=tuple(indexer.order),
    )


@dataclass(slots=True, kw_only=True)
class _GrowingSegment:
    """A segment as it grows."""

    seed: bytes
    pricing: Pricing
    head: bytes
    follows: int | None
    conversation: Conversation
    asks_summary: bool = False
    arrival: ArrivalPolicy | None = None
    long_results: tuple[LongResult, ...] = ()
    sent: list[tuple[datetime, int, tuple[int, ...]]] = field(default_factory=list)
    """The requests: when, how many messages, and the places of the marked pieces."""

    def is_continued_by(self, conversation: Conversation, head: bytes, pricing: Pricing) -> bool:
        """Whether a request has the segment's tools, its prices, and marks in the same parts."""
        was, now = self.conversation.marks, conversation.marks
        is_marked_alike = (was.in_head, was.in_list) == (now.in_head, now.in_list)
        return is_marked_alike and head == self.head and pricing == self.pricing

    def finish(self, counter: TokenCounter, target_arguments: Sequence[str]) -> Segment:
        client, arrived = self.conversation, self._shorten()
        conversation = with_targets(arrived.conversation, target_arguments)
        layout = lay_out(conversation)
        speakers = [element.speaker for element in conversation.elements]
        client_pieces = read_pieces(client, counter)
        pieces = client_pieces
        if arrived.shortened:
            pieces = read_pieces(arrived.conversation, counter)
        answers = {
            count: request
            for request, (_, count, _) in enumerate(self.sent)
            if speakers[count : count + 1] == ["assistant"]
        }
        return Segment(
            seed=self.seed,
            pricing=self.pricing,
            follows=self.follows,
            requests=tuple(self._index_requests(conversation, layout, pieces)),
            pieces=pieces,
            client_pieces=client_pieces,
            conversation=conversation,
            layout=layout,
            references=find_references(client, answers, self.arrival),
            left_out=measure_left_out(arrived),
            asks_summary=self.asks_summary,
        )

    def _shorten(self) -> Arrived:
        """Return the last request after arrival; as its client wrote it where that cannot be."""
        with suppress(WireError):
            return shorten(self.conversation, self.long_results)
        return Arrived(self.conversation, self.conversation)

    def _index_requests(
        self, conversation: Conversation, layout: Layout, pieces: Sequence[Piece]
    ) -> Iterator[IndexedRequest]:
        elements = conversation.elements
        results = [*accumulate((len(element.results) for element in elements), initial=0)]
        in_runs = conversation.wire.answers_in_runs
        begun = [answer.start for answer in find_answers(elements, in_runs=in_runs)]
        for when, count, marked in self.sent:
            answers = bisect_left(begun, count)
            turns = layout.requests[answers].turns
            points = cache_points(pieces[: count + 1], self.pricing.cache, marked)
            yield IndexedRequest(when, count, answers, turns, results[count], points)


class _Indexer:
    """Splits a session into segments. A request continues the latest conversation it extends."""

    def __init__(self, settings: ReplaySettings) -> None:
        self.segments: list[_GrowingSegment] = []
        self.order: list[RequestPlace] = []
        self._settings = settings
        self._latest: LatestRequests[int] = LatestRequests()
        self._memory = BoundaryMemory() if settings.remembers else None

    def add(self, recorded: RecordedRequest, conversation: Conversation) -> None:
        """Add the next request of the session."""
        strategies = self._settings.choose(recorded, conversation).strategies
        if self._settings.model is not None:
            conversation.request.name_model(self._settings.model)
        seed = self._settings.seed(recorded, conversation)
        prefixes = chain(seed, digest_elements(conversation))
        continued = self._latest.find(prefixes)
        found = None if continued is None else continued.conversation
        head = digest_head(conversation)
        pricing = self._settings.find_pricing(recorded, conversation)
        asks_summary = is_summary_request(conversation)
        is_continued = found is not None and self.segments[found].is_continued_by(
            conversation, head, pricing
        )
        if found is None or asks_summary or not is_continued:
            self.segments.append(
                _GrowingSegment(
                    seed=seed,
                    pricing=pricing,
                    head=head,
                    follows=found,
                    conversation=conversation,
                    asks_summary=asks_summary,
                )
            )
            found = len(self.segments) - 1
        segment = self.segments[found]
        self.order.append(RequestPlace(found, len(segment.sent)))
        segment.conversation = conversation
        if strategies.shortens and strategies.arrival.enabled:
            segment.arrival = strategies.arrival
            segment.long_results = self._decide(conversation, strategies.arrival)
        segment.sent.append((recorded.when, len(prefixes), tuple(marked_pieces(conversation))))
        if continued is None or not asks_summary:  # the conversation goes on as if it had not been
            self._latest.replace(continued, prefixes, found)

    def _decide(self, conversation: Conversation, arrival: ArrivalPolicy) -> tuple[LongResult, ...]:
        """Decide the long results of a request, as `arrive` does."""
        if self._memory is None:
            if conversation.binding is not None:
                return ()
            return decide_arrivals(conversation, arrival)
        known = self._memory.lookup_results(conversation)
        decided = decide_arrivals(conversation, arrival, known.sent)
        self._memory.store_results(known, Arrived(conversation, conversation, decided))
        return decided
