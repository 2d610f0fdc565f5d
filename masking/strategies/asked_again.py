"""Results that were asked for again: their call repeats one whose result had left the window.

The one rule: what precedes a result and its call decides, and nothing later does. So a result that
is kept for this stays kept while a conversation goes on. That is why the window counts here, and
not the boundary, which depends on prices, and on what is kept.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence

from masking.model import Decision
from masking.strategies.equal_calls import CallKey, find_key


def find_asked_again(judged: Sequence[Decision], window_turns: int) -> Iterator[int]:
    """Yield the places of the tool results that were asked for again, in order.

    `judged` are the decisions on all results of a request as if each were old enough: a result that
    stays whatever its age need not be asked for again. Where several earlier calls are equal, the
    latest counts.
    """
    earlier: defaultdict[CallKey, list[tuple[int, int]]] = defaultdict(list)
    for place, (result, *_) in enumerate(judged):
        if result.turn is None:
            continue
        known = earlier[find_key(result.tool, result.arguments)]
        # A result may stand before its own call. So calls of later turns may be known already.
        before = bisect_left(known, (result.turn,))
        if before:
            turn, latest = known[before - 1]
            if turn < result.turn - window_turns and judged[latest].reason in _NOT_SEEN:
                yield place
        insort(known, (result.turn, place))


_NOT_SEEN = ("masked", "already_masked")
"""The reasons by which a result that has left the window can be a placeholder."""
