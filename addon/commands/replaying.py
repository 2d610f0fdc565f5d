"""`obsmask replay`: what a policy makes of recordings, in tokens and in money.

A worker replays a session and gives back sums, and as text what was asked for beside them.
"""

import functools
import json
import shutil
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TextIO

from addon.commands.session_work import SessionWork
from addon.metrics.ledger_fields import describe_entry, describe_pricing
from addon.replay.compare import ComparedRequest, compare_requests, gather, name_conversations
from addon.replay.replay import Pause, ReplayedRequest, ReplaySettings, Session
from addon.replay.report.page import Origin, render_chart, render_report
from addon.replay.totals import (
    ConversationSums,
    ConversationTotals,
    Totals,
    assumed_prices,
    summarize,
)
from masking.tokens import TokenCounter


class Wanted(NamedTuple):
    """What is wanted of each conversation beside its sums.

    rows: that its sums are kept, and not only added to those of all.
    requests: what `--json` tells of its requests.
    chart: what a page draws of it.
    """

    rows: bool = True
    requests: bool = False
    chart: bool = False


class ReplayedConversation(NamedTuple):
    """What became of a conversation; what was not wanted is empty."""

    totals: ConversationTotals
    requests: str = ""
    chart: str = ""


class ReplayedSession(NamedTuple):
    """What became of a session; requests that were skipped are counted by reason."""

    conversations: tuple[ReplayedConversation, ...]
    passed_over: dict[str, int]


@dataclass(slots=True, kw_only=True)
class ReplayResult:
    """What became of recordings under one policy.

    masked_before: the conversations whose results were masked when they were recorded.
    details: what `--json` tells of each conversation, on disk.
    """

    settings: ReplaySettings
    details: TextIO
    totals: Totals = field(default_factory=Totals)
    passed_over: Counter[str] = field(default_factory=Counter)
    masked_before: list[str] = field(default_factory=list)
    conversations: list[ConversationTotals] = field(default_factory=list)
    charts: list[str] = field(default_factory=list)

    def add(self, session: ReplayedSession, wanted: Wanted) -> None:
        """Add what became of the next session."""
        self.passed_over.update(session.passed_over)
        for (name, totals), requests, chart in session.conversations:
            self.totals += totals
            if totals.masked_before:
                self.masked_before.append(name)
            if wanted.requests:
                self.details.write(f",\n{requests}" if self.details.tell() else requests)
            if wanted.chart:
                self.charts.append(chart)
            if wanted.rows:
                self.conversations.append(ConversationTotals(name, totals))


@contextmanager
def replay_sessions(
    work: SessionWork, settings: ReplaySettings, wanted: Wanted
) -> Iterator[ReplayResult]:
    """Replay sessions under a policy, with a progress bar.

    Raises OSError and ValueError, with the file's name.
    """
    arguments = (settings, wanted._replace(rows=True))  # rows are no matter of a session
    with tempfile.TemporaryFile("w+", encoding="utf-8") as details:
        result = ReplayResult(settings=settings, details=details)
        files = settings.price_lists
        for session in work.run("replay", replay_session, [arguments], ReplayedSession, files):
            result.add(session, wanted)
        yield result


def replay_session(session: Session, settings: ReplaySettings, wanted: Wanted) -> ReplayedSession:
    """Return what becomes of a session. No request is kept, unless a chart is wanted."""
    passed_over: Counter[str] = Counter()
    found: dict[int, _Conversation] = {}
    for compared in compare_requests(session, settings, _counter(), passed_over):
        if compared.conversation not in found:
            found[compared.conversation] = _Conversation(settings, wanted)
        found[compared.conversation].add(compared)
    names = name_conversations(session.name, found)
    conversations = tuple(each.finish(names[number]) for number, each in found.items())
    return ReplayedSession(conversations, dict(passed_over))


@functools.cache
def _counter() -> TokenCounter:
    """Return this process's own."""
    return TokenCounter()


class _Conversation:
    """A conversation as it grows, with what is wanted of its requests."""

    def __init__(self, settings: ReplaySettings, wanted: Wanted) -> None:
        self._settings, self._wanted = settings, wanted
        self._sums = ConversationSums(settings.policy.window_turns)
        self._described: list[dict[str, object]] = []
        self._compared: list[ComparedRequest] = []

    def add(self, compared: ComparedRequest) -> None:
        self._sums.add(compared)
        if self._wanted.requests:
            self._described.append(_describe_request(compared.chosen))
        if self._wanted.chart:
            self._compared.append(compared)

    def finish(self, name: str) -> ReplayedConversation:
        totals, requests, chart = self._sums.totals, "", ""
        if self._wanted.requests:
            document = {"name": name, **asdict(summarize(totals)), "per_request": self._described}
            requests = textwrap.indent(json.dumps(document, indent=1), "  ")
        if self._wanted.chart:
            chart = render_chart(gather(name, self._settings, self._compared))
        return ReplayedConversation(ConversationTotals(name, totals), requests, chart)


def _describe_request(request: ReplayedRequest) -> dict[str, object]:
    return {
        "model": request.model,
        **describe_pricing(request.pricing),
        **asdict(request.sizes),
        **describe_entry(request.entry),
    }


def write_json(replay: ReplayResult, out: TextIO) -> None:
    """Write everything that was measured: in total, by conversation, and by request."""
    head = {
        "assumed_prices": [assumed._asdict() for assumed in assumed_prices(replay.totals)],
        "total": asdict(summarize(replay.totals)),
        "passed_over": replay.passed_over,
    }
    out.write(json.dumps(head, indent=1).removesuffix("\n}"))
    if replay.details.tell():
        out.write(',\n "conversations": [\n')
        replay.details.seek(0)
        shutil.copyfileobj(replay.details, out)
        out.write("\n ]")
    out.write("\n}\n")


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
    path.write_text(render_report(replay.conversations, replay.charts, origin), encoding="utf-8")
