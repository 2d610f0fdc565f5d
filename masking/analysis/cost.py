"""What a request cost, and what it would have cost without masking, the prompt cache included.

Of the two prompts, the agent's and the masked one, only one was sent, and for that one the
provider reported what it took. The other is reckoned from it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from masking.analysis.counts import Counts, Estimate, Prefix, take_counts
from masking.analysis.margin import NO_MARGIN, Margin
from masking.analysis.price_list import Ratios
from masking.analysis.prompt import Prompt
from masking.analysis.simulate import Piece
from masking.analysis.terms import Terms
from masking.usage import Usage

Basis = Literal["reported", "simulated"]
"""Where the cached tokens of the prompt that was sent come from."""

_MAX_TOKENS = 10**12
"""A count beyond this, or below 0, is a provider's slip, and counts as not reported."""


class Side(NamedTuple):
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


def weigh(
    before: Side,
    after: Side,
    usage: Usage | None,
    terms: Terms,
    *,
    masked: bool,
    usual_share: float = 1.0,
    counts: Counts | None = None,
) -> Cost:
    """Return what a request cost, and would have cost.

    `masked` says which of the two prompts was sent; a recording's is the one before masking.
    `counts` is what the provider's counts tell of both, `usual_share` the last request's, for
    where nothing was predicted to be cached. Where fewer tokens were cached than predicted, for
    they expired or were evicted, the other prompt's are fewer in the same proportion; where more
    were, others had sent them, and the other prompt has them, too. If these reach beyond all that
    is masked, and nothing was known of it, as after a restart, then the other prompt is cached up
    to the same place.
    """
    sent, other = (after, before) if masked else (before, after)
    report = drop_slips(usage or Usage())
    if counts is None:
        sizes = Prompt(before=(Piece(b"", before.tokens),), after=(Piece(b"", after.tokens),))
        counts = take_counts(None, sizes, report.prompt, is_masked=masked)
    prompt, other_prompt = counts.sent, counts.other.tokens
    common, other_common = counts.convert(sent.prefix, other.prefix)

    # What the cache held of the prompt that was sent, and what of the other it would have held.
    predicted = terms.rules.round(common.tokens)
    if not report.cached and not terms.rules.round(common.tokens - common.error):
        predicted = 0  # it may well be too short to be cached: that it is not tells nothing
    cached = float(min(predicted if report.cached is None else report.cached, prompt))
    slack = terms.rules.block + common.error if counts.last else 0.0
    held = predicted if abs(predicted - cached) <= slack else min(cached, predicted)
    share = held / predicted if predicted else usual_share
    surplus = max(0.0, cached - predicted) if held == predicted else 0.0
    surplus = surplus if surplus > slack else 0.0
    altered = sent.altered * prompt / max(1, sent.tokens)
    if sent.common == other.common and cached >= max(predicted + 1, altered):
        surplus = max(0.0, cached - held + other_prompt - prompt)
    warm = min(terms.rules.round(other_common.tokens), other_prompt)
    other_held = warm * held / predicted if predicted else warm * usual_share

    # Both bills, and by how much that of the other one may be off.
    uncached = _find_price_of_uncached(prompt - cached, report.written, terms.ratios)

    def bill(prompt: float, cached: float) -> Bill:
        cached = min(prompt, cached)
        cost = cached * terms.ratios.read + (prompt - cached) * uncached
        cost *= terms.find_factor(prompt)
        return Bill(float(prompt), float(cached), cost, terms.in_dollars(cost))

    paid, reckoned = bill(prompt, cached), bill(other_prompt, other_held + surplus)
    reckoned_warm = bill(other_prompt, warm + surplus)
    doubt = _Doubt(counts, other_common, share, warm, uncached, terms)
    margin = doubt.find_margin(other_held, predicted - held)
    known = before == after
    return Cost(
        before=reckoned if masked else paid,
        before_warm=reckoned_warm if masked else bill(prompt, max(cached, predicted)),
        after=paid if masked else reckoned,
        predicted=predicted,
        share=share,
        basis="simulated" if report.cached is None else "reported",
        margin=NO_MARGIN if known else margin.scale(terms.find_factor(other_prompt)),
    )


class _Doubt(NamedTuple):
    """What the bill of the prompt that was not sent rests on.

    `common` is the prefix of it that was sent before, `warm` what a cache that lost nothing would
    hold of it, `share` the part of such tokens that it holds.
    """

    counts: Counts
    common: Estimate
    share: float
    warm: float
    uncached: float
    terms: Terms

    def find_margin(self, held: float, lost: float) -> Margin:
        """Return by how much the bill may be off; `held` of it are cached, `lost` were lost.

        An error in what was masked before is in the whole prompt and in its cached part alike, so
        it costs what a cached token does. Where the cache lost something, the other prompt might
        have lost as many tokens, and not as large a share. The cache rounds to blocks: an error
        that is small beside one seldom moves the prefix to another, and then by all of it.
        """
        broken = self.uncached - self.terms.ratios.read
        before = self.counts.last.difference.error if self.counts.last else 0.0
        shared = min(self.common.error, before)
        size = abs(self.uncached * self.counts.difference.error - broken * self.share * shared)
        prefix = broken * self.share * (self.common.error - shared)
        spared = self.warm - lost if lost else self.warm if self.share < 1 else held
        cache = broken * max(0.0, spared - held)
        block = self.terms.rules.block
        variance = min(block * self.common.error, block * block / 6)
        return Margin(size + abs(prefix) + abs(cache), (broken * self.share) ** 2 * variance)


def drop_slips(usage: Usage) -> Usage:
    """Return what a provider reported, without counts that cannot be."""
    return Usage(
        prompt=_plausible(usage.prompt),
        cached=_plausible(usage.cached),
        written=_plausible(usage.written),
    )


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def _find_price_of_uncached(tokens: float, written: int | None, ratios: Ratios) -> float:
    """Return the mean price of tokens that are not cached: all written, unless told otherwise."""
    if written is None or tokens <= 0:
        return ratios.write
    share = min(1.0, written / tokens)
    return share * ratios.write + (1 - share)
