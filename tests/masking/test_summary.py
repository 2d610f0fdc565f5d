"""Sums over replayed requests."""

import dataclasses

import pytest

from addon.replay.compare import Comparison, compare
from addon.replay.replay import ReplayedRequest, ReplaySettings
from addon.replay.totals import Totals, summarize
from masking.measures.tokens import TokenCounter
from masking.strategies.policy import MaskPolicy
from tests.replays import add_up
from tests.sessions import grow, work


def counted(request: ReplayedRequest, before: float, after: float) -> ReplayedRequest:
    """Return a request whose prompt came to so many tokens at the provider, all and masked."""
    cost = request.entry.cost
    bills = [bill._replace(prompt=n) for bill, n in ((cost.before, before), (cost.after, after))]
    entry = dataclasses.replace(
        request.entry, cost=dataclasses.replace(cost, before=bills[0], after=bills[1])
    )
    return dataclasses.replace(request, entry=entry)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    settings = ReplaySettings(policy=MaskPolicy(enabled=True))
    (found,) = compare(grow(work(3)), settings, TokenCounter())
    return found


def test_tokens_are_those_that_are_billed(comparison: Comparison) -> None:
    requests = tuple(counted(request, 100.25, 60.5) for request in comparison.chosen)
    summary = summarize(add_up(dataclasses.replace(comparison, chosen=requests)).totals)
    expected = (round(100.25 * len(requests)), round(60.5 * len(requests)))
    assert expected == (summary.tokens_before, summary.tokens_after)


def test_nothing_cannot_be_summed_up() -> None:
    with pytest.raises(ValueError, match="no requests to sum up"):
        summarize(Totals())
