"""A session that was masked when it was recorded costs in a replay what it cost live."""

import functools
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from addon.replay.replay import RecordedRequest, ReplayedRequest, ReplaySettings, replay
from masking.accounting import Entry, Ledger, Sent, read_pieces, read_prompt
from masking.accounting.bill import NO_BILL
from masking.conversation import Piece
from masking.prices import PriceSettings, Pricing
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import price_boundary
from masking.wire import Usage
from tests.support.builders import policy
from tests.support.marks import thorough
from tests.support.priced import rewrite_request
from tests.support.talks import grow, work

COUNTER = TokenCounter()
WINDOW = 4


def choose(window_turns: int = WINDOW, *, enabled: bool = True) -> ReplaySettings:
    return ReplaySettings(
        strategies=Strategies(schema1=replace(policy(window_turns=window_turns), enabled=enabled)),
        price_settings=PriceSettings((0.1, 1.25)),
    )


@dataclass
class Provider:
    """Counts so many tokens for one of ours, and caches any prefix of whole messages."""

    ratio: float
    before: Sequence[Piece] = ()

    def count(self, pieces: Sequence[Piece]) -> Usage:
        pairs = zip(pieces, self.before, strict=False)
        same = itertools.takewhile(lambda pair: pair[0].digest == pair[1].digest, pairs)
        cached = sum(piece.tokens for piece, _ in same)
        self.before = pieces
        whole = sum(piece.tokens for piece in pieces)
        return Usage(prompt=round(self.ratio * whole), cached=round(self.ratio * cached))


@dataclass
class Session:
    """Recorded requests, each with what was counted in place of it; itself a `Session`."""

    recorded: list[RecordedRequest]
    name: str = "behind the addon"

    def requests(self) -> Iterator[RecordedRequest]:
        yield from self.recorded


@functools.cache
def send(ratio: float, uncounted: int | None = None) -> tuple[Session, list[Entry], Pricing]:
    """Send a session masked; return its recording, and what the ledger said of it live.

    uncounted: the number of a request of which the provider reports nothing.
    """
    settings, ledger, provider = choose(), Ledger(), Provider(ratio)
    recorded, entries = [], []
    for number, each in enumerate(grow(work(20)).requests()):
        client = read_request(each.body)
        pricing = settings.find_pricing(each, client)
        prices = price_boundary(pricing, slides=False, marks=client.marks)
        rewrite = rewrite_request(client, settings.strategies, prices=prices)
        usage = provider.count(read_pieces(read_request(rewrite.body), COUNTER))
        recorded.append(
            replace(each, usage=None if number == uncounted else usage, counted=rewrite.body)
        )
        sent = Sent(
            cache_scope=b"", prompt=read_prompt(rewrite, COUNTER), masked=rewrite.masked,
            usage=recorded[-1].usage, when=each.when, is_masked=True,
        )  # fmt: skip
        entries.append(ledger.enter(sent, pricing))
    assert sum((each.bill for each in entries), start=NO_BILL).tokens.saved > 0
    return Session(recorded), entries, pricing


def play(session: Session, settings: ReplaySettings) -> list[ReplayedRequest]:
    return [*replay(session, settings, COUNTER)]


each_ratio = pytest.mark.parametrize("ratio", [0.6, thorough(1.0), 1.4])


@each_ratio
def test_under_the_same_settings_it_costs_what_it_cost_live(ratio: float) -> None:
    session, live, _ = send(ratio)
    replayed = play(session, choose())
    assert [entry.cost for entry in live] == [each.entry.cost for each in replayed]
    assert [entry.move for entry in live] == [each.entry.move for each in replayed]


@each_ratio
@pytest.mark.parametrize(
    "settings", [choose(2), choose(12), choose(enabled=False)], ids=["masks more", "less", "off"]
)
def test_under_others_what_was_paid_stays_and_the_rest_is_within_its_margin(
    ratio: float, settings: ReplaySettings
) -> None:
    session, live, pricing = send(ratio)
    whole, chosen, true = Provider(ratio), Provider(ratio), 0.0
    replayed = play(session, settings)
    for entry, recorded, each in zip(live, session.recorded, replayed, strict=True):
        assert entry.bill == each.entry.recorded
        client = read_request(recorded.body)
        prices = price_boundary(pricing, slides=False, marks=client.marks)
        rewrite = rewrite_request(client, settings.strategies, prices=prices)
        true += bill(whole, recorded.body, pricing) - bill(chosen, rewrite.body, pricing)
    money = sum((each.entry.bill for each in replayed), start=NO_BILL).tokens
    assert abs(true - money.saved) <= money.error + 0.01 * abs(true)
    if not settings.policy.enabled:
        assert (0, 0) == (money.saved, money.error)


def bill(provider: Provider, body: bytes, pricing: Pricing) -> float:
    usage = provider.count(read_pieces(read_request(body), COUNTER))
    return pricing.cost_of(usage.prompt or 0, usage.cached or 0, pricing.write)


@each_ratio
def test_a_request_that_was_not_counted_is_on_the_scale_of_the_others(ratio: float) -> None:
    session, _, _ = send(ratio, uncounted=20)
    paid = [each.entry.cost.after.prompt for each in play(session, choose())]
    counted = [each.entry.cost.after.prompt for each in play(send(ratio)[0], choose())]
    assert counted[20] == pytest.approx(paid[20], rel=0.02)
    assert (counted[:20], counted[21:]) == (paid[:20], paid[21:])


def test_without_masking_in_the_recording_nothing_is_told_of_it() -> None:
    plain = Session([replace(each, counted=None) for each in send(1.0)[0].recorded])
    assert {None} == {each.entry.recorded for each in play(plain, choose())}


def test_with_another_model_what_was_counted_counts_no_more() -> None:
    session, _, _ = send(1.4)
    (*_, last) = play(session, replace(choose(), model="claude-sonnet-4-20250514"))
    assert (None, "simulated") == (last.entry.recorded, last.entry.cost.basis)
    assert json.loads(session.recorded[-1].body)["model"] != last.model
