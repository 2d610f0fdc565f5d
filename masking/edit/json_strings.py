"""Every string value of a JSON text, with its place, for reading or for writing it anew.

The values of duplicate keys are included: if a key occurs twice, so does its path, and the last one
holds. Everything but string values keeps its bytes.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from masking.model import Path

BOM = "\ufeff"
"""A byte-order mark, with which a text may begin."""

_BLANKS = re.compile(r"[ \t\r\n]*")


class Number(NamedTuple):
    """A number of a JSON text; here it has no value, only a spelling."""

    spelling: str


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, strict=False
)


class Span(NamedTuple):
    """A string value, and where its token is in the text, with its quotes."""

    path: Path
    start: int
    end: int
    value: str


def find_strings(text: str) -> Iterator[Span]:
    """Yield the string values of a JSON text, in its order.

    Raises ValueError if the text is no JSON or nested too deeply.
    """
    try:
        _DECODER.decode(text.removeprefix(BOM))
        yield from _find(text, _skip(text, len(BOM) if text.startswith(BOM) else 0), ())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def edit_strings(text: str, edit: Callable[[Path, str], str]) -> str:
    """Return the JSON text with each string value as `edit(path, value)` returns it.

    A string that stays keeps its spelling. One that changes is escaped to ASCII if the old one was
    ASCII. Raises ValueError if the text is no JSON.
    """
    pieces = []
    done = 0
    for path, start, end, value in find_strings(text):
        edited = edit(path, value)
        if edited != value:
            pieces += [
                text[done:start],
                encode_string(edited, ascii_only=text[start:end].isascii()),
            ]
            done = end
    return "".join((*pieces, text[done:]))


def encode_string(value: str, *, ascii_only: bool) -> str:
    """Return a text's JSON token, in ASCII if that is asked for or cannot be avoided."""
    token = json.dumps(value, ensure_ascii=ascii_only)
    try:
        token.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can spell
        return json.dumps(value)
    return token


def _find(text: str, at: int, path: Path) -> Generator[Span, None, int]:
    """Yield the strings of the value at `at`; return where it ends."""
    if text[at] in "{[":
        return (yield from _find_members(text, at, path))
    value, end = _DECODER.raw_decode(text, at)
    if isinstance(value, str):
        yield Span(path, at, end, value)
    return end


def _find_members(text: str, at: int, path: Path) -> Generator[Span, None, int]:
    is_object = text[at] == "{"
    index = 0
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        key: str | int = index
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + len(":"))
        at = _skip(text, (yield from _find(text, at, (*path, key))))
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1
    return at + 1


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at
