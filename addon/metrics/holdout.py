"""The hold-out: how the conversations that are masked do beside those that are observed only.

Only records of one configuration are compared with each other, so that both groups are of the same
time. A conversation is what was drawn by lot, so it is what counts, and not the request.

Agents repeat calls without masking, too, so the re-reads of the conversations held out, of what
would have been masked, are the base rate: masking causes what the masked ones have beyond it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from addon.metrics.observed import as_sent
from addon.metrics.record import RequestRecord

LEAST = 10
"""With fewer conversations in a group, nothing is said of a difference."""

_SURE = 2.0
"""The standard errors within which a difference is chance; it is so 19 times in 20."""


@dataclass(slots=True)
class ConversationSum:
    """What the requests of a conversation come to.

    turns: the most tool turns that any of them had.
    rereads: calls that repeat one whose result was masked, or would have been.
    dollars: what they cost; None if the price of any is not known.
    """

    requests: int = 0
    failures: int = 0
    turns: int = 0
    rereads: int = 0
    dollars: float | None = 0.0

    def add(self, record: RequestRecord) -> None:
        """Count a request; its cost is that of what was sent."""
        self.rereads += record.rereads or 0
        record = as_sent(record)
        self.requests += 1
        self.failures += record.failed
        self.turns = max(self.turns, record.tool_turns or 0)
        if record.cost_tokens_after is not None:  # else the provider did not take it
            cost = record.cost_dollars_after
            self.dollars = None if cost is None or self.dollars is None else self.dollars + cost


class Mean(NamedTuple):
    """The mean over some conversations, and its standard error; None if there is but one."""

    conversations: int
    mean: float
    error: float | None


class Difference(NamedTuple):
    """A measure of the masked conversations and of those held out."""

    masked: Mean
    held_out: Mean

    @property
    def is_told(self) -> bool:
        """Whether there are enough conversations to say anything."""
        return min(self.masked.conversations, self.held_out.conversations) >= LEAST

    @property
    def is_telling(self) -> bool:
        """Whether the two differ by more than chance explains."""
        error = sqrt((self.masked.error or 0.0) ** 2 + (self.held_out.error or 0.0) ** 2)
        return self.is_told and abs(self.masked.mean - self.held_out.mean) > _SURE * error


@dataclass(slots=True)
class _Groups:
    masked: dict[str, ConversationSum] = field(default_factory=dict)
    held_out: dict[str, ConversationSum] = field(default_factory=dict)


@dataclass(slots=True)
class Holdout:
    """The conversations of both groups, by the digest of their configuration.

    most: how many conversations are compared; those met later are not. None is all.
    """

    most: int | None = None
    _count: int = 0
    _found: dict[str, _Groups] = field(default_factory=dict)

    def add(self, record: RequestRecord) -> None:
        """Count a request for an answer, if it was masked or held out."""
        is_out = record.group == "holdout"
        is_compared = is_out or record.masking == "on"
        is_answer = record.purpose in (None, "answer") and record.passed_through is None
        if record.conversation_id is None or not (is_compared and is_answer):
            return
        groups = self._found.setdefault(record.config_digest or "", _Groups())
        group = groups.held_out if is_out else groups.masked
        if record.conversation_id not in group:
            if self._count == self.most:
                return
            self._count += 1
            group[record.conversation_id] = ConversationSum()
        group[record.conversation_id].add(record)

    def compare(self) -> Mapping[str, Difference]:
        """Return each measure of both groups, in a conversation; none if one group is empty."""
        compared = [each for each in self._found.values() if each.held_out and each.masked]
        masked = [one for groups in compared for one in groups.masked.values()]
        held_out = [one for groups in compared for one in groups.held_out.values()]
        return {
            name: Difference(of_masked, of_held_out)
            for name, measure in _MEASURES.items()
            if (of_masked := _find_mean(masked, measure))
            and (of_held_out := _find_mean(held_out, measure))
        }


def _find_mean(
    conversations: list[ConversationSum], measure: Callable[[ConversationSum], float | None]
) -> Mean | None:
    values = [*_find_values(conversations, measure)]
    if not values:
        return None
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
    return Mean(len(values), fmean(values), error)


def _find_values(
    conversations: list[ConversationSum], measure: Callable[[ConversationSum], float | None]
) -> Iterator[float]:
    for each in conversations:
        if (value := measure(each)) is not None:
            yield value


_MEASURES: Mapping[str, Callable[[ConversationSum], float | None]] = {
    "failures": lambda conversation: conversation.failures,
    "requests": lambda conversation: conversation.requests,
    "tool turns": lambda conversation: conversation.turns,
    "re-reads": lambda conversation: conversation.rereads,
    "dollars": lambda conversation: conversation.dollars,
}
