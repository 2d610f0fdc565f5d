"""Settings tried on recorded sessions.

A task is a session with some of the settings, so that the session is decoded once for all of them.
Whoever runs the tasks hands their results over in order, so that the sums are always the same.
"""

from collections.abc import Iterable, Sequence
from itertools import cycle

from addon.replay.replay import ReplaySettings, Session
from addon.replay.session_index import index_session
from addon.replay.tune.fast_replay import FastReplay
from addon.replay.tune.grid import Tuning
from addon.replay.tune.outcome import Outcome, sum_up
from masking.measures.tokens import TokenCounter

Lot = tuple[Tuning, ...]
"""The settings of one task."""


def divide(tunings: Sequence[Tuning], parts: int) -> list[Lot]:
    """Return the settings in so many lots, of which each takes about as long."""
    return [tuple(tunings[part::parts]) for part in range(parts)]


def find_outcomes(
    session: Session, settings: ReplaySettings, tunings: Iterable[Tuning]
) -> list[Outcome]:
    """Return what each tuning yields on a session; `settings` has everything that is not tuned."""
    counter = TokenCounter()
    index = index_session(session, settings, counter)
    fast_replay = FastReplay(index, counter)
    return [
        sum_up(fast_replay.replay(tuning.apply(settings)), fast_replay.plain, index)
        for tuning in tunings
    ]


def add_outcomes(
    tunings: Sequence[Tuning], lots: Sequence[Lot], found: Iterable[Sequence[Outcome]]
) -> dict[Tuning, Outcome]:
    """Return what each tuning yields on all sessions together.

    `found` has the outcomes of the first session, lot by lot, then those of the next one.
    """
    sums = {tuning: Outcome() for tuning in tunings}
    for lot, outcomes in zip(cycle(lots), found, strict=False):
        for tuning, outcome in zip(lot, outcomes, strict=True):
            sums[tuning] += outcome
    return sums
