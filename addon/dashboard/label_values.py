"""Label values of metrics: few of them, whatever names requests bring along."""

from addon.request import one_line

MAX_VALUES = 50
OTHER = "other"


class LabelValues:
    """Lets the first values of a label through; every later one is `other`."""

    def __init__(self, max_values: int = MAX_VALUES) -> None:
        self._max_values = max_values
        self._known: set[str] = set()

    def take(self, value: str | None) -> str:
        """Return the value to use; an empty one for None."""
        if not value:
            return ""
        shown = one_line(value)
        if shown not in self._known:
            if len(self._known) >= self._max_values:
                return OTHER
            self._known.add(shown)
        return shown
