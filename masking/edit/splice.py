"""Replace strings of a JSON document: in its bytes, every other byte untouched, or as a value.

Two roads lead through the bytes. The fast one looks for each string's own encoding, cuts it
out, and proves the outcome: with the placeholders taken back it must decode to the very same
document. Whatever it cannot find or prove (another escape style, the same text in a kept
message, duplicate keys) takes the exact one, which walks the text value by value to the
strings' own spans.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import orjson

from masking.edit.json_strings import BOM, Number, encode_string, find_strings
from masking.errors import WireError
from masking.model import Replacement

_Edits: TypeAlias = "str | dict[str | int, _Edits]"
"""The placeholders of a document as a tree, keys and indices leading to them."""

_NEEDLE_BYTES = 48
"""A longer needle makes `bytes.find` slow, and this much is nearly always unique."""

_MAX_NEAR_MISSES = 100
"""Places that begin like a token and are not it; the exact road is linear whatever stands there."""

_EXACT = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)
"""Takes lone surrogates and numbers of any size, and leaves every number as it is spelled."""


def decode(body: bytes) -> object:
    """Decode a JSON document in UTF-8, with or without a byte-order mark.

    Takes what the standard library takes: NaN, lone surrogates, duplicate keys (the last one
    holds). Where one of these occurs, every number comes back as a `Number`. Raises WireError.
    """
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return decode_exactly(body)
    return document


def decode_exactly(body: bytes) -> object:
    """Decode as `decode` does, but every number to a `Number`. Raises WireError."""
    try:
        document: object = _EXACT.decode(_as_text(body).removeprefix(BOM))
    except RecursionError:
        raise WireError("nested too deeply") from None
    except ValueError as error:
        raise error if isinstance(error, WireError) else WireError("not JSON") from None
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
    try:
        spliced = _cut_quickly(body, replacements)
        if spliced is not None and _is_proven(spliced, decode, document, replacements):
            return spliced
        spliced = _cut_exactly(body, replacements)
        if _is_proven(spliced, decode_exactly, decode_exactly(body), replacements):
            return spliced
    except RecursionError:
        raise WireError("nested too deeply") from None
    raise WireError("cannot replace these strings and nothing else")


def _is_proven(
    spliced: bytes,
    decoder: Callable[[bytes], object],
    document: object,
    replacements: Iterable[Replacement],
) -> bool:
    """Whether the outcome is the document again once its placeholders are taken back."""
    try:
        outcome: Any = decoder(spliced)
        for path, text, placeholder in replacements:
            parent = outcome
            for step in path[:-1]:
                parent = parent[step]
            if parent[path[-1]] != placeholder:
                return False
            parent[path[-1]] = text
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
    for _ in range(_MAX_NEAR_MISSES):
        at = body.find(needle, at)
        if at < 0 or body.startswith(token, at):
            return at
        at += 1
    return -1


def _cut_exactly(body: bytes, replacements: Iterable[Replacement]) -> bytes:
    ascii_only = body.isascii()
    text = _as_text(body)
    placeholders = {r.path: r.placeholder for r in replacements}
    try:
        spans = {span.path: span for span in find_strings(text) if span.path in placeholders}
    except ValueError:  # it is JSON, so there is but one thing it can be
        raise WireError("nested too deeply") from None
    pieces: list[str] = []
    done = 0
    for path, start, end, _ in sorted(spans.values(), key=lambda span: span.start):
        pieces += (text[done:start], encode_string(placeholders[path], ascii_only=ascii_only))
        done = end
    return "".join((*pieces, text[done:])).encode()


def _as_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise WireError("not UTF-8") from None


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
