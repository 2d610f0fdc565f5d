"""What may be written in place of a text, worked out anew for the proof.

A second writer, as plain as the documentation of the fields. Nothing that writes into requests is
imported here, so a fault there is no fault here.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from masking.errors import printable
from masking.model import Call, ToolResult
from masking.tokens import estimate_tokens

_FIELD = re.compile(
    r"(\{(?:tool_call_id|tool_name|original_chars|original_tokens|left_out_chars|arguments|recall)\})"
)
_NAME_CHARS = 64
_UNKNOWN_TOOL = "inconnu"
_RECALL_BYTES = 8
_DOTS = "..."
_DEEPEST = 20

_MOST_ALIKE = 100
"""How often a text may say by itself what a marker says."""

_DISPATCHED = re.compile(
    "BEGIN_DISPATCH_RESULT(?:(?!BEGIN_DISPATCH_RESULT|END_DISPATCH_RESULT).)*END_DISPATCH_RESULT",
    re.DOTALL,
)


class Wording(NamedTuple):
    """A template in use, and to how many code points it cuts a call's arguments."""

    template: str
    arguments_chars: int


@lru_cache(64)
def _split(template: str) -> tuple[str, ...]:
    return tuple(_FIELD.split(template))


Lines = dict[tuple[int, int], str]
"""By the identity of a call's arguments and a length, the line that was written of them: results
without number may answer one call."""


def write(
    wording: Wording,
    text: str,
    result: ToolResult,
    call: Call,
    lines: Lines,
    left_out: int = 0,
) -> str:
    """Return what a template writes for a text, if its result answers this call.

    `lines` is added to; whoever owns it keeps the calls, too.
    """
    pieces = [*_split(wording.template)]
    for at in range(1, len(pieces), 2):  # a field stands between two literal texts
        match pieces[at]:
            case "{tool_call_id}":
                pieces[at] = (result.call_id or "")[:_NAME_CHARS]
            case "{tool_name}":
                pieces[at] = (call.tool or _UNKNOWN_TOOL)[:_NAME_CHARS]
            case "{original_chars}":
                pieces[at] = str(len(text))
            case "{original_tokens}":
                pieces[at] = str(estimate_tokens(text))
            case "{left_out_chars}":  # only a marker has it
                pieces[at] = str(left_out)
            case "{recall}":
                data = text.encode("utf-8", "surrogatepass")
                pieces[at] = blake2b(data, digest_size=_RECALL_BYTES).hexdigest()
            case _:  # the call's arguments
                key = id(call.arguments), wording.arguments_chars
                if key not in lines:
                    lines[key] = _write_arguments(call.arguments, wording.arguments_chars)
                pieces[at] = lines[key]
    return "".join(pieces)


def _write_arguments(arguments: object, max_chars: int) -> str:
    """Return a call's arguments on one line; no more than four times `max_chars` is looked at."""
    text = arguments if isinstance(arguments, str) else ""
    if not (arguments is None or isinstance(arguments, str)):
        for piece in _spell(arguments):
            text += piece
            if len(text) > 4 * max_chars:
                break
    line = " ".join(text[: 4 * max_chars].split())
    if len(text) > 4 * max_chars:
        line += _DOTS
    return printable(_cut(line, max_chars)) or "{}"


def _spell(value: object, levels: int = _DEEPEST) -> Iterator[str]:
    """Yield a value's JSON in pieces, with dots for objects and lists that are nested deeper."""
    if not isinstance(value, (dict, list)):
        yield json.dumps(value, ensure_ascii=False)
    elif not levels:
        yield _DOTS
    else:
        opens, closes = "{}" if isinstance(value, dict) else "[]"
        yield opens
        for place, each in enumerate(value):
            yield ", " if place else ""
            if isinstance(value, dict):
                yield f"{json.dumps(each, ensure_ascii=False)}: "
            yield from _spell(value[each] if isinstance(value, dict) else each, levels - 1)
        yield closes


def _cut(line: str, max_chars: int) -> str:
    """Return at most so many code points; dots end what is cut, where there is room for them."""
    if len(line) <= max_chars:
        return line
    room = max_chars - len(_DOTS)
    return line[:room] + _DOTS if room >= 0 else line[:max_chars]


def is_shortened(
    wording: Wording, text: str, new: str, result: ToolResult, call: Call, lines: Lines
) -> bool:
    """Whether a text has become its own head, this marker, and its own tail."""
    # How much is left out follows from the lengths, once it is known how long that number is.
    for digits in range(1, len(str(len(text))) + 1):
        sample = write(wording, text, result, call, lines, 10 ** (digits - 1))
        for length in {len(sample), len(sample.rstrip())}:  # no blanks end a text
            left_out = len(text) - len(new) + length
            if left_out < 1 or len(str(left_out)) != digits:
                continue
            marker = write(wording, text, result, call, lines, left_out)[:length]
            at = -1
            for _ in range(_MOST_ALIKE):
                at = new.find(marker, at + 1)
                if at < 0:
                    break
                if text.startswith(new[:at]) and text.endswith(new[at + length :]):
                    return True
    return False


def is_line(text: str, new: str, max_chars: int) -> bool:
    """Whether a text has become a reduction's line, with its dispatch results below that."""
    blocks = _DISPATCHED.findall(text)
    kind = "dispatch output" if blocks else "observation"
    line = f"[{kind} masked \N{EM DASH} {len(text) - sum(map(len, blocks))} chars]"
    return new == "\n".join((_cut(line, max(1, max_chars)), *blocks))
