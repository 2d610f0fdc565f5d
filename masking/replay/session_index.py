"""A session, decoded once, so that many policies can be tried on it.

It is cut into segments: requests that each begin with all the messages of the one before, under
the same tools. What is found in the last request of a segment holds for all of them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from masking.accounting.prefix_cache import Piece, chain
from masking.accounting.prompt import digest_of, digest_of_message, read_prompt
from masking.errors import WireError
from masking.measures.pricing import Pricing
from masking.measures.tokens import TokenCounter
from masking.model import Layout, ToolHistory
from masking.replay.replay import RecordedRequest, ReplaySettings, Session
from masking.replay.reread import Reference, find_references
from masking.rewrite import read_request
from masking.wire.chat import find_tool_results, lay_out


class IndexedRequest(NamedTuple):
    """A request of a segment: how many of the last one's messages it had, and what was in them.

    `answers` are messages of the assistant, `turns` and `results` those of tools.
    """

    when: datetime
    messages: int
    answers: int
    turns: int
    results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Requests of which each continues the one before; all but `requests` is the last one's.

    `seed` tells prompts apart that have nothing in common, `pieces` are the tool schemas and the
    messages, and `follows` is the segment whose conversation this one goes on with other tools.
    """

    seed: bytes
    pricing: Pricing
    follows: int | None
    requests: tuple[IndexedRequest, ...]
    pieces: tuple[Piece, ...]
    history: ToolHistory
    layout: Layout
    references: tuple[Reference, ...]


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
    def conversations(self) -> list[int]:
        """For each request, in order, the number of its conversation: its first segment's."""
        roots: list[int] = []
        for number, segment in enumerate(self.segments):
            roots.append(number if segment.follows is None else roots[segment.follows])
        return [roots[place.segment] for place in self.order]

    def references_by_request(self) -> Mapping[RequestPlace, Sequence[Reference]]:
        """Return what the calls refer to that answer each request."""
        found: defaultdict[RequestPlace, list[Reference]] = defaultdict(list)
        for number, segment in enumerate(self.segments):
            for reference in segment.references:
                found[RequestPlace(number, reference.request)].append(reference)
        return found


def index_session(
    session: Session, settings: ReplaySettings, counter: TokenCounter
) -> SessionIndex:
    """Decode a session; of the settings only prices, model and time to live matter.

    A body that is no Chat Completions request is passed over. Cache markers in messages are of no
    account: a message is taken as the last request spells it. Takes as long as decoding and
    digesting all the requests; the tokens of a message are counted once.
    """
    indexer = _Indexer(settings)
    for recorded in session.requests():
        document = _read_request(recorded)
        if document is not None:
            indexer.take(recorded, document)
    targets = settings.policy.target_arguments
    return SessionIndex(
        segments=tuple(segment.finish(counter, targets) for segment in indexer.segments),
        order=tuple(indexer.order),
    )


def _read_request(recorded: RecordedRequest) -> Mapping[str, object] | None:
    if recorded.passed_over is not None:
        return None
    try:
        document = read_request(recorded.body)
    except WireError:
        return None
    return document if isinstance(document.get("messages"), list) else None


@dataclass(slots=True, kw_only=True)
class _GrowingSegment:
    """A segment as it grows."""

    seed: bytes
    pricing: Pricing
    tools: bytes
    follows: int | None
    document: Mapping[str, object] = field(default_factory=dict)
    sent: list[tuple[datetime, int]] = field(default_factory=list)

    def finish(self, counter: TokenCounter, target_arguments: Sequence[str]) -> Segment:
        history = find_tool_results(self.document, target_arguments)
        layout = lay_out(self.document)
        messages = _messages(self.document)
        answers = {
            count: request
            for request, (_, count) in enumerate(self.sent)
            if count < len(messages) and _has_role(messages[count], "assistant")
        }
        return Segment(
            seed=self.seed,
            pricing=self.pricing,
            follows=self.follows,
            requests=tuple(self._index_requests(messages, layout)),
            pieces=read_prompt(self.document, (), counter).before,
            history=history,
            layout=layout,
            references=find_references(self.document, history.results, answers),
        )

    def _index_requests(self, messages: list[object], layout: Layout) -> list[IndexedRequest]:
        answers = _count_role(messages, "assistant")
        results = _count_role(messages, "tool")
        return [
            IndexedRequest(when, n, answers[n], layout.requests[answers[n]].turns, results[n])
            for when, n in self.sent
        ]


class _Indexer:
    """Cuts a session into segments. A request continues the latest conversation it begins with."""

    def __init__(self, settings: ReplaySettings) -> None:
        self.segments: list[_GrowingSegment] = []
        self.order: list[RequestPlace] = []
        self._settings = settings
        self._latest: dict[bytes, int] = {}

    def take(self, recorded: RecordedRequest, document: Mapping[str, object]) -> None:
        """Take in a request, the next of the session."""
        model = self._settings.model or _string(document.get("model"))
        seed = digest_of([recorded.host, model, recorded.account])
        prefixes = chain(seed, [digest_of_message(message) for message in _messages(document)])
        found = self._find_latest(prefixes)
        tools = digest_of(document.get("tools"))
        if found is None or self.segments[found].tools != tools:
            pricing = self._settings.find_pricing(recorded, model)
            self.segments.append(
                _GrowingSegment(seed=seed, pricing=pricing, tools=tools, follows=found)
            )
            found = len(self.segments) - 1
        segment = self.segments[found]
        self.order.append(RequestPlace(found, len(segment.sent)))
        segment.document = document
        segment.sent.append((recorded.when, len(prefixes)))
        if prefixes:
            self._latest[prefixes[-1]] = found

    def _find_latest(self, prefixes: list[bytes]) -> int | None:
        for prefix in reversed(prefixes):
            if prefix in self._latest:
                return self._latest.pop(prefix)
        return None


def _messages(document: Mapping[str, object]) -> list[object]:
    messages = document.get("messages")
    return messages if isinstance(messages, list) else []


def _count_role(messages: list[object], role: str) -> list[int]:
    """Return how many messages of a role there are before each place."""
    return [*accumulate((_has_role(message, role) for message in messages), initial=0)]


def _has_role(message: object, role: str) -> bool:
    return isinstance(message, dict) and message.get("role") == role


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
