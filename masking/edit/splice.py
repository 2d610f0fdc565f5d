"""Carry out edits on a JSON document: in its bytes, every other byte untouched, or as a value."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import orjson

from masking.edit.json_text import (
    NEEDLE_BYTES,
    Span,
    decode,
    decode_utf8,
    encode_string,
    find_spans,
)
from masking.errors import WireError
from masking.model import Edits, Path, Replacement

_CANNOT = "cannot make these edits and no others"

_MAX_NEAR_MISSES = 100
"""How many places may only begin like a token before the search gives up. The exact way, which is
then taken, is always linear."""


def apply(document: Mapping[str, object], edits: Edits, list_path: Path = ()) -> dict[str, object]:
    """Return the document with the edits carried out; what is unchanged is shared.

    `list_path` is the list from which elements are dropped and into which one is inserted.
    """
    # Only what leads to a replaced value is copied, once.
    holder: list[Any] = [document]  # so that the root is a member like any other
    copied: set[int] = set()
    for replacement in edits.replacements:
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
    edited = _rearrange(holder[0], edits, list_path) if edits.moves else holder[0]
    return cast(dict[str, object], edited)


def _rearrange(value: object, edits: Edits, list_path: Path) -> object:
    """Return a copy along the path; its list has the elements that stay, and the new one."""
    if list_path:
        copy: Any = cast(Any, value).copy()
        copy[list_path[0]] = _rearrange(copy[list_path[0]], edits, list_path[1:])
        return copy
    items = cast(list[object], value)
    order = edits.order(len(items))
    return [edits.inserted if at is None else items[at] for at in order]


def splice(
    body: bytes,
    document: Mapping[str, object],
    edits: Edits,
    list_path: Path = (),
    *,
    ascii_only: bool | None = None,
) -> bytes:
    """Return the body with the edits carried out and every other byte as it was.

    New texts are escaped to ASCII if `ascii_only`, by default if the body is ASCII.

    `document` is what `decode(body)` returned. An element that is dropped goes with the comma
    before it and the blanks around that; one that is inserted gets a comma as the client writes
    them. The outcome is proven to decode to `apply(document, edits, list_path)`. Raises WireError
    if it does not.
    """
    if ascii_only is None:
        ascii_only = body.isascii()
    try:
        # The fast way looks for the bytes of each text, as most clients would have written them, in
        # the order of the request, and replaces them. It parses nothing, so it may find the same
        # bytes elsewhere: in a key, or in an equal text that must stay. The proof notices that.
        spliced = None if edits.moves else _cut_quickly(body, edits.replacements, ascii_only)
        if spliced is not None and _is_proven(spliced, document, edits, list_path):
            return spliced
        # The exact way walks the text to the values themselves: where a client escapes otherwise or
        # repeats a key, and where elements are dropped or inserted. Only edits for another body, or
        # a bug here, can make it fail; so its outcome is proven, too.
        spliced = _cut_exactly(body, edits, list_path, ascii_only)
        if _is_proven(spliced, document, edits, list_path):
            return spliced
    except RecursionError:
        raise WireError("nested too deeply") from None
    except (LookupError, TypeError):  # edits that were not made for this body
        pass
    raise WireError(_CANNOT)


def add(
    body: bytes,
    document: Mapping[str, object],
    path: Path,
    value: object,
    *,
    in_list: bool = False,
) -> bytes:
    """Return the body with a value at a path, or at the end of the list there.

    Every other byte stays as it was. `document` is what `decode(body)` returned, as far as the path
    leads into it, and the value is plain JSON. The path leads through objects, which are made where
    they are missing or null, and so is the list. What it changes is proven before it leaves (see
    `masking.proof`). Raises WireError where another value is in the way.
    """
    # What there is of the path ends with the list, or with an object that gets a key.
    holder: Any = document
    known = 0
    while known < len(path) and isinstance(holder, dict) and holder.get(path[known]) is not None:
        holder, known = holder[path[known]], known + 1
    missing = path[known:]
    if not (isinstance(holder, dict) if missing else in_list and isinstance(holder, list)):
        raise WireError(_CANNOT)
    is_null = bool(missing) and missing[0] in holder
    text, at = decode_utf8(body), path[: known + is_null]
    try:
        start, end = find_spans(text, {at}).values[at]
    except (LookupError, ValueError):  # the document is another body's
        raise WireError(_CANNOT) from None
    if missing:
        value = [value] if in_list else value
        for key in reversed(missing[1:]):
            value = {key: value}
    if is_null:
        new = orjson.dumps(value).decode()
    else:
        new = orjson.dumps({missing[0]: value} if missing else [value]).decode()[1:-1]
        new = f",{new}" if holder else new
        start = end = end - 1
    return (text[:start] + new + text[end:]).encode()


def _is_proven(
    spliced: bytes, document: Mapping[str, object], edits: Edits, list_path: Path
) -> bool:
    """Whether the bytes decode to the document with exactly these edits."""
    try:
        outcome = decode(spliced)
    except WireError:
        return False
    if edits.moves:
        return bool(outcome == apply(document, edits, list_path))
    # Nearly always only texts were replaced, and then the document need not be copied: at each path
    # the outcome must have the new value, and once the old one is put back there, it must equal the
    # document. So every edit was made, and no other.
    try:
        for replacement in edits.replacements:
            *parents, last = replacement.path
            after: Any = outcome
            before: Any = document
            for step in parents:
                after, before = after[step], before[step]
            if after[last] != replacement.value:
                return False
            after[last] = before[last]
    except (LookupError, TypeError):  # what was cut out was another text, or a key
        return False
    return bool(outcome == document)


def _cut_quickly(
    body: bytes, replacements: Iterable[Replacement], ascii_only: bool
) -> bytes | None:
    """Replace the bytes of each text; None if one cannot be found."""
    pieces: list[bytes] = []
    done = 0
    for replacement in replacements:
        _, text, placeholder, wrap, image = replacement
        if image is not None:
            try:
                token = orjson.dumps(image.part)
            except orjson.JSONEncodeError:  # lone surrogates, long numbers
                return None
            new = _render_json(replacement.value, ascii_only)
        elif wrap is not None:  # the text is an object's, which every client writes in its own way
            return None
        else:
            token = encode_string(text, ascii_only=ascii_only)
            new = encode_string(placeholder, ascii_only=ascii_only)
        # Texts come in the order of the request, so each is looked for behind the one before.
        start = _find_token(body, token, done)
        if start < 0:
            return None
        pieces += (body[done:start], new)
        done = start + len(token)
    return b"".join((*pieces, body[done:]))


def _find_token(body: bytes, token: bytes, at: int) -> int:
    needle = token[:NEEDLE_BYTES]
    for _ in range(_MAX_NEAR_MISSES):
        at = body.find(needle, at)
        if at < 0 or body.startswith(token, at):
            return at
        at += 1
    return -1


def _cut_exactly(body: bytes, edits: Edits, list_path: Path, ascii_only: bool) -> bytes:
    """Write the text again, from the spans of what is replaced and of the elements that stay."""
    text = decode_utf8(body)
    at = {replacement.path: replacement for replacement in edits.replacements}
    try:
        spans = find_spans(text, at, list_path if edits.moves else None)
    except ValueError:  # it is JSON, so nothing else can be wrong
        raise WireError("nested too deeply") from None
    new = sorted(
        (span, _render_json(at[path].value, ascii_only).decode())
        for path, span in spans.values.items()
    )
    if not edits.moves:
        return _write(text, Span(0, len(text)), new).encode()
    elements = spans.elements
    pieces = [_write(text, Span(0, elements[0].start), new)]
    for place, origin in enumerate(edits.order(len(elements))):
        # The comma before an element goes and comes with it, blanks and all. The first has none; if
        # another takes its place, that one's comma goes. The inserted one gets that of its place.
        if place > 0:
            after = max(1, place if origin is None else origin)
            pieces.append(text[elements[after - 1].end : elements[after].start])
        if origin is None:
            pieces.append(_render_json(edits.inserted, ascii_only).decode())
        else:
            pieces.append(_write(text, elements[origin], new))
    pieces.append(_write(text, Span(elements[-1].end, len(text)), new))
    return "".join(pieces).encode()


def _write(text: str, span: Span, new: Sequence[tuple[Span, str]]) -> str:
    """Return a part of the text with the new tokens inside it."""
    pieces: list[str] = []
    done = span.start
    first = bisect_left(new, span.start, key=lambda each: each[0].start)
    for (start, end), token in islice(new, first, None):
        if end > span.end:
            break
        pieces += (text[done:start], token)
        done = end
    return "".join((*pieces, text[done : span.end]))


def _render_json(value: object, ascii_only: bool) -> bytes:
    """Return the compact JSON of a new value, in the escape style of its body."""
    if isinstance(value, dict):
        members = (
            encode_string(key, ascii_only=ascii_only) + b":" + _render_json(member, ascii_only)
            for key, member in value.items()
        )
        return b"{%b}" % b",".join(members)
    if isinstance(value, list):
        return b"[%b]" % b",".join(_render_json(item, ascii_only) for item in value)
    return encode_string(cast(str, value), ascii_only=ascii_only)
