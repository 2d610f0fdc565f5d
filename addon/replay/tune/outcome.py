"""What a policy yields on recorded sessions, in sums that can be added."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from addon.replay.reread import Rereads
from addon.replay.session_index import SessionIndex
from addon.replay.tune.fast_replay import BilledRequest, BilledSession
from masking.accounting.worst_bill import AS_MUCH, find_worst_bill


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Sums over requests, except for `worst`.

    assumed: the requests whose prices were assumed.
    cost: in input-token equivalents.
    dollars: None if a price is not known.
    moves: the requests that masked a result which was not masked before.
    worst: the highest bill of any conversation at any of its requests, relative to that of sending
        everything.
    """

    requests: int = 0
    assumed: int = 0
    tokens: int = 0
    cost: float = 0.0
    dollars: float | None = 0.0
    moves: int = 0
    worst: float = 0.0
    rereads: Rereads = field(default_factory=Rereads)

    def __add__(self, other: "Outcome") -> "Outcome":
        """Return the outcome of two groups of sessions together."""
        known = self.dollars is not None and other.dollars is not None
        return Outcome(
            requests=self.requests + other.requests,
            assumed=self.assumed + other.assumed,
            tokens=self.tokens + other.tokens,
            cost=self.cost + other.cost,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
            moves=self.moves + other.moves,
            worst=max(self.worst, other.worst),
            rereads=self.rereads + other.rereads,
        )


def sum_up(billed: BilledSession, plain: Sequence[BilledRequest], index: SessionIndex) -> Outcome:
    """Return what a policy yields on a session; `plain` are the requests with everything sent."""
    requests = billed.requests
    worst_bills = (
        find_worst_bill((requests[at].cost for at in own), (plain[at].cost for at in own))
        for own in index.conversations
    )
    known = [request.dollars for request in requests if request.dollars is not None]
    return Outcome(
        requests=len(requests),
        assumed=sum(len(s.requests) for s in index.segments if s.pricing.source == "assumed"),
        tokens=sum(request.tokens for request in requests),
        cost=sum(request.cost for request in requests),
        dollars=sum(known) if len(known) == len(requests) else None,
        moves=sum(request.moved for request in requests),
        worst=max(((bill or AS_MUCH).part for bill in worst_bills), default=0.0),
        rereads=billed.rereads,
    )
