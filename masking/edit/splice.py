"""Carry out edits on a JSON document: in its bytes, every other byte untouched, or as a value.

There are two ways through the bytes. The fast one looks for each text's own encoding and cuts it
out. Where it finds none (another escape style, duplicate keys, elements to drop or insert), the
exact one walks the text to the spans of the values themselves. Either way the outcome is proven: it
must decode to the document with exactly these edits. If it does not, the other way is taken, and if
that fails, nothing is done.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import orjson

from masking.edit.json_decoding import as_text, decode, decode_exactly
from masking.edit.json_spans import Span, Spans, find_spans
from masking.edit.json_strings import encode_string
from masking.errors import WireError
from masking.model import Edits, Path, Replacement

_NEEDLE_BYTES = 48
"""A longer needle makes `bytes.find` slow, and this length is nearly always unique."""

_MAX_NEAR_MISSES = 100
"""How many places may begin like a token without being it; the exact way is always linear."""


def apply(document: Mapping[str, object], edits: Edits, list_path: Path = ()) -> dict[str, object]:
    """Return the document with the edits carried out; what is unchanged is shared.

    `list_path` is the list from which elements are dropped and into which one is inserted.
    """
    edited = _replace(document, edits.replacements)
    if edits.moves:
        edited = _rearrange(edited, edits, list_path)
    return cast(dict[str, object], edited)


def splice(
    body: bytes,
    document: Mapping[str, object],
    edits: Edits,
    list_path: Path = (),
    *,
    ascii_only: bool | None = None,
) -> bytes:
    """Return the body with the edits carried out and every other byte as it was.

    New texts are escaped to ASCII if that is asked for, by default if the body is ASCII.

    `document` is the outcome of `decode(body)`. An element that is dropped goes with the comma
    before it and the blanks around that; one that is inserted gets a comma as the client writes
    them. The outcome is proven to decode to `apply(document, edits, list_path)`. Raises WireError
    if it does not.
    """
    if ascii_only is None:
        ascii_only = body.isascii()
    try:
        spliced = None if edits.moves else _cut_quickly(body, edits.replacements, ascii_only)
        if spliced is not None and _is_proven(spliced, decode, document, edits, list_path):
            return spliced
        spliced = _cut_exactly(body, edits, list_path, ascii_only)
        if _is_proven(spliced, decode, document, edits, list_path):
            return spliced
        exactly = cast(Mapping[str, object], decode_exactly(body))
        if _is_proven(spliced, decode_exactly, exactly, edits, list_path):
            return spliced
    except RecursionError:
        raise WireError("nested too deeply") from None
    except (LookupError, TypeError):  # edits that were not made for this body
        pass
    raise WireError("cannot make these edits and no others")


def _is_proven(
    spliced: bytes,
    decoder: Callable[[bytes], object],
    document: Mapping[str, object],
    edits: Edits,
    list_path: Path,
) -> bool:
    try:
        outcome = decoder(spliced)
    except WireError:
        return False
    if edits.moves:
        return bool(outcome == apply(document, edits, list_path))
    # Nearly always only texts were replaced. To put them back takes less than to edit a copy.
    try:
        is_theirs = _put_back(outcome, document, edits.replacements)
    except (LookupError, TypeError):  # what was cut out was another text, or a key
        return False
    return is_theirs and bool(outcome == document)


def _put_back(
    outcome: object, document: Mapping[str, object], replacements: Iterable[Replacement]
) -> bool:
    """Put the document's values back; whether what stood there is what should have come."""
    for replacement in replacements:
        *parents, last = replacement.path
        after: Any = outcome
        before: Any = document
        for step in parents:
            after, before = after[step], before[step]
        if after[last] != replacement.value:
            return False
        after[last] = before[last]
    return True


def _cut_quickly(
    body: bytes, replacements: Iterable[Replacement], ascii_only: bool
) -> bytes | None:
    pieces: list[bytes] = []
    done = 0
    for replacement in replacements:
        tokens = _encode_both(replacement, ascii_only)
        if tokens is None:
            return None
        token, new = tokens
        start = _find_token(body, token, done)
        if start < 0:
            return None
        pieces += (body[done:start], new)
        done = start + len(token)
    return b"".join((*pieces, body[done:]))


