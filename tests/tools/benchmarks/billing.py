"""Bill sessions at given prices, whatever decides what is masked in them.

Nothing that a provider reported is read: its cache is simulated, and forgets nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from addon.replay.references import SessionReferences
from addon.replay.replay import RecordedRequest, ReplaySettings, Session
from addon.replay.reread import NEVER, NO_REREADS, Rereads, count_rereads
from masking.accounting import Entry, Ledger, Sent, read_prompt
from masking.conversation import Conversation
from masking.errors import WireError
from masking.prices import PriceSettings, Pricing
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Step, Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy, price_boundary
from tests.support.builders import unchanged

Rule = Callable[[Conversation, Pricing], Rewrite]
"""Says what goes out for a request that is billed at these prices."""


class BilledRequest(NamedTuple):
    """A request's entry in the ledger, and the calls that refer to what it no longer showed."""

    entry: Entry
    rereads: Rereads


def bill_requests(
    session: Session,
    rule: Rule,
    price: Pricing,
    counter: TokenCounter,
    references: SessionReferences | None = None,
) -> Iterator[BilledRequest]:
    """Yield the requests of a session under a rule, at these ratios; `references` are its own."""
    settings = ReplaySettings(strategies=Strategies(), price_settings=PriceSettings(price.ratios))
    found = (references or SessionReferences(session)).find(settings)
    ledger, cache = Ledger(), RequestCache()
    for number, recorded in enumerate(session.requests(), 1):
        try:
            client = recorded.read(cache)
        except WireError:
            continue
        pricing = settings.find_pricing(recorded, client)
        rewrite = rule(client, pricing)
        entry = ledger.enter(_send(recorded, rewrite, settings, counter), pricing)
        first = [0 if place in rewrite.masked else NEVER for place in range(len(client.results))]
        yield BilledRequest(entry, count_rereads(found.get(number, ()), first))


def _send(
    recorded: RecordedRequest, rewrite: Rewrite, settings: ReplaySettings, counter: TokenCounter
) -> Sent:
    return Sent(
        cache_scope=settings.cache_scope(recorded, rewrite.conversation),
        prompt=read_prompt(rewrite, counter),
        masked=rewrite.masked,
        usage=None,
        when=recorded.when,
        is_masked=False,
        left_unmasked=rewrite.left_unmasked,
    )


def follow(policy: MaskPolicy, believed: tuple[float, float] | None = None) -> Rule:
    """Return our rule; if other prices are `believed`, they decide where the boundary is."""

    def rule(client: Conversation, pricing: Pricing) -> Rewrite:
        read, write = believed or pricing.ratios
        trusted = replace(pricing, read=read, write=write)
        prices = price_boundary(trusted, slides=False, marks=client.marks)
        return Step(client, Strategies(schema1=policy), prices).rewrite()

    return rule


def send_all(client: Conversation, _: Pricing) -> Rewrite:
    """Return a request as it is; a `Rule`."""
    return unchanged(client)


class Sums(NamedTuple):
    """What a session costs under a rule and when everything is sent, and the calls it affects."""

    paid: float
    whole: float
    rereads: Rereads

    @property
    def bill(self) -> float:
        """The bill as a part of that of sending everything."""
        return self.paid / self.whole if self.whole else 1.0

    def join(self, other: "Sums") -> "Sums":
        """Put two lots of sessions together."""
        return Sums(self.paid + other.paid, self.whole + other.whole, self.rereads + other.rereads)


NOTHING = Sums(0.0, 0.0, NO_REREADS)


def sum_up(requests: Iterator[BilledRequest]) -> Sums:
    """Return the sums over requests."""
    billed: Sequence[BilledRequest] = [*requests]
    return Sums(
        sum(each.entry.cost.after.cost for each in billed),
        sum(each.entry.cost.before.cost for each in billed),
        sum((each.rereads for each in billed), start=NO_REREADS),
    )
