"""Carry out edits on JSON: in its bytes, every other byte untouched, or as a value.

A list is edited element by element: its document is cut into these (`json_list`), each is edited by
itself, and `join_list` puts together what stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import orjson

from masking.edit.json_list import ListCut
from masking.edit.json_text import (
    NEEDLE_BYTES,
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


def apply(value: object, replacements: Iterable[Replacement]) -> object:
    """Return a decoded value with these texts replaced; what is unchanged is shared."""
    # Only what leads to a replaced text is copied, once.
    holder: list[Any] = [value]  # so that the root is a member like any other
    copied: set[int] = set()
    for replacement in replacements:
        parent: Any = holder
        *parents, last = (0, *replacement.slot)
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


def apply_to_list(items: Sequence[object], edits: Edits) -> list[object]:
    """Return the elements of a list after the edits; the unchanged ones are shared."""
    edited = [*items]
    for at, replacements in edits.replacements.items():
        edited[at] = apply(items[at], replacements)
    return [edits.inserted if at is None else edited[at] for at in edits.order(len(items))]


def splice(
    data: bytes,
    value: object,
    replacements: Sequence[Replacement],
    *,
    ascii_only: bool | None = None,
) -> bytes:
    """Return the bytes of a value with these texts replaced, and every other byte as it was.

    New texts are escaped to ASCII if `ascii_only`, by default if the bytes are ASCII. `value` is
    what `decode(data)` returned. The outcome is proven to decode to `apply(value, replacements)`.
    Raises WireError if it does not.
    """
    if ascii_only is None:
        ascii_only = data.isascii()
    try:
        # The fast way looks for the bytes of each text, as most clients would have written them, in
        # order, and replaces them. It parses nothing, so it may find the same bytes elsewhere: in a
        # key, or in an equal text that must stay. The proof notices that.
        spliced = _cut_quickly(data, replacements, ascii_only)
        if spliced is not None and _is_proven(spliced, value, replacements):
            return spliced
        # The exact way walks the text to the values themselves: where a client escapes otherwise or
        # repeats a key. Only edits for another value, or a bug here, can make it fail; so its
        # outcome is proven, too.
        spliced = _cut_exactly(data, replacements, ascii_only)
        if _is_proven(spliced, value, replacements):
            return spliced
    except RecursionError:
        raise WireError("nested too deeply") from None
    except (LookupError, TypeError):  # edits that were not made for this value
        pass
    raise WireError(_CANNOT)


def join_list(cut: ListCut, edits: Edits, *, ascii_only: bool) -> bytes:
    """Return a document of its elements, edited by themselves: some are dropped, one is inserted.

    An element that is dropped goes with the comma before it and the blanks around that; one that is
    inserted gets a comma as the client writes them. Raises WireError if that cannot be spelled.
    """
    inserted = b"" if edits.inserted is None else _render_json(edits.inserted, ascii_only)
    if inserted and decode(inserted) != edits.inserted:  # lone surrogates in a row are a character
        raise WireError(_CANNOT)
    pieces = [cut.head]
    for place, origin in enumerate(edits.order(len(cut.elements))):
        # The comma before an element goes and comes with it, blanks and all. The first has none; if
        # another takes its place, that one's comma goes. The inserted one gets that of its place.
        if place > 0:
            after = max(1, place if origin is None else origin)
            pieces.append(cut.gaps[after - 1])
        pieces.append(inserted if origin is None else cut.elements[origin])
    return b"".join((*pieces, cut.tail))


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


def _is_proven(spliced: bytes, value: object, replacements: Iterable[Replacement]) -> bool:
    """Whether the bytes decode to the value with exactly these texts replaced."""
    try:
        outcome = decode(spliced)
    except WireError:
        return False
    # The value need not be copied: at each path the outcome must have the new text, and once the
    # old one is put back there, it must equal the value. So every edit was made, and no other.
    try:
        for replacement in replacements:
            *parents, last = replacement.slot
            after: Any = outcome
            before: Any = value
            for step in parents:
                after, before = after[step], before[step]
            if after[last] != replacement.value:
                return False
            after[last] = before[last]
    except (LookupError, TypeError):  # what was cut out was another text, or a key
        return False
    return bool(outcome == value)


def _cut_quickly(
    data: bytes, replacements: Iterable[Replacement], ascii_only: bool
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
        # Texts come in order, so each is looked for behind the one before.
        start = _find_token(data, token, done)
        if start < 0:
            return None
        pieces += (data[done:start], new)
        done = start + len(token)
    return b"".join((*pieces, data[done:]))


def _find_token(data: bytes, token: bytes, at: int) -> int:
    needle = token[:NEEDLE_BYTES]
    for _ in range(_MAX_NEAR_MISSES):
        at = data.find(needle, at)
        if at < 0 or data.startswith(token, at):
            return at
        at += 1
    return -1


def _cut_exactly(data: bytes, replacements: Iterable[Replacement], ascii_only: bool) -> bytes:
    """Replace each text where it is in the value."""
    text = decode_utf8(data)
    new = {each.slot: _render_json(each.value, ascii_only).decode() for each in replacements}
    try:
        spans = find_spans(text, new).values
    except ValueError:  # it is JSON, so nothing else can be wrong
        raise WireError("nested too deeply") from None
    pieces: list[str] = []
    done = 0
    for slot in sorted(spans, key=spans.__getitem__):
        start, end = spans[slot]
        pieces += (text[done:start], new[slot])
        done = end
    return "".join((*pieces, text[done:])).encode()


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
