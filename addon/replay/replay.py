"""Recorded requests under a policy, one after the other, masked and billed as the addon does."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, Protocol

from masking.accounting.counted import digest_of
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.accounting.prompt import read_prompt
from masking.accounting.sizes import Sizes, measure
from masking.conversation import Conversation
from masking.errors import WireError
from masking.measures.price_settings import PriceSettings
from masking.measures.pricing import Pricing, find_pricing
from masking.measures.tokens import TokenCounter
from masking.memory.boundary_memory import BoundaryMemory
from masking.reasons import Reason
from masking.rewrite import Rewrite, change_request, read_request
from masking.rules import RequestFacts, Rule, find_first
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy, apply_pricing
from masking.wire.chat import CHAT
from masking.wire.usage import Usage
from masking.wire_format import WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One recorded request: its body, decompressed, and what else the recording says.

    host: None if it is not known.
    account: requests of different accounts are never of one conversation.
    usage: what the provider reported.
    passed_over: why the request cannot be masked; it then has no body. None if it can.
    wire: the format it is in.
    path: that of its URL, without the query.
    client, headers: what rules may ask for, where the recording has it; names in lower case.
    """

    body: bytes
    when: datetime
    host: str | None = None
    account: str = ""
    usage: Usage | None = None
    passed_over: str | None = None
    wire: WireFormat = CHAT
    path: str = ""
    client: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Session(Protocol):
    """A recording, or one conversation of a file. It can be pickled."""

    @property
    def name(self) -> str:
        """The name under which it is shown."""

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests in the order in which they were sent."""


class Ruled(NamedTuple):
    """What a rule changes about the requests that it is for."""

    strategies: Strategies
    price_settings: PriceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How sessions are replayed.

    model: replaces the recorded models and hosts; what the cache held is then simulated.
    ttl: the seconds after which a simulated cache forgets an unused prompt; None for never.
    slides: the boundary moves at every turn, whatever the prices.
    remembers: the boundary that was sent is remembered, as in mitmdump.
    others: the strategies besides the window.
    rules: what holds in place of policy, prices and strategies; the first rule that fits does.
    """

    policy: MaskPolicy
    price_settings: PriceSettings = field(default_factory=PriceSettings)
    model: str | None = None
    ttl: float | None = None
    slides: bool = False
    remembers: bool = False
    others: Strategies = field(default_factory=Strategies)
    rules: tuple[tuple[Rule, Ruled], ...] = ()

    def choose(self, recorded: RecordedRequest, conversation: Conversation) -> "ReplaySettings":
        """Return the settings that hold for a request."""
        facts = RequestFacts(
            recorded.host, conversation.model, recorded.path, recorded.client, recorded.headers
        )
        found = find_first(self.rules, facts, None)
        if found is None:
            return self
        strategies, price_settings = found
        policy = strategies.schema1
        return replace(self, policy=policy, price_settings=price_settings, others=strategies)

    @property
    def price_lists(self) -> list[str]:
        """The paths of the price lists that take the place of the shipped one."""
        settings = [self.price_settings, *(ruled.price_settings for _, ruled in self.rules)]
        return [each.price_list for each in settings if each.price_list]

    @property
    def boundary_slides(self) -> bool:
        """Whether the boundary moves at every turn, as asked for here or by the price settings."""
        return self.slides or self.price_settings.slides

    def find_pricing(self, recorded: RecordedRequest, conversation: Conversation) -> Pricing:
        """Return the prices by which a request is billed."""
        model, host = self.model or conversation.model, None if self.model else recorded.host
        marks = conversation.marks
        pricing = find_pricing(
            self.price_settings,
            host,
            model,
            is_marked=marks.are_there,
            lifetime=marks.last_lifetime,
        )
        return pricing if self.ttl is None else pricing.forget_after(self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRequest:
    """What became of one request: its sizes, a reason for each tool result, and its bill.

    `pricing` has the prices by which it was billed.
    """

    model: str | None
    pricing: Pricing
    sizes: Sizes
    reasons: tuple[Reason, ...]
    entry: Entry


def replay(
    session: Session,
    settings: ReplaySettings,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
) -> Iterator[ReplayedRequest]:
    """Yield what becomes of each request of a session.

    A body that is not a Chat Completions request is skipped, as the addon passes it through, and
    counted by reason.
    """
    ledger = Ledger()
    memory = BoundaryMemory() if settings.remembers else None
    for recorded in session.requests():
        try:
            if recorded.passed_over is not None:
                raise WireError(recorded.passed_over)
            yield _replay_request(recorded, settings, counter, ledger, memory)
        except WireError as error:
            if passed_over is not None:
                passed_over[error.problem] += 1


def _replay_request(
    recorded: RecordedRequest,
    settings: ReplaySettings,
    counter: TokenCounter,
    ledger: Ledger,
    memory: BoundaryMemory | None,
) -> ReplayedRequest:
    conversation = read_request(recorded.body, recorded.wire, recorded.path)
    settings = settings.choose(recorded, conversation)
    named = conversation.model
    model = settings.model or named
    pricing = settings.find_pricing(recorded, conversation)
    policy = apply_pricing(
        settings.policy, pricing, slides=settings.boundary_slides, marks=conversation.marks
    )
    strategies = replace(settings.others, schema1=policy)
    outcome = _change(recorded, settings, conversation, strategies, memory)
    prompt = read_prompt(outcome, counter)
    sent = Sent(
        seed=digest_of([recorded.host, model, recorded.account]),
        prompt=prompt,
        masked=outcome.masked,
        usage=recorded.usage if settings.model in (None, named) else None,
        when=recorded.when,
        is_masked=False,
        left_whole=outcome.left_whole,
    )
    return ReplayedRequest(
        model=model,
        pricing=pricing,
        sizes=measure(outcome, recorded.body, prompt),
        reasons=tuple(decision.reason for decision in outcome.decisions),
        entry=ledger.enter(sent, pricing),
    )


def _change(
    recorded: RecordedRequest,
    settings: ReplaySettings,
    conversation: Conversation,
    strategies: Strategies,
    memory: BoundaryMemory | None,
) -> Rewrite:
    """Change a request as the addon does. The simulated cache's time to live is its lifetime."""
    if memory is None or not strategies.schema1.masks:
        return change_request(recorded.body, conversation, strategies)
    lifetime = math.inf if settings.ttl is None else settings.ttl
    occasion = memory.meet(conversation, recorded.when.timestamp(), lifetime)
    outcome = change_request(recorded.body, conversation, strategies, occasion=occasion)
    memory.keep(occasion, outcome.past)
    return outcome
