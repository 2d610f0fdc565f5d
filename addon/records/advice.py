"""What the log says besides a request's own line: a table of warnings, each said once for its key.

Prices are never learned from answers: a warning names the command that sets them. What redaction
decided, and what was left out so that records cost little, is logged here, too.
"""

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Literal, NamedTuple

from cachetools import LRUCache

from addon.agents import CLAUDE_CODE
from addon.config_commands import Advice
from addon.once import Once
from addon.quota import Reading
from addon.records.file import RecordFile, read_records
from addon.records.record import RequestRecord
from addon.records.words import BOUND_IN_FULL, LOSES_REASONING, SHORTENS_TOO, render_moment
from addon.request import one_line
from addon.skip_reasons import find_skip_reason
from addon.threads import Log
from masking.config import MetricsSettings
from masking.model import Decision
from masking.redaction import Redactions
from masking.roads import ROADS

logger = logging.getLogger("observation_masking")

# The sentences


def _say_assumed(record: RequestRecord, advice: Advice) -> str:
    host, read, write = record.host, record.price_read_ratio, record.price_write_ratio
    entry = record.price_entry
    reason = "" if entry is None else ", as {} charges for {}".format(*entry)
    return (
        f"no price of cached tokens is known for {record.model or 'a request without a model'} at "
        f"{host}: assumed {read:g} of a plain token's, and {write:g} for a written one{reason}. "
        "If that is wrong, set your own, with other numbers: "
        f"{advice.add('prices', {'host': host, 'read': read, 'write': write})}"
    )


def _say_held(record: RequestRecord, advice: Advice) -> str:
    held = (
        f"{record.host} no longer caches what conversation {record.conversation} sends since its "
        "boundary moved: the boundary is held where it is"
    )
    if record.cached_tokens or record.prompt_tokens is None:
        return held
    # Where a provider caches nothing at all, a sliding window saves more than half of the tokens,
    # and a held boundary a fifth.
    return (
        f"{held}. It reports no cached tokens at all: if it caches nothing, let the window slide "
        f"there: {advice.add('hosts.uncached', record.host)}"
    )


def _say_signed(record: RequestRecord, _: Advice) -> str:
    return (
        f"claude-code signs what it sends to {record.host}, so it passes untouched. It signs "
        f"nothing if it is started by {CLAUDE_CODE.start}, or with this proxy's port as its base "
        f"URL: ANTHROPIC_BASE_URL=http://127.0.0.1:PORT/to/https/{record.host}"
    )


def _say_bound(record: RequestRecord, advice: Advice) -> str:
    assert record.bound is not None  # noqa: S101 - only then it applies
    words = BOUND_IN_FULL[record.bound].format(model=record.model or "the model")
    line = f"{record.host}: {words}"
    if record.bound != "may_refuse" and not (record.long_kept or record.shortened):
        line += f". {SHORTENS_TOO}{advice.change(ROADS['shorten'].settings)}"
    if record.clearing == "possible":
        change = advice.change(ROADS["clear"].settings)
        return f"{line}. Have the provider clear them instead: {change}"
    if record.bound == "drops":
        return (
            f"{line}. To mask older results, too, but {LOSES_REASONING}: "
            f"{advice.change(ROADS['drop'].settings)}"
        )
    return line


def _say_outgrown(record: RequestRecord, _: Advice) -> str:
    number = record.conversation
    name = "a conversation" if number is None else f"conversation {number}"
    return (
        f"{record.host}: {name} no longer fits the {record.model_window_tokens:,} tokens of "
        f"{record.model or 'its model'} without masking: switch masking off only after the agent "
        "has made a summary (/compact)"
    )


def _say_resent(record: RequestRecord, _: Advice) -> str:
    refused = f"{record.host} refused a masked request to {record.model or 'a model'} (400), and"
    if record.tried:
        return (
            f"{refused} did not take it as the agent wrote it either, so that says nothing of what "
            "this account may send: it is tried again in an hour at the earliest"
        )
    if record.resent == "accepted":
        return (
            f"{refused} took it as the agent wrote it: its conversation is sent unmasked until the "
            "proxy ends, or until resend_on_400 is switched off"
        )
    if record.binding == "may_refuse" and record.account is None:
        return (
            f"{refused} did not take it with less masked either: whether this account may still "
            "send masked requests is found out at the next one that pays"
        )
    return f"{refused} did not take it as the agent wrote it either: masking goes on"


def _say_not_cleared(record: RequestRecord, _: Advice) -> str:
    model = record.model or "a model"
    if record.clearing == "refused":
        return (
            f"{record.host} refused to clear older tool results of {model} (400), so the request "
            "was sent again without asking: its conversation does not ask again until the proxy "
            "ends"
        )
    return (
        f"{record.host}, asked to clear older tool results of {model}, has cleared nothing: after "
        "two such answers a conversation does not ask again"
    )


