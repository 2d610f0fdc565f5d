"""A remembered conversation as a line of JSON, and back: places, numbers, digests, no content.

A later version may add fields to a conversation and to a move: they are carried along. Whatever an
earlier version must not pass over needs another version of the file (`memory_file.VERSION`).
"""

import json
import math
from typing import Any

from masking.memory import Anchor, Branches, Move, Past, ResultId
from masking.window import BoundaryPosition, Rendering, parse_template

_Json = Any
"""Whatever JSON may hold. What does not fit raises, and is then not a record."""


def encode(branches: Branches) -> str:
    """Return conversations as one line of JSON."""
    return json.dumps([_encode_past(past) for past in branches], separators=(",", ":"))


def decode(text: str | bytes) -> Branches:
    """Return the conversations that `encode` has written; none for any other text."""
    try:
        return tuple(_decode_past(dict(past)) for past in json.loads(text))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return ()


def _encode_past(past: Past) -> dict[str, object]:
    return {
        "met": _encode_anchor(past.met),
        "moves": [*map(_encode_move, past.moves)],
        "last": _encode_anchor(past.last),
        "sent": past.sent,
        **past.unknown,
    }


def _decode_past(past: dict[str, _Json]) -> Past:
    return Past(
        met=_decode_anchor(past.pop("met")),
        moves=tuple(map(_decode_move, past.pop("moves"))),
        last=_decode_anchor(past.pop("last")),
        sent=_time(past.pop("sent")),
        unknown=past,
    )


def _encode_move(move: Move) -> dict[str, object]:
    return {
        "at": _encode_anchor(move.anchor),
        "boundary": move.boundary,
        "results": [_encode_result(result) for result in move.results],
        "rendering": move.rendering._asdict(),
        **move.unknown,
    }


def _decode_move(move: _Json) -> Move:
    if isinstance(move, list):
        return _decode_places(*move)
    move = dict(move)
    return Move(
        _decode_anchor(move.pop("at")),
        BoundaryPosition(*map(_count, move.pop("boundary"))),
        tuple(_decode_result(*result) for result in move.pop("results")),
        _decode_rendering(**move.pop("rendering")),
        move,
    )


def _decode_places(anchor: _Json, boundary: _Json, places: _Json, rendering: _Json) -> Move:
    """Return a move of the first form, in which a result was a place."""
    return Move(
        _decode_anchor(anchor),
        BoundaryPosition(*map(_count, boundary)),
        tuple(ResultId(_count(place), None, None) for place in places),
        _decode_rendering(*rendering),  # the earliest have fewer fields
    )


def _encode_result(result: ResultId) -> tuple[int, int | None, str | None]:
    digest = None if result.digest is None else result.digest.hex()
    return result.place, result.turn, digest


def _decode_result(place: _Json, turn: _Json, digest: _Json) -> ResultId:
    if digest is None:
        return ResultId(_count(place), None, None)
    return ResultId(_count(place), _count(turn), bytes.fromhex(digest))


def _decode_rendering(
    template: _Json, must_shrink: _Json, *others: _Json, **named: _Json
) -> Rendering:
    parse_template(template)
    rendering = Rendering(template, must_shrink, *others, **named)
    _count(rendering.arguments_chars)
    _count(rendering.min_chars)
    return rendering._replace(
        must_shrink=bool(must_shrink),
        in_lists=bool(rendering.in_lists),
        images=bool(rendering.images),
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
