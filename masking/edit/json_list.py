"""A list in a JSON document: the bytes of its elements, and all that stands around them."""

import re
import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from masking.edit.json_text import NEEDLE_BYTES, decode, decode_utf8, find_spans
from masking.errors import WireError
from masking.model import Path

(_COMMA,) = b","
_GAP = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")

_MOST_PLACES = 8
"""So often the beginning of the first element may stand elsewhere, too."""


class ListCut(NamedTuple):
    """A document, cut: `head`, then the elements with the gaps between them, then `tail`.

    The brackets of the list are in head and tail. A document without elements is all head.
    """

    head: bytes
    elements: list[bytes]
    gaps: list[bytes]
    tail: bytes


def cut_list(
    body: bytes, list_paths: Sequence[Path], earlier: ListCut | None = None
) -> Iterator[ListCut]:
    """Yield each way to cut a document into the elements of its list and what stands around them.

    The list is at the first of these paths that leads to one with elements. A parser says which
    these are; so that nothing goes unseen, they are then found in the document one after the other,
    with nothing but a comma between two. If the same bytes stand elsewhere, too, there is more than
    one way. Raises WireError for what is no document.

    earlier: the cut of a document that this one may go on from. Its elements are then compared and
        only the rest is parsed, which saves time and changes no outcome.
    """
    if earlier is not None and (found := _cut_like(body, list_paths, earlier)):
        yield found
    elements = _read_elements(body, list_paths)
    if not elements:
        yield ListCut(body, [], [], b"")
        return
    needle, places = elements[0][:NEEDLE_BYTES], 0
    start = body.find(needle)
    while start >= 0 and places < _MOST_PLACES:
        places += 1
        gaps, end = _find_gaps(body, elements, start)
        if len(gaps) == len(elements):
            yield ListCut(body[:start], elements, gaps[1:], body[end:])
        start = body.find(needle, start + 1)


STAND_IN = b'"%s"' % secrets.token_hex(16).encode()
"""A text that no client can know, so it stands nowhere but where it was put."""


def _cut_like(body: bytes, list_paths: Sequence[Path], earlier: ListCut) -> ListCut | None:
    """Return the cut of a document whose list begins as an earlier one; None if it does not.

    A parser sees one text in place of the elements that are alike. JSON is read from left to right,
    and where a list may have one value, it may have these, which have been parsed before.
    """
    start = len(earlier.head)
    gaps, end = _find_gaps(body, earlier.elements, start)
    if not gaps:
        return None
    stand_in, *more = _read_elements(body[:start] + STAND_IN + body[end:], list_paths) or (b"",)
    known = earlier.elements[: len(gaps)]
    gaps, end = _find_gaps(body, more, end, gaps)
    if stand_in != STAND_IN or len(gaps) < len(known) + len(more):
        return None
    return ListCut(body[:start], known + more, gaps[1:], body[end:])


def _find_gaps(
    body: bytes, elements: Sequence[bytes], end: int, before: Sequence[bytes] = ()
) -> tuple[list[bytes], int]:
    """Return what stands before each of the elements from there on, as far as they follow.

    before: what stands before the elements that precede these.
    """
    gaps = [*before]
    starts_with = body.startswith
    for data in elements:
        if gaps and starts_with(data, end + 1) and body[end] == _COMMA:  # as nearly always
            gap = b","
        elif not gaps and starts_with(data, end):
            gap = b""
        else:
            found = _GAP.match(body, end)
            if not (gaps and found and starts_with(data, found.end())):
                break
            gap = found[0]
        gaps.append(gap)
        end += len(gap) + len(data)
    return gaps, end


def _read_elements(body: bytes, list_paths: Sequence[Path]) -> list[bytes]:
    for path in list_paths:
        try:
            found = list_decoder(path).decode(body)
            for key in path:
                found = getattr(found, str(key), None)
        except (msgspec.MsgspecError, RecursionError):
            found = _find_elements(body, path)
        if found:
            return [*map(bytes, found)]
    return []


def _find_elements(body: bytes, path: Path) -> list[bytes]:
    """Return the elements where clients write what is no JSON, such as NaN, or a key twice."""
    decode(body)  # raises what is no document at all
    text = decode_utf8(body)
    try:
        spans = find_spans(text, (), path).elements
    except ValueError:
        raise WireError("nested too deeply") from None
    return [text[start:end].encode() for start, end in spans]


@cache
def list_decoder(path: Path) -> msgspec.json.Decoder[Any]:
    """Return what decodes nothing but the list at a path, whose elements stay as they are.

    It returns nested holders with an attribute for each key of the path; None for what is missing.
    """
    kind: Any = list[msgspec.Raw]
    for key in reversed(path):
        kind = msgspec.defstruct("Holder", [(str(key), kind | None, None)])
    return msgspec.json.Decoder(kind)
