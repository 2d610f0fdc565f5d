"""What a run came to."""

from collections import Counter
from dataclasses import dataclass, field

from addon.metrics.account import render_savings
from addon.metrics.exchange import Exchange
from addon.metrics.log_line import render_change
from masking.accounting.ledger import Savings


@dataclass(slots=True)
class Totals:
    """What a run came to; replayed requests are only counted."""

    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    passed_through: Counter[str] = field(default_factory=Counter)
    masked: int = 0
    redacted: int = 0
    reductions: Counter[str] = field(default_factory=Counter)
    tokens_before: int = 0
    tokens_after: int = 0
    held: int = 0
    savings: Savings = field(default_factory=Savings)
    replayed: int = 0

    def add(self, exchange: Exchange) -> None:
        """Count an exchange that has come to its end."""
        if exchange.replay:
            self.replayed += 1
            return
        self.requests[exchange.masking] += 1
        self.failures[exchange.masking] += exchange.failed
        if exchange.passed_through is not None:
            self.passed_through[exchange.passed_through] += 1
        elif exchange.sizes is not None:
            self.masked += exchange.sizes.masked
            self.redacted += exchange.sizes.redacted
            if exchange.sizes.reduction_stage is not None:
                self.reductions[exchange.sizes.reduction_stage] += 1
            self.tokens_before += exchange.sizes.request_tokens_before or 0
            self.tokens_after += exchange.sizes.request_tokens_after or 0
        if exchange.entry is not None:
            self.savings = exchange.entry.total
            self.held += exchange.entry.tripped

    def __str__(self) -> str:
        if self.replayed and not self.requests:
            return f"{self.replayed} replayed requests; none was sent, and there are no totals"
        rates = ", ".join(
            f"{self.requests[m]} with masking {m} ({self.failures[m]} failed)"
            for m in ("on", "off")
            if self.requests[m]
        )
        passed = ", ".join(f"{n} {why}" for why, n in self.passed_through.most_common())
        return (
            f"{self.requests.total()} requests: {rates or 'none'}; {self.masked} results masked, "
            f"{render_change(self.tokens_before, self.tokens_after)}"
            + (f"; {self.redacted} results redacted" if self.redacted else "")
            + "".join(f"; {n} reduced by {stage}" for stage, n in self.reductions.most_common())
            + (f"; net {render_savings(self.savings)}" if self.savings.tokens else "")
            + (f"; {self.held} conversations with a held boundary" if self.held else "")
            + (f"; passed through: {passed}" if passed else "")
        )
