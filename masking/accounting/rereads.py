"""Re-reads: calls of a request's newest answer that repeat an earlier call, or quote what is gone.

Whether the model could still see the results of the earlier call depends on what was masked in the
request that it answered, which is the one before. So `find_repeated` finds these results by the
request alone, and `count_repeats` counts once both are known.

(`addon.replay.reread` has more signs, for a whole recording.)
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from operator import is_

from masking.arrival import Arrived, find_left_out
from masking.conversation import Conversation
from masking.model import Call, ToolResult, parse_arguments
from masking.window import CallKey, call_key
from masking.wire.format import render_json

Places = tuple[int, ...]
"""Tool results of a request, counted from 0, in order."""

_SHORT = 256
"""Longer arguments are digested, because they are kept."""


def find_repeated(conversation: Conversation) -> tuple[Places, ...]:
    """Return, for each call in the newest answer that repeats any, the results of the earlier ones.

    Results that are remembered from the request before are not read again.
    """
    begin, calls = _find_newest_calls(conversation)
    if not calls:
        return ()
    results, wanted = conversation.results, [*map(_key_of, calls)]
    places: dict[CallKey, list[int]] = {key: [] for key in wanted}
    keys = conversation.history.map_each(_key_of, results, is_same=is_)
    for place, (result, key) in enumerate(zip(results, keys, strict=True)):
        if key in places and result.turn is not None and result.element < begin:
            places[key].append(place)
    found = {key: tuple(each) for key, each in places.items() if each}
    return tuple(found[key] for key in wanted if key in found)


def _key_of(called: Call | ToolResult) -> CallKey:
    """Return a key that is the same for equal calls."""
    tool, arguments = call_key(called.tool, called.arguments)
    if len(arguments) > _SHORT:
        arguments = blake2b(arguments.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    return tool, arguments


def count_repeats(repeated: Iterable[Places], gone: frozenset[int]) -> int:
    """Count the calls of which all earlier results were gone from the request that they answer."""
    return sum(gone.issuperset(places) for places in repeated)


def _find_newest_calls(conversation: Conversation) -> tuple[int, list[Call]]:
    """Return where the newest answer begins, and the calls in it.

    It is the last element of the assistant, or in some formats its last run.
    """
    elements, last = conversation.elements, conversation.last_answer
    begin = max(0, last)
    while (
        conversation.wire.answers_in_runs and begin and elements[begin - 1].speaker == "assistant"
    ):
        begin -= 1
    return begin, [call for element in elements[begin : last + 1] for call in element.calls]


# Quotes: an agent cannot write a whole line that it does not see, but for chance.

LEAST_LINE_CHARS = 16
"""A shorter line is too common to be a quote."""


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text that are long enough to be quoted, without blanks around them."""
    for line in text.splitlines():
        if len(stripped := line.strip()) >= LEAST_LINE_CHARS:
            yield stripped


def count_quotes(arrived: Arrived) -> int:
    """Count the calls in the newest answer that quote a line of what was left out at arrival.

    A line that the request shows anywhere else is none: in a message, in a schema, or in a result
    that goes on whole, be it masked since or not.
    """
    conversation = arrived.conversation
    begin, calls = _find_newest_calls(conversation)
    left_out = [
        text
        for each in arrived.shortened
        if conversation.results[each.place].element < begin
        for text in find_left_out(arrived, each)
    ]
    if not left_out or not calls:
        return 0
    wanted = [
        {line for text in _find_texts(parse_arguments(call.arguments)) for line in lines_of(text)}
        for call in calls
    ]
    hidden = set().union(*wanted).intersection(line for text in left_out for line in lines_of(text))
    if not hidden:
        return 0
    head = (*conversation.wire.find_head_texts(conversation.body),)
    shown = [*head, render_json(conversation.wire.find_tools(conversation.body))]
    for element in conversation.elements[:begin]:
        shown += element.all_texts
        for call in element.calls:
            shown += _find_texts(parse_arguments(call.arguments))
    hidden = {line for line in hidden if not any(line in text for text in shown)}
    return sum(not hidden.isdisjoint(lines) for lines in wanted)


def _find_texts(value: object) -> Iterator[str]:
    """Yield all texts in a decoded value."""
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            pending += found.values()
        elif isinstance(found, list):
            pending += found
