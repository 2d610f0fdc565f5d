"""Where a conversation has shown certain words or lines so far.

What a result shows can be masked, what any other message shows cannot: only the first kind is kept
with its places.
"""

from collections import defaultdict
from collections.abc import Iterable

Places = tuple[int, ...]
"""Tool results of a request, counted from 0, in order."""


class ShownTexts:
    """What was shown, of all that is `wanted`; the rest is passed over and takes no memory."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._shown: set[str] = set()
        self._results_with: defaultdict[str, list[int]] = defaultdict(list)

    def show(self, found: Iterable[str]) -> None:
        """Note what a message shows that is never masked."""
        self._shown |= self._wanted.intersection(found)

    def show_result(self, place: int, found: Iterable[str]) -> None:
        """Note what the tool result at this place shows."""
        for each in self._wanted.intersection(found):
            self._results_with[each].append(place)

    def find_results(self, found: frozenset[str]) -> tuple[Places, ...]:
        """Return, for each that results alone have shown, those results; once where they are alike.

        What nothing has shown is left out.
        """
        holders = {tuple(self._results_with.get(each, ())) for each in found - self._shown}
        return tuple(sorted(holders - {()}))
