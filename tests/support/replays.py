"""Conversations that grow turn by turn, replayed: for the tests of what a report shows."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from addon.replay.replay import RecordedRequest, ReplayedRequest, ReplaySettings, Session
from addon.replay.reread import NO_REREADS, Rereads
from addon.replay.totals import (
    ComparedRequest,
    ConversationSums,
    ConversationTotals,
    compare_requests,
    name_conversations,
)
from masking.accounting.bill import Bill, Money
from masking.model import ChatMessage
from masking.prices import CachePricing, PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from masking.wire.usage import Usage
from tests.support.builders import OLD, turn

COUNTER = TokenCounter()
POLICY = MaskPolicy(True, 3, skip_if_not_shorter=True)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A conversation's requests in order, with the window sliding and under the chosen policy."""

    name: str
    window_turns: int
    sliding: tuple[ReplayedRequest, ...]
    chosen: tuple[ReplayedRequest, ...]
    sliding_rereads: Rereads
    chosen_rereads: Rereads

    @property
    def compared(self) -> list[ComparedRequest]:
        """The requests, each under both."""
        return [ComparedRequest(*each) for each in zip(self.sliding, self.chosen, strict=True)]


def compare(session: Session, settings: ReplaySettings, counter: TokenCounter) -> list[Comparison]:
    """Replay a session and keep its requests; return its conversations."""
    found: defaultdict[int, list[ComparedRequest]] = defaultdict(list)
    for compared in compare_requests(session, settings, counter):
        found[compared.conversation].append(compared)
    names = name_conversations(session.name, found)
    return [
        Comparison(
            name=names[number],
            window_turns=settings.policy.window_turns,
            sliding=tuple(each.sliding for each in requests),
            chosen=tuple(each.chosen for each in requests),
            sliding_rereads=sum((each.sliding_rereads for each in requests), start=NO_REREADS),
            chosen_rereads=sum((each.chosen_rereads for each in requests), start=NO_REREADS),
        )
        for number, requests in found.items()
    ]


def billed_anew(request: ReplayedRequest, bill: Bill) -> ReplayedRequest:
    """Return a request with another bill."""
    return replace(request, entry=replace(request.entry, bill=bill))


FREE_OF_CHARGE = Bill(tokens=Money(1), dollars=Money(1))
"""The bill of a request that costs nothing."""


@dataclass(frozen=True)
class Talk:
    """A conversation of so many tool turns, one request each and a first one; a `Session`."""

    turns: int = 14
    name: str = "a talk"
    model: str | None = "gpt-4o"
    usage: Usage | None = None
    content: str = OLD * 10

    def requests(self) -> Iterator[RecordedRequest]:
        messages: list[ChatMessage] = [{"role": "user", "content": "go " * 600}]
        for number in range(self.turns + 1):
            body = {"model": self.model, "messages": messages}
            when = NOON + timedelta(seconds=number)
            yield RecordedRequest(body=json.dumps(body).encode(), when=when, usage=self.usage)
            messages = [*messages, *turn(f"call_{number}", f"{number} {self.content}")]


def settings(pricing: CachePricing = (0.5, 1.0), policy: MaskPolicy = POLICY) -> ReplaySettings:
    return ReplaySettings(
        strategies=Strategies(schema1=policy), price_settings=PriceSettings(pricing)
    )


@cache
def replayed(
    talk: Talk, pricing: CachePricing = (0.5, 1.0), policy: MaskPolicy = POLICY
) -> Comparison:
    (found,) = compare(talk, settings(pricing, policy), COUNTER)
    return found


def add_up(comparison: Comparison) -> ConversationTotals:
    """Return what the requests of a conversation come to, and the calls that it has."""
    sums = ConversationSums(comparison.window_turns)
    for compared in comparison.compared:
        sums.add(compared)
    counted = replace(
        sums.totals,
        sliding_rereads=comparison.sliding_rereads,
        chosen_rereads=comparison.chosen_rereads,
    )
    return ConversationTotals(comparison.name, counted)
