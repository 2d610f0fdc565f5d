"""By how much an amount of money may be off either way, in the unit of the amount.

Two kinds of error behave differently in a sum. An error in the size of a masked text has the same
direction at every request: such errors add up. Where a prefix ends within a block of the provider's
cache is chance at every request anew: the squares of such errors add up.
"""

from dataclasses import dataclass
from math import sqrt

_DEVIATIONS = 2
"""Standard deviations of the errors by chance: 19 of 20 sums are within."""


@dataclass(frozen=True, slots=True)
class Margin:
    """A margin of error: the errors that add up, and the variance of those by chance."""

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
    """Return the margin of a width of which a part is chance; both as they were written down."""
    return Margin(max(0.0, width - chance), (chance / _DEVIATIONS) ** 2)
