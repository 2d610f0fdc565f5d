"""The bill: what requests cost, and what they would have cost without us.

There are bills of one request, of a conversation and of a year, and they add up. The money that is
shown or stored is read off one. `Ledger` makes that of a request.
"""

from collections.abc import Mapping
from math import sqrt
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

# By how much it may be off

_DEVIATIONS = 2
"""Standard deviations of the random errors: 19 of 20 sums are within."""


class Margin(Struct, frozen=True):
    """By how much an amount of money may be off either way, in the unit of the amount.

    Two kinds of error behave differently in a sum. An error in the size of a masked text has the
    same direction at every request: such errors add up (`steady`). Where a prefix ends within a
    block of the provider's cache is chance, at every request anew: the squares of such errors add
    up (`variance`).
    """

    steady: float = 0.0
    variance: float = 0.0

    def __add__(self, other: "Margin") -> "Margin":
        """Return the margin of a sum."""
        return Margin(self.steady + other.steady, self.variance + other.variance)

    def scale(self, factor: float) -> "Margin":
        """Return the margin in another unit."""
        return Margin(self.steady * factor, self.variance * factor * factor)

    @property
    def chance(self) -> float:
        """By how much the amount may be off by chance alone."""
        return _DEVIATIONS * sqrt(self.variance)

    @property
    def width(self) -> float:
        """By how much the amount may be off either way."""
        return self.steady + self.chance


NO_MARGIN = Margin()
"""The margin of an amount that is known exactly."""


def read_margin(width: float, chance: float) -> Margin:
    """Return the margin with this `width`, of which `chance` is random, as a record has both."""
    return Margin(max(0.0, width - chance), (chance / _DEVIATIONS) ** 2)


def is_about_nothing(saved: float, error: float) -> bool:
    """Whether what was saved, or lost, may as well be nothing: it is within its margin of error.

    This is the one rule for "about 0" and "about as unmasked", in every unit. Exactly nothing is
    not about nothing: it is said as such.
    """
    return saved != 0 and abs(saved) <= error


# In one unit

_SPLIT_ERROR = 0.01
"""The part of what arrival saved by which it may be mistaken for what masking saved."""


class Money(Struct, frozen=True):
    """What the prompts of some requests would have cost without us, and what they cost.

    It is in US dollars, or in input tokens: as many plain ones would cost as much.

    margin: by how much `before` may be off, and so the saving.
    asked_again: the calls that asked for what the model no longer had; none counts twice.
    at_arrival: the part of the saving that is by shortening long results when they arrived, an
        estimate; `arrival_margin` is by how much that may be off. Masking saved the rest.
    """

    requests: int = 0
    before: float = 0.0
    after: float = 0.0
    margin: Margin = NO_MARGIN
    asked_again: int = 0
    at_arrival: float = 0.0
    arrival_margin: Margin = NO_MARGIN

    def __add__(self, other: "Money") -> "Money":
        """Return the money of two groups of requests together."""
        return Money(
            self.requests + other.requests,
            self.before + other.before,
            self.after + other.after,
            self.margin + other.margin,
            self.asked_again + other.asked_again,
            self.at_arrival + other.at_arrival,
            self.arrival_margin + other.arrival_margin,
        )

    @property
    def saved(self) -> float:
        """What was saved; less than 0 is a loss."""
        return self.before - self.after

    @property
    def error(self) -> float:
        """By how much that may be off, either way."""
        return self.margin.width

    @property
    def saved_share(self) -> float | None:
        """The part of the bill without us that was saved; None if there was no bill."""
        return self.saved / self.before if self.before else None

    @property
    def saved_share_error(self) -> float | None:
        """By how much that may be off, either way."""
        return self.error / self.before if self.before else None

    @property
    def is_certain(self) -> bool:
        """Whether anything was saved, or lost, beyond the margin of error."""
        return self.saved != 0 and not is_about_nothing(self.saved, self.error)

    @property
    def by_masking(self) -> float:
        """The part of the saving that is not by shortening at arrival."""
        return self.saved - self.at_arrival

    @property
    def by_masking_error(self) -> float:
        """By how much that may be off, either way.

        Both parts are off together, as nobody counted the prompt that both have made shorter.
        """
        if not self.at_arrival:
            return self.error
        apart = abs(self.error - self.arrival_margin.width)
        return max(apart, _SPLIT_ERROR * abs(self.at_arrival))


NO_MONEY = Money()


# By kind of token


class TokenKinds(Struct, frozen=True):
    """Tokens of prompts, or what they cost, by how a provider bills them.

    uncached: at the plain price.
    read, written: from the cache, and to it. Where writing costs nothing more, nothing is written.
    """

    uncached: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: "TokenKinds") -> "TokenKinds":
        """Return the tokens, or amounts, of two groups of prompts together."""
        return TokenKinds(
            self.uncached + other.uncached, self.read + other.read, self.written + other.written
        )

    @property
    def total(self) -> float:
        """All kinds together."""
        return self.uncached + self.read + self.written

    def split(self, cost: float, read: float, write: float) -> "TokenKinds":
        """Return what each kind of these tokens costs, where all of them cost so much.

        read, write: the price of a cached and of a written token, relative to a plain one. Where a
        prompt is written in part for an hour, all kinds share what that costs more.
        """
        weighted = TokenKinds(self.uncached, self.read * read, self.written * write)
        each = cost / (weighted.total or 1.0)
        return TokenKinds(weighted.uncached * each, weighted.read * each, weighted.written * each)


