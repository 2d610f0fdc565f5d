"""The totals of a run."""

from dataclasses import dataclass, field

from addon.metrics.amounts import Savings, read_total_savings, render_change, render_savings
from addon.metrics.record import RequestRecord
from addon.metrics.tally import Tally
from addon.metrics.tally_line import (
    count_summaries,
    render_observed,
    render_outgrown,
    render_resent,
)

_MOST_WAITING = 50
"""Records that nobody asks for wait for others: at once they take a third of the time."""


@dataclass(slots=True)
class _RunTally:
    """The sums of a run, and what only the ledger knows: what was saved so far, what is held."""

    tally: Tally = field(default_factory=Tally)
    held: set[int | None] = field(default_factory=set)
    savings: Savings = field(default_factory=Savings)

    def add(self, record: RequestRecord) -> None:
        self.tally.add(record)
        if record.conversation is not None and record.masking != "observed":
            self.savings = read_total_savings(record)
        if record.boundary_held:
            self.held.add(record.conversation)

    def __str__(self) -> str:
        tally = self.tally
        bound = tally.kept["bound"]
        passed = ", ".join(f"{n} {why}" for why, n in tally.passed_through.most_common())
        return (
            f"{tally.masked} results masked, "
            f"{render_change(tally.tokens_before, tally.tokens_after)}"
            + (f"; {tally.images} images masked in them" if tally.images else "")
            + (f"; {tally.redacted} results redacted" if tally.redacted else "")
            + (f"; {tally.rereads} re-reads of masked results" if tally.rereads else "")
            + (f"; {bound} results kept for bound reasoning" if bound else "")
            + (f"; {count_summaries(tally.summaries)}" if tally.summaries else "")
            + "".join(f"; {n} reduced by {stage}" for stage, n in tally.reductions.most_common())
            + (f"; net {render_savings(self.savings)}" if self.savings.tokens else "")
            + (f"; {len(self.held)} conversations with a held boundary" if self.held else "")
            + (f"; {render_outgrown(tally)}" if tally.outgrown else "")
            + (f"; {render_resent(tally)}" if tally.resent else "")
            + (f"; passed through: {passed}" if passed else "")
            + (f"; observed: {render_observed(tally.observed)}" if tally.observed else "")
        )


@dataclass(slots=True)
class Totals:
    """The totals of a run; requests that mitmproxy replays are counted apart."""

    _live: _RunTally = field(default_factory=_RunTally)
    _replayed: _RunTally = field(default_factory=_RunTally)
    _waiting: list[RequestRecord] = field(default_factory=list)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has come to its end."""
        self._waiting.append(record)
        if len(self._waiting) >= _MOST_WAITING:
            self._take_waiting()

    @property
    def live(self) -> Tally:
        """The sums of all but those."""
        self._take_waiting()
        return self._live.tally

    def _take_waiting(self) -> None:
        for record in self._waiting:
            (self._replayed if record.replay else self._live).add(record)
        self._waiting.clear()

    def __str__(self) -> str:
        self._take_waiting()
        count, sent = self._replayed.tally.count, self._live.tally
        replayed = f"{count} replayed requests: {self._replayed}"
        if count and not sent.count:
            return replayed
        rates = ", ".join(
            f"{sent.requests[masking]} with masking {masking} "
            f"({sent.count_failures(masking)} failed)"
            for masking in ("on", "observed", "off")
            if sent.requests[masking]
        )
        live = f"{sent.count} requests: {rates or 'none'}; {self._live}"
        return f"{live}; {replayed}" if count else live