def _encode_both(replacement: Replacement, ascii_only: bool) -> tuple[bytes, bytes] | None:
    """Return the JSON of what is replaced, as most clients spell it, and of what takes its place.

    None if they do not all spell it alike.
    """
    _, text, placeholder, wrap, image = replacement
    if image is not None:
        try:
            part = orjson.dumps(image.part)
        except orjson.JSONEncodeError:  # lone surrogates, long numbers
            return None
        return part, _spell(replacement.value, ascii_only).encode()
    if wrap is not None:
        return None
    return _encode(text, ascii_only), _encode(placeholder, ascii_only)


def _find_token(body: bytes, token: bytes, at: int) -> int:
    needle = token[:_NEEDLE_BYTES]
    for _ in range(_MAX_NEAR_MISSES):
        at = body.find(needle, at)
        if at < 0 or body.startswith(token, at):
            return at
        at += 1
    return -1


def _cut_exactly(body: bytes, edits: Edits, list_path: Path, ascii_only: bool) -> bytes:
    """Write the text anew, by the spans of what is replaced and of the elements that stay."""
    text = as_text(body)
    at = {replacement.path: replacement for replacement in edits.replacements}
    try:
        spans = find_spans(text, at, list_path if edits.moves else None)
    except ValueError:  # it is JSON, so there is but one thing it can be
        raise WireError("nested too deeply") from None
    written = [(span, _spell(at[path].value, ascii_only)) for path, span in spans.values.items()]
    written.sort()
    if not edits.moves:
        return _write(text, Span(0, len(text)), written).encode()
    inserted = _spell(edits.inserted, ascii_only) if edits.inserted is not None else ""
    return _write_elements(text, spans, edits, written, inserted).encode()


def _write_elements(
    text: str,
    spans: Spans,
    edits: Edits,
    written: Sequence[tuple[Span, str]],
    inserted: str,
) -> str:
    elements = spans.elements
    pieces = [_write(text, Span(0, elements[0].start), written)]
    for place, origin in enumerate(edits.order(len(elements))):
        if place > 0:  # the comma before it, and its blanks; before the first, those of the second
            after = max(1, place if origin is None else origin)
            pieces.append(text[elements[after - 1].end : elements[after].start])
        pieces.append(inserted if origin is None else _write(text, elements[origin], written))
    pieces.append(_write(text, Span(elements[-1].end, len(text)), written))
    return "".join(pieces)


def _write(text: str, span: Span, written: Sequence[tuple[Span, str]]) -> str:
    """Return a part of the text with the new tokens inside it."""
    pieces: list[str] = []
    done = span.start
    first = bisect_left(written, span.start, key=lambda each: each[0].start)
    for (start, end), token in islice(written, first, None):
        if end > span.end:
            break
        pieces += (text[done:start], token)
        done = end
    return "".join((*pieces, text[done : span.end]))


def _encode(text: str, ascii_only: bool) -> bytes:
    """Return the JSON token of a text, in the escape style of its body."""
    if ascii_only and not text.isascii():
        return json.dumps(text).encode()
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:  # a lone surrogate, which only an escape can spell
        return json.dumps(text).encode()


def _spell(value: object, ascii_only: bool) -> str:
    """Return the compact JSON of a new value, in the escape style of its body."""
    if isinstance(value, dict):
        members = (
            f"{encode_string(key, ascii_only=ascii_only)}:{_spell(member, ascii_only)}"
            for key, member in value.items()
        )
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_spell(item, ascii_only) for item in value)}]"
    return encode_string(cast(str, value), ascii_only=ascii_only)


def _replace(document: object, replacements: Iterable[Replacement]) -> object:
    """Return a copy of what leads to the replaced values; all else is shared."""
    holder: list[Any] = [document]  # so that the root is a member like any other
    copied: set[int] = set()
    for replacement in replacements:
        parent: Any = holder
        *parents, last = (0, *replacement.path)
        for step in parents:
            child = parent[step]
            if id(child) not in copied:
                if not isinstance(child, (dict, list)):
                    raise TypeError("a path through what is no container")
                child = parent[step] = child.copy()
                copied.add(id(child))
            parent = child
        parent[last] = replacement.value
    return holder[0]


def _rearrange(value: object, edits: Edits, list_path: Path) -> object:
    """Return a copy along the path; its list has the elements that stay, and the new one."""
    if list_path:
        copy: Any = cast(Any, value).copy()
        copy[list_path[0]] = _rearrange(copy[list_path[0]], edits, list_path[1:])
        return copy
    items = cast(list[object], value)
    order = edits.order(len(items))
    return [edits.inserted if at is None else items[at] for at in order]
