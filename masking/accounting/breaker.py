"""The circuit breaker: whether a provider's cache does what the boundary's rule relies on.

The rule relies on a move being paid once, after which the prompt is cached as before. If the cache
worked until a move and no longer works after it, moving does harm that no price shows.
"""

from dataclasses import dataclass

_TOLERANCE = 0.5
"""The part of the predicted tokens that must be cached. Tokens are estimates, and blocks differ."""

_TRUSTED_AFTER = 2
"""How many predictions in a row must hold before a move for those after it to count."""

_TRIPS_AFTER = 3
"""How many predictions in a row must fail from the first one after a move on."""


@dataclass(slots=True)
class Breaker:
    """Watches a conversation. Once tripped it stays so; it never trips where nothing is cached."""

    tripped: bool = False
    _held: int = 0
    _failed: int = 0
    _on_trial: bool = False

    def watch(self, predicted: int, cached: int | None, *, moved: bool) -> bool:
        """Watch a request; return whether this is the one that trips the breaker.

        `predicted` and `cached` are tokens; `cached` is None if the provider did not report any.
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
