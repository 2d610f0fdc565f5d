"""The sums of some requests: how many, how large, how expensive, and what became of them.

Only what can be added is here, so that any selection of records can be counted, in any order. The
words for these sums are in `words.py`.
"""

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from addon.quota import Reading
from addon.records.quota_use import QuotaUse
from addon.records.record import Bound, RequestRecord
from addon.stages import Resent
from masking.accounting import NO_BILL, NO_MONEY, Bill, Margin, Money, TokenKinds, read_margin
from masking.wire import is_plausible

# What was observed only: as it was sent, and as if it had been masked


_CHANGED = (
    *("masked", "masked_images", "redacted", "reduced", "dropped", "dropped_messages"),
    *("rereads", "shortened", "left_out_tokens"),
    *("arrival_rereads", "arrival_quotes"),
)
_PAIRS = (
    *("tool_chars", "request_tokens", "bytes"),
    *("tokens_by_kind", "cost_tokens", "cost_dollars"),
)
_ERRORS = (
    *("saved_tokens_error", "saved_tokens_error_by_chance"),
    *("arrival_saved_tokens", "arrival_saved_tokens_error", "arrival_saved_dollars"),
)
_NOTHING: Mapping[str, object] = {
    **dict.fromkeys(_CHANGED, 0),
    **dict.fromkeys(_ERRORS, 0.0),
    "kept": {},
    "long_kept": None,
    "reduction_stage": None,
    "redaction_scenarios": None,
    "boundary_moved": False,
    "move_price_tokens": None,
}


def as_sent(record: RequestRecord) -> RequestRecord:
    """Return what is true of the request that left; the record itself if that says so already."""
    if record.masking != "observed":
        return record
    same = {f"{name}_after": getattr(record, f"{name}_before") for name in _PAIRS}
    nothing = {name: value for name, value in _NOTHING.items() if getattr(record, name) is not None}
    sent = {"composition": _compose_as_sent(record)}
    return record.model_copy(update={**same, **nothing, **sent})


def _compose_as_sent(record: RequestRecord) -> Mapping[str, int] | None:
    """Return what the prompt was composed of; None if masking would have dropped messages."""
    parts, whole = record.composition, record.request_tokens_before
    if parts is None or whole is None or record.dropped_messages:
        return None
    # What masking would have taken out are tool results, which left whole.
    others = {part: tokens for part, tokens in parts.items() if part != "placeholders"}
    results = whole - sum(others.values()) + others.get("results", 0)
    return {**others, **({"results": results} if results else {})}


def as_masked(record: RequestRecord) -> RequestRecord:
    """Return what would be true if it had been masked.

    How long its answer took to begin is true of the request that left.
    """
    return record.model_copy(update={"masking": "on", "first_chunk_seconds": None})


# Sums of one kind


_SCENARIOS = 5