# The table


class Notice(NamedTuple):
    """Something to say of a request that has ended.

    applies: whether there is a reason to say it, given the request and how many in a row, with this
        one, its host has sent no cached tokens for.
    key: for what it is said once, such as a host.
    say: the sentence.
    """

    name: str
    applies: Callable[[RequestRecord, int], bool]
    key: Callable[[RequestRecord], Hashable]
    say: Callable[[RequestRecord, Advice], str]
    most: int = 1_000
    """The keys that are remembered, those that came up last."""


WARNINGS: tuple[Notice, ...] = (
    Notice(
        "assumed price",
        lambda record, _: record.price_source == "assumed",
        lambda record: record.host,
        _say_assumed,
    ),
    Notice(
        "no cached tokens",
        lambda _, uncached: uncached == MANY,
        lambda record: record.host,
        lambda record, advice: render_uncached(record.host, advice),
    ),
    Notice(
        "held boundary",
        lambda record, _: record.boundary_held,
        lambda record: (record.replay, record.conversation),  # numbered apart
        _say_held,
        most=10_000,
    ),
    Notice(
        "signed",
        lambda record, _: find_skip_reason(record.passed_through) == "signed",
        lambda record: (record.host, record.model),
        _say_signed,
    ),
    Notice(
        "bound reasoning",
        lambda record, _: record.bound is not None and bool((record.kept or {}).get("bound")),
        lambda record: (record.host, record.model, record.bound),
        _say_bound,
    ),
    Notice(
        "tried",
        lambda record, _: record.tried and record.account == "takes",
        lambda record: (record.host, record.model),
        lambda record, _: (
            f"{record.host} has taken a masked request of this account to {record.model}: from now "
            "on older tool results are masked there"
        ),
    ),
    Notice(
        "not cleared",
        lambda record, _: (
            record.clearing == "refused"
            or (record.clearing == "asked" and record.cleared_tool_uses == 0)
        ),
        lambda record: (record.host, record.model, record.clearing),
        _say_not_cleared,
    ),
    Notice(
        "outgrown",
        lambda record, _: record.outgrew and record.conversation_id is not None,
        lambda record: record.conversation_id,
        _say_outgrown,
        most=10_000,
    ),
    Notice(
        "resent",
        # Where it tells that the account refuses what is masked, that is said above.
        lambda record, _: (
            record.resent is not None and record.bound != "account" and record.clearing != "refused"
        ),
        lambda record: (record.host, record.model, record.resent),
        _say_resent,
    ),
)
"""In the order in which they are said."""

_MAX_HOSTS = 1_000


class Warnings:
    """Remembers what was said, and how long each host has sent no cached tokens.

    most: the keys that are remembered of each warning, and the hosts; None is as the table says.
    """

    def __init__(self, most: int | None = None) -> None:
        self._once = {each.name: Once(most or each.most) for each in WARNINGS}
        self._uncached: LRUCache[str, int] = LRUCache(most or _MAX_HOSTS)

    def find(self, record: RequestRecord, advice: Advice) -> list[str]:
        """Return what to say about a request that has ended."""
        uncached = self._count_uncached(record)
        return [
            each.say(record, advice)
            for each in WARNINGS
            if each.applies(record, uncached) and self._once[each.name].is_first(each.key(record))
        ]

    def _count_uncached(self, record: RequestRecord) -> int:
        if record.price_source is None:
            return 0
        count = count_uncached(self._uncached.get(record.host, 0), record)
        self._uncached[record.host] = count
        return count


_MUCH_USED = 0.9
"""The part of a window from which on it is time to say that the rest won't do."""

_JITTER_SECONDS = 600
"""Two answers that tell of one reset by a countdown differ by less."""


class QuotaWarnings:
    """Remembers of which windows of a plan's quota it was said that they will not last."""

    def __init__(self) -> None:
        self._once = Once(1_000)

    def find(self, record: RequestRecord) -> list[str]:
        """Return what to say of the windows that are nearly used up; each once until it resets."""
        when, account = record.when, record.quota_account
        if when is None:
            return []
        told = []
        for window in record.quota or ():
            reading = Reading(window, when)
            resets, runs_out = reading.resets, reading.runs_out
            if resets is None or runs_out is None or not _MUCH_USED < window.used < 1:
                continue
            reset = round(resets.timestamp() / _JITTER_SECONDS)
            if self._once.is_first((account, window.name, reset)):
                ends, anew = render_moment(runs_out, when), render_moment(resets, when)
                told.append(
                    f"{window.label}: {window.used:.0%} used; at this pace all of it by {ends}, "
                    f"before it resets {anew}"
                )
        return told


