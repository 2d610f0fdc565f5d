"""The circuit breaker: whether a provider's cache does what the boundary's rule counts on.

The rule takes a moved boundary for a price paid once, after which the prompt is cached as before.
Where that held until a move and holds no longer after it, moving does harm that no price shows.
"""

from dataclasses import dataclass

_TOLERANCE = 0.5
"""Part of the predicted tokens that must have been cached. Tokens are estimates, blocks differ."""

_TRUSTED_AFTER = 2
"""Predictions in a row that have held before a move, for those after it to count."""

_TRIPS_AFTER = 3
"""Predictions in a row that fail after a move, from the first one on, or after further moves."""


@dataclass(slots=True)
class Breaker:
    """Watches one conversation; once tripped it stays so. Where nothing is cached it never is."""

    tripped: bool = False
    _held: int = 0
    _failed: int = 0
    _on_trial: bool = False

    def watch(self, predicted: int, cached: int | None, *, moved: bool) -> bool:
        """Take in a request; return whether it is the one that trips.

        `predicted` and `cached` are tokens, `cached` as the provider reported them, if it did;
        `moved` says whether the boundary moved with this request.
        """
        if self.tripped:
            return False
        if moved:
            self._on_trial |= self._held >= _TRUSTED_AFTER
            self._held = 0
        elif cached is not None and predicted > 0:
            self._judge(cached >= _TOLERANCE * predicted)
        self.tripped = self._on_trial and self._failed >= _TRIPS_AFTER
        return self.tripped

    def _judge(self, has_held: bool) -> None:
        if has_held:
            self._held += 1
            self._failed = 0
            self._on_trial = False
        else:
            self._held = 0
            self._failed += 1
