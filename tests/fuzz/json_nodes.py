"""A JSON text as a tree of spans, read by a walker that has nothing in common with the code's."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_STRINGS = json.JSONDecoder(strict=False)
_BLANKS = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[-+.\w]+")


@dataclass(slots=True)
class Node:
    """A value and where it stands; of a key that occurs twice, `members` has both."""

    start: int
    end: int
    sign: str
    value: str = ""
    members: list[tuple[str | int, "Node"]] = field(default_factory=list)


def parse(text: str) -> Node:
    """Return the tree of a valid JSON text."""
    return _parse(text, _skip(text, 1 if text.startswith("\ufeff") else 0))


def plain(node: Node) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a tree; of a key that occurs twice the last. Words are as spelled."""
    if node.sign == "{":
        return {key: plain(each) for key, each in node.members}
    if node.sign == "[":
        return [plain(each) for _, each in node.members]
    return node.value if node.sign == '"' else _Word(node.value)


class _Word(str):
    """A number or a literal, which no text is equal to."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Word) and str.__eq__(self, other)


TRUE = _Word("true")

Where = tuple[str | int, ...]


class Difference(Exception):  # noqa: N818 - it ends a walk
    """Two texts differ where they may not."""


def find_changes(
    before: str, after: str, one: Node, other: Node, at: Where = ()
) -> Iterator[tuple[Where, Node, Node]]:
    """Yield the values that differ, the smallest; raise Difference if anything else does.

    A value that is replaced by one of another kind is one change. So is one of an object or a list
    whose members are not those it had.
    """
    if before[one.start : one.end] == after[other.start : other.end]:
        return
    if one.sign != other.sign or one.sign == '"':
        yield at, one, other
        return
    keys = [[key for key, _ in node.members] for node in (one, other)]
    if one.sign == "w" or keys[0] != keys[1]:
        yield at, one, other
        return
    last = dict(one.members)
    here, there = one.start, other.start
    for (key, inner), (_, outer) in zip(one.members, other.members, strict=True):
        if before[here : inner.start] != after[there : outer.start]:
            raise Difference(f"bytes between values, before {(*at, key)}")
        for change in find_changes(before, after, inner, outer, (*at, key)):
            if last[key] is not inner:
                raise Difference(f"a value that a later key hides, at {(*at, key)}")
            yield change
        here, there = inner.end, outer.end
    if before[here : one.end] != after[there : other.end]:
        raise Difference(f"bytes at the end of {at}")


def _parse(text: str, at: int) -> Node:
    sign = text[at]
    if sign == '"':
        value, end = _STRINGS.raw_decode(text, at)
        return Node(at, end, sign, value)
    if sign not in "{[":
        found = _WORD.match(text, at)
        if found is None:
            raise ValueError("no value")
        return Node(at, found.end(), "w", found[0])
    node = Node(at, at, sign)
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: str | int = len(node.members)
        if sign == "{":
            key, at = _STRINGS.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        inner = _parse(text, at)
        node.members.append((key, inner))
        at = _skip(text, inner.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    node.end = at + 1
    return node


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at
