"""What a request cost, and what it would have cost without masking, the prompt cache included.

Of the two prompts, the agent's and the masked one, only one was sent, and for that one the
provider reported its tokens. The other's are estimated from it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from masking.accounting.counts import Counts, Estimate, Prefix
from masking.accounting.margin import NO_MARGIN, Margin
from masking.measures.cache_rules import CacheRules
from masking.measures.pricing import Pricing
from masking.wire.usage import Usage

Basis = Literal["reported", "simulated"]
"""Where the cached tokens of the prompt that was sent come from."""


class PromptTokens(NamedTuple):
    """A prompt as we count it: its tokens, and those of a prefix that was sent before.

    altered: its tokens up to the end of the last message that differs between the two prompts.
    pieces: how many pieces the prefix has.
    writable: the tokens that are read from the cache or written to it; None if all of them are.
    """

    tokens: int
    common: int
    altered: int = 0
    pieces: int = 0
    writable: int | None = None

    @property
    def prefix(self) -> Prefix:
        """The prefix that was sent before."""
        return Prefix(self.common, self.pieces)


class Bill(NamedTuple):
    """What a prompt costs: its tokens, those of them that are cached, and the price.

    `cost` is in input-token equivalents: as much as this many plain input tokens of a prompt below
    every price step cost. `dollars` is None if the price is not known. Neither includes the answer.
    """

    prompt: float
    cached: float
    cost: float
    dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A request's bill before and after masking, and what the cache was predicted to hold.

    before: the bill without masking, if the cache lost the same part of both prompts.
    before_warm: the bill without masking, if the cache had lost nothing.
    predicted: the tokens of the sent prompt that should have been cached.
    share: the part of the predicted tokens that were cached.
    margin: by how much the bill of the prompt that was not sent, and so the saving, may be off, in
        input-token equivalents.
    """

    before: Bill
    before_warm: Bill
    after: Bill
    predicted: int
    share: float
    basis: Basis
    margin: Margin = NO_MARGIN

    @property
    def saved(self) -> float:
        """What masking saved, in input-token equivalents; less than 0 if it cost more."""
        return self.before.cost - self.after.cost

    @property
    def saved_dollars(self) -> float | None:
        """The same in US dollars; None if the price is not known."""
        if self.before.dollars is None or self.after.dollars is None:
            return None
        return self.before.dollars - self.after.dollars

    @property
    def dollar_margin(self) -> Margin:
        """The margin in US dollars; none if the price is not known."""
        return self.margin.scale((self.before.dollars or 0.0) / (self.before.cost or 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRequest:
    """What is known of an answered request, whichever of its two prompts was sent.

    counts: which prompt was sent, and what the provider's counts say about both.
    usage: what the provider reported, without mistakes.
    usual_share: the share of the request before; it holds if nothing was predicted to be cached.
    """

    before: PromptTokens
    after: PromptTokens
    counts: Counts
    usage: Usage
    usual_share: float = 1.0


class _Counted(NamedTuple):
    """A prompt in the provider's tokens, and the prefix of it that was sent before."""

    known: PromptTokens
    tokens: float
    common: Estimate


class _CacheRead(NamedTuple):
    """What was read from the cache for the prompt that was sent, in tokens.

    held: the predicted tokens that were read.
    share: their part of the predicted tokens.
    surplus: what was read beyond them. What is within a prediction's error counts as predicted.
    """

    predicted: int
    cached: float
    held: float
    share: float
    surplus: float


class _OtherRead(NamedTuple):
    """What would have been read for the prompt that was not sent, in tokens.

    warm: what a cache that lost nothing would have held of the prefix that was sent before.
    held: what this cache held of it.
    cached, cached_warm: `held` and `warm`, with what other requests had sent.
    """

    warm: float
    held: float
    cached: float
    cached_warm: float


def bill_request(request: CountedRequest, pricing: Pricing) -> Cost:
    """Return what a request cost, and what it would have cost with the prompt that was not sent."""
    # Both prompts in the provider's tokens. Only the sent one was counted.
    sent, other = _count_prompts(request)
    # What was read from the cache, by report or prediction, and would have been for the other one.
    read = _read_sent(request, sent, pricing.cache)
    other_read = _read_other(request, sent, other, read, pricing.cache)
    # What that costs. If the provider told how much of what is not cached is written, the same part
    # is for the other prompt.
    if request.usage.written is None:
        price = _find_price_of_uncached(sent, read.cached, pricing)
        uncached = _find_price_of_uncached(other, other_read.cached, pricing)
    else:
        price = uncached = _find_reported_price(sent.tokens - read.cached, request.usage, pricing)
    sent_warm = max(read.cached, read.predicted)
    paid = _bill(sent.tokens, read.cached, price, pricing)
    paid_warm = _bill(sent.tokens, sent_warm, price, pricing)
    reckoned = _bill(other.tokens, other_read.cached, uncached, pricing)
    reckoned_warm = _bill(other.tokens, other_read.cached_warm, uncached, pricing)
    # Which of the two is the one before masking, and how far the estimated one may be off.
    is_masked, is_same = request.counts.is_masked, request.before == request.after
    margin = _find_margin(request.counts, other, read, other_read, uncached, pricing)
    return Cost(
        before=reckoned if is_masked else paid,
        before_warm=reckoned_warm if is_masked else paid_warm,
        after=paid if is_masked else reckoned,
        predicted=read.predicted,
        share=read.share,
        basis="simulated" if request.usage.cached is None else "reported",
        margin=NO_MARGIN if is_same else margin,
    )


def _count_prompts(request: CountedRequest) -> tuple[_Counted, _Counted]:
    """Return the prompt that was sent, and the other one."""
    counts, known = request.counts, (request.before, request.after)
    sent, other = known[::-1] if counts.is_masked else known
    sent_common, other_common = counts.convert(sent.prefix, other.prefix)
    return (
        _Counted(sent, counts.sent, sent_common),
        _Counted(other, counts.other.tokens, other_common),
    )


def _read_sent(request: CountedRequest, sent: _Counted, rules: CacheRules) -> _CacheRead:
    """Return what was read for the prompt that was sent, as reported or else as predicted."""
    common, reported = sent.common, request.usage.cached
    predicted = rules.round(common.tokens)
    if not reported and not rules.round(common.tokens - common.error):
        predicted = 0  # perhaps too short to be cached: then a cache that has none lost nothing
    cached = float(min(predicted if reported is None else reported, sent.tokens))
    allowed = 0.0 if request.counts.last is None else rules.block + common.error
    if abs(cached - predicted) <= allowed:
        share = 1.0 if predicted else request.usual_share
        return _CacheRead(predicted, cached, predicted, share, 0.0)
    held = min(cached, predicted)
    share = held / predicted if predicted else request.usual_share
    return _CacheRead(predicted, cached, held, share, cached - held)


def _read_other(
    request: CountedRequest, sent: _Counted, other: _Counted, read: _CacheRead, rules: CacheRules
) -> _OtherRead:
    """Return what would have been read for the prompt that was not sent.

    If fewer tokens were cached than predicted, they expired or were evicted, and the other prompt
    has fewer in the same proportion. If more were cached, other requests had sent them, and the
    other prompt has them, too.
    """
    warm = min(rules.round(other.common.tokens), other.tokens)
    held = warm * read.held / read.predicted if read.predicted else warm * request.usual_share
    surplus = read.surplus
    if sent.known.common == other.known.common:
        # The same prefix of both had been sent before: what was read for the one would have been
        # read for the other. If it reaches beyond all that is masked, as after a restart, of which
        # nothing is known, the other prompt is cached up to the same place.
        altered = sent.known.altered * sent.tokens / max(1, sent.known.tokens)
        if read.cached < max(read.predicted + 1, altered):
            return _OtherRead(warm, held, read.cached, max(read.cached, read.predicted))
        surplus = max(0.0, read.cached - read.held + other.tokens - sent.tokens)
    return _OtherRead(warm, held, held + surplus, warm + surplus)


def _find_price_of_uncached(prompt: _Counted, cached: float, pricing: Pricing) -> float:
    """Return the mean price of tokens that are not cached: those are written that can be."""
    known = prompt.known
    if known.writable is None:
        return pricing.write
    writable = known.writable * prompt.tokens / max(1, known.tokens)
    return find_mean_price(prompt.tokens - cached, writable - cached, pricing.write)


def _find_reported_price(tokens: float, usage: Usage, pricing: Pricing) -> float:
    """Return the mean price of tokens that are not cached, some of which were written."""
    written, long = usage.written or 0, usage.written_long
    if long is None or not written:
        return find_mean_price(tokens, written, pricing.write)
    short_price, long_price = pricing.written_prices
    share = min(1.0, long / written)
    return find_mean_price(tokens, written, share * long_price + (1 - share) * short_price)


def find_mean_price(tokens: float, written: float, write: float) -> float:
    """Return the mean price of tokens of which so many are written and the others plain."""
    if tokens <= 0:
        return write
    share = min(1.0, max(0.0, written) / tokens)
    return share * write + (1 - share)


def _bill(prompt: float, cached: float, uncached: float, pricing: Pricing) -> Bill:
    cached = min(prompt, cached)
    cost = pricing.find_cost(prompt, cached, uncached)
    return Bill(float(prompt), float(cached), cost, pricing.in_dollars(cost))


def _find_margin(
    counts: Counts,
    other: _Counted,
    read: _CacheRead,
    other_read: _OtherRead,
    uncached: float,
    pricing: Pricing,
) -> Margin:
    """Return by how much the bill of the prompt that was not sent may be off.

    An error in what was masked before is in the whole prompt and in its cached part alike, so it
    costs as much as cached tokens do. If the cache lost something, the other prompt might have lost
    as many tokens, rather than as large a share. The cache rounds to blocks: an error much smaller
    than a block seldom changes the block in which the prefix ends, and then by a whole block.
    """
    dearer = uncached - pricing.read  # what an uncached token costs more
    broken = dearer * read.share
    error, block = other.common.error, pricing.cache.block
    shared = min(error, counts.last.difference.error if counts.last else 0.0)
    size = abs(uncached * counts.difference.error - broken * shared)
    prefix = abs(broken * (error - shared))
    lost = read.predicted - read.held
    spared = max(0.0, other_read.warm - lost - other_read.held) if read.share < 1 else 0.0
    variance = broken * broken * min(block * error, block * block / 6)
    margin = Margin(size + prefix + abs(dearer) * spared, variance)
    return margin.scale(pricing.find_factor(other.tokens))
