"""What a request cost, and what it would have cost without masking, the prompt cache included.

A request has two prompts, the agent's and the masked one. Only one is sent, and for that one the
provider reports its tokens; the other one's are estimated from it, with a margin of error. Three
steps: `update_counts` says what the provider's counts so far tell about both prompts,
`price_request` prices both, and `price_move` says what a move of the boundary cost.

The margin says "+-" beside a saving. Its two sources are the size of the masked texts in the
provider's tokens (`Rate`) and the blocks in which a cache keeps a prompt (`Margin`).
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Literal, NamedTuple

from masking.accounting.bill import (
    NO_KINDS,
    NO_MARGIN,
    NO_MONEY,
    Bill,
    Margin,
    Money,
    TokenKinds,
)
from masking.accounting.prompt import Prompt
from masking.prices import Pricing
from masking.wire import Usage

Basis = Literal["reported", "simulated"]
"""Where the cached tokens of the prompt that was sent come from."""


# What the provider counted of a conversation. Its count grows from request to request by what is
# new, and of that we have our own estimate. A straight line through these pairs gives what the
# provider counts for each message and for each token of ours. The distance of the pairs from the
# line says how far off the count of a masked text may be.

DEFAULT_SPREAD = 0.25
"""How far the ratio of a text may be from that of the rest, if too little was counted to know, and
for placeholders. Of 2,000 recorded tool results, counted in three ways, 9 in 10 were nearer."""

_LEAST_GROWTHS = 3
"""How often a count must have grown to give a line rather than a ratio."""

_PRIOR_WEIGHT = 6
"""The ratio of a whole prompt is as reliable as this many growths of its count."""

_MOST_RATIO = 1.5
"""The largest ratio of a provider's tokens to our estimate. What exceeds it is not text: images."""

_MOST_GROWTH = 3.0
"""The same for what is new in a request, apart from the tokens of each message."""

_MOST_A_MESSAGE = 1_024
"""The most tokens that a provider counts for a message beyond what we see of it: role, separators,
ids, reasoning."""

_A_MESSAGE = 30.0
"""How far off the tokens of each message may be where the counts do not determine them."""

_ALIKE = 1e-3
"""If the sizes of new texts vary by less, they do not determine the tokens of each message."""

_ROUNDING = 1 / 6
"""The variance of the growth of a count that comes from whole tokens: 1/12 at either end."""


class Estimate(NamedTuple):
    """Tokens as the provider counts them, and by how much that may be off either way."""

    tokens: float
    error: float = 0.0


class Rate(NamedTuple):
    """How many tokens a provider counts for one of ours, and in addition for each message.

    spread: how far `value` may be off for one text, as a part of it.
    doubt: how far it may be off for all texts alike, as a part of it.
    """

    value: float = 1.0
    message: float = 0.0
    spread: float = DEFAULT_SPREAD
    doubt: float = DEFAULT_SPREAD / sqrt(_PRIOR_WEIGHT)

    def extend(self, start: Estimate, tokens: int, messages: int = 0) -> Estimate:
        """Return the estimate with so many of our tokens added, in so many messages."""
        error = abs(tokens) * self.value * max(self.spread, self.doubt)
        more = tokens * self.value + messages * self.message
        return Estimate(start.tokens + more, start.error + error)