def read_bill(record: RequestRecord) -> Bill:
    """Return the bill of a request; it is empty where nobody knows what it cost."""
    before, after = record.cost_tokens_before, record.cost_tokens_after
    if before is None or after is None:
        return NO_BILL
    calls = record.rereads + record.arrival_rereads + record.arrival_quotes
    # Records of older versions do not say which part is chance: then none is.
    margin = read_margin(record.saved_tokens_error, record.saved_tokens_error_by_chance)
    left_out = read_saved_at_arrival(record)
    at_arrival = left_out.tokens.saved, left_out.tokens.margin
    tokens = Money(1, before, after, margin, calls, *at_arrival)
    # Those of older versions do not have tokens by kind.
    prompt_before = TokenKinds(*record.tokens_by_kind_before or ())
    prompt_after = TokenKinds(*record.tokens_by_kind_after or ())
    roads = _read_roads(record)
    dollars_before, dollars_after = record.cost_dollars_before, record.cost_dollars_after
    if dollars_before is None or dollars_after is None:
        return Bill(
            tokens=tokens,
            unpriced=tokens,
            prompt_before=prompt_before,
            prompt_after=prompt_after,
            roads=roads,
        )
    prices = record.price_read_ratio or 0.0, record.price_write_ratio or 0.0
    # One price holds for all tokens of a request, so a record has its margins in tokens alone.
    in_dollars = margin.scale((dollars_before + dollars_after) / ((before + after) or 1.0))
    at_arrival = left_out.dollars.saved, left_out.dollars.margin
    seller, tier = record.price_borrowed_from, record.service_tier
    return Bill(
        tokens=tokens,
        dollars=Money(1, dollars_before, dollars_after, in_dollars, calls, *at_arrival),
        prompt_before=prompt_before,
        prompt_after=prompt_after,
        dollars_before=prompt_before.split(dollars_before, *prices),
        dollars_after=prompt_after.split(dollars_after, *prices),
        answers=record.answer_dollars is not None,
        answer_dollars=record.answer_dollars or 0.0,
        borrowed={} if seller is None else {seller: 1},
        standard={tier: 1} if tier is not None and record.price_is_standard else {},
        on_plan=record.subscription,
        roads=roads,
    )


def _read_roads(record: RequestRecord) -> dict[str, Bill]:
    paid, in_dollars = record.cost_tokens_after, record.cost_dollars_after
    if paid is None or not record.roads:
        return {}
    price = None if in_dollars is None or not paid else in_dollars / paid
    roads = {}
    for name, (cost, error) in record.roads.items():
        tokens = Money(1, paid, cost, Margin(error))
        if price is None:
            roads[name] = Bill(tokens=tokens, unpriced=tokens)
        else:
            dollars = Money(1, price * paid, price * cost, tokens.margin.scale(price))
            roads[name] = Bill(tokens=tokens, dollars=dollars)
    return roads


def read_saved_at_arrival(record: RequestRecord) -> Bill:
    """Return what was left out of a request at arrival as a bill: without it, it costs nothing."""
    saved, in_dollars = record.arrival_saved_tokens, record.arrival_saved_dollars
    if not saved:
        return NO_BILL

    def read(amount: float) -> Money:
        margin = Margin((record.arrival_saved_tokens_error or 0.0) * amount / saved)
        return Money(1, amount, 0.0, margin, at_arrival=amount, arrival_margin=margin)

    tokens = read(saved)
    if in_dollars is None:
        return Bill(tokens=tokens, unpriced=tokens)
    return Bill(tokens=tokens, dollars=read(in_dollars))


_LEAST_SLIDES = 3
"""With fewer moves, nothing is said of how often the boundary moves."""


@dataclass(slots=True)
class Balance:
    """What masking has saved in a conversation, in input tokens, and what it goes on to save.

    money: less than nothing is saved as long as the moves of the boundary have not paid off.
    saved_per_request: what the next one would save; None if that is not known.
    moves: at how many of the requests the boundary moved.
    is_held: whether it moves no more, because the cache did not return after a move.
    """

    money: Money = NO_MONEY
    saved_per_request: float | None = None
    moves: int = 0
    is_held: bool = False

    def add(self, record: RequestRecord, money: Money) -> None:
        """Count a request of the conversation; `money` is what it cost, in input tokens."""
        self.money += money
        self.is_held = record.boundary_held
        if not record.boundary_moved:
            self.saved_per_request = money.saved
            return
        # What a move takes out would be read from the cache by each later request. How many tokens
        # that is to the provider is known by what it counted of the rest, or of a recorded prompt.
        self.moves += 1
        before, after = record.request_tokens_before, record.request_tokens_after
        read, counted = record.price_read_ratio, record.prompt_tokens
        if before is None or not after or read is None:
            self.saved_per_request = None
        else:
            sent = before if record.replay else after
            self.saved_per_request = (before - after) * read * (counted / sent if counted else 1.0)

    @property
    def slides(self) -> bool:
        """Whether the boundary moves so often that no move has the time to pay off."""
        return self.moves >= _LEAST_SLIDES and self.moves > self.money.requests / 2

    @property
    def pays_off_in(self) -> int | None:
        """The requests after which the moves have paid off; None if they have, or never will."""
        saved, coming = self.money.saved, self.saved_per_request
        if saved >= 0 or not self.moves or self.slides or coming is None or coming <= 0:
            return None
        return max(1, ceil(-saved / coming))


