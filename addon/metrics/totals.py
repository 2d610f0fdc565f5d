"""The totals of a run."""

from collections import Counter
from dataclasses import dataclass, field

from addon.metrics.amounts import Savings, read_total_savings, render_change, render_savings
from addon.metrics.record import RequestRecord


@dataclass(slots=True)
class Tally:
    """The totals of some requests."""

    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    passed_through: Counter[str] = field(default_factory=Counter)
    masked: int = 0
    images: int = 0
    redacted: int = 0
    bound: int = 0
    reductions: Counter[str] = field(default_factory=Counter)
    tokens_before: int = 0
    tokens_after: int = 0
    held: set[int | None] = field(default_factory=set)
    savings: Savings = field(default_factory=Savings)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has come to its end."""
        self.requests[record.masking] += 1
        self.failures[record.masking] += record.failed
        if record.passed_through is not None:
            self.passed_through[record.passed_through] += 1
            return
        self.masked += record.masked or 0
        self.images += record.masked_images or 0
        self.redacted += record.redacted or 0
        self.bound += (record.kept or {}).get("bound", 0)
        if record.reduction_stage is not None:
            self.reductions[record.reduction_stage] += 1
        self.tokens_before += record.request_tokens_before or 0
        self.tokens_after += record.request_tokens_after or 0
        if record.conversation is not None:
            self.savings = read_total_savings(record)
        if record.boundary_held:
            self.held.add(record.conversation)

    def __str__(self) -> str:
        passed = ", ".join(f"{n} {why}" for why, n in self.passed_through.most_common())
        return (
            f"{self.masked} results masked, "
            f"{render_change(self.tokens_before, self.tokens_after)}"
            + (f"; {self.images} images masked in them" if self.images else "")
            + (f"; {self.redacted} results redacted" if self.redacted else "")
            + (f"; {self.bound} results kept for bound reasoning" if self.bound else "")
            + "".join(f"; {n} reduced by {stage}" for stage, n in self.reductions.most_common())
            + (f"; net {render_savings(self.savings)}" if self.savings.tokens else "")
            + (f"; {len(self.held)} conversations with a held boundary" if self.held else "")
            + (f"; passed through: {passed}" if passed else "")
        )


@dataclass(slots=True)
class Totals:
    """The totals of a run; requests that mitmproxy replays are counted apart."""

    live: Tally = field(default_factory=Tally)
    replayed: Tally = field(default_factory=Tally)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has come to its end."""
        (self.replayed if record.replay else self.live).add(record)

    def __str__(self) -> str:
        count = self.replayed.requests.total()
        replayed = f"{count} replayed requests: {self.replayed}"
        if count and not self.live.requests:
            return replayed
        rates = ", ".join(
            f"{self.live.requests[masking]} with masking {masking} "
            f"({self.live.failures[masking]} failed)"
            for masking in ("on", "off")
            if self.live.requests[masking]
        )
        live = f"{self.live.requests.total()} requests: {rates or 'none'}; {self.live}"
        return f"{live}; {replayed}" if count else live
