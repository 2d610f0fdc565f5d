"""Calls and their results: a message of the assistant with calls, and all that answers it.

The one rule: a pair stays whole or goes whole. What is bound to what, `wire.chat` says.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from masking.model import ChatMessage, ToolResult
from masking.wire.chat import find_tool_results

Pairs = Mapping[int, int]
"""By the position of a tool result, that of the message that called for it."""


def find_pairs(messages: list[ChatMessage]) -> dict[int, int]:
    """Bind the tool results of a conversation to their calls.

    An orphan and a result without an id are in no pair, nor is a call that nothing answers.
    """
    turns = [at for at, message in enumerate(messages) if _is_turn(message)]
    results = find_tool_results({"messages": messages}).results
    return {find_position(r): turns[r.turn] for r in results if r.turn is not None}


def find_position(result: ToolResult) -> int:
    """Return where a result's message stands in the conversation, counted from 0."""
    return cast(int, result.path[1])


def close_over_pairs(kept: Collection[int], pairs: Pairs) -> frozenset[int]:
    """Return the positions in `kept`, and those of all that is paired with one of them."""
    calls = {pairs.get(position, position) for position in kept}
    mates = (mate for pair in pairs.items() if pair[1] in calls for mate in pair)
    return frozenset((*kept, *mates))


def keeps_pairs(pairs: Pairs, messages: list[ChatMessage], origins: Sequence[int | None]) -> bool:
    """Whether each pair is whole in these messages or gone from them, and none is new.

    `origins` are the positions that the messages had; None for one that had none.
    """
    there = frozenset(origins)
    expected = {r: call for r, call in pairs.items() if r in there or call in there}
    return expected == {origins[r]: origins[call] for r, call in find_pairs(messages).items()}


def _is_turn(message: ChatMessage) -> bool:
    return find_tool_results({"messages": [message]}).turns > 0