@dataclass(slots=True)
class ArrivalSum:
    """What shortening long results when they arrived did to some requests.

    requests: those with shortened results in them.
    results: these results, in each request that they were sent in; `kept` are long ones that stayed
        whole, by reason.
    tokens: what was left out of them.
    held: what it saved of requests that have no bill, as their provider holds the history. What it
        saved of the others is in their bills.
    rereads, quotes: calls that repeat one whose result was shortened, or quote what was left out.
    """

    requests: int = 0
    results: int = 0
    tokens: int = 0
    held: Bill = NO_BILL
    rereads: int = 0
    quotes: int = 0
    kept: Counter[str] = field(default_factory=Counter)

    @property
    def is_any(self) -> bool:
        """Whether there was anything that was, or might have been, shortened."""
        return bool(self.results or self.kept)

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        self.kept.update(record.long_kept or {})
        self.rereads += record.arrival_rereads
        self.quotes += record.arrival_quotes
        self.requests += bool(record.shortened)
        self.results += record.shortened
        if record.purpose == "count":
            return
        self.tokens += record.left_out_tokens
        if record.cost_tokens_before is None:
            self.held += read_saved_at_arrival(record)


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
        self.redacted += record.redacted
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

    def percentile(self, percent: int) -> float | None:
        """Return the least time within which so many percent began; None if there are none."""
        if not self.seconds:
            return None
        return sorted(self.seconds)[max(0, ceil(len(self.seconds) * percent / 100) - 1)]


@dataclass(slots=True)
class DropSign:
    """The output of a conversation, before the first request that had reasoning dropped and since.

    `requests_*` count the answers whose tokens the provider has counted.
    """

    requests_before: int = 0
    tokens_before: int = 0
    requests_since: int = 0
    tokens_since: int = 0

    def add(self, record: RequestRecord) -> None:
        """Count a request of the conversation."""
        tokens = record.completion_tokens
        if not is_plausible(tokens):
            return
        if record.dropping == "asked" or self.requests_since:
            self.requests_since += 1
            self.tokens_since += tokens
        else:
            self.requests_before += 1
            self.tokens_before += tokens


# All sums of some requests


