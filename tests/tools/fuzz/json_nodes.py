"""Where two JSON texts differ, by a walker that has nothing in common with the code's.

It goes down only where they do; the standard library's scanner says where each value ends.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False)
_BLANKS = re.compile(r"[ \t\r\n]*")

Where = tuple[str | int, ...]


class Difference(Exception):  # noqa: N818 - it ends a walk
    """Two texts differ where they may not."""


class Member(NamedTuple):
    """A value of an object or a list, and where it stands in the text."""

    key: str | int
    start: int
    end: int


def find_changes(before: str, after: str) -> Iterator[Where]:
    """Yield where the values stand that differ, the smallest; raise Difference if other bytes do.

    A value that is replaced by one of another kind is one change. So is one of an object or a list
    whose members are not those it had.
    """
    starts = [_skip(text, 1 if text.startswith("\ufeff") else 0) for text in (before, after)]
    ends = [
        _SCANNER.raw_decode(text, at)[1] for text, at in zip((before, after), starts, strict=True)
    ]
    if before[: starts[0]] != after[: starts[1]] or before[ends[0] :] != after[ends[1] :]:
        raise Difference("bytes around the document")
    whole = [Member("", *place) for place in zip(starts, ends, strict=True)]
    yield from _walk(before, after, whole[0], whole[1], ())


def _walk(before: str, after: str, one: Member, other: Member, at: Where) -> Iterator[Where]:
    sign = before[one.start]
    if before[one.start : one.end] == after[other.start : other.end]:
        return
    if sign not in "{[" or sign != after[other.start]:
        yield at
        return
    members, others = find_members(before, one.start), find_members(after, other.start)
    if [each.key for each in members] != [each.key for each in others]:
        yield at
        return
    last = {member.key: member for member in members}
    here, there = one.start, other.start
    for member, replaced in zip(members, others, strict=True):
        if before[here : member.start] != after[there : replaced.start]:
            raise Difference(f"bytes between values, before {(*at, member.key)}")
        for change in _walk(before, after, member, replaced, (*at, member.key)):
            if last[member.key] is not member:
                raise Difference(f"a value that a later key hides, at {(*at, member.key)}")
            yield change
        here, there = member.end, replaced.end
    if before[here : one.end] != after[there : other.end]:
        raise Difference(f"bytes at the end of {at}")


def find_members(text: str, at: int) -> list[Member]:
    """Return the members of the object or list that begins here; a key may occur twice."""
    is_object = text[at] == "{"
    members: list[Member] = []
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: str | int = len(members)
        if is_object:
            key, at = _SCANNER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _SCANNER.raw_decode(text, at)
        members.append(Member(key, at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at
