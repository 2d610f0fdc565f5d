"""JSON as text: decoding as lenient as clients need, and where values stand in a text.

If a key occurs twice in an object, the last one counts, as in every decoder of JSON.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import NamedTuple

import orjson

from masking.errors import WireError
from masking.model import Path

BOM = "\ufeff"
"""A byte-order mark, with which a text may begin."""

NEEDLE_BYTES = 48
"""A longer needle makes `bytes.find` slow, and this length is nearly always unique."""


class Number(NamedTuple):
    """A number that is kept as it is spelled, without a value."""

    spelling: str


# Decoding


def _read_number(spelling: str) -> object:
    """Read a number as orjson does: a lone surrogate elsewhere must not change its value."""
    try:
        number: object = orjson.loads(spelling)
    except orjson.JSONDecodeError:  # beyond all that a float can be
        return Number(spelling)
    return number


_LENIENT = json.JSONDecoder(parse_int=_read_number, parse_float=_read_number, parse_constant=Number)


def decode(body: bytes) -> object:
    """Decode a JSON document in UTF-8, with or without a byte-order mark.

    Accepts what the standard library accepts: NaN, lone surrogates, duplicate keys. A number that
    orjson does not accept, such as NaN, becomes a `Number`. Raises WireError.
    """
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            document = _LENIENT.decode(decode_utf8(body).removeprefix(BOM))
        except RecursionError:
            raise WireError("nested too deeply") from None
        except ValueError as error:
            raise error if isinstance(error, WireError) else WireError("not JSON") from None
    return document


def decode_utf8(body: bytes) -> str:
    """Return a body's text. Raises WireError."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise WireError("not UTF-8") from None


def encode_string(text: str, *, ascii_only: bool) -> bytes:
    """Return a text as a JSON token, in ASCII if `ascii_only` or if UTF-8 cannot encode it."""
    if ascii_only and not text.isascii():
        return json.dumps(text).encode()
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:  # a lone surrogate, which only an escape can write
        return json.dumps(text).encode()


# Where values stand


class Span(NamedTuple):
    """Where a value begins and ends in a text, in code points."""

    start: int
    end: int


class StringSpan(NamedTuple):
    """A string value, and where its token is in the text, with its quotes."""

    path: Path
    start: int
    end: int
    value: str


class Spans(NamedTuple):
    """The values that were asked for, by path, and the elements of the list, in order."""

    values: dict[Path, Span]
    elements: list[Span]


def find_spans(text: str, paths: Collection[Path], list_path: Path | None = None) -> Spans:
    """Find values in a JSON text, and the elements of the list at `list_path`, if it is given.

    The text must be valid JSON. Raises ValueError if it is nested too deeply, and LookupError for
    a path that leads nowhere.
    """
    # Only what leads to a path is taken apart; everything else is skipped by the scanner in C.
    leading = {path[:length] for path in paths for length in range(len(path))}
    if list_path is not None:
        leading |= {list_path[:length] for length in range(len(list_path) + 1)}
    met: set[Path] = set()
    found: dict[Path, Span] = {}
    for path, start, end, _ in _walk(text, leading):
        if path in met and path in leading:  # a repeated key: drop what was in its earlier value
            found = {
                at: span
                for at, span in found.items()
                if span.start >= start or at[: len(path)] != path
            }
        met.add(path)
        if path in paths or (path and path[:-1] == list_path):
            found[path] = Span(start, end)
    values = {at: span for at, span in found.items() if at in paths}
    if len(values) < len(paths):
        raise LookupError("no such value")
    return Spans(values, [span for at, span in found.items() if at and at[:-1] == list_path])


def find_strings(text: str) -> Iterator[StringSpan]:
    """Yield the string values of a JSON text in order, those of duplicate keys included.

    Raises ValueError if the text is not JSON or nested too deeply.
    """
    try:
        _SCANNER.decode(text.removeprefix(BOM))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    for path, start, end, value in _walk(text):
        if isinstance(value, str):
            yield StringSpan(path, start, end, value)


def edit_strings(text: str, edit: Callable[[Path, str], str]) -> str:
    """Return the JSON text with each string value as `edit(path, value)` returns it.

    A string that stays keeps its spelling. One that changes is escaped to ASCII if the old one was
    ASCII. Raises ValueError if the text is not JSON.
    """
    pieces = []
    done = 0
    for path, start, end, value in find_strings(text):
        edited = edit(path, value)
        if edited != value:
            token = encode_string(edited, ascii_only=text[start:end].isascii()).decode()
            pieces += [text[done:start], token]
            done = end
    return "".join((*pieces, text[done:]))


_SCANNER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, strict=False
)
_BLANKS = re.compile(r"[ \t\r\n]*")

_Value = tuple[Path, int, int, object]
"""A value's path, where it begins and ends, and the value; None for one that was taken apart."""


def _walk(text: str, leading: Collection[Path] | None = None) -> Iterator[_Value]:
    """Yield the values of a JSON text, those in an object or a list before itself.

    Objects and lists are taken apart if their path is `leading`; without that, all are. The text
    must be valid JSON. Raises ValueError if it is nested too deeply.
    """
    scan = _SCANNER.raw_decode
    parents: list[tuple[Path, int, Iterator[int] | None]] = []  # None: an object, which has keys
    path: Path = ()
    at = _skip(text, len(BOM) if text.startswith(BOM) else 0)
    while True:
        # A value begins here.
        if text[at] in "{[" and (leading is None or path in leading):
            parents.append((path, at, None if text[at] == "{" else count()))
            at = _skip(text, at + 1)
        else:
            try:
                value, end = scan(text, at)
            except RecursionError:
                raise ValueError("nested too deeply") from None
            yield path, at, end, value
            at = _skip(text, end)
        # Whatever ends here ends; what is left is the next member of the innermost.
        while parents and text[at] in "]}":
            path, start, _ = parents.pop()
            yield path, start, at + 1, None
            at = _skip(text, at + 1)
        if not parents:
            return
        if text[at] == ",":
            at = _skip(text, at + 1)
        parent, _, indices = parents[-1]
        if indices is None:
            key, at = scan(text, at)
            at = _skip(text, _skip(text, at) + len(":"))
            path = (*parent, key)
        else:
            path = (*parent, next(indices))


def _skip(text: str, at: int) -> int:
    """Return where the next token begins."""
    if text[at : at + 1] > " ":  # nearly always there is no blank
        return at
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at
