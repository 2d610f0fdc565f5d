"""What a provider counted of a conversation, and what masking removes by the provider's count.

A request has two prompts, the agent's and the masked one, and only one is sent and counted. But the
count grows from request to request by what is new, and of that we have our own estimate. A straight
line through these pairs gives what the provider counts for each message and for each token of ours.
The distance of the pairs from the line says how far off the count of a masked text may be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import NamedTuple

from masking.accounting.prompt import Prompt

DEFAULT_SPREAD = 0.25
"""How far the ratio of a text may be from that of the rest, if too little was counted to know, and
for placeholders. Of 2,000 recorded tool results, counted in three ways, 9 in 10 were nearer."""

_TELLING = 3
"""How often a count must have grown to give more than a ratio."""

_AS_OFTEN = 6
"""The ratio of a whole prompt says as much as this many growths of its count."""

_MOST_RATIO = 1.5
"""The largest ratio of a provider's tokens to our estimate. What exceeds it is not text: images."""

_MOST_GROWTH = 3.0
"""The same for what is new in a request, apart from the tokens of each message."""

_MOST_A_MESSAGE = 1_024
"""The most tokens that a provider counts for a message beyond what we see of it: role, separators,
ids, reasoning."""

_A_MESSAGE = 30.0
"""How far off the tokens of each message may be where the counts do not tell them."""

_ALIKE = 1e-3
"""If the sizes of new texts vary by less, they do not tell the tokens of each message."""

_ROUNDING = 1 / 6
"""The variance of what a count grew by that comes of counting in whole tokens."""


class Estimate(NamedTuple):
    """Tokens as the provider counts them, and by how much that may be off either way."""

    tokens: float
    error: float = 0.0

    def plus(self, tokens: float, error: float) -> "Estimate":
        """Return the estimate with more tokens, and with their error."""
        return Estimate(self.tokens + tokens, self.error + error)


class Rate(NamedTuple):
    """How many tokens a provider counts for one of ours, and in addition for each message.

    `spread` is how far `value` may be off for a text, as a part of it; `doubt` is how far it may be
    off for all of them alike.
    """

    value: float = 1.0
    message: float = 0.0
    spread: float = DEFAULT_SPREAD
    doubt: float = DEFAULT_SPREAD / sqrt(_AS_OFTEN)

    def extend(self, start: Estimate, tokens: int, messages: int = 0) -> Estimate:
        """Return the estimate with our tokens of a text, or of so many messages, added."""
        error = abs(tokens) * self.value * max(self.spread, self.doubt)
        return start.plus(tokens * self.value + messages * self.message, error)