# Hosts that seem to sell no cached tokens: many requests in a row should have had some


MANY = 20
"""This many requests in a row are no accident."""

_LARGE = 2_000
"""The tokens that should have been cached; most providers require half as many at least."""


def count_uncached(count: int, record: RequestRecord) -> int:
    """Return how many requests in a row had nothing from the cache, with this one.

    `count` is for the requests before it. A provider that does not report cached tokens says
    nothing about its cache.
    """
    if record.cached_tokens is None or record.predicted_cached_tokens is None or record.replay:
        return count
    if record.cached_tokens:
        return 0
    is_priced = record.price_read_ratio is not None and record.price_read_ratio < 1
    return count + (is_priced and record.predicted_cached_tokens >= _LARGE)


def find_uncached(records: Iterable[RequestRecord]) -> list[str]:
    """Return the hosts that seem to sell no cached tokens, by records from the oldest on."""
    counts: Counter[str] = Counter()
    for record in records:
        counts[record.host] = count_uncached(counts[record.host], record)
    return [host for host, count in counts.items() if count >= MANY]


def read_uncached(settings: MetricsSettings) -> list[str]:
    """Return these hosts by the configured record file; none if it cannot be read."""
    try:
        return find_uncached(read_records(RecordFile(settings).path))
    except (OSError, ValueError, RuntimeError):  # no permission, no such name, the home of no user
        return []


def render_uncached(host: str, advice: Advice) -> str:
    """Return what to say about such a host, and after a colon what to do."""
    return (
        f"{host} has reported no cached tokens on {MANY} requests in a row that should have had "
        "them. If it sells none, masking saves more once the configuration says so: "
        f"{advice.add('hosts.uncached', host)}"
    )


# What was left out so that records cost no more than they may


Kind = Literal["records", "sizes", "tokens", "answers"]
"""Requests without a record; records without sizes, tokens and cost; those without tokens and cost;
those without usage."""

_LEFT_OUT: Mapping[Kind, tuple[str, str]] = {
    "records": (
        "requests come faster than they can be recorded: some leave no record",
        "not recorded",
    ),
    "sizes": (
        "requests come faster than they can be measured: some records lack sizes and costs",
        "not measured",
    ),
    "tokens": (
        "counting the tokens of a request takes too long: some records lack tokens and costs",
        "whose tokens are not counted",
    ),
    "answers": (
        "an answer is too large, or too many wait, to be read for its usage",
        "with an answer that is not read",
    ),
}
"""What the log says at the first, and what the totals of a run say of all."""


class DroppedRecords:
    """Counts what was left out, from any thread, and warns of each kind once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._once = Once()
        self._counts: Counter[Kind] = Counter()
        self._lock = threading.Lock()

    def add(self, kind: Kind) -> None:
        """Count one; the first of its kind is a warning."""
        with self._lock:
            self._counts[kind] += 1
        if self._once.is_first(kind):
            self._log(logging.WARNING, _LEFT_OUT[kind][0])

    def count(self, kind: Kind) -> int:
        """Return how many there were of a kind."""
        return self._counts[kind]

    def __str__(self) -> str:
        """What the totals of a run say about it; nothing if nothing was left out."""
        words = [f"{n} {_LEFT_OUT[kind][1]}" for kind, n in self._counts.most_common()]
        return f"; dropped under load: {', '.join(words)}" if words else ""


# What redaction decided


class RedactionTrace:
    """Logs each new redaction, every decision at debug level, and what it could not make out.

    Only the latter is said once: a conversation repeats its messages at every turn.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._once = Once()

    def log(self, redactions: Redactions, *, observed: bool = False) -> None:
        """Log what was decided for a request, never content."""
        done = "would have redacted" if observed else "redacted"
        for decision in redactions.decisions:
            if decision.is_new:
                self._log(logging.INFO, f"{done} {_render_decision(decision)}")
            elif decision.scenario is not None:
                # Nobody but a developer reads these hundreds of lines: the loop is spared them.
                logger.debug(f"redaction: {_render_decision(decision)}")
        if redactions.malformed:
            first, count = redactions.malformed[0], len(redactions.malformed)
            line = f"messages[{first}] has no known role and counts as an answer ({count} in all)"
            if self._once.is_first(line):
                self._log(logging.WARNING, line)


def _render_decision(decision: Decision) -> str:
    described = {
        "tool_call_id": decision.result.call_id,
        "tool": decision.result.tool,
        "position": decision.result.element,
        "scenario": decision.scenario,
        "reason": decision.reason,
        "chars_before": decision.chars_before,
        "chars_after": decision.chars_after,
    }
    return json.dumps({k: one_line(v) if isinstance(v, str) else v for k, v in described.items()})
