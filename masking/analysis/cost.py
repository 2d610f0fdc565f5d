"""What a request cost, and what it would have cost without masking, the prompt cache included.

Of the two prompts, the agent's and the masked one, only one was sent, and for that one the
provider reported what it took. The other is reckoned from it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from masking.analysis.price_list import Ratios
from masking.analysis.terms import Terms
from masking.usage import Usage

Basis = Literal["reported", "simulated"]
"""Where the cached tokens of the prompt that was sent come from."""

_MAX_TOKENS = 10**12
"""A count beyond this, or below 0, is a provider's slip, and counts as not reported."""


_MOST_RATIO = 1.5
"""Of a provider's tokens of a text to the estimate of them; what is above it is no text."""


class Side(NamedTuple):
    """A prompt as it is known beforehand: its tokens, and those of a prefix sent before.

    `altered` are its tokens up to the end of the last message that is masked in one of the two.
    """

    tokens: int
    common: int
    altered: int = 0


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
    """

    before: Bill
    before_warm: Bill
    after: Bill
    predicted: int
    share: float
    basis: Basis

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


def weigh(
    before: Side,
    after: Side,
    usage: Usage | None,
    terms: Terms,
    *,
    masked: bool,
    usual_share: float = 1.0,
    usual_ratio: float | None = None,
) -> Cost:
    """Return what a request cost, and would have cost.

    `masked` says which of the two prompts was sent; a recording's is the one before masking.
    `usual_share` is the last request's, for where nothing was predicted to be cached;
    `usual_ratio` that of the provider's tokens to estimated ones, where nothing was masked yet.
    Tokens are estimates, and are corrected by the ratio of the prompt that the provider counted
    to its own estimate. Where fewer tokens were cached than predicted, for they expired or were
    evicted, the other prompt's are fewer in the same proportion; where more were, others had sent
    them, and the other prompt has them, too. If these reach beyond all that is masked, and nothing
    was known of it, as after a restart, then the other prompt is cached up to the same place.
    """
    sent, other = (after, before) if masked else (before, after)
    report = _drop_slips(usage or Usage())
    prompt = report.prompt or sent.tokens

    def scale(tokens: int) -> float:  # multiplied first: whole numbers stay exact
        return tokens * prompt / max(1, sent.tokens)

    predicted = terms.rules.round(scale(sent.common))
    cached = min(predicted if report.cached is None else report.cached, prompt)
    held = min(cached, predicted)
    share = held / predicted if predicted else usual_share
    uncached = _find_price_of_uncached(prompt - cached, report.written, terms.ratios)

    def bill(prompt: float, cached: float) -> Bill:
        cached = min(prompt, cached)
        cost = cached * terms.ratios.read + (prompt - cached) * uncached
        cost *= terms.find_factor(prompt)
        return Bill(float(prompt), float(cached), cost, terms.in_dollars(cost))

    paid = bill(prompt, cached)
    ratio = _find_ratio(prompt, sent.tokens) if usual_ratio is None else usual_ratio
    difference = (other.tokens - sent.tokens) * ratio
    surplus = float(cached - held)
    if sent.common == other.common and cached >= max(predicted + 1, scale(sent.altered)):
        surplus = max(0.0, surplus + difference)
    other_prompt = prompt + difference
    common = scale(sent.common) + (other.common - sent.common) * ratio
    warm = min(terms.rules.round(common), other_prompt)
    other_held = warm * held / predicted if predicted else warm * usual_share
    reckoned = bill(other_prompt, other_held + surplus)
    reckoned_warm = bill(other_prompt, warm + surplus)
    return Cost(
        before=reckoned if masked else paid,
        before_warm=reckoned_warm if masked else bill(prompt, max(cached, predicted)),
        after=paid if masked else reckoned,
        predicted=predicted,
        share=share,
        basis="simulated" if report.cached is None else "reported",
    )


def _find_ratio(prompt: int, estimate: int) -> float:
    """Return how many of the provider's tokens an estimated one of text is.

    Where its prompt is far larger than the estimate, it holds what that does not see: images.
    """
    return min(_MOST_RATIO, prompt / max(1, estimate)) if estimate else 1.0


def _drop_slips(usage: Usage) -> Usage:
    return Usage(
        prompt=_plausible(usage.prompt),
        cached=_plausible(usage.cached),
        written=_plausible(usage.written),
    )


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def _find_price_of_uncached(tokens: int, written: int | None, ratios: Ratios) -> float:
    """Return the mean price of tokens that are not cached: all written, unless told otherwise."""
    if written is None or tokens <= 0:
        return ratios.write
    share = min(1.0, written / tokens)
    return share * ratios.write + (1 - share)
