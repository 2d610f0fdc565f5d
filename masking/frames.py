"""A request's body taken apart: what stands before its list, the bytes of each element, the rest.

An element is cut out so that it can be known again by its bytes. What is left with a sentinel in
place of the elements is the frame. If the frame decodes, and the sentinel is all that its list
holds, then whatever elements stand there, separated by commas, are that list: JSON is read from
left to right, and where one value may stand, any other may.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from sys import getsizeof
from typing import Any, NamedTuple

import msgspec
import orjson

from masking.model import Path
from masking.wire_format import HeadSize

_BLANKS = re.compile(rb"[ \t\r\n]*")
_OPENS = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*")
_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")

_SENTINEL = secrets.token_hex(16)
"""No client can know it, so it stands nowhere but where it was put."""

_MOST_HEADS = 8
"""How often the name of the list may occur before it with a list of its own."""

_OBJECT, _END, _NEXT = b"{"[0], b"]"[0], b","[0]

_SHALLOW = 200
"""How deep an element may be, and a frame. orjson stops at 1,024 levels of both together, and
Python's comparison of what was decoded somewhat earlier."""

_VALUE_BYTES = 100
"""What a value takes at most as a rule, beside the characters of a text."""

_FEW_BYTES = 400
"""So much of a frame may change without its being weighed anew."""


class CountedHead(NamedTuple):
    """What stands before the list: its digest, and the tokens of tool schemas and system texts."""

    digest: bytes
    tools: int
    texts: int


class HeadFacts:
    """What was worked out of what stands before a request's list, such as tools and system texts.

    Like the facts of an element each is None until somebody asks, works it out and assigns it.

    size: what `WireFormat.measure_head` returns.
    counted: what it comes to in counted tokens.
    """

    __slots__ = ("counted", "size")

    def __init__(self) -> None:
        self.size: HeadSize | None = None
        self.counted: CountedHead | None = None


class Frame(NamedTuple):
    """A request without the elements of its list.

    head, tail: the bytes before the first element, and those behind the last one.
    document: as decoded, with an empty list at `list_path`.
    weight: about how many bytes of memory all of it takes.
    facts: of the head.
    """

    head: bytes
    tail: bytes
    document: dict[str, Any]
    list_path: Path
    weight: int
    facts: HeadFacts


def find_heads(body: bytes, list_paths: Sequence[Path]) -> Iterator[int]:
    """Yield where the first element may begin, or the list may end if it is empty."""
    name = b'"%s"' % str(list_paths[0][-1]).encode()
    at = body.find(name)
    for _ in range(_MOST_HEADS):
        if at < 0:
            return
        if found := _OPENS.match(body, at + len(name)):
            yield found.end()
        at = body.find(name, at + 1)


def find_next(body: bytes, end: int) -> int | None:
    """Return where the element after that which ends at `end` begins; None if it is the last.

    Raises ValueError if neither can be.
    """
    if body[end] == _NEXT and body[end + 1] == _OBJECT:
        return end + 1
    found = _COMMA.match(body, end)
    if found is None:
        return None
    if body[found.end()] != _OBJECT:
        raise ValueError("no object")
    return found.end()


def cut_elements(
    body: bytes, head: int, at: int, list_paths: Sequence[Path], tail: bytes | None
) -> list[bytes]:
    """Return the bytes of the elements from `at` on, in a list that begins at `head`.

    `tail` is what may stand behind the list. Raises ValueError if an element is no object.
    """
    if tail is not None and body.endswith(tail):
        try:
            return [*map(bytes, _ITEMS.decode(b"[%b]" % body[at : len(body) - len(tail)]))]
        except ValueError:  # it stands in the last element as well
            pass
    rest = body if at == head else body[:head] + body[at:]
    for path in list_paths:
        try:
            holder = _find_decoder(path).decode(rest)
        except ValueError:
            continue
        for key in path:
            holder = getattr(holder, str(key))
        return [*map(bytes, holder)]
    raise ValueError("no list")