NO_KINDS = TokenKinds()


# In all units

_Counts = Mapping[str, int]


class Bill(Struct, frozen=True, kw_only=True):
    """What some requests cost, and what they would have cost without us.

    tokens: of all of them, in input tokens.
    dollars: of those whose price is known, in dollars; `unpriced`: of the others, in input tokens.
    prompt_before, prompt_after: tokens of the prompts without us, and as they were sent, as the
        provider counts them; nothing where only an older record is left.
    dollars_before, dollars_after: what these cost, of the requests whose price is known.
    answers, answer_dollars: the requests whose answer has a price, and what these answers cost,
        which is in no other sum, and which we do not change.
    borrowed: requests at a price that was not the host's own, by whose it was; see `Pricing`.
    standard: requests at the price of the standard tier of service, by the tier they asked for.
    on_plan: requests that a subscription pays for, so that dollars are what the API would cost.
    unknown: requests of which nobody knows what was saved; they stand as if nothing was.
    roads: of the requests that another road was open to (see `masking.roads`), by its name, what
        they cost, as `before`, beside what they would have cost by that road.
    """

    tokens: Money = NO_MONEY
    dollars: Money = NO_MONEY
    unpriced: Money = NO_MONEY
    prompt_before: TokenKinds = NO_KINDS
    prompt_after: TokenKinds = NO_KINDS
    dollars_before: TokenKinds = NO_KINDS
    dollars_after: TokenKinds = NO_KINDS
    answers: int = 0
    answer_dollars: float = 0.0
    borrowed: _Counts = field(default_factory=dict)
    standard: _Counts = field(default_factory=dict)
    on_plan: int = 0
    unknown: int = 0
    roads: Mapping[str, "Bill"] = field(default_factory=dict)

    def __add__(self, other: "Bill") -> "Bill":
        """Return the bill of two groups of requests together."""
        return Bill(
            tokens=self.tokens + other.tokens,
            dollars=self.dollars + other.dollars,
            unpriced=self.unpriced + other.unpriced,
            prompt_before=self.prompt_before + other.prompt_before,
            prompt_after=self.prompt_after + other.prompt_after,
            dollars_before=self.dollars_before + other.dollars_before,
            dollars_after=self.dollars_after + other.dollars_after,
            answers=self.answers + other.answers,
            answer_dollars=self.answer_dollars + other.answer_dollars,
            borrowed=_add_each(self.borrowed, other.borrowed, 0),
            standard=_add_each(self.standard, other.standard, 0),
            on_plan=self.on_plan + other.on_plan,
            unknown=self.unknown + other.unknown,
            roads=_add_each(self.roads, other.roads, NO_BILL),
        )

    @property
    def is_in_dollars(self) -> bool:
        """Whether the price of any request is known."""
        return bool(self.dollars.requests)

    @property
    def shown(self) -> Money:
        """The money to show where there is room for one sum: in dollars if any price is known."""
        return self.dollars if self.is_in_dollars else self.tokens

    @property
    def is_all_in_dollars(self) -> bool:
        """Whether the price of every request is known."""
        return not self.unpriced.requests

    @property
    def of_all(self) -> Money:
        """The money of all requests: in dollars if the price of every one is known."""
        return self.dollars if self.is_all_in_dollars else self.tokens

    @property
    def is_saving_known(self) -> bool:
        """Whether anything is known of what was saved, be it nothing."""
        return self.unknown < self.tokens.requests or not self.unknown

    def ask_again(self, calls: int) -> "Bill":
        """Return the bill of a request with so many calls that asked again."""
        if not calls:
            return self
        tokens, dollars, unpriced = (
            replace(money, asked_again=calls if money.requests else 0)
            for money in (self.tokens, self.dollars, self.unpriced)
        )
        return replace(self, tokens=tokens, dollars=dollars, unpriced=unpriced)

    def set_beside(self, roads: Mapping[str, "Bill"]) -> "Bill":
        """Return the bill of a request beside those that it would have had by other roads.

        How far the difference may be off is what the other bill says of its own.
        """

        def compare(own: Money, others: Money) -> Money:
            return Money(own.requests, own.after, others.after, others.margin)

        compared = {
            name: Bill(
                tokens=compare(self.tokens, road.tokens),
                dollars=compare(self.dollars, road.dollars),
                unpriced=compare(self.unpriced, road.unpriced),
            )
            for name, road in roads.items()
        }
        return replace(self, roads=compared)

    def unmasked(self) -> "Bill":
        """Return the bill of the same requests without us."""

        def leave(money: Money) -> Money:
            return Money(money.requests, money.before, money.before)

        return replace(
            self,
            tokens=leave(self.tokens),
            dollars=leave(self.dollars),
            unpriced=leave(self.unpriced),
            prompt_after=self.prompt_before,
            dollars_after=self.dollars_before,
            roads={},
        )

    def without_saving(self) -> "Bill":
        """Return the bill of requests of which nobody knows what was saved."""
        return replace(self.unmasked(), unknown=self.tokens.requests)


NO_BILL = Bill()


_Amount = TypeVar("_Amount", int, Bill)


def _add_each(
    some: Mapping[str, _Amount], others: Mapping[str, _Amount], nothing: _Amount
) -> Mapping[str, _Amount]:
    if not others:
        return some
    return {key: some.get(key, nothing) + others.get(key, nothing) for key in {**some, **others}}
