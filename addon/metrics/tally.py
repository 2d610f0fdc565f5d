"""The sums of some requests: how many, how large, how dear, and what became of them.

The one rule: only what can be added is here, so that any selection of records can be counted, in
any order. It knows no words.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from addon.metrics.observed import as_masked, as_sent
from addon.metrics.record import RequestRecord
from addon.metrics.sums import BillSum, RedactionSum, Waits
from addon.stages import Resent
from masking.accounting import read_margin
from masking.wire import OnHistoryEdit, is_plausible

_PLACE = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class Tally:
    """The sums of some requests.

    requests: by whether masking is on, off or observed.
    failures: by that, and by the status or by why the answer did not come to its end.
    resent: requests that were sent whole once they were refused masked, by what came of that.
    passed_through: requests that went untouched, by why.
    passed_bound: those of them whose reasoning is bound, by why and by what the provider would do.
        All that follows is of the others.
    results, masked, images, redacted, reduced, dropped, kept: tool results (and images in them) as
        the records count them, in each request that they were sent in; `kept` by reason.
    summaries: requests for a summary that were left whole.
    rereads: calls that repeat one whose result was masked.
    bound: requests that kept results for bound reasoning, by what the provider would do.
    tokens_before, tokens_after: of the requests, before and after masking; a request that asks how
        many tokens it has (`purpose` is `count`) sends none to a model.
    uncounted: requests whose tokens were not counted.
    prompt_tokens, cached_tokens: as the providers reported them, where they reported both.
    tokens, dollars, unpriced: the bills in input tokens; in dollars where the price is known; in
        input tokens where it is not.
    subscriptions: requests with a bill in dollars that a subscription pays for.
    conversations: the ids of the conversations.
    outgrown: those of them that no longer fit their model without masking, with a request of each.
    assumed: requests by host, where the prices are assumed.
    dearest: the request with the highest bill, by dollars or else by input tokens.
    observed: what those that were observed only would come to if they had been masked; None if
        there is none. All else counts them as they were sent.
    waits, waits_after_move: until a streamed answer began, without and with a move of the boundary.
    """

    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    resent: Counter[Resent] = field(default_factory=Counter)
    passed_through: Counter[str] = field(default_factory=Counter)
    passed_bound: Counter[tuple[str, OnHistoryEdit]] = field(default_factory=Counter)
    results: int = 0
    masked: int = 0
    images: int = 0
    redacted: int = 0
    reduced: int = 0
    dropped: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    summaries: int = 0
    rereads: int = 0
    bound: Counter[OnHistoryEdit] = field(default_factory=Counter)
    redaction: RedactionSum = field(default_factory=RedactionSum)
    reductions: Counter[str] = field(default_factory=Counter)
    tokens_before: int = 0
    tokens_after: int = 0
    uncounted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: BillSum = field(default_factory=BillSum)
    dollars: BillSum = field(default_factory=BillSum)
    unpriced: BillSum = field(default_factory=BillSum)
    subscriptions: int = 0
    conversations: set[str] = field(default_factory=set)
    outgrown: dict[str, RequestRecord] = field(default_factory=dict)
    assumed: Counter[str] = field(default_factory=Counter)
    dearest: RequestRecord | None = None
    observed: "Tally | None" = None
    waits: Waits = field(default_factory=Waits)
    waits_after_move: Waits = field(default_factory=Waits)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has come to its end."""
        if record.masking == "observed":
            self.observed = self.observed or Tally()
            self.observed.add(as_masked(record))
        record = as_sent(record)
        self.requests[record.masking] += 1
        if record.failed:
            cause = str(record.status) if (record.status or 0) >= 400 else str(record.error)
            self.failures[record.masking, cause] += 1
        if record.resent is not None:
            self.resent[record.resent] += 1
        if record.passed_through is not None:
            why = _PLACE.sub("[]", record.passed_through)
            self.passed_through[why] += 1
            if record.binding is not None:
                self.passed_bound[why, record.binding] += 1
            return
        self._add_results(record)
        self._add_sizes(record)
        self._add_bill(record)
        if record.conversation_id is not None:
            self.conversations.add(record.conversation_id)
            if record.outgrew:
                self.outgrown[record.conversation_id] = record
        if record.boundary_moved is not None and record.first_chunk_seconds is not None:
            waits = self.waits_after_move if record.boundary_moved else self.waits
            waits.seconds.append(record.first_chunk_seconds)

    @property
    def count(self) -> int:
        """All requests."""
        return self.requests.total()

    @property
    def failed(self) -> int:
        """All failures."""
        return self.failures.total()

    @property
    def changed(self) -> int:
        """Tool results that were changed, by any strategy."""
        return self.masked + self.redacted + self.reduced + self.dropped

    def count_failures(self, masking: str) -> int:
        """Return how many requests failed with masking on, or off."""
        return sum(count for (state, _), count in self.failures.items() if state == masking)

    def _add_results(self, record: RequestRecord) -> None:
        self.results += record.tool_results or 0
        self.masked += record.masked or 0
        self.images += record.masked_images or 0
        self.redacted += record.redacted or 0
        self.reduced += record.reduced or 0
        self.dropped += record.dropped or 0
        self.rereads += record.rereads or 0
        self.kept.update(record.kept or {})
        self.summaries += record.masking == "on" and bool((record.kept or {}).get("summary"))
        if record.binding is not None and (record.kept or {}).get("bound"):
            self.bound[record.binding] += 1
        self.redaction.add(record)
        if record.reduction_stage is not None:
            self.reductions[record.reduction_stage] += 1

    def _add_sizes(self, record: RequestRecord) -> None:
        if record.purpose == "count":
            return
        before, after = record.request_tokens_before, record.request_tokens_after
        if before is None or after is None:
            self.uncounted += 1
        else:
            self.tokens_before += before
            self.tokens_after += after
        prompt, cached = record.prompt_tokens, record.cached_tokens
        if is_plausible(prompt) and is_plausible(cached) and cached <= prompt:
            self.prompt_tokens += prompt
            self.cached_tokens += cached

    def _add_bill(self, record: RequestRecord) -> None:
        before, after = record.cost_tokens_before, record.cost_tokens_after
        if before is None or after is None:
            return
        error = record.saved_tokens_error or 0.0
        # Records of older versions do not tell which part is chance: then none is.
        margin = read_margin(error, record.saved_tokens_error_by_chance or 0.0)
        self.tokens.add(before, after, margin)
        dollars_before, dollars_after = record.cost_dollars_before, record.cost_dollars_after
        if dollars_before is None or dollars_after is None:
            self.unpriced.add(before, after, margin)
        else:
            in_dollars = margin.scale((record.saved_dollars_error or 0.0) / (error or 1.0))
            self.dollars.add(dollars_before, dollars_after, in_dollars)
            self.subscriptions += bool(record.subscription)
        if record.price_source == "assumed":
            self.assumed[record.host] += 1
        if self.dearest is None or _bill_of(self.dearest) < _bill_of(record):
            self.dearest = record


def _bill_of(record: RequestRecord) -> tuple[float, float]:
    return record.cost_dollars_after or 0.0, record.cost_tokens_after or 0.0
