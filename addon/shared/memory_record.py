"""A remembered conversation as a line of JSON, and back: places, numbers, digests, no content."""

import json
import math
from typing import Any

from masking.memory.boundary_memory import Anchor, Branches, Move, Past
from masking.strategies.boundary_fold import Boundary
from masking.strategies.placeholder import Rendering, parse_template

_Json = Any
"""Whatever JSON may hold. What does not fit raises, and is then not a record."""


def encode(branches: Branches) -> str:
    """Return conversations as one line of JSON."""
    return json.dumps([_encode_past(past) for past in branches], separators=(",", ":"))


def decode(text: str | bytes) -> Branches:
    """Return the conversations that `encode` has written; none for any other text."""
    try:
        return tuple(_decode_past(past) for past in json.loads(text))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return ()


def _encode_past(past: Past) -> dict[str, object]:
    moves = [
        [_encode_anchor(move.anchor), move.boundary, move.places, move.rendering]
        for move in past.moves
    ]
    met, last = _encode_anchor(past.met), _encode_anchor(past.last)
    return {"met": met, "moves": moves, "last": last, "sent": past.sent}


def _decode_past(past: _Json) -> Past:
    return Past(
        met=_decode_anchor(past["met"]),
        moves=tuple(_decode_move(*move) for move in past["moves"]),
        last=_decode_anchor(past["last"]),
        sent=_time(past["sent"]),
    )


def _decode_move(anchor: _Json, boundary: _Json, places: _Json, rendering: _Json) -> Move:
    template, must_shrink, *others = rendering  # files of earlier versions have fewer
    parse_template(template)
    return Move(
        _decode_anchor(anchor),
        Boundary(*map(_count, boundary)),
        tuple(map(_count, places)),
        Rendering(template, bool(must_shrink), *map(bool, others[:2]), *map(_count, others[2:])),
    )


def _encode_anchor(anchor: Anchor) -> list[object]:
    return [anchor.answers, anchor.digest.hex()]


def _decode_anchor(anchor: _Json) -> Anchor:
    answers, digest = anchor
    return Anchor(_count(answers), bytes.fromhex(digest))


def _count(value: _Json) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("expected a count")
    return value


def _time(value: _Json) -> float:
    if not math.isfinite(time := float(value)):
        raise ValueError("expected a time")
    return time
