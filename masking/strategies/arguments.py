"""A call's arguments on one short line, so that a placeholder says what was asked."""

import json
from collections.abc import Iterator

from masking.printable import printable
from masking.strategies.texts import clip

DEFAULT_CHARS = 120
"""Of 2,125 calls of recorded agents, 3 of 4 that read a file fit into it, and most shell commands.
The others keep their beginning, where paths and programs stand."""

MAX_CHARS = 1_000

_EMPTY = "{}"
_CUT = "..."
_SEEN = 4
"""How many times `max_chars` of a text are looked at, as breaks and indents shrink to a space."""

_DEEPEST = 20


def spell_arguments(arguments: object, max_chars: int) -> str:
    """Return a call's arguments on one line of at most `max_chars` code points.

    They are a JSON text, or any other text, or a decoded object, which is spelled as JSON. If they
    are cut, three dots end the line. White space becomes one space, and a character that cannot be
    printed U+FFFD. If there are none, `{}`. The work is bounded by `max_chars` alone, as results
    without number may answer one call.
    """
    text = arguments if isinstance(arguments, str) else _join(arguments, max_chars)
    seen = text[: _SEEN * max_chars]
    line = " ".join(seen.split())
    if len(seen) < len(text):
        line += _CUT
    return printable(clip(line, max_chars)) or _EMPTY


def _join(value: object, max_chars: int) -> str:
    """Return a value as JSON, or more than `max_chars` of it."""
    pieces, length = [], 0
    for piece in _spell(value, max_chars, 0) if value is not None else ():
        pieces.append(piece)
        length += len(piece)
        if length > max_chars:
            break
    return "".join(pieces)


def _spell(value: object, max_chars: int, depth: int) -> Iterator[str]:
    """Yield a value's JSON in pieces; of each text no more than is needed to see that it is cut."""
    if isinstance(value, str):
        yield json.dumps(value[: max_chars + 1], ensure_ascii=False)
    elif value is None or isinstance(value, (int, float)):
        yield json.dumps(value)
    elif depth == _DEEPEST or not isinstance(value, (dict, list)):
        yield _CUT
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ", " if place else "["
            yield from _spell(item, max_chars, depth + 1)
        yield "]" if value else "[]"
    else:
        for place, (key, item) in enumerate(value.items()):
            yield ", " if place else "{"
            yield from _spell(key, max_chars, depth + 1)
            yield ": "
            yield from _spell(item, max_chars, depth + 1)
        yield "}" if value else "{}"
