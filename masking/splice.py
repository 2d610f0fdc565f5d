"""Replace strings of a JSON document: in its bytes, every other byte untouched, or as a value.

Two roads lead through the bytes. The fast one looks for each string's own encoding, cuts it
out, and proves the outcome: with the placeholders taken back it must decode to the very same
document. Whatever it cannot find or prove (another escape style, the same text in a kept
message, duplicate keys) takes the exact one, which walks the text value by value to the
strings' own spans.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import orjson

from masking.model import Replacement, WireError

_Edits: TypeAlias = "str | dict[str | int, _Edits]"
"""The placeholders of a document as a tree, keys and indices leading to them."""

_Span = tuple[int, int, str]
"""Start and end of a string's token, quotes included, and the placeholder for it."""

_NEEDLE_BYTES = 48
"""A longer needle makes `bytes.find` slow, and this much is nearly always unique."""

_BOM = "\ufeff"
_BLANKS = re.compile(r"[ \t\r\n]*")
_EXACT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
"""Takes lone surrogates and numbers of any size, and leaves every number as it is spelled."""


def decode(body: bytes) -> object:
    """Decode a JSON document in UTF-8, with or without a byte-order mark.

    Takes what the standard library takes: NaN, lone surrogates, duplicate keys (the last one
    holds). Where one of these occurs, numbers come back as their spelling. Raises WireError.
    """
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _decode_exactly(_as_text(body))
    return document


def replace_strings(
    document: Mapping[str, object], replacements: Iterable[Replacement]
) -> dict[str, object]:
    """Return the document with other strings in their slots; what is unchanged is shared."""
    return cast(dict[str, object], _replace(document, _as_tree(replacements)))


def splice(
    body: bytes, document: Mapping[str, object], replacements: Sequence[Replacement]
) -> bytes:
    """Return the body with the replacements' strings exchanged and every other byte as it was.

    `document` is what `decode(body)` gave; the replacements stand in the body's order. The
    outcome is proven to decode to the document with exactly these strings exchanged; raises
    WireError where it does not.
    """
    spliced = _cut_quickly(body, replacements)
    if spliced is not None and _is_proven(spliced, document, replacements):
        return spliced
    return _cut_exactly(body, replacements)


def _is_proven(
    spliced: bytes, document: Mapping[str, object], replacements: Iterable[Replacement]
) -> bool:
    """Whether the outcome is the document again once its placeholders are taken back."""
    try:
        outcome: Any = decode(spliced)
        for path, text, placeholder in replacements:
            *parents, last = path
            parent = outcome
            for step in parents:
                parent = parent[step]
            if parent[last] != placeholder:
                return False
            parent[last] = text
    except (WireError, LookupError, TypeError):
        return False
    return bool(outcome == document)


def _cut_quickly(body: bytes, replacements: Iterable[Replacement]) -> bytes | None:
    ascii_only = body.isascii()
    pieces: list[bytes] = []
    done = 0
    for _, text, placeholder in replacements:
        token = _encode(text, ascii_only)
        start = _find_token(body, token, done)
        if start < 0:
            return None
        pieces += (body[done:start], _encode(placeholder, ascii_only))
        done = start + len(token)
    return b"".join((*pieces, body[done:]))


def _find_token(body: bytes, token: bytes, at: int) -> int:
    needle = token[:_NEEDLE_BYTES]
    at = body.find(needle, at)
    while at >= 0 and not body.startswith(token, at):
        at = body.find(needle, at + 1)
    return at


def _cut_exactly(body: bytes, replacements: Iterable[Replacement]) -> bytes:
    edits = _as_tree(replacements)
    text = _as_text(body)
    meant = _replace(_decode_exactly(text), edits)
    ascii_only = body.isascii()
    pieces: list[str] = []
    done = 0
    for start, end, placeholder in sorted(
        _locate(text, _skip_blanks(text, _start(text)), edits)[1]
    ):
        pieces += (text[done:start], _encode(placeholder, ascii_only).decode())
        done = end
    spliced = "".join((*pieces, text[done:]))
    if _decode_exactly(spliced) != meant:
        raise WireError("cannot replace these strings and nothing else")
    return spliced.encode()


def _locate(text: str, at: int, edits: "_Edits | None") -> tuple[int, list[_Span]]:
    """Return where the value at `at` ends, and the spans of the edits inside it."""
    if isinstance(edits, dict):
        return _locate_members(text, at, edits)
    end = _EXACT.raw_decode(text, at)[1]
    return end, [] if edits is None else [(at, end, edits)]


def _locate_members(text: str, at: int, edits: dict[str | int, _Edits]) -> tuple[int, list[_Span]]:
    is_object = text[at] == "{"
    spans: dict[str | int, list[_Span]] = {}
    at = _skip_blanks(text, at + 1)
    while text[at] not in "]}":
        key: str | int = len(spans)
        if is_object:
            key, at = _EXACT.raw_decode(text, at)
            at = _skip_blanks(text, _skip_blanks(text, at) + len(":"))
        at, spans[key] = _locate(text, at, edits.get(key))
        at = _skip_blanks(text, at)
        if text[at] == ",":
            at = _skip_blanks(text, at + 1)
    return at + 1, [span for found in spans.values() for span in found]


def _skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _start(text: str) -> int:
    return len(_BOM) if text.startswith(_BOM) else 0


def _as_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise WireError("not UTF-8") from None


def _decode_exactly(text: str) -> object:
    try:
        document: object = _EXACT.decode(text[_start(text) :])
    except RecursionError:
        raise WireError("nested too deeply") from None
    except ValueError:
        raise WireError("not JSON") from None
    return document


def _encode(text: str, ascii_only: bool) -> bytes:
    """Return the JSON token of a text, in the escape style of the body it stands in."""
    if ascii_only and not text.isascii():
        return json.dumps(text).encode()
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:  # a lone surrogate, which only an escape can spell
        return json.dumps(text).encode()


def _as_tree(replacements: Iterable[Replacement]) -> dict[str | int, _Edits]:
    tree: dict[str | int, _Edits] = {}
    for replacement in replacements:
        *parents, last = replacement.path
        branch = tree
        for step in parents:
            branch = cast(dict[str | int, _Edits], branch.setdefault(step, {}))
        branch[last] = replacement.placeholder
    return tree


def _replace(value: object, edits: _Edits) -> object:
    if isinstance(edits, str):
        return edits
    copy: Any = value.copy() if isinstance(value, (dict, list)) else value
    for step, inner in edits.items():
        copy[step] = _replace(copy[step], inner)
    return copy
