"""Recorded requests under a policy, one after the other, masked and billed as the addon does."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from masking.accounting import (
    Entry,
    Ledger,
    Sent,
    Sizes,
    digest_of,
    measure,
    read_pieces,
    read_prompt,
)
from masking.arrival import Arrived
from masking.config import RequestFacts, Rule, find_first
from masking.conversation import Conversation, take_apart
from masking.errors import WireError
from masking.memory import BoundaryMemory, Memories
from masking.model import Reason
from masking.prices import PriceSettings, Pricing
from masking.request_cache import RequestCache
from masking.rewrite import Step, Strategies
from masking.roads import ROADS, OtherRoads, RoadName, Untaken
from masking.tokens import TokenCounter
from masking.window import MaskPolicy, price_boundary, price_request
from masking.wire import CHAT, Usage, WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One recorded request: its body, decompressed, and what else the recording says.

    host: None if it is not known.
    account: requests of different accounts are never of one conversation.
    usage: what the provider reported.
    counted: the body that this is of, which is another where the session was masked already; None
        where nothing of the session was.
    passed_over: why the request cannot be masked; it then has no body. None if it can.
    wire: the format it is in.
    path: the path of its URL, without the query.
    client, headers: what rules may match, where the recording has it; names in lower case.
    """

    body: bytes
    when: datetime
    host: str | None = None
    account: str = ""
    usage: Usage | None = None
    counted: bytes | None = None
    passed_over: str | None = None
    wire: WireFormat = CHAT
    path: str = ""
    client: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def read(self, cache: RequestCache) -> Conversation:
        """Read the request; what the cache knows is not read again.

        Raises WireError if it cannot be masked.
        """
        if self.passed_over is not None:
            raise WireError(self.passed_over)
        return cache.read(self.body, self.wire, self.path)


