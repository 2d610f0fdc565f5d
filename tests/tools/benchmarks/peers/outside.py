"""What of a request reached the provider otherwise than the client wrote it, tool results apart.

Both bodies are decoded, and the contents of tool results are left out. What remains is compared
part by part: each field beside the list, and each element of it, written in one way for both.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from masking.wire.chat import CHAT
from masking.wire.messages import MESSAGES


class Difference(NamedTuple):
    """How a request that arrived differs from the client's.

    outside: bytes that differ outside of tool results, of the longer side.
    results: how many elements differ in the contents of tool results alone.
    is_respelled: whether it says the same all through, in other bytes.
    """

    outside: int = 0
    results: int = 0
    is_respelled: bool = False


def compare(sent: bytes, arrived: bytes) -> Difference:
    """Return how a body, Chat Completions or Messages, differs from the one that was sent.

    Raises ValueError if one of them is no JSON object.
    """
    if sent == arrived:
        return Difference()
    ours, theirs = _decode(sent), _decode(arrived)
    if ours == theirs:
        return Difference(is_respelled=True)
    pairs = list(_pair(ours.pop(_LIST, []), theirs.pop(_LIST, [])))
    pairs += [(ours.get(key, _NOTHING), theirs.get(key, _NOTHING)) for key in {**ours, **theirs}]
    outside = results = 0
    for one, other in pairs:
        without = _write(blank(one)), _write(blank(other))
        outside += count_changed(*without)
        results += without[0] == without[1] and _write(one) != _write(other)
    return Difference(outside, results)


def blank(element: object) -> object:
    """Return an element of a list without the contents of its tool results; else what it was."""
    if not isinstance(element, dict):
        return element
    if element.get("role") == "tool":
        return {**element, "content": None}
    content = element.get("content")
    if not isinstance(content, list):
        return element
    return {**element, "content": [_blank_block(block) for block in content]}


def count_changed(one: bytes, other: bytes) -> int:
    """Return the bytes between the common beginning and the common end, of the longer one."""
    shorter = min(len(one), len(other))
    begin = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    end = 0
    while end < shorter - begin and one[-1 - end] == other[-1 - end]:
        end += 1
    return max(len(one), len(other)) - begin - end


_LIST = "messages"
_NOTHING = object()


def _blank_block(block: object) -> object:
    is_result = isinstance(block, dict) and block.get("type") == "tool_result"
    return {**block, "content": None} if isinstance(block, dict) and is_result else block


def _decode(body: bytes) -> dict[str, object]:
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("the body is no JSON object")
    return document


def _pair(ours: object, theirs: object) -> Iterator[tuple[object, object]]:
    """Yield the elements that differ, each with the one in its place; without one, with nothing."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        yield ours, theirs
        return
    # What only a result's content tells apart stands in the same place.
    one_side, other_side = ([_write(blank(each)) for each in side] for side in (ours, theirs))
    matcher = SequenceMatcher(a=one_side, b=other_side, autojunk=False)
    for _, begin, end, other_begin, other_end in matcher.get_opcodes():
        for at in range(max(end - begin, other_end - other_begin)):
            one = ours[begin + at] if begin + at < end else _NOTHING
            other = theirs[other_begin + at] if other_begin + at < other_end else _NOTHING
            yield one, other


def _write(value: object) -> bytes:
    return b"" if value is _NOTHING else json.dumps(value, sort_keys=True).encode()


WIRES = {"completions": CHAT, "messages": MESSAGES}
"""The wire formats that are compared and billed, by the name of the provider's dialect."""


def sum_up(differences: Sequence[Difference]) -> Mapping[str, int]:
    """Return how many requests differ outside of tool results, in how many bytes, and the rest."""
    return {
        "outside": sum(each.outside > 0 for each in differences),
        "bytes": sum(each.outside for each in differences),
        "respelled": sum(each.is_respelled for each in differences),
    }
