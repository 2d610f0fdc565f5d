"""The calls of a request's newest answer that repeat earlier ones, and the results of those.

Whether the model could still see these results depends on what the request masked that it answered,
which is the one before. So the places are found here, by the request alone, and counted where both
are known.
"""

from collections.abc import Collection, Iterable

from masking.conversation import Conversation, find_answers
from masking.strategies.equal_calls import CallKey, find_key

Places = tuple[int, ...]
"""Tool results of a request, counted from 0, in order."""


def find_repeated(conversation: Conversation) -> tuple[Places, ...]:
    """Return, for each call in the newest answer that repeats any, the results of the earlier ones.

    Linear in the tool results; arguments are compared only for calls of the same tool.
    """
    elements, in_runs = conversation.elements, conversation.wire.answers_in_runs
    newest = [*find_answers(elements, in_runs=in_runs)][-1:]
    calls = [call for answer in newest for at in answer for call in elements[at].calls]
    tools = {call.tool for call in calls}
    results_of: dict[CallKey, list[int]] = {find_key(c.tool, c.arguments): [] for c in calls}
    for place, result in enumerate(conversation.results if calls else ()):
        is_earlier = result.turn is not None and result.element < newest[0].start
        if is_earlier and result.tool in tools:
            key = find_key(result.tool, result.arguments)
            if key in results_of:
                results_of[key].append(place)
    found = (tuple(results_of[find_key(call.tool, call.arguments)]) for call in calls)
    return tuple(places for places in found if places)


def count_rereads(repeated: Iterable[Places], masked: Collection[int]) -> int:
    """Count the calls of which all earlier results were masked in the request that they answer."""
    return sum(all(place in masked for place in places) for places in repeated)
