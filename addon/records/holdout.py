"""Which conversations are compared: those that are masked, and those that are held out.

The hold-out decides by a digest of a conversation's opening, which no outcome can influence, so the
two groups differ by chance and by masking alone. A conversation is what was drawn, so it is the
unit, however many requests it has. Conversations that begin with the same texts are drawn together
and have the same id, so they are one unit, too.

Until the first result is masked, or would be, both groups have been sent the same. So a
conversation counts from that request on, and one that never comes to it does not count: it cannot
show anything, and would only add noise (counterfactual triggering: Kohavi, Tang and Xu, Trustworthy
Online Controlled Experiments, chapter 20).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple

from addon.records.record import RequestRecord
from addon.records.tally import as_sent, read_bill
from masking.accounting import NO_BILL, Bill

Alike = tuple[str, str | None, str | None]
"""The configuration, the client and the model: only conversations that share all are compared."""

YOUNG = timedelta(hours=1)
"""A conversation counts once masking began so long ago: most are over by then.

That it is over would be no sound rule, as masking may be why one is not.
"""

_NOT_FOR_CONTENT = (
    *(HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN),
    *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS),
)
"""Statuses between 400 and 500 that say nothing of what was in the request."""


@dataclass(slots=True)
class Figures:
    """The sums of a conversation, from the request on at which masking began, or would have begun.

    began: when that was; None if the time is not known.
    refusals: requests that the provider refused for what was in them, also if it then took them
        unmasked.
    failures: requests that failed otherwise, as a provider that is overloaded fails.
    rereads: calls that repeat one whose result was masked or shortened, or would have been.
    output_tokens: as the provider counted them; None if it never did.
    bill: what the prompts cost.
    """

    is_held_out: bool
    alike: Alike
    began: datetime | None = None
    requests: int = 0
    refusals: int = 0
    failures: int = 0
    rereads: int = 0
    output_tokens: int | None = None
    bill: Bill = NO_BILL

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        self.rereads += record.rereads + record.arrival_rereads
        record = as_sent(record)
        self.requests += 1
        status = record.status or 0
        if record.resent is not None or (400 <= status < 500 and status not in _NOT_FOR_CONTENT):
            self.refusals += 1
        elif record.failed:
            self.failures += 1
        if record.completion_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + record.completion_tokens
        self.bill += read_bill(record)

    @property
    def dollars(self) -> float | None:
        """What the prompts cost that were sent; None if that is not known of each."""
        return self.bill.dollars.after if self.bill.is_all_in_dollars else None

    @property
    def input_tokens(self) -> float | None:
        """The same in input tokens; None if the provider took none of them."""
        tokens = self.bill.tokens
        return tokens.after if tokens.requests else None


@dataclass(slots=True)
class _Conversation:
    """A conversation of a configuration: its figures once masking began in it, or would have."""

    config_digest: str
    is_held_out: bool
    switched: bool = False
    figures: Figures | None = None


class Excluded(NamedTuple):
    """How many conversations are not compared, and why.

    unmasked: masking changed nothing in them, and would have changed nothing.
    young: masking began, or would have begun, within the last hour.
    switched: they have requests of both groups.
    unmatched: there is no conversation in the other group with their configuration, client and
        model.
    """

    unmasked: int = 0
    young: int = 0
    switched: int = 0
    unmatched: int = 0


class Holdout:
    """The conversations of both groups, from their records.

    most: how many conversations are kept; those met later are not. None is all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._met: dict[str, _Conversation] = {}
        self._is_run = False

    def add(self, record: RequestRecord) -> None:
        """Count a request for an answer, if its conversation is masked or held out."""
        is_held_out = record.group == "holdout"
        is_compared = is_held_out or record.masking == "on"
        is_answer = record.purpose == "answer" and record.passed_through is None
        if record.conversation_id is None or not (is_compared and is_answer):
            return
        digest = record.config_digest or ""
        found = self._met.get(record.conversation_id)
        if found is None:
            if len(self._met) == self._most:
                return
            found = self._met[record.conversation_id] = _Conversation(digest, is_held_out)
            self._is_run |= is_held_out
        # It belongs to the configuration that it began with. What it does after a change of that is
        # cut off, in both groups at the same moment.
        if found.config_digest != digest:
            return
        found.switched |= found.is_held_out != is_held_out
        if found.figures is None:
            if not _is_masked(record):
                return
            alike = digest, record.client, record.model
            found.figures = Figures(is_held_out, alike, record.when)
        found.figures.add(record)

    def find_compared(self, now: datetime) -> tuple[list[Figures], Excluded] | None:
        """Return the conversations that are compared at a time; None if there is no hold-out."""
        if not self._is_run:
            return None
        kept: list[Figures] = []
        unmasked = young = switched = 0
        for one in self._met.values():
            if one.switched:
                switched += 1
            elif one.figures is None:
                unmasked += 1
            elif one.figures.began is not None and now - one.figures.began < YOUNG:
                young += 1
            else:
                kept.append(one.figures)
        matched = _match(kept)
        return matched, Excluded(unmasked, young, switched, len(kept) - len(matched))


def _is_masked(record: RequestRecord) -> bool:
    """Whether masking changed a request, or would have; one that was refused for it, too."""
    return record.replaced > 0 or record.resent is not None


def _match(figures: Iterable[Figures]) -> list[Figures]:
    """Return the conversations that have one like them in the other group."""
    groups: dict[Alike, list[Figures]] = {}
    for one in figures:
        groups.setdefault(one.alike, []).append(one)
    both = (those for those in groups.values() if len({one.is_held_out for one in those}) > 1)
    return [one for those in both for one in those]