class Growth(NamedTuple):
    """What a provider counted for new messages, and our estimates of them: sums over requests.

    messages, ours, theirs: the messages, our tokens and the provider's.
    *_per: divided by our tokens.
    """

    times: int = 0
    messages: float = 0.0
    ours: float = 0.0
    theirs: float = 0.0
    messages_squared_per: float = 0.0
    messages_theirs_per: float = 0.0
    theirs_squared_per: float = 0.0

    def add(self, messages: int, ours: int, theirs: float) -> "Growth":
        """Add what was new in a request; skip what cannot be text."""
        if ours <= 0 or not 0 < theirs <= _MOST_GROWTH * ours + _MOST_A_MESSAGE * messages:
            return self
        per = messages * messages / ours, messages * theirs / ours, theirs * theirs / ours
        return Growth(*map(operator.add, self, (1, messages, ours, theirs, *per)))

    def fit(self) -> Rate | None:
        """Return the best rate by weighted least squares; None if nothing was counted.

        Its spread is the residual, its doubt the standard error of the value.
        """
        if not self.times:
            return None
        if self.times < _LEAST_GROWTHS:
            return Rate(self.theirs / self.ours)

        # The model for each request, with its messages m, our tokens o and the provider's t:
        #     t = message * m + value * o + error
        # A text of twice the length is further from the line, but not twice as far: the variance
        # of the error grows with o, so each square counts 1/o. The minimum of
        #     sum((t - message * m - value * o)^2 / o)
        # solves two linear equations, here by Cramer's rule:
        #     message * sum(m^2/o) + value * sum(m) = sum(m*t/o)
        #     message * sum(m)     + value * sum(o) = sum(t)
        message, value = 0.0, self.theirs / self.ours
        squares = self.messages_squared_per * self.ours
        det = squares - self.messages**2
        if det > _ALIKE * squares:
            by_message = self.messages_theirs_per * self.ours - self.theirs * self.messages
            by_value = (
                self.theirs * self.messages_squared_per - self.messages_theirs_per * self.messages
            )
            if 0 <= by_message <= _MOST_A_MESSAGE * det and by_value > 0:
                message, value = by_message / det, by_value / det

        # The sum of squares that is left, expanded into the sums that are known.
        left = (
            self.theirs_squared_per
            + message**2 * self.messages_squared_per
            + value**2 * self.ours
            + 2 * message * value * self.messages
            - 2 * message * self.messages_theirs_per
            - 2 * value * self.theirs
        )
        left = max(0.0, left)

        # The standard error of the value: the variance of the error (two parameters were fitted),
        # times the value's place in the inverse of the matrix above, which is
        #     1 / (sum(o) - sum(m)^2 / sum(m^2/o))
        # If what is new has much the same size in each request, the matrix is nearly singular:
        # value and message cannot be told apart. Then it matters that `message` is known
        # beforehand to within `_A_MESSAGE`, which adds to sum(m^2/o) as one more observation.
        variance = max(_ROUNDING * self.times / self.ours, left / (self.times - 2))
        certain = self.messages_squared_per + variance / _A_MESSAGE**2
        left_open = max(_ALIKE**2 * self.ours, self.ours - self.messages**2 / certain)
        doubt = sqrt(variance / left_open)
        return Rate(value, message, sqrt(left / self.ours) / value, doubt / value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of a conversation up to one of its requests.

    is_masked: which of the two prompts was sent.
    ours: our estimates of the prompt that was sent and of the other; both have `pieces` pieces.
    sent: the prompt that was sent, as the provider counted it, or else as we did.
    is_counted: whether the provider counted it.
    difference: what masking removes, in the provider's tokens.
    whole: the ratio of the last prompt that was counted unmasked, or of the first prompt.
    rate: converts our tokens of a text that was not counted into the provider's.
    last: the counts up to the request before, without their own `last`.
    """

    is_masked: bool
    ours: tuple[int, int]
    pieces: int
    sent: float
    is_counted: bool
    difference: Estimate
    whole: float | None
    rate: Rate
    growth: Growth = field(default_factory=Growth)
    last: "Counts | None" = None

    @property
    def other(self) -> Estimate:
        """The prompt that was not sent, in the provider's tokens."""
        tokens, error = self.difference
        return Estimate(max(0.0, self.sent + (tokens if self.is_masked else -tokens)), error)

    def convert(self, sent: "PromptTokens", other: "PromptTokens") -> tuple[Estimate, Estimate]:
        """Return the common prefix of the prompt that was sent, and of the other.

        They are in the provider's tokens.
        """
        # If only this prompt was counted, the prefix of it is in proportion, so it stays exact.
        last = self.last
        if last is None or last.is_counted != self.is_counted:
            first = Estimate(sent.common * self.sent / max(1, self.ours[0]))
            return first, self.rate.extend(first, other.common - sent.common)
        # Else what lies between a prefix and the nearest counted prompt is converted at the rate.
        counted = [(each.ours[0], each.pieces, Estimate(each.sent)) for each in (last, self)]
        others = [(each.ours[1], each.pieces, each.other) for each in (last, self)]
        return self._extend_nearest(sent, counted), self._extend_nearest(other, others)

    def beside(self, pair: Prompt, *, is_masked: bool, last: "Counts | None") -> "Counts":
        """Return the counts of the same request beside another prompt, at the same rate.

        pair: both prompts; the one that was sent is that after masking if `is_masked`.
        last: these counts at the request before.
        """
        before, after = pair.tokens_before, pair.tokens_after
        return replace(
            self,
            is_masked=is_masked,
            ours=(after, before) if is_masked else (before, after),
            difference=_convert_difference(pair, self.rate),
            last=last and replace(last, last=None),
        )

    def _extend_nearest(
        self, prompt: "PromptTokens", counted: Sequence[tuple[int, int, Estimate]]
    ) -> Estimate:
        tokens, pieces, theirs = min(
            (*counted, (0, 0, Estimate(0.0))), key=lambda each: abs(each[0] - prompt.common)
        )
        return self.rate.extend(theirs, prompt.common - tokens, prompt.pieces - pieces)


def update_counts(
    last: Counts | None,
    prompt: Prompt,
    counted: int | None,
    *,
    is_masked: bool,
    removed: int | None = None,
) -> Counts:
    """Return the counts of a conversation at its next request; `last` is None at the first.

    counted: the tokens of the prompt that was sent, if the provider reported them.
    removed: those that masking took out of it, if the provider did that, and reported it.
    """
    if last is not None and last.is_masked != is_masked:
        last = None
    before, after = prompt.tokens_before, prompt.tokens_after
    ours = (after, before) if is_masked else (before, after)
    whole = min(_MOST_RATIO, counted / ours[0]) if counted and ours[0] else None
    if last and last.whole and (whole is None or (is_masked and before != after)):
        whole = last.whole

    # What is new in it. The count grew by that alone, if no move of the boundary changed it, too.
    growth, sent = Growth(), float(counted or ours[0])
    pieces = len(prompt.before)
    if last:
        growth, new, tokens = last.growth, pieces - last.pieces, ours[0] - last.ours[0]
        has_moved = ours[0] - ours[1] != last.ours[0] - last.ours[1]
        if last.is_counted and counted is not None and not has_moved:
            growth = growth.add(new, tokens, counted - last.sent)
        if not counted and last.whole is not None:  # in the tokens of those that were counted
            sent = max(0.0, last.rate.extend(Estimate(last.sent), tokens, new).tokens)
    rate = growth.fit() or Rate(whole or 1.0)
    difference = _convert_difference(prompt, rate) if removed is None else Estimate(removed)
    return Counts(
        is_masked=is_masked,
        ours=ours,
        pieces=pieces,
        sent=sent,
        is_counted=bool(counted),
        difference=difference,
        whole=whole,
        rate=rate,
        growth=growth,
        last=replace(last, last=None) if last else None,
    )


def _convert_difference(prompt: Prompt, rate: Rate) -> Estimate:
    """Return what masking has removed, in the provider's tokens."""
    # Texts are off the line by chance, each for itself, so much of that cancels out. The line
    # itself may be off for all of them. So may placeholders be, all in one direction, because they
    # are alike.
    removed = prompt.tokens_before - prompt.tokens_after
    texts = sqrt(prompt.squares) * rate.spread + abs(removed) * rate.doubt
    texts = min(texts, abs(removed) * max(rate.spread, rate.doubt))
    error = rate.value * (texts + prompt.left * DEFAULT_SPREAD)
    return Estimate(removed * rate.value, error)


# Bills.


class PromptTokens(NamedTuple):
    """A prompt by our count: its tokens, and those of a prefix that was sent before (`common`).

    altered: its tokens up to the end of the last message that differs between the two prompts.
    pieces: how many pieces the prefix has.
    writable: the tokens that are read from the cache or written to it; None if all of them are.
    """

    tokens: int
    common: int
    altered: int = 0
    pieces: int = 0
    writable: int | None = None


class PromptCost(NamedTuple):
    """What a prompt costs: its tokens, those of them that are cached or written, and the price.

    `cost` is in input-token equivalents: as much as this many plain input tokens of a prompt below
    every price step cost. The answer is not in it.
    """

    prompt: float
    cached: float
    written: float
    cost: float

    @property
    def kinds(self) -> TokenKinds:
        """Its tokens by what a token of their kind costs."""
        return TokenKinds(self.prompt - self.cached - self.written, self.cached, self.written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A request's bill before and after masking, and what the cache was predicted to hold.

    before: the bill without masking, if the cache lost the same part of both prompts.
    predicted: the tokens of the sent prompt that should have been cached.
    hit_rate: the part of the predicted tokens that were cached.
    margin: by how much the bill of the prompt that was not sent, and so the saving, may be off, in
        input-token equivalents.
    """

    before: PromptCost
    after: PromptCost
    predicted: int
    hit_rate: float
    basis: Basis
    margin: Margin = NO_MARGIN


def price_request(
    before: PromptTokens,
    after: PromptTokens,
    counts: Counts,
    usage: Usage,
    pricing: Pricing,
    last_hit_rate: float = 1.0,
) -> Cost:
    """Return what an answered request cost, and what it would have with its other prompt.

    usage: what the provider reported, without slips.
    last_hit_rate: that of the request before; it holds if nothing was predicted to be cached.
    """
    rules = pricing.cache
    # Both prompts in the provider's tokens, and the prefixes that were sent before. Only the sent
    # prompt was counted.
    sent, other = (after, before) if counts.is_masked else (before, after)
    sent_tokens, other_tokens = counts.sent, counts.other.tokens
    sent_common, other_common = counts.convert(sent, other)

    # What was read from the cache for the sent prompt, as reported or else as predicted. The
    # prefix may have been too short to be cached: then a cache that has none of it lost nothing.
    reported = usage.cached
    predicted = rules.round(sent_common.tokens)
    if not reported and not rules.round(sent_common.tokens - sent_common.error):
        predicted = 0
    cached = float(min(predicted if reported is None else reported, sent_tokens))
    # `hits` are the predicted tokens that were read, `surplus` what was read beyond them. What is
    # within the error of a prediction counts as predicted.
    allowed = 0.0 if counts.last is None else rules.block + sent_common.error
    as_predicted = abs(cached - predicted) <= allowed
    hits = predicted if as_predicted else min(cached, predicted)
    surplus = 0.0 if as_predicted else cached - hits
    hit_rate = hits / predicted if predicted else last_hit_rate

    # What would have been read for the other prompt. If fewer tokens were cached than predicted,
    # they expired or were evicted, and the other prompt has fewer in the same proportion. If more
    # were cached, other requests had sent them, and the other prompt has them, too. `warm` is what
    # a cache would hold that lost nothing.
    warm = min(rules.round(other_common.tokens), other_tokens)
    other_hits = warm * hits / predicted if predicted else warm * last_hit_rate
    other_cached = other_hits + surplus
    if sent.common == other.common:
        # The same prefix of both had been sent before: what was read for the one would have been
        # read for the other. If it reaches beyond all that is masked, as after a restart, of which
        # nothing is known, the other prompt is cached up to the same place.
        altered = sent.altered * sent_tokens / max(1, sent.tokens)
        if cached < max(predicted + 1, altered):
            other_cached = cached
        else:
            other_cached = other_hits + max(0.0, cached - hits + other_tokens - sent_tokens)

    # What the tokens cost that are not cached. If the provider says how many of them are written,
    # the same part is written of the other prompt.
    if usage.written is None:
        written = _count_written(sent, sent_tokens, cached)
        other_written = _count_written(other, other_tokens, other_cached)
        price = mean_price(sent_tokens - cached, written, pricing.write)
        other_price = mean_price(other_tokens - other_cached, other_written, pricing.write)
        if pricing.write == 1:  # where writing costs nothing more, nobody speaks of it
            written = other_written = 0.0
    else:
        price = other_price = _price_as_reported(sent_tokens - cached, usage, pricing)
        uncached = sent_tokens - cached
        written = min(float(usage.written), uncached)
        part = written / uncached if uncached > 0 else 1.0
        other_written = part * max(0.0, other_tokens - other_cached)
    paid = _price(sent_tokens, cached, written, price, pricing)
    estimated = _price(other_tokens, other_cached, other_written, other_price, pricing)

    # How far the estimated bill may be off. An error in what was masked before is in the whole
    # prompt and in its cached part alike, so it costs as much as cached tokens do (`shared`); the
    # rest of the errors of size and prefix costs what tokens cost there. If the cache lost
    # something, the other prompt might have lost as many tokens, rather than as large a part
    # (`spared`). The cache rounds to blocks: an error much smaller than a block seldom changes the
    # block in which the prefix ends, and then by a whole block. So that is chance.
    margin = NO_MARGIN
    if before != after:
        dearer = other_price - pricing.read  # what an uncached token costs more
        broken = dearer * hit_rate
        error, block = other_common.error, rules.block
        shared = min(error, counts.last.difference.error if counts.last else 0.0)
        size = abs(other_price * counts.difference.error - broken * shared)
        prefix = abs(broken * (error - shared))
        lost = predicted - hits
        spared = max(0.0, warm - lost - other_hits) if hit_rate < 1 else 0.0
        variance = broken * broken * min(block * error, block * block / 6)
        margin = Margin(size + prefix + abs(dearer) * spared, variance)
        margin = margin.scale(pricing.factor_at(other_tokens))
    is_masked = counts.is_masked
    return Cost(
        before=estimated if is_masked else paid,
        after=paid if is_masked else estimated,
        predicted=predicted,
        hit_rate=hit_rate,
        basis="simulated" if reported is None else "reported",
        margin=margin,
    )


def _count_written(prompt: PromptTokens, tokens: float, cached: float) -> float:
    """Return how many of a prompt's tokens that are not cached are written: all that can be."""
    uncached = max(0.0, tokens - cached)
    if prompt.writable is None:
        return uncached
    writable = prompt.writable * tokens / max(1, prompt.tokens)
    return min(uncached, max(0.0, writable - cached))


def _price_as_reported(tokens: float, usage: Usage, pricing: Pricing) -> float:
    """Return the mean price of tokens that are not cached, some of which were written."""
    written, long = usage.written or 0, usage.written_long
    if long is None or not written:
        return mean_price(tokens, written, pricing.write)
    short_price, long_price = pricing.written_prices
    part = min(1.0, long / written)
    return mean_price(tokens, written, part * long_price + (1 - part) * short_price)


def mean_price(tokens: float, written: float, write: float) -> float:
    """Return the mean price of tokens of which so many are written and the others plain."""
    if tokens <= 0:
        return write
    part = min(1.0, max(0.0, written) / tokens)
    return part * write + (1 - part)


def _price(
    prompt: float, cached: float, written: float, uncached: float, pricing: Pricing
) -> PromptCost:
    cached = min(prompt, cached)
    cost = pricing.cost_of(prompt, cached, uncached)
    return PromptCost(float(prompt), float(cached), min(prompt - cached, written), cost)


class MovePrice(NamedTuple):
    """What a move of the boundary cost at its own request.

    removed: the tokens that it took out of the prompt.
    price: in input-token equivalents.
    """

    removed: float
    price: float


def price_move(last: Cost | None, cost: Cost, pricing: Pricing, left_out: float = 0.0) -> MovePrice:
    """Return what the move at a request cost, given the cost of the request before it.

    left_out: the tokens that were left out at arrival since then; no move has removed them.

    What follows the newly masked results is written anew. Without the move the previous prompt
    would still have been cached, as far as the cache held anything: at the hit rate of what was
    sent, and at most what it held of the longer prompt.
    """
    removed = cost.before.prompt - cost.after.prompt
    removed -= (last.before.prompt - last.after.prompt) if last else 0.0
    removed -= left_out
    warm = min(last.after.prompt * cost.hit_rate, cost.before.cached) if last else 0.0
    uncached = max(0.0, warm - cost.after.cached)
    rewritten = max(0.0, uncached - removed)
    price = (pricing.write - pricing.read) * pricing.factor_at(cost.after.prompt) * rewritten
    return MovePrice(removed, price)


def price_left_out(
    left_out: Mapping[int, int], whole: PromptTokens, counts: Counts, cost: Cost, pricing: Pricing
) -> tuple[float, Margin]:
    """Return what would have been paid for what was left out of a prompt at arrival.

    It is in input-token equivalents, an estimate, and a part of what the request saves; the margin
    is by how much it may be off.

    left_out: our tokens, by the place of their piece.
    whole: the prompt as the client wrote it. What is left out of its cached prefix would have been
        read from the cache, as far as that held anything; all else would have been written.
    cost: what the request cost.
    """
    cached = sum([tokens for at, tokens in left_out.items() if at < whole.pieces])
    new = sum(left_out.values()) - cached
    written = _count_written(whole, float(whole.tokens), float(whole.common))
    uncached = mean_price(whole.tokens - whole.common, written, pricing.write)
    rate, hit_rate, before = counts.rate, cost.hit_rate, cost.before
    # A cache that held more than was sent before, as far as is known, would have held some of it.
    common = whole.common * rate.value
    new_hits = min(1.0, max(0.0, before.cached - common) / max(1.0, before.prompt - common))
    price = cached * (hit_rate * pricing.read + (1 - hit_rate) * uncached)
    price += new * (new_hits * pricing.read + (1 - new_hits) * uncached)
    price *= rate.value * pricing.factor_at(before.prompt)
    return price, Margin(price * min(1.0, max(rate.spread, rate.doubt)))


def make_bill(
    cost: Cost,
    counts: Counts,
    usage: Usage,
    pricing: Pricing,
    at_arrival: tuple[float, Margin] = (0.0, NO_MARGIN),
) -> Bill:
    """Return the bill of a request that cost this; `at_arrival` is as `price_left_out` returns."""
    before, after, (saved, margin) = cost.before, cost.after, at_arrival
    tokens = Money(1, before.cost, after.cost, cost.margin, 0, saved, margin)
    dollars, dollars_before, dollars_after = NO_MONEY, NO_KINDS, NO_KINDS
    is_priced = pricing.dollars_per_million is not None
    if is_priced:
        whole, paid, left_out = (
            pricing.in_dollars(each) or 0.0 for each in (before.cost, after.cost, saved)
        )
        dollars = Money(
            requests=1,
            before=whole,
            after=paid,
            margin=cost.margin.scale(whole / (before.cost or 1.0)),
            at_arrival=left_out,
            arrival_margin=margin.scale(left_out / (saved or 1.0)),
        )
        dollars_before = before.kinds.split(whole, pricing.read, pricing.write)
        dollars_after = after.kinds.split(paid, pricing.read, pricing.write)
    answer = None
    if usage.completion is not None:
        answer = pricing.price_answer(usage.completion, counts.sent)
    return Bill(
        tokens=tokens,
        dollars=dollars,
        unpriced=NO_MONEY if is_priced else tokens,
        prompt_before=before.kinds,
        prompt_after=after.kinds,
        dollars_before=dollars_before,
        dollars_after=dollars_after,
        answers=answer is not None,
        answer_dollars=answer or 0.0,
        borrowed={} if pricing.borrowed_from is None else {pricing.borrowed_from: 1},
        standard={} if pricing.standard_for is None else {pricing.standard_for: 1},
    )
