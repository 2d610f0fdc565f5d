"""A wire format that no provider has, with all that makes the real ones differ from Chat.

Its list is deeper in the request, an answer of the assistant is several elements, results are
inside what the user says, several in one element, and a result may be an object.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from masking.model import UNKNOWN, Call, Element, Speaker, ToolResult
from masking.tokens import estimate_tokens
from masking.wire import HeadSize, WireFormat
from masking.wire.format import Charge, Document

_SPEAKERS: Mapping[object, Speaker] = {"model": "assistant", "human": "user", "rules": "system"}
NOTE = "note"
"""The key under which a placeholder stands in place of an object."""


class MadeUp(WireFormat):
    name = "made up"
    paths = ((r"/talk$", "answer"),)
    list_paths = (("request", "contents"),)
    answers_in_runs = True

    def read_element(self, element: object) -> Element:
        if not isinstance(element, dict):
            return UNKNOWN
        pieces: list[dict[str, Any]] = element["pieces"]
        return Element(
            _SPEAKERS[element["by"]],
            tuple(piece["say"] for piece in pieces if "say" in piece),
            tuple(_read_call(piece["call"]) for piece in pieces if "call" in piece),
            tuple(_read_result(at, p["outcome"]) for at, p in enumerate(pieces) if "outcome" in p),
        )

    def read_charges(self, element: object) -> list[Charge]:
        read = self.read_element(element)
        charges = [Charge(text) for text in read.texts] + [Charge("", 8)] * len(read.calls)
        for place, result in enumerate(read.results):
            charges += (Charge(result.texts[0], 0, place), Charge("", 4))
        return charges

    def user_message(self, text: str) -> object:
        return {"by": "human", "pieces": [{"say": text}]}

    def measure_head(self, body: Document) -> HeadSize:
        return HeadSize(estimate_tokens(str(body.get("rules", ""))))

    def find_tools(self, body: Document) -> object:
        return body.get("kit")

    def find_head_texts(self, body: Document) -> Sequence[str]:
        return (str(body["rules"]),) if "rules" in body else ()

    def find_model(self, document: Document, path: str) -> str | None:
        return str(document.get("model"))

    def streams(self, document: Document, path: str) -> bool:
        return False


MADE_UP = MadeUp()


def change(wire: WireFormat, **attributes: object) -> WireFormat:
    """Return a format that differs in these attributes."""
    changed: WireFormat = type("Changed", (type(wire),), attributes)()
    return changed


def _read_call(call: dict[str, Any]) -> Call:
    return Call(call["id"], call["tool"], call["with"])


def _read_result(at: int, outcome: dict[str, Any]) -> ToolResult:
    value, slot = outcome["value"], ("pieces", at, "outcome", "value")
    if isinstance(value, str):
        return ToolResult(outcome["of"], "string", (value,), (slot,))
    if value.keys() == {NOTE}:
        return ToolResult(outcome["of"], "string", (value[NOTE],), ((*slot, NOTE),))
    return ToolResult(outcome["of"], "string", (json.dumps(value),), (slot,), wrap=NOTE)
