"""The settings that are tuned, and the grid of values that is tried."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from addon.replay.replay import ReplaySettings
from masking.strategies.policy import MaskPolicy

LEAST_WINDOW = 5
"""The shortest window that is recommended. A recording made without masking shows which calls refer
to what would have been masked. It does not show what an agent would have missed without asking for
it again, and that matters more the shorter the window is."""


class Tuning(NamedTuple):
    """The settings of a policy that are tuned, under their names in the configuration.

    `max_loss` is None if the window slides at every turn, whatever that does to a prompt cache.
    """

    enabled: bool
    window_turns: int
    keep_errors: bool
    keep_last_k_per_tool: int
    min_chars: int
    max_loss: float | None
    keep_latest_turns: int = 0

    @property
    def is_window_long_enough(self) -> bool:
        """Whether the window is long enough for recordings to show what it costs an agent."""
        return not self.enabled or not 0 < self.window_turns < LEAST_WINDOW

    def apply(self, settings: ReplaySettings) -> ReplaySettings:
        """Return the settings with these values in them.

        If the settings let the window slide and these values do not, the boundary is drawn by the
        price list.
        """
        price_settings = settings.price_settings
        if price_settings.cache_pricing == "none":
            price_settings = dataclasses.replace(price_settings, cache_pricing="auto")
        kept = settings.policy.max_loss if self.max_loss is None else self.max_loss
        return dataclasses.replace(
            settings,
            policy=dataclasses.replace(settings.policy, **{**self._asdict(), "max_loss": kept}),
            price_settings=price_settings,
            slides=self.max_loss is None,
        )

    def count_changes(self, other: "Tuning") -> int:
        """Return the number of settings in which it differs from another."""
        return sum(mine != its for mine, its in zip(self, other, strict=True))


def tuning_of(settings: ReplaySettings) -> Tuning:
    """Return the tuned values of settings."""
    policy, slides = settings.policy, settings.boundary_slides
    return Tuning(
        enabled=policy.enabled,
        window_turns=policy.window_turns,
        keep_errors=policy.keep_errors,
        keep_last_k_per_tool=max(0, policy.keep_last_k_per_tool or 0),
        min_chars=policy.min_chars,
        max_loss=None if slides else policy.max_loss,
        keep_latest_turns=max(0, policy.keep_latest_turns),
    )


DEFAULTS = tuning_of(ReplaySettings(policy=MaskPolicy(enabled=True)))
"""The shipped values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The values to try for each setting, in every combination.

    Keeping the last K of each tool is not tried: keeping the latest of each target costs as much
    and loses less.
    """

    window_turns: tuple[int, ...] = (LEAST_WINDOW, 6, 8, 12, 16, 20, 24)
    keep_errors: tuple[bool, ...] = (True, False)
    keep_last_k_per_tool: tuple[int, ...] = (0,)
    min_chars: tuple[int, ...] = (0, 500, 2_000)
    max_loss: tuple[float | None, ...] = (0.05, 0.1, 0.2, None)
    keep_latest_turns: tuple[int, ...] = (0, 24, 40)

    def combine(self) -> Iterator[Tuning]:
        """Yield the combinations."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return (Tuning(True, *combination) for combination in product(*values))


def find_tunings(present: Tuning, grid: Grid) -> tuple[Tuning, ...]:
    """Return what to try, without duplicates: the present settings, masking off, and the grid."""
    return tuple(dict.fromkeys([present, switch_off(present), *grid.combine()]))


def switch_off(tuning: Tuning) -> Tuning:
    """Return the settings with masking off: everything is sent."""
    return tuning._replace(enabled=False)
