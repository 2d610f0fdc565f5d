"""Re-reads: calls of a request's newest answer that repeat an earlier call.

Whether the model could still see the results of the earlier call depends on what was masked in the
request that it answered, which is the one before. So `find_repeated` finds these results by the
request alone, and `count_masked_repeats` counts once both are known.

(`addon.replay.reread` has more signs, for a whole recording.)
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b

from masking.conversation import Conversation
from masking.history import Fold
from masking.model import Call, ToolResult
from masking.window import CallKey, call_key

Places = tuple[int, ...]
"""Tool results of a request, counted from 0, in order."""

_MAY_CHANGE = 8
"""How many of the last results may be bound otherwise, or rendered anew, at the next request."""

_SHORT = 256
"""Longer arguments are digested, because they are kept."""


def find_repeated(conversation: Conversation) -> tuple[Places, ...]:
    """Return, for each call in the newest answer that repeats any, the results of the earlier ones.

    Results that are remembered from the request before are not read again.
    """
    elements, results = conversation.elements, conversation.results
    # The newest answer: the last element of the assistant, or in some formats its last run.
    end = len(elements)
    while end and elements[end - 1].speaker != "assistant":
        end -= 1
    begin = end - 1 if end else end
    while (
        conversation.wire.answers_in_runs and begin and elements[begin - 1].speaker == "assistant"
    ):
        begin -= 1
    calls = [call for element in elements[begin:end] for call in element.calls]
    if not calls:
        return ()
    index = conversation.history.fold(_ResultsByCall, results, unstable_tail=_MAY_CHANGE)
    found = (tuple(n for n in index.places(call) if results[n].element < begin) for call in calls)
    return tuple(places for places in found if places)


def count_masked_repeats(repeated: Iterable[Places], masked: Collection[int]) -> int:
    """Count the calls of which all earlier results were masked in the request that they answer."""
    return sum(all(place in masked for place in places) for places in repeated)


_Linked = tuple[int, "_Linked"] | None
"""The last place and those before it: to add one takes the same time however many there are, and
a copy of the mapping shares them."""


class _ResultsByCall(Fold[ToolResult]):
    """The places of the results so far, by the call that asked for them."""

    def __init__(self) -> None:
        self._places: dict[CallKey, _Linked] = {}
        self._count = 0

    def take(self, result: ToolResult) -> None:
        """Add the next result."""
        if result.turn is not None:
            key = _shorten(result)
            self._places[key] = (self._count, self._places.get(key))
        self._count += 1

    def places(self, call: Call) -> Places:
        """Return the places of the results of equal calls, in order."""
        found, linked = [], self._places.get(_shorten(call))
        while linked is not None:
            place, linked = linked
            found.append(place)
        return tuple(reversed(found))


def _shorten(called: Call | ToolResult) -> CallKey:
    """Return a key that is the same for equal calls."""
    tool, arguments = call_key(called.tool, called.arguments)
    if len(arguments) > _SHORT:
        arguments = blake2b(arguments.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    return tool, arguments