class Session(Protocol):
    """A recording, or one conversation of a file. It can be pickled."""

    @property
    def name(self) -> str:
        """The name under which it is shown."""

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests in the order in which they were sent."""


class Pause(NamedTuple):
    """A pause of `seconds` after every `every` requests."""

    every: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PausedSession:
    """A session whose user was away now and then; itself a `Session`.

    This is for conversations whose times are not known. What the provider reported as cached holds
    without the pauses, so the cache is simulated instead.
    """

    session: Session
    pause: Pause

    @property
    def name(self) -> str:
        """The name under which it is shown."""
        return self.session.name

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield the requests, each later by the pauses before it."""
        for number, recorded in enumerate(self.session.requests()):
            late = timedelta(seconds=number // self.pause.every * self.pause.seconds)
            counted = recorded.usage and Usage(prompt=recorded.usage.prompt)
            yield replace(recorded, when=recorded.when + late, usage=counted)


class Ruled(NamedTuple):
    """What a rule changes about the requests that it is for."""

    strategies: Strategies
    price_settings: PriceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How sessions are replayed.

    model: replaces the recorded models and hosts: its prices hold, and what it lets be masked. What
        the cache held is then simulated.
    ttl: the seconds after which a simulated cache forgets an unused prompt; None for never.
    slides: the boundary moves at every turn, whatever the prices.
    remembers: what was sent masked or shortened is remembered, as in mitmdump.
    rules: strategies and prices for some requests; the first rule that fits a request counts.
    taken: the roads that the configuration switches on.
    """

    strategies: Strategies
    price_settings: PriceSettings = field(default_factory=PriceSettings)
    model: str | None = None
    ttl: float | None = None
    slides: bool = False
    remembers: bool = False
    rules: tuple[tuple[Rule, Ruled], ...] = ()
    taken: tuple[RoadName, ...] = ()

    def choose(self, recorded: RecordedRequest, conversation: Conversation) -> "ReplaySettings":
        """Return the settings that hold for a request."""
        facts = RequestFacts(
            recorded.host, conversation.model, recorded.path, recorded.client, recorded.headers
        )
        found = find_first(self.rules, facts, None)
        if found is None:
            return self
        strategies, price_settings = found
        return replace(self, strategies=strategies, price_settings=price_settings)

    @property
    def policy(self) -> MaskPolicy:
        """The settings of the window."""
        return self.strategies.schema1

    @property
    def boundary_slides(self) -> bool:
        """Whether the boundary moves at every turn, as asked for here or by the price settings."""
        return self.slides or self.price_settings.slides

    def find_pricing(self, recorded: RecordedRequest, conversation: Conversation) -> Pricing:
        """Return the prices by which a request is billed."""
        host, request = None if self.model else recorded.host, conversation.request
        pricing = price_request(self.price_settings, host, request.model, request)
        return pricing if self.ttl is None else pricing.forget_after(self.ttl)

    def cache_scope(self, recorded: RecordedRequest, conversation: Conversation) -> bytes:
        """Return bytes that differ for requests of different hosts, models and accounts."""
        return digest_of([recorded.host, conversation.model, recorded.account])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRequest:
    """The outcome of one request: its sizes, a reason for each tool result, and its bill.

    number: of the recorded request, counted from 1.
    pricing: the prices by which it was billed.
    left_out: the characters that were left out of each result that was shortened, by its place.
    when: when it was sent.
    """

    number: int
    model: str | None
    pricing: Pricing
    sizes: Sizes
    reasons: tuple[Reason, ...]
    entry: Entry
    left_out: Mapping[int, int] = field(default_factory=dict)
    when: datetime


def replay(
    session: Session,
    settings: ReplaySettings,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
    *,
    with_roads: bool = False,
) -> Iterator[ReplayedRequest]:
    """Yield the outcome of each request of a session.

    A request that cannot be masked is skipped, and counted by reason in `passed_over`.

    with_roads: bill it by the other roads, too, where reasoning is bound.
    """
    for (request,) in replay_side_by_side(
        session, (settings,), counter, passed_over, with_roads=with_roads
    ):
        yield request


def replay_side_by_side(
    session: Session,
    policies: Sequence[ReplaySettings],
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
    *,
    with_roads: bool = False,
) -> Iterator[tuple[ReplayedRequest, ...]]:
    """Yield the outcomes of each request under several settings, as `replay` does for one.

    A request is read, and its elements counted, once for all of them. The other roads are those
    beside the first.
    """
    bodies, counted = RequestCache(), RequestCache()
    replayers = [
        _Replayer(settings, counter, OtherRoads() if with_roads and not at else None, counted)
        for at, settings in enumerate(policies)
    ]
    for number, recorded in enumerate(session.requests(), 1):
        try:
            client = recorded.read(bodies)
            beside = [take_apart(client, str(at)) for at in range(1, len(replayers))]
            clients = zip(replayers, [client, *beside], strict=True)
            yield tuple([replayer.replay(number, recorded, own) for replayer, own in clients])
        except WireError as error:
            if passed_over is not None:
                passed_over[error.problem] += 1


class _Replayer:
    """Decides and bills the requests of a session, one after the other, as the addon does."""

    def __init__(
        self,
        settings: ReplaySettings,
        counter: TokenCounter,
        roads: OtherRoads | None,
        counted: RequestCache,
    ) -> None:
        self._settings, self._counter, self._roads = settings, counter, roads
        self._asks = {
            name: is_asked for road in settings.taken for name, is_asked in ROADS[road].asks.items()
        }
        self._ledger = Ledger()
        self._counted_cache = counted
        self._memories = Memories(BoundaryMemory()) if settings.remembers else None

    def replay(
        self, number: int, recorded: RecordedRequest, client: Conversation
    ) -> ReplayedRequest:
        """Replay the next request. Raises WireError if it cannot be masked."""
        recorded_model, model = client.model, self._settings.model
        settings = self._settings.choose(recorded, client)  # a rule is for the recorded model
        if model is not None:
            client.request.name_model(model)
        pricing = settings.find_pricing(recorded, client)
        prices = price_boundary(pricing, slides=settings.boundary_slides, marks=client.marks)

        # Decide, with what is remembered of the conversation. The simulated cache's time to live is
        # its lifetime.
        step = Step(
            client,
            settings.strategies,
            prices,
            self._memories,
            now=recorded.when.timestamp(),
            lifetime=math.inf if settings.ttl is None else settings.ttl,
        )
        outcome = step.rewrite(**self._asks)
        step.remember(outcome)
        untaken: Sequence[Untaken] = ()
        if self._roads is not None and client.binding is not None and settings.policy.masks:
            untaken = [*self._roads.go(step, settings.taken, self._counter)]
        arrived, conversation = step.arrived, outcome.conversation

        # Bill. What the provider reported is of the prompt before masking, or else of the one that
        # was sent in its place, and holds for the recorded model alone.
        is_recorded_model = model in (None, recorded_model)
        prompt, pieces = read_prompt(outcome, self._counter), None
        if recorded.counted is not None and is_recorded_model:
            pieces = prompt.before
            if recorded.counted != recorded.body:
                sent_as = self._counted_cache.read(recorded.counted, recorded.wire, recorded.path)
                pieces = read_pieces(sent_as, self._counter)
        usage = recorded.usage
        if usage is not None and not is_recorded_model:
            usage = Usage(completion=usage.completion)
        sent = Sent(
            cache_scope=settings.cache_scope(recorded, conversation),
            prompt=prompt,
            masked=outcome.masked,
            usage=usage,
            when=recorded.when,
            is_masked=False,
            left_unmasked=outcome.left_unmasked,
            pieces=pieces,
        )
        entry = self._ledger.enter(sent, pricing)
        if self._roads is not None:
            entry = self._roads.enter(entry, untaken, sent, pricing)
        return ReplayedRequest(
            number=number,
            model=conversation.model,
            pricing=pricing,
            sizes=measure(outcome, prompt),
            reasons=tuple(decision.reason for decision in outcome.decisions),
            entry=entry,
            left_out=measure_left_out(arrived),
            when=recorded.when,
        )


def measure_left_out(arrived: Arrived) -> Mapping[int, int]:
    """Return the characters that were left out of each shortened result, by its place."""
    return {
        each.place: sum(len(cut.text) - len(cut.placeholder) for cut in each.replacements)
        for each in arrived.shortened
    }
