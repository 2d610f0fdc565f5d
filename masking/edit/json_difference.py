"""Where two JSON documents differ, to the byte: what a proof needs that trusts no editor."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from masking.edit.json_text import NEEDLE_BYTES, decode_utf8, encode_string, find_spans
from masking.model import Path, make


class Swap(NamedTuple):
    """A value that differs between two documents, and its path."""

    path: Path
    old: Any
    new: Any


def put_back(old: Any, new: Any, path: Path) -> Swap | None:  # noqa: ANN401 - as decoded
    """Put the old value at a path in place of the new one; return both, or None if they are equal.

    What still differs once that is done for some paths differs elsewhere. Raises LookupError or
    TypeError if one document has no such path.
    """
    *parents, last = path
    for key in parents:
        old, new = old[key], new[key]
    was, now = old[last], new[last]
    new[last] = was
    return None if was == now else make(Swap, (path, was, now))


def differ_in(old: bytes, new: bytes, swaps: Sequence[Swap]) -> bool:
    """Whether the bytes of two documents that differ in these values alone differ in no other way.

    So all else is spelled alike, and each new value is plain.
    """
    # Nearly always they are texts, in order, as most clients spell them.
    at, moved, was_ascii = 0, 0, old.isascii()
    for _, was, now in swaps:
        if not (isinstance(was, str) and isinstance(now, str)):
            break
        token = encode_string(was, ascii_only=was_ascii)
        start = old.find(token[:NEEDLE_BYTES], at)
        if start < 0 or not old.startswith(token, start):
            break
        for now_ascii in (False, True):
            written = old[at:start] + encode_string(now, ascii_only=now_ascii)
            if new.startswith(written, at + moved):
                break
        else:
            break
        at, moved = start + len(token), moved + len(written) - (start - at) - len(token)
    else:
        return old[at:] == new[at + moved :]
    # In general the values are found where they are.
    paths, rest = {swap.path for swap in swaps}, list[list[str]]()
    for text in (decode_utf8(old), decode_utf8(new)):
        values = find_spans(text, paths).values
        spans = sorted(values.values())
        ends = [0, *(span.end for span in spans)]
        starts = [*(span.start for span in spans), len(text)]
        rest.append([text[end:start] for end, start in zip(ends, starts, strict=True)])
    plain = [text[slice(*values[each.path])].encode() in spell(each.new) for each in swaps]
    return rest[0] == rest[1] and all(plain)


def spell(value: object) -> list[bytes]:
    """Return the two plain ways to spell a value: as it is, and in ASCII."""
    spelled = [
        json.dumps(value, ensure_ascii=each, separators=(",", ":")) for each in (False, True)
    ]
    return [each.encode("utf-8", "surrogatepass") for each in spelled]


def is_added(old: str, new: str, path: Path, value: object, *, in_list: bool) -> bool:
    """Whether a document is another one with a value at a path, or at the end of the list there.

    That stands at the end of what there was of the path, or in place of a null.
    """
    depth, item = len(path), orjson.dumps(value).decode()
    spelled, opens = (f"[{item}]", "[") if in_list else (item, "")
    while True:
        at = path[:depth]
        try:
            start, end = find_spans(old, {at}).values[at]
            break
        except LookupError:
            item, opens, depth = f'"{at[-1]}":{spelled}', "{", depth - 1
            spelled = f"{{{item}}}"
    if old[start:end] == "null":
        return new == old[:start] + spelled + old[end:]
    comma = "," if old[start + 1 : end - 1].strip() else ""
    return old[start] == opens and new == old[: end - 1] + comma + item + old[end - 1 :]
