"""A wire format that no provider has, with all that makes the real ones differ from Chat.

Its list is deeper in the request, an answer of the assistant is several elements, results are
inside what the user says, several in one element, and a result may be an object.
"""

import json
from collections.abc import Mapping
from typing import Any

from masking.model import UNKNOWN, Call, Element, Speaker, ToolResult
from masking.tokens import estimate_tokens
from masking.wire import Charge, HeadSize, WireFormat

_SPEAKERS: Mapping[object, Speaker] = {"model": "assistant", "human": "user", "rules": "system"}
NOTE = "note"
"""The key under which a placeholder stands in place of an object."""


def read_element(value: object) -> Element:
    if not isinstance(value, dict):
        return UNKNOWN
    pieces: list[dict[str, Any]] = value["pieces"]
    return Element(
        _SPEAKERS[value["by"]],
        tuple(piece["say"] for piece in pieces if "say" in piece),
        tuple(_read_call(piece["call"]) for piece in pieces if "call" in piece),
        tuple(_read_result(at, p["outcome"]) for at, p in enumerate(pieces) if "outcome" in p),
    )


def _read_call(call: dict[str, Any]) -> Call:
    return Call(call["id"], call["tool"], call["with"])


def _read_result(at: int, outcome: dict[str, Any]) -> ToolResult:
    value, slot = outcome["value"], ("pieces", at, "outcome", "value")
    if isinstance(value, str):
        return ToolResult(outcome["of"], "string", (value,), (slot,))
    if value.keys() == {NOTE}:
        return ToolResult(outcome["of"], "string", (value[NOTE],), ((*slot, NOTE),))
    return ToolResult(outcome["of"], "string", (json.dumps(value),), (slot,), wrap=NOTE)


def read_charges(value: object) -> list[Charge]:
    element = read_element(value)
    charges = [Charge(text) for text in element.texts] + [Charge("", 8)] * len(element.calls)
    for place, result in enumerate(element.results):
        charges += (Charge(result.texts[0], 0, place), Charge("", 4))
    return charges


MADE_UP = WireFormat(
    name="made up",
    paths=((r"/talk$", "answer"),),
    list_paths=(("request", "contents"),),
    read_element=read_element,
    read_charges=read_charges,
    find_model=lambda document, _: str(document.get("model")),
    streams=lambda _document, _path: False,
    find_tools=lambda body: body.get("kit"),
    find_head_texts=lambda body: (str(body["rules"]),) if "rules" in body else (),
    measure_head=lambda body: HeadSize(estimate_tokens(str(body.get("rules", "")))),
    user_message=lambda text: {"by": "human", "pieces": [{"say": text}]},
    answers_in_runs=True,
)
