"""`obsmask replay`: what a policy makes of recordings, in tokens and in money."""

import functools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress

from addon.commands.sessions import read_sessions
from addon.metrics.ledger_fields import describe_entry, describe_pricing
from masking.measures.tokens import TokenCounter
from masking.replay.assumed_prices import find_assumed_prices
from masking.replay.comparison import Comparison, compare
from masking.replay.pauses import Pause, pause_sessions
from masking.replay.processes import open_processes
from masking.replay.replay import ReplayedRequest, ReplaySettings, Session
from masking.replay.summary import summarize
from masking.report.origin import Origin
from masking.report.page import render_report

_FEW = 8
"""Up to so many sessions are replayed here: starting all cores takes a second or two."""


class ReplayResult(NamedTuple):
    """What became of recordings under one policy; skipped requests are counted by reason."""

    settings: ReplaySettings
    comparisons: Sequence[Comparison]
    passed_over: Counter[str]


_Part = tuple[list[Comparison], Counter[str]]


def replay_paths(
    paths: Sequence[Path],
    settings_list: Sequence[ReplaySettings],
    console: Console,
    pause: Pause | None = None,
) -> list[ReplayResult]:
    """Replay all sessions of these files and folders under each policy, with progress bars.

    A `pause` is added to their times.

    Raises OSError and ValueError, with the file's name, and ValueError if nothing can be replayed.
    """
    sessions = pause_sessions(read_sessions(paths), pause)
    replays = [_replay(sessions, settings, console) for settings in settings_list]
    if not all(replay.comparisons for replay in replays):
        raise ValueError(f"no request to replay in {', '.join(map(str, paths))}")
    return replays


def _replay(
    sessions: Sequence[Session], settings: ReplaySettings, console: Console
) -> ReplayResult:
    with Progress(console=console, disable=not console.is_terminal) as progress:
        found = progress.track(
            _compare_all(sessions, settings), len(sessions), description="replay"
        )
        comparisons: list[Comparison] = []
        passed_over: Counter[str] = Counter()
        for more, obstacles in found:
            comparisons += more
            passed_over += obstacles
    return ReplayResult(settings, comparisons, passed_over)


def _compare_all(sessions: Sequence[Session], settings: ReplaySettings) -> Iterator[_Part]:
    task = functools.partial(_compare, settings=settings)
    if len(sessions) <= _FEW:
        yield from map(task, sessions)
    else:
        with open_processes() as executor:
            yield from executor.map(task, sessions)


def _compare(session: Session, settings: ReplaySettings) -> _Part:
    passed_over: Counter[str] = Counter()
    return compare(session, settings, _counter(), passed_over), passed_over


@functools.cache
def _counter() -> TokenCounter:
    """Return this process's own."""
    return TokenCounter()


def find_masked_before(replay: ReplayResult) -> list[str]:
    """Return the names of the conversations with results that were masked when recorded."""
    return [each.name for each in replay.comparisons if each.was_masked_before]


def render_json(replay: ReplayResult) -> str:
    """Return everything that was measured: in total, by conversation, and by request."""
    requests = chain.from_iterable(comparison.chosen for comparison in replay.comparisons)
    document = {
        "assumed_prices": [assumed._asdict() for assumed in find_assumed_prices(requests)],
        "total": asdict(summarize(replay.comparisons)),
        "passed_over": replay.passed_over,
        "conversations": [
            {
                "name": comparison.name,
                **asdict(summarize([comparison])),
                "per_request": [_describe_request(request) for request in comparison.chosen],
            }
            for comparison in replay.comparisons
        ],
    }
    return json.dumps(document, indent=1)


def _describe_request(request: ReplayedRequest) -> dict[str, object]:
    return {
        "model": request.model,
        **describe_pricing(request.pricing),
        **asdict(request.sizes),
        **describe_entry(request.entry),
    }


def write_report(
    path: Path, replay: ReplayResult, sources: Sequence[Path], pause: Pause | None
) -> None:
    """Write the page of a replay of these files and folders. Raises OSError."""
    origin = Origin(
        created=datetime.now().astimezone(),
        version=version("observation-masking"),
        sources=tuple(map(str, sources)),
        settings=replay.settings,
        pause=pause,
    )
    path.write_text(render_report(replay.comparisons, origin), encoding="utf-8")
