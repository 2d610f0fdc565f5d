"""Sums of bills, of redactions, and of the time that answers took to begin."""

from array import array
from dataclasses import dataclass, field
from math import ceil

from addon.metrics.record import RequestRecord
from masking.accounting import NO_MARGIN, Margin

_SCENARIOS = 5


@dataclass(slots=True)
class BillSum:
    """The bills of some requests, without masking and as they were sent, in one unit.

    margin: by how much `before` may be off, either way.
    """

    requests: int = 0
    before: float = 0.0
    after: float = 0.0
    margin: Margin = NO_MARGIN

    def add(self, before: float, after: float, margin: Margin) -> None:
        """Count the bill of one request."""
        self.requests += 1
        self.before += before
        self.after += after
        self.margin += margin

    @property
    def error(self) -> float:
        """The width of the margin."""
        return self.margin.width

    @property
    def saved(self) -> float:
        """What masking saved; less than 0 is a loss."""
        return self.before - self.after

    @property
    def saved_share(self) -> float | None:
        """The part of the unmasked bill that was saved; None if there was no bill."""
        return self.saved / self.before if self.before else None

    @property
    def saved_share_error(self) -> float | None:
        """By how much that may be off, either way."""
        return self.error / self.before if self.before else None

    @property
    def is_telling(self) -> bool:
        """Whether more was saved, or lost, than the margin of error."""
        return abs(self.saved) > self.error


@dataclass(slots=True)
class RedactionSum:
    """Redaction in the requests where it is on.

    A tool result counts in each request that it was sent in. `scenarios` counts the results of
    each scenario, scenario 1 first (see `masking.redaction`).
    """

    requests: int = 0
    results: int = 0
    redacted: int = 0
    scenarios: list[int] = field(default_factory=lambda: [0] * _SCENARIOS)

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        if record.redaction_scenarios is None:
            return
        self.requests += 1
        self.results += record.tool_results or 0
        self.redacted += record.redacted or 0
        for place, count in enumerate(record.redaction_scenarios[:_SCENARIOS]):
            self.scenarios[place] += count

    @property
    def share(self) -> float | None:
        """The part of the results that were redacted; None if there are no results."""
        return self.redacted / self.results if self.results else None


@dataclass(slots=True)
class Waits:
    """How long answers took to begin, in seconds; eight bytes are kept for each."""

    seconds: "array[float]" = field(default_factory=lambda: array("d"))

    def find_percentile(self, percent: int) -> float | None:
        """Return the least time within which so many percent began; None if there are none."""
        if not self.seconds:
            return None
        return sorted(self.seconds)[max(0, ceil(len(self.seconds) * percent / 100) - 1)]
