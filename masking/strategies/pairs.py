"""Calls and their results: an element of the assistant with calls, and all that answers it.

The one rule: a pair stays whole or goes whole. What is bound to what, `pairing.bind` says.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from masking.conversation import Conversation, find_answers
from masking.elements import Element
from masking.history import History
from masking.model import ToolResult
from masking.pairing import bind
from masking.wire_format import WireFormat

Pairs = Mapping[int, frozenset[int]]
"""By the position of an element with tool results, those of the elements that called for them."""


def find_pairs(conversation: Conversation) -> dict[int, frozenset[int]]:
    """Bind the elements with tool results to those with their calls.

    Orphans, results without an id and calls without a result are in no pair.
    """
    return _pair(conversation.elements, conversation.results, conversation.wire)


def _pair(
    elements: Sequence[Element], results: Iterable[ToolResult], wire: WireFormat
) -> dict[int, frozenset[int]]:
    turns = [
        frozenset(answer)
        for answer in find_answers(elements, in_runs=wire.answers_in_runs)
        if any(elements[at].is_turn for at in answer)
    ]
    pairs: dict[int, frozenset[int]] = {}
    for result in results:
        if result.turn is not None:
            known = pairs.get(result.element, frozenset())
            pairs[result.element] = known | turns[result.turn]
    return pairs


def close_over_pairs(kept: Collection[int], pairs: Pairs) -> frozenset[int]:
    """Return the positions in `kept`, and those of all that is paired with one of them."""
    closed = {*kept}
    before = -1
    while before < len(closed):
        before = len(closed)
        for result, calls in pairs.items():
            if result in closed or not closed.isdisjoint(calls):
                closed |= {result, *calls}
    return frozenset(closed)


def keeps_pairs(
    pairs: Pairs, after: Sequence[Element], origins: Sequence[int | None], wire: WireFormat
) -> bool:
    """Whether each pair is whole in what is left or gone from it, and none is new.

    `origins` are the positions that the elements had; None for one that had none.
    """
    there = frozenset(origins)
    expected = {
        result: calls
        for result, calls in pairs.items()
        if result in there or not there.isdisjoint(calls)
    }
    found = _pair(after, bind(History(), after, wire)[1], wire).items()
    return expected == {origins[r]: frozenset(origins[at] for at in calls) for r, calls in found}
