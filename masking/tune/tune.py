"""Settings tried on recorded sessions, on all cores.

A task is a session with some of the settings, so that the session is decoded once for all of them.
Tasks go through an `Executor` of `concurrent.futures`: a pool of processes, or a cluster, whose
workers must be able to read the recordings.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from itertools import islice
from typing import TypeVar

from masking.measures.tokens import TokenCounter
from masking.replay.replay import ReplaySettings, Session
from masking.replay.session_index import index_session
from masking.tune.fast_replay import FastReplay
from masking.tune.grid import Tuning
from masking.tune.max_loss_front import LOSSES, MaxLossFront, find_session_front, make_empty_front
from masking.tune.outcome import Outcome, sum_up

_IN_FLIGHT = 256
"""How many tasks are handed over before one is done. Each holds its session."""

_Result = TypeVar("_Result")
OnDone = Callable[[], None]
"""Called whenever a task is done."""


def tune(
    sessions: Iterable[Session],
    settings: ReplaySettings,
    tunings: Sequence[Tuning],
    executor: Executor,
    *,
    parts: int = 1,
    on_done: OnDone = lambda: None,
) -> dict[Tuning, Outcome]:
    """Return what each tuning yields on all sessions together.

    `settings` has everything that is not tuned. The tunings are split into `parts`; each part is a
    task for each session. Raises what reading a session raises.
    """
    lots = [tuple(tunings[part::parts]) for part in range(parts)]
    tasks = ((session, settings, lot) for session in sessions for lot in lots)
    summed = {tuning: Outcome() for tuning in tunings}
    for outcomes in _run(executor, find_outcomes, tasks):
        for tuning, outcome in outcomes.items():
            summed[tuning] += outcome
        on_done()
    return summed


def find_outcomes(
    session: Session, settings: ReplaySettings, tunings: Iterable[Tuning]
) -> dict[Tuning, Outcome]:
    """Return what each tuning yields on a session."""
    counter = TokenCounter()
    index = index_session(session, settings, counter)
    fast_replay = FastReplay(index, counter)
    return {
        tuning: sum_up(fast_replay.replay(tuning.apply(settings)), fast_replay.plain, index)
        for tuning in tunings
    }


def find_max_loss_front(
    sessions: Iterable[Session],
    settings: ReplaySettings,
    executor: Executor,
    *,
    losses: Sequence[float] = LOSSES,
    on_done: OnDone = lambda: None,
) -> MaxLossFront:
    """Return what each `max_loss` yields, and the cheapest schedule under the same promise."""
    front = make_empty_front(losses)
    for drawn in _run(
        executor, find_session_front, ((s, settings, tuple(losses)) for s in sessions)
    ):
        front += drawn
        on_done()
    return front


def _run(
    executor: Executor, function: Callable[..., _Result], tasks: Iterable[tuple[object, ...]]
) -> Iterator[_Result]:
    """Yield results as they arrive, with a bounded number of tasks in flight."""
    left = iter(tasks)
    under_way = {executor.submit(function, *task) for task in islice(left, _IN_FLIGHT)}
    try:
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {executor.submit(function, *task) for task in islice(left, len(done))}
            for future in done:
                yield future.result()
    finally:
        for future in under_way:
            future.cancel()
