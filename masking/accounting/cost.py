"""What a request cost, and what it would have cost without masking, the prompt cache included.

Of the two prompts, the agent's and the masked one, only one was sent, and for that one the
provider reported what it took. The other is reckoned from it.
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

_MAX_TOKENS = 10**12
"""A count beyond this, or below 0, is a provider's slip, and counts as not reported."""


class PromptTokens(NamedTuple):
    """A prompt as it is known beforehand: its tokens, and those of a prefix sent before.

    `altered` are its tokens up to the end of the last message that is masked in one of the two,
    `pieces` how many pieces the prefix has.
    """

    tokens: int
    common: int
    altered: int = 0
    pieces: int = 0

    @property
    def prefix(self) -> Prefix:
        """The prefix that was sent before."""
        return Prefix(self.common, self.pieces)


class Bill(NamedTuple):
    """What a prompt costs: its tokens, those of them that are cached, and the price.

    `cost` is in input-token equivalents: what as many plain input tokens of a prompt below every
    price step would cost. `dollars` is None where the price is not known. The answer is in neither.
    """

    prompt: float
    cached: float
    cost: float
    dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A request's bill before and after masking, and what the cache was predicted to hold of it.

    `before_warm` is the bill without masking had the provider's cache lost nothing; in `before`
    it has lost as much as it had on the prompt that was sent. `predicted` are the tokens of the
    sent prompt that should have been cached, and `share` is the part of such tokens that were.
    `margin` is by how much the bill of the prompt that was not sent may be off, and so what was
    saved, in input-token equivalents.
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
        """What masking saved, in input-token equivalents; less than 0 where it cost more."""
        return self.before.cost - self.after.cost

    @property
    def saved_dollars(self) -> float | None:
        """The same in US dollars; None where the price is not known."""
        if self.before.dollars is None or self.after.dollars is None:
            return None
        return self.before.dollars - self.after.dollars

    @property
    def dollar_margin(self) -> Margin:
        """The margin in US dollars; none where the price is not known."""
        return self.margin.scale((self.before.dollars or 0.0) / (self.before.cost or 1.0))


def bill_request(
    before: PromptTokens,
    after: PromptTokens,
    report: Usage,
    pricing: Pricing,
    counts: Counts,
    *,
    masked: bool,
    usual_share: float = 1.0,
) -> Cost:
    """Return what a request cost, and would have cost.

    `report` is what the provider reported, without slips, `counts` what its counts tell of both
    prompts. `masked` says which of them was sent; a recording's is the one before masking.
    `usual_share` is the last request's, for where nothing was predicted to be cached. Where fewer
    tokens were cached than predicted, for they expired or were evicted, the other prompt's are
    fewer in the same proportion; where more were, others had sent them, and the other prompt has
    them, too. If these reach beyond all that is masked, and nothing was known of it, as after a
    restart, then the other prompt is cached up to the same place.
    """
    sent, other = (after, before) if masked else (before, after)
    prompt, other_prompt = counts.sent, counts.other.tokens
    common, other_common = counts.convert(sent.prefix, other.prefix)

    read = _read_cache(
        common, prompt, report, pricing.cache, usual_share, follows=counts.last is not None
    )
    surplus = read.surplus
    altered = sent.altered * prompt / max(1, sent.tokens)
    if sent.common == other.common and read.cached >= max(read.predicted + 1, altered):
        surplus = max(0.0, read.cached - read.held + other_prompt - prompt)
    warm = min(pricing.cache.round(other_common.tokens), other_prompt)
    held = warm * read.held / read.predicted if read.predicted else warm * usual_share
    uncached = _find_price_of_uncached(prompt - read.cached, report.written, pricing.write)

    def bill(prompt: float, cached: float) -> Bill:
        cached = min(prompt, cached)
        cost = pricing.find_cost(prompt, cached, uncached)
        return Bill(float(prompt), float(cached), cost, pricing.in_dollars(cost))

    paid, reckoned = bill(prompt, read.cached), bill(other_prompt, held + surplus)
    reckoned_warm = bill(other_prompt, warm + surplus)
    paid_warm = bill(prompt, max(read.cached, read.predicted))
    doubt = _Doubt(counts, other_common, warm, uncached - pricing.read, uncached)
    margin = doubt.find_margin(read, held, pricing.cache.block).scale(
        pricing.find_factor(other_prompt)
    )
    return Cost(
        before=reckoned if masked else paid,
        before_warm=reckoned_warm if masked else paid_warm,
        after=paid if masked else reckoned,
        predicted=read.predicted,
        share=read.share,
        basis="simulated" if report.cached is None else "reported",
        margin=NO_MARGIN if before == after else margin,
    )


class _Read(NamedTuple):
    """What was read from the cache of the prompt that was sent, in tokens.

    `held` are those of the `predicted` ones that were, `share` the part they are, and `surplus`
    what was read beyond them. What is within the error of a prediction counts as predicted.
    """

    predicted: int
    cached: float
    held: float
    share: float
    surplus: float


def _read_cache(
    common: Estimate,
    prompt: float,
    report: Usage,
    rules: CacheRules,
    usual_share: float,
    *,
    follows: bool,
) -> _Read:
    predicted = rules.round(common.tokens)
    if not report.cached and not rules.round(common.tokens - common.error):
        predicted = 0  # it may well be too short to be cached: that it is not tells nothing
    cached = float(min(predicted if report.cached is None else report.cached, prompt))
    allowed = rules.block + common.error if follows else 0.0
    if abs(cached - predicted) <= allowed:
        return _Read(predicted, cached, predicted, 1.0 if predicted else usual_share, 0.0)
    held = min(cached, predicted)
    share = held / predicted if predicted else usual_share
    return _Read(predicted, cached, held, share, cached - held)


class _Doubt(NamedTuple):
    """What the bill of the prompt that was not sent rests on.

    `common` is the prefix of it that was sent before, `warm` what a cache that lost nothing would
    hold of it; `broken` is what a token costs more that is not cached, `uncached` what it costs.
    """

    counts: Counts
    common: Estimate
    warm: float
    broken: float
    uncached: float

    def find_margin(self, read: _Read, held: float, block: int) -> Margin:
        """Return by how much the bill may be off where so many of its tokens are taken as cached.

        An error in what was masked before is in the whole prompt and in its cached part alike, so
        it costs what a cached token does. Where the cache lost something, the other prompt might
        have lost as many tokens, and not as large a share. The cache rounds to blocks: an error
        that is small beside one seldom moves the prefix to another, and then by all of it.
        """
        before = self.counts.last.difference.error if self.counts.last else 0.0
        shared = min(self.common.error, before)
        broken = self.broken * read.share
        size = abs(self.uncached * self.counts.difference.error - broken * shared)
        prefix = abs(broken * (self.common.error - shared))
        lost = read.predicted - read.held
        spared = max(0.0, self.warm - lost - held) if read.share < 1 else 0.0
        variance = min(block * self.common.error, block * block / 6)
        return Margin(size + prefix + abs(self.broken) * spared, broken * broken * variance)


def drop_slips(usage: Usage) -> Usage:
    """Return what a provider reported, without counts that cannot be."""
    return Usage(
        prompt=_plausible(usage.prompt),
        cached=_plausible(usage.cached),
        written=_plausible(usage.written),
    )


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def _find_price_of_uncached(tokens: float, written: int | None, write: float) -> float:
    """Return the mean price of tokens that are not cached: all written, unless told otherwise."""
    if written is None or tokens <= 0:
        return write
    share = min(1.0, written / tokens)
    return share * write + (1 - share)
