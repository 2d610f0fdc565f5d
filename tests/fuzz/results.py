"""Where the contract finds tool turns and results: a slow reading of its own, format by format."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fuzz.json_nodes import TRUE, Where

LISTS: dict[str, tuple[Where, ...]] = {
    "chat": (("messages",),),
    "messages": (("messages",),),
    "converse": (("messages",),),
    "ollama": (("messages",),),
    "responses": (("input",),),
    "gemini": (("contents",), ("request", "contents")),
}
CALLS = {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"}


@dataclass(slots=True)
class Given:
    """A tool result: where its content stands, and how many turns there were when it came.

    turn: that of its call; None if no earlier turn has declared the id, or ids tell nothing here.
    """

    at: Where
    call_id: object
    fails: bool
    content: Any
    turns: int
    turn: int | None = None
    tool: object = None


@dataclass(slots=True)
class Read:
    turns: int
    given: list[Given]
    answered: list[int]
    """How many results had come at each answer without calls, and at each malformed message."""


def read(name: str, document: Any) -> Read:  # noqa: ANN401 - JSON
    """Return the turns and results of a request: a call is the nearest before, else the next."""
    declared: dict[object, tuple[int, object]] = {}
    found = Read(0, [], [])
    was_model = in_turn = False
    for at, element in _elements(name, document):
        speaks = _is_model(name, element)
        calls = [*_calls(name, element)] if speaks else []
        named = [(call_id, tool) for call_id, tool in calls if _names(call_id)]
        runs = name in ("responses", "gemini") and was_model
        if named or (calls and name in ("gemini", "ollama")):
            if not (runs and in_turn):
                found.turns += 1
            in_turn = True
            declared.update({call_id: (found.turns - 1, tool) for call_id, tool in named})
            for early in (each for each in found.given if each.turn is None):
                if _names(early.call_id):
                    early.turn, early.tool = declared.get(early.call_id, (None, None))
        elif not speaks or not runs:
            in_turn = False
        if (speaks and not calls) or _is_malformed(name, element):
            found.answered.append(len(found.given))
        was_model = speaks
        for given in _results(name, element, at):
            given.turns = found.turns
            if _names(given.call_id):
                given.turn, given.tool = declared.get(given.call_id, (None, None))
            found.given.append(given)
    return found


def _names(call_id: object) -> bool:
    return type(call_id) is str and call_id != ""


def _elements(name: str, document: Any) -> Iterator[tuple[Where, Any]]:  # noqa: ANN401 - JSON
    for path in LISTS[name]:
        found = document
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, list):
            yield from (((*path, at), each) for at, each in enumerate(found))
            return


def _is_model(name: str, element: Any) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(element, dict):
        return False
    if name == "responses":
        kind = element.get("type", "message")
        is_message = kind == "message" and element.get("role") == "assistant"
        return is_message or kind == "reasoning" or (type(kind) is str and kind.endswith("_call"))
    return bool(element.get("role") == ("model" if name == "gemini" else "assistant"))


def _is_malformed(name: str, element: Any) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(element, dict):
        return True
    roles = (*_ROLES, "tool", "function") if name in ("chat", "ollama") else _ROLES
    return not (name == "responses" and "type" in element) and element.get("role") not in roles


_ROLES = ("system", "developer", "user", "assistant", "model")


def _listed(holder: Any, key: str) -> list[tuple[int, dict[str, Any]]]:  # noqa: ANN401 - JSON
    found = holder.get(key) if isinstance(holder, dict) else None
    pairs = enumerate(found) if isinstance(found, list) else ()
    return [(at, each) for at, each in pairs if isinstance(each, dict)]


def _calls(name: str, element: Any) -> Iterator[tuple[object, object]]:  # noqa: ANN401 - JSON
    if name in ("chat", "ollama"):
        for _, call in _listed(element, "tool_calls"):
            function = call.get("function")
            yield call.get("id"), function.get("name") if isinstance(function, dict) else None
    elif name == "messages":
        for _, block in _listed(element, "content"):
            if block.get("type") == "tool_use":
                yield block.get("id"), block.get("name")
    elif name == "converse":
        for _, block in _listed(element, "content"):
            if isinstance(use := block.get("toolUse"), dict):
                yield use.get("toolUseId"), use.get("name")
    elif name == "gemini":
        for _, part in _listed(element, "parts"):
            if isinstance(use := part.get("functionCall") or part.get("function_call"), dict):
                yield use.get("id"), use.get("name")
    elif element.get("type") in CALLS and element.get("call_id"):
        yield element.get("call_id"), element.get("name")


def _results(name: str, element: Any, at: Where) -> Iterator[Given]:  # noqa: ANN401 - JSON
    if not isinstance(element, dict):
        return
    if name in ("chat", "ollama") and element.get("role") == "tool":
        call_id = element.get("tool_call_id") if name == "chat" else None
        fails = element.get("is_error") == TRUE
        yield Given((*at, "content"), call_id, fails, element.get("content"), 0)
    elif name == "messages" and element.get("role") == "user":
        for place, block in _listed(element, "content"):
            if block.get("type") == "tool_result":
                where, fails = (*at, "content", place, "content"), block.get("is_error") == TRUE
                yield Given(where, block.get("tool_use_id"), fails, block.get("content"), 0)
    elif name == "converse" and element.get("role") == "user":
        for place, block in _listed(element, "content"):
            if isinstance(found := block.get("toolResult"), dict):
                where = (*at, "content", place, "toolResult", "content")
                fails = found.get("status") == "error"
                yield Given(where, found.get("toolUseId"), fails, found.get("content"), 0)
    elif name == "gemini":
        for place, part in _listed(element, "parts"):
            for key in ("functionResponse", "function_response"):
                if isinstance(found := part.get(key), dict):
                    where = (*at, "parts", place, key)
                    yield Given(where, found.get("id"), False, None, 0)
            if "inlineData" in part:  # an image beside the result that it belongs to
                yield Given((*at, "parts", place), None, False, None, 0)
    elif name == "responses" and str(element.get("type")).endswith("_output"):
        yield Given((*at, "output"), element.get("call_id"), False, element.get("output"), 0)