class Growth(NamedTuple):
    """What a provider counted for new messages, and our estimates of them: sums over requests.

    messages, ours, theirs: the messages, our tokens and the provider's.
    *_per: divided by our tokens. That is their weight in the fit: a text of twice the length is
        further from the line, but not twice as far.
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
        return Growth(
            times=self.times + 1,
            messages=self.messages + messages,
            ours=self.ours + ours,
            theirs=self.theirs + theirs,
            messages_squared_per=self.messages_squared_per + messages * messages / ours,
            messages_theirs_per=self.messages_theirs_per + messages * theirs / ours,
            theirs_squared_per=self.theirs_squared_per + theirs * theirs / ours,
        )

    def find_rate(self) -> Rate | None:
        """Return the best rate by weighted least squares; its spread is the residual.

        Its doubt is the standard error of the value. What is new may have much the same size in
        each request. Then the value and the tokens of each message are not told apart, and the
        latter are known beforehand to within `_A_MESSAGE` alone.
        """
        if not self.times:
            return None
        if self.times < _TELLING:
            return Rate(self.theirs / self.ours)
        message, value = self._fit() or (0.0, self.theirs / self.ours)
        left = (
            self.theirs_squared_per
            + message**2 * self.messages_squared_per
            + value**2 * self.ours
            + 2 * message * value * self.messages
            - 2 * message * self.messages_theirs_per
            - 2 * value * self.theirs
        )
        left = max(0.0, left)
        variance = max(_ROUNDING * self.times / self.ours, left / (self.times - 2))
        known = self.messages_squared_per + variance / _A_MESSAGE**2
        left_open = max(_ALIKE**2 * self.ours, self.ours - self.messages**2 / known)
        doubt = sqrt(variance / left_open)
        return Rate(value, message, sqrt(left / self.ours) / value, doubt / value)

    def _fit(self) -> tuple[float, float] | None:
        """Return the tokens for a message and for a token of ours; None if the sums do not tell."""
        squares = self.messages_squared_per * self.ours
        det = squares - self.messages**2
        if det <= _ALIKE * squares:
            return None
        message = self.messages_theirs_per * self.ours - self.theirs * self.messages
        value = self.theirs * self.messages_squared_per - self.messages_theirs_per * self.messages
        is_plausible = 0 <= message <= _MOST_A_MESSAGE * det and value > 0
        return (message / det, value / det) if is_plausible else None


class Prefix(NamedTuple):
    """The beginning of a prompt: its tokens by our count, and its pieces."""

    tokens: int
    pieces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What is known of a conversation at one of its requests.

    is_masked: which of the two prompts was sent.
    ours: our estimates of the prompt that was sent and of the other; both have `pieces` pieces.
    sent: the prompt that was sent, as the provider counted it, or else as we did.
    is_counted: whether the provider counted it.
    difference: what masking removes, in the provider's tokens.
    whole: the ratio of the last prompt that was counted unmasked, or of the first prompt.
    last: what was known at the request before, without its own `last`.
    """

    is_masked: bool
    ours: tuple[int, int]
    pieces: int
    sent: float
    is_counted: bool
    difference: Estimate
    whole: float | None
    growth: Growth = field(default_factory=Growth)
    last: "Counts | None" = None

    @property
    def rate(self) -> Rate:
        """The rate that converts our tokens of an uncounted text into the provider's."""
        return self.growth.find_rate() or Rate(self.whole or 1.0)

    @property
    def other(self) -> Estimate:
        """The prompt that was not sent, in the provider's tokens."""
        tokens, error = self.difference
        return Estimate(max(0.0, self.sent + (tokens if self.is_masked else -tokens)), error)

    def convert(self, sent: Prefix, other: Prefix) -> tuple[Estimate, Estimate]:
        """Return prefixes of the prompt that was sent and of the other, in the provider's tokens.

        The part between a prefix and the nearest known prompt is converted at the rate. If only
        this prompt is known, the prefix that was sent is a proportion of it.
        """
        last = self.last
        if last is None or last.is_counted != self.is_counted:
            first = Estimate(sent.tokens * self.sent / max(1, self.ours[0]))  # so it stays exact
            return first, self.rate.extend(first, other.tokens - sent.tokens)
        known = [(Prefix(n.ours[0], n.pieces), Estimate(n.sent)) for n in (last, self)]
        others = [(Prefix(n.ours[1], n.pieces), n.other) for n in (last, self)]
        return self._locate(sent, known), self._locate(other, others)

    def _locate(self, prefix: Prefix, known: Sequence[tuple[Prefix, Estimate]]) -> Estimate:
        nearest, theirs = min(
            (*known, (Prefix(0, 0), Estimate(0.0))),
            key=lambda each: abs(each[0].tokens - prefix.tokens),
        )
        tokens, pieces = prefix.tokens - nearest.tokens, prefix.pieces - nearest.pieces
        return self.rate.extend(theirs, tokens, pieces)


def take_counts(
    last: Counts | None, prompt: Prompt, counted: int | None, *, is_masked: bool
) -> Counts:
    """Return what is known of a conversation at its next request; `last` is None at the first.

    `counted` are the tokens of the prompt that was sent, if the provider reported them.
    """
    if last is not None and last.is_masked != is_masked:
        last = None
    before, after = prompt.tokens_before, prompt.tokens_after
    ours = (after, before) if is_masked else (before, after)
    whole = min(_MOST_RATIO, counted / ours[0]) if counted and ours[0] else None
    if last and last.whole and is_masked and before != after:
        whole = last.whole
    now = Counts(
        is_masked=is_masked,
        ours=ours,
        pieces=len(prompt.before),
        sent=counted or ours[0],
        is_counted=bool(counted),
        difference=Estimate(0.0),
        whole=whole or (last.whole if last else None),
        growth=_grow(last, prompt, counted) if last else Growth(),
        last=replace(last, last=None) if last else None,
    )
    return replace(now, difference=_find_difference(prompt, now.rate))


def _grow(last: Counts, prompt: Prompt, counted: int | None) -> Growth:
    """Add what the count grew by, if only new messages changed it."""
    before, after = prompt.tokens_before, prompt.tokens_after
    was = last.ours[::-1] if last.is_masked else last.ours
    if counted is None or not last.is_counted or before - after != was[0] - was[1]:
        return last.growth
    return last.growth.add(len(prompt.before) - last.pieces, before - was[0], counted - last.sent)


def _find_difference(prompt: Prompt, rate: Rate) -> Estimate:
    """Return what masking removes from a prompt.

    Texts are off the line by chance, each for itself, so much of that cancels out. The line itself
    may be off for all of them. So may placeholders, all in one direction, because they are alike.
    """
    before, after, _, left, squares = prompt.compared
    removed = abs(before - after)
    texts = sqrt(squares) * rate.spread + removed * rate.doubt
    texts = min(texts, removed * max(rate.spread, rate.doubt))
    error = rate.value * (texts + left * DEFAULT_SPREAD)
    return Estimate((before - after) * rate.value, error)
