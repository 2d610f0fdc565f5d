"""The settings that are tuned, and the grid of them that is tried."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from masking.analysis.replay import Course
from masking.policy import MaskPolicy


class Tuning(NamedTuple):
    """What is tuned of a policy, under the names that the configuration gives it.

    `max_loss` is None where the window slides at every turn, whatever that does to a prompt cache.
    """

    enabled: bool
    window_turns: int
    keep_errors: bool
    keep_last_k_per_tool: int
    min_chars: int
    max_loss: float | None

    def apply(self, course: Course) -> Course:
        """Return a course with these settings, and all its others.

        Where it says that the window slides and these do not, the price list draws the boundary.
        """
        pricing = course.pricing
        if pricing.cache_pricing == "none":
            pricing = dataclasses.replace(pricing, cache_pricing="auto")
        kept = course.policy.max_loss if self.max_loss is None else self.max_loss
        return dataclasses.replace(
            course,
            policy=dataclasses.replace(course.policy, **{**self._asdict(), "max_loss": kept}),
            pricing=pricing,
            slides=self.max_loss is None,
        )

    def count_changes(self, other: "Tuning") -> int:
        """Return in how many settings it differs from another."""
        return sum(mine != its for mine, its in zip(self, other, strict=True))


def tuning_of(course: Course) -> Tuning:
    """Return the settings of a course."""
    policy, slides = course.policy, course.drawn_by.cache_pricing == "none"
    return Tuning(
        enabled=policy.enabled,
        window_turns=policy.window_turns,
        keep_errors=policy.keep_errors,
        keep_last_k_per_tool=max(0, policy.keep_last_k_per_tool or 0),
        min_chars=policy.min_chars,
        max_loss=None if slides else policy.max_loss,
    )


DEFAULTS = tuning_of(Course(policy=MaskPolicy(enabled=True)))
"""As shipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The values that are tried of each setting, in every combination."""

    window_turns: tuple[int, ...] = (2, 4, 6, 8, 12, 16, 24)
    keep_errors: tuple[bool, ...] = (True, False)
    keep_last_k_per_tool: tuple[int, ...] = (0, 1, 2)
    min_chars: tuple[int, ...] = (0, 500, 2_000)
    max_loss: tuple[float | None, ...] = (0.05, 0.1, 0.2, None)

    def combine(self) -> Iterator[Tuning]:
        """Yield the combinations."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return (Tuning(True, *combination) for combination in product(*values))


def find_tunings(present: Tuning, grid: Grid) -> tuple[Tuning, ...]:
    """Return what is to be tried, once each: the present settings, masking off, and the grid."""
    return tuple(dict.fromkeys([present, switch_off(present), *grid.combine()]))


def switch_off(tuning: Tuning) -> Tuning:
    """Return the settings with masking off: everything is sent."""
    return tuning._replace(enabled=False)
