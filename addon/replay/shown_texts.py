"""Where a conversation has shown certain words or lines so far.

What a tool result shows can be masked; what other messages show cannot. So places are kept for tool
results only.
"""

from collections import defaultdict
from collections.abc import Iterable

from masking.accounting import Places


class ShownTexts:
    """What was shown of all that is `wanted`; the rest is ignored and takes no memory."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._shown: set[str] = set()
        self._results_with: defaultdict[str, list[int]] = defaultdict(list)

    def show(self, found: Iterable[str]) -> None:
        """Note what is shown by a message that is never masked."""
        self._shown |= self._wanted.intersection(found)

    def show_result(self, place: int, found: Iterable[str]) -> None:
        """Note what the tool result at this place shows."""
        for each in self._wanted.intersection(found):
            self._results_with[each].append(place)

    def find_results(self, found: frozenset[str]) -> tuple[Places, ...]:
        """Return the places of the results that showed each of these, without duplicates.

        What another message showed, and what nothing showed, is left out.
        """
        holders = {tuple(self._results_with.get(each, ())) for each in found - self._shown}
        return tuple(sorted(holders - {()}))