_PLACE = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class Tally:
    """The sums of some requests.

    requests: by whether masking is on, off or observed.
    failures: by that, and by the status or by why the response ended early.
    resent: requests that were sent whole once they were refused masked, by what came of that.
    passed_through: requests that went untouched, by why.
    passed_bound: those of them whose reasoning is bound, by why and by what the provider would do.
        All that follows is of the others.
    results, masked, images, redacted, reduced, dropped, kept: tool results (and images in them) as
        the records count them, in each request that they were sent in; `kept` by reason.
    summaries: requests for a summary that were left whole.
    rereads: calls that repeat one whose result was masked.
    arrival: what shortening long results when they arrived did.
    bound: requests that kept results for bound reasoning, by what the provider would do.
    takes_changes: whether an account is known to take what others are refused for such reasoning.
    clearable: those of the bound whose provider could be asked to clear these results.
    clearings: requests whose provider was asked to clear, by what came of it: `cleared`,
        `nothing cleared`, `refused`, or `asked` where it said nothing.
    cleared_tokens: what it says that it cleared of them.
    droppings: requests whose provider was asked to drop reasoning: `asked`, or `refused`.
    drop_signs: what became of the output of conversations whose reasoning is bound, by id.
    tokens_before, tokens_after: of the requests, before and after masking; a request that asks how
        many tokens it has (`purpose` is `count`) sends none to a model.
    uncounted: requests whose tokens were not counted.
    prompt_tokens, cached_tokens: as the providers reported them, where they reported both.
    token_counts: requests that only ask how many tokens they have, which no model answers.
    quota: the latest reading of each window of a plan's quota, by the account and its name.
    quota_use: what those used of it that are to tell what masking did to it.
    bill: what they cost, as they were sent.
    masked_bill: the same without those that were observed only.
    conversations: the ids of the conversations.
    balances: what was saved in each of those where masking changed a bill, by id.
    outgrown: those of them that no longer fit their model without masking, with a request of each.
    assumed: requests by host, where the prices are assumed.
    most_expensive: the request with the highest bill, by dollars or else by input tokens.
    observed: those that were observed only, as if they had been masked; None if there is none. All
        else counts them as they were sent.
    held_out, dry_run: the same, of those in conversations that are held out, and of the others.
    waits, waits_after_move: until a streamed answer began, without and with a move of the boundary.
    """

    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    resent: Counter[Resent] = field(default_factory=Counter)
    passed_through: Counter[str] = field(default_factory=Counter)
    passed_bound: Counter[tuple[str, Bound]] = field(default_factory=Counter)
    results: int = 0
    masked: int = 0
    images: int = 0
    redacted: int = 0
    reduced: int = 0
    dropped: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    summaries: int = 0
    rereads: int = 0
    arrival: ArrivalSum = field(default_factory=ArrivalSum)
    bound: Counter[Bound] = field(default_factory=Counter)
    takes_changes: bool = False
    clearable: int = 0
    clearings: Counter[str] = field(default_factory=Counter)
    cleared_tokens: int = 0
    droppings: Counter[str] = field(default_factory=Counter)
    drop_signs: dict[str, DropSign] = field(default_factory=dict)
    redaction: RedactionSum = field(default_factory=RedactionSum)
    reductions: Counter[str] = field(default_factory=Counter)
    tokens_before: int = 0
    tokens_after: int = 0
    uncounted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    token_counts: int = 0
    quota: dict[tuple[str, str], Reading] = field(default_factory=dict)
    quota_use: QuotaUse = field(default_factory=QuotaUse)
    bill: Bill = NO_BILL
    masked_bill: Bill = NO_BILL
    conversations: set[str] = field(default_factory=set)
    balances: dict[str, Balance] = field(default_factory=dict)
    outgrown: dict[str, RequestRecord] = field(default_factory=dict)
    assumed: Counter[str] = field(default_factory=Counter)
    most_expensive: RequestRecord | None = None
    observed: "Tally | None" = None
    held_out: "Tally | None" = None
    dry_run: "Tally | None" = None
    waits: Waits = field(default_factory=Waits)
    waits_after_move: Waits = field(default_factory=Waits)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        if record.masking == "observed":
            as_if, is_held_out = as_masked(record), record.group == "holdout"
            self.observed = self.observed or Tally()
            self.observed.add(as_if)
            if is_held_out:
                self.held_out = self.held_out or Tally()
                self.held_out.add(as_if)
            else:
                self.dry_run = self.dry_run or Tally()
                self.dry_run.add(as_if)
        record = as_sent(record)
        if record.learns_quota:
            self.quota_use.add(record)
        for window in record.quota or ():
            if (when := record.when) is not None:
                self.quota[record.quota_account or "", window.name] = Reading(window, when)
        self.requests[record.masking] += 1
        self.token_counts += record.purpose == "count"
        if record.failed:
            cause = str(record.status) if (record.status or 0) >= 400 else str(record.error)
            self.failures[record.masking, cause] += 1
        if record.resent is not None:
            self.resent[record.resent] += 1
        if record.passed_through is not None:
            why = _PLACE.sub("[]", record.passed_through)
            self.passed_through[why] += 1
            if record.bound is not None:
                self.passed_bound[why, record.bound] += 1
            self.arrival.add(record)  # what is new may have been shortened all the same
            return
        self._add_results(record)
        self._add_sizes(record)
        self._add_bill(record)
        if record.conversation_id is not None:
            self.conversations.add(record.conversation_id)
            if record.outgrew:
                self.outgrown[record.conversation_id] = record
            elif record.fits_unmasked:  # its agent has made a summary since
                self.outgrown.pop(record.conversation_id, None)
        if record.conversation is not None and record.first_chunk_seconds is not None:
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
    def is_observed_only(self) -> bool:
        """Whether all requests left as the agents wrote them, so that nothing was masked."""
        return self.count > 0 and self.requests["observed"] == self.count

    @property
    def shown(self) -> "Tally":
        """The sums to show: as if masked, where all was observed only.

        What was saved is in the `masked_bill` of these: what was observed beside others stands
        apart.
        """
        return self.observed if self.observed and self.is_observed_only else self

    @property
    def changed(self) -> int:
        """Tool results that were changed, by any strategy."""
        return self.masked + self.arrival.results + self.redacted + self.reduced + self.dropped

    def count_failures(self, masking: str) -> int:
        """Return how many requests failed with masking on, or off."""
        return sum(count for (state, _), count in self.failures.items() if state == masking)

    def _add_results(self, record: RequestRecord) -> None:
        self.results += record.tool_results or 0
        self.masked += record.masked or 0
        self.images += record.masked_images
        self.redacted += record.redacted
        self.reduced += record.reduced
        self.dropped += record.dropped
        self.rereads += record.rereads
        self.arrival.add(record)
        self.kept.update(record.kept or {})
        self.summaries += record.masking == "on" and bool((record.kept or {}).get("summary"))
        self.takes_changes |= record.account == "takes"
        if record.bound is not None and (record.kept or {}).get("bound"):
            self.bound[record.bound] += 1
            self.clearable += record.clearing == "possible"
        if record.clearing in ("asked", "refused"):
            uses = record.cleared_tool_uses
            told = "asked" if uses is None else "cleared" if uses else "nothing cleared"
            self.clearings[told if record.clearing == "asked" else "refused"] += 1
            self.cleared_tokens += record.cleared_tokens or 0
        if record.dropping is not None:
            self.droppings[record.dropping] += 1
        if record.binding is not None and record.conversation_id is not None:
            self.drop_signs.setdefault(record.conversation_id, DropSign()).add(record)
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
        bill = read_bill(record)
        if not bill.tokens.requests:
            return
        # Nearly always one sum is both.
        are_one = self.masked_bill is self.bill
        self.bill += bill
        if record.masking != "observed":
            self.masked_bill = self.bill if are_one else self.masked_bill + bill
        key = record.conversation_id
        is_changed = record.cost_tokens_before != record.cost_tokens_after
        if key is not None and (key in self.balances or is_changed or record.boundary_moved):
            self.balances.setdefault(key, Balance()).add(record, bill.tokens)
        if record.price_source == "assumed":
            self.assumed[record.host] += 1
        if self.most_expensive is None or _bill_of(self.most_expensive) < _bill_of(record):
            self.most_expensive = record


def _bill_of(record: RequestRecord) -> tuple[float, float]:
    return record.cost_dollars_after or 0.0, record.cost_tokens_after or 0.0


# A run of the proxy


@dataclass(slots=True)
class RunTally:
    """The sums of a run, and the conversations whose boundary is held."""

    tally: Tally = field(default_factory=Tally)
    held: set[int | None] = field(default_factory=set)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        self.tally.add(record)
        if record.boundary_held:
            self.held.add(record.conversation)


@dataclass(slots=True)
class Totals:
    """The totals of a run: of what was sent, and apart from that of what mitmproxy replayed."""

    sent: RunTally = field(default_factory=RunTally)
    replayed: RunTally = field(default_factory=RunTally)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        (self.replayed if record.replay else self.sent).add(record)