def make_frame(
    head: bytes, tail: bytes, list_paths: Sequence[Path], earlier: Frame | None = None
) -> Frame:
    """Prove that a list stands between `head` and `tail`.

    A client may change a word in it at every request, as claude-code does, so what is nearly an
    `earlier` frame is not weighed anew. Raises ValueError if there is no list, or if what stands
    around it is so deep that it is odd.
    """
    data = b'%b"%b"%b' % (head, _SENTINEL.encode(), tail)
    document: Any = orjson.loads(data)
    for path in list_paths:
        *parents, last = path
        holder = document
        for key in parents:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and holder.get(last) is not None:
            if holder[last] != [_SENTINEL]:
                break
            holder[last] = []
            weight = None if earlier is None else _weigh_like(head, tail, earlier)
            if weight is None:
                weight = _weigh(data, document)
            return Frame(head, tail, document, path, weight, HeadFacts())
    raise ValueError("no list there")


def fill(frame: Frame, items: Sequence[object]) -> dict[str, Any]:
    """Return the request with these items; all else is shared."""
    document = holder = {**frame.document}
    *parents, last = frame.list_path
    for key in parents:
        holder[str(key)] = holder = {**holder[str(key)]}
    holder[str(last)] = items
    return document


def decode_element(data: bytes) -> tuple[dict[str, Any], int]:
    """Decode an object; return also about how many bytes of memory both of its forms take.

    Raises ValueError if it is so deep that it is odd.
    """
    item = orjson.loads(data)
    return item, _weigh(data, item)


def _weigh_like(head: bytes, tail: bytes, earlier: Frame) -> int | None:
    """Return about what a frame weighs if it is an earlier one but for a few bytes, else None."""
    weight = earlier.weight
    for new, old in ((head, earlier.head), (tail, earlier.tail)):
        if new == old:
            continue
        start = _count_shared(new, old)
        end = _count_shared(new[start:][::-1], old[start:][::-1])
        changed, was = new[start : len(new) - end], old[start : len(old) - end]
        if max(len(changed), len(was)) > _FEW_BYTES:
            return None
        weight += _weigh_signs(changed) - _weigh_signs(was)
    return weight


def _count_shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _weigh_signs(data: bytes) -> int:
    """Return about how many bytes of memory JSON and its values take at most, by its signs."""
    signs = data.count(b"{") + data.count(b"[") + data.count(b",")
    return 2 * (len(data) if data.isascii() else 2 * len(data)) + _VALUE_BYTES * signs


def _weigh(data: bytes, value: dict[str, Any]) -> int:
    """Return about how many bytes of memory JSON takes with what it was decoded to.

    Values are counted: an empty object is two bytes of JSON and 72 of memory. Raises ValueError if
    it is deep.
    """
    # Python keeps the UTF-8 of a text that is not ASCII once it was asked for.
    weight = len(data) if data.isascii() else 2 * len(data)
    if len(data) > 2 * _SHALLOW:
        return weight + _weigh_values(value, _SHALLOW)
    # Too short to be deep, and each value weighed: its signs tell enough, in a third of the time.
    return _weigh_signs(data)


def _weigh_values(holder: dict[str, Any] | list[Any], levels: int) -> int:
    """Weigh all values in an object or list; raise ValueError if there are more levels of them."""
    if levels < 0:
        raise ValueError("deep")
    weight, values = 0, iter(holder)
    if isinstance(holder, dict):
        weight, values = sum(map(getsizeof, holder)), iter(holder.values())
    for value in values:
        weight += getsizeof(value)
        kind = value.__class__
        if (kind is dict or kind is list) and value:
            weight += _weigh_values(value, levels - 1)
    return weight


_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


@cache
def _find_decoder(path: Path) -> msgspec.json.Decoder[Any]:
    """Return a decoder that finds the spans of the list at a path, and skips all else."""
    kind: Any = list[msgspec.Raw]
    for key in reversed(path):
        kind = msgspec.defstruct("Holder", [(str(key), kind)])
    return msgspec.json.Decoder(kind)
