"""The calls of a request's newest answer that repeat earlier ones, and the results of those.

Whether the model could still see these results depends on what the request masked that it answered,
which is the one before. So the places are found here, by the request alone, and counted where both
are known.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

from masking.conversation import Conversation
from masking.elements import Call, Element
from masking.history import Fold
from masking.model import ToolResult
from masking.strategies.equal_calls import CallKey, find_key

Places = tuple[int, ...]
"""Tool results of a request, counted from 0, in order."""


def find_repeated(conversation: Conversation) -> tuple[Places, ...]:
    """Return, for each call in the newest answer that repeats any, the results of the earlier ones.

    What was found of the results of the request before is not looked for again.
    """
    elements = conversation.elements
    newest = _find_newest(elements, in_runs=conversation.wire.answers_in_runs)
    calls = [call for at in newest for call in elements[at].calls]
    if not calls:
        return ()
    index = conversation.history.fold(
        _ResultsByCall, conversation.results, unstable_tail=_MAY_CHANGE
    )
    results, begin = conversation.results, newest.start
    found = (
        tuple(n for n in index.find_places(call) if results[n].element < begin) for call in calls
    )
    return tuple(places for places in found if places)


_MAY_CHANGE = 8
"""How many of the last results may be bound otherwise, or spelled anew, at the next request."""


_Linked = tuple[int, "_Linked"] | None
"""The last place and those before it: to add one takes the same time however many there are, and
a copy of the mapping shares them."""


class _ResultsByCall(Fold[ToolResult]):
    """The places of the results so far that a call asked for, by what was called."""

    def __init__(self) -> None:
        self._places: dict[CallKey, _Linked] = {}
        self._count = 0

    def take(self, result: ToolResult) -> None:
        """Add the next result."""
        if result.turn is not None:
            key = _shorten(result)
            self._places[key] = (self._count, self._places.get(key))
        self._count += 1

    def find_places(self, call: Call) -> Places:
        """Return the places of the results of equal calls, in order."""
        found, linked = [], self._places.get(_shorten(call))
        while linked is not None:
            place, linked = linked
            found.append(place)
        return tuple(reversed(found))


_SHORT = 256


def _shorten(called: Call | ToolResult) -> CallKey:
    """Return what is the same for equal calls. It is kept, so long arguments are digested."""
    tool, arguments = find_key(called.tool, called.arguments)
    if len(arguments) > _SHORT:
        arguments = blake2b(arguments.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    return tool, arguments


def _find_newest(elements: Sequence[Element], *, in_runs: bool) -> range:
    """Return the positions of the newest answer of the assistant; none if there is none."""
    end = len(elements)
    while end and elements[end - 1].speaker != "assistant":
        end -= 1
    start = end - 1 if end else end
    while in_runs and start > 0 and elements[start - 1].speaker == "assistant":
        start -= 1
    return range(start, end)


def count_rereads(repeated: Iterable[Places], masked: Collection[int]) -> int:
    """Count the calls of which all earlier results were masked in the request that they answer."""
    return sum(all(place in masked for place in places) for places in repeated)
