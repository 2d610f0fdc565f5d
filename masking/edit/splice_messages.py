"""Carry out a reduction in the bytes of a request: every other byte stays the client's.

A message that goes takes the comma before it along, and the blanks around that; the summary comes
with a comma as the client writes them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from masking.edit.json_strings import BOM, Number, encode_string
from masking.edit.splice import decode, decode_exactly, splice
from masking.errors import WireError
from masking.strategies.reduction_plan import ReductionPlan


def splice_messages(body: bytes, document: Mapping[str, object], plan: ReductionPlan) -> bytes:
    """Return the body with the plan carried out on its messages.

    `document` is what `decode(body)` gave, `plan` what was made for its messages; the very same
    bytes come back where it changes nothing. The outcome is proven to decode to the document with
    exactly these messages; raises WireError where it does not.
    """
    if not plan.changes:
        return body
    try:
        spliced = splice(body, document, plan.replacements) if plan.replacements else body
        edited = _cut(spliced, plan) if plan.dropped else spliced
        is_proven = _is_proven(edited, decode, document, plan) or _is_proven(
            edited, decode_exactly, decode_exactly(body), plan
        )
    except RecursionError:
        raise WireError("nested too deeply") from None
    except (LookupError, TypeError):  # a plan that was not made for this body
        is_proven = False
    if not is_proven:
        raise WireError("cannot take out these messages and nothing else")
    return edited


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)
_BLANKS = " \t\r\n"

_Span = tuple[int, int]


def _is_proven(
    body: bytes, decoder: Callable[[bytes], object], document: object, plan: ReductionPlan
) -> bool:
    """Whether the body decodes to what the document is after the plan."""
    before: Any = document
    return decoder(body) == {**before, "messages": plan.apply(before["messages"])}


def _cut(body: bytes, plan: ReductionPlan) -> bytes:
    text = body.decode()
    spans = _find_messages(text)
    pieces = [text[: spans[0][0]]]
    for place, origin in enumerate(plan.order(len(spans))):
        if place > 0:
            pieces.append(_find_gap(text, spans, place if origin is None else origin))
        pieces.append(_spell(text, plan) if origin is None else text[slice(*spans[origin])])
    return "".join((*pieces, text[spans[-1][1] :])).encode()


def _find_gap(text: str, spans: Sequence[_Span], place: int) -> str:
    """Return the comma before a message, and its blanks; before the first, those of the second."""
    after = max(1, place)
    return text[spans[after - 1][1] : spans[after][0]]


def _spell(text: str, plan: ReductionPlan) -> str:
    summary = encode_string(plan.summary or "", ascii_only=text.isascii())
    return f'{{"role":"user","content":{summary}}}'


def _find_messages(text: str) -> list[_Span]:
    """Return where each message stands; of a key that stands twice the last one holds."""
    start = _skip(text, len(BOM) if text.startswith(BOM) else 0)
    lists = [begin for key, begin, _ in _find_members(text, start) if key == "messages"]
    return [(begin, end) for _, begin, end in _find_members(text, lists[-1])]


def _find_members(text: str, at: int) -> Iterator[tuple[str | None, int, int]]:
    """Yield the members of the object or list at `at`: key, and where the value begins and ends."""
    is_object = text[at] == "{"
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        key = None
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + len(":"))
        _, end = _DECODER.raw_decode(text, at)
        yield key, at, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
