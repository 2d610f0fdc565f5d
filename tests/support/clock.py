"""Time that a test moves."""

from dataclasses import dataclass


@dataclass
class Clock:
    """A clock that stands still unless it is moved; in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
