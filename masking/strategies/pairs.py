"""Pairs: a message of the assistant with calls, and all results of these calls.

The one rule: a pair stays whole or goes whole. Which result belongs to which call is decided in
`wire.chat`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from masking.model import ChatMessage, ToolResult
from masking.wire.chat import find_tool_results

Pairs = Mapping[int, int]
"""By the position of a tool result, the position of the message with its call."""


def find_pairs(messages: list[ChatMessage]) -> dict[int, int]:
    """Bind the tool results of a conversation to their calls.

    Orphans, results without an id and calls without a result are in no pair.
    """
    turns = [at for at, message in enumerate(messages) if _is_turn(message)]
    results = find_tool_results({"messages": messages}).results
    return {find_position(r): turns[r.turn] for r in results if r.turn is not None}


def find_position(result: ToolResult) -> int:
    """Return where a result's message stands in the conversation, counted from 0."""
    return cast(int, result.path[1])


def close_over_pairs(kept: Collection[int], pairs: Pairs) -> frozenset[int]:
    """Return the positions in `kept` and those of every message paired with one of them."""
    calls = {pairs.get(position, position) for position in kept}
    mates = (mate for pair in pairs.items() if pair[1] in calls for mate in pair)
    return frozenset((*kept, *mates))


def keeps_pairs(pairs: Pairs, messages: list[ChatMessage], origins: Sequence[int | None]) -> bool:
    """Whether each pair is whole in these messages or wholly gone, and none is new.

    `origins` are the positions that the messages had before; None for a new message.
    """
    there = frozenset(origins)
    expected = {r: call for r, call in pairs.items() if r in there or call in there}
    return expected == {origins[r]: origins[call] for r, call in find_pairs(messages).items()}


def _is_turn(message: ChatMessage) -> bool:
    return find_tool_results({"messages": [message]}).turns > 0
