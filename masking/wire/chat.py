"""Chat Completions: a result is a message of role `tool`, bound to a call by `tool_call_id`.

Ids are re-used in real traffic, so a result belongs to the nearest earlier turn that declared
its id, and one that comes before its call to the first later turn that does.
"""

from collections.abc import Iterable, Mapping

from masking.model import ContentKind, Path, TextSlot, ToolHistory, ToolResult, WireError


def find_tool_results(body: Mapping[str, object]) -> ToolHistory:
    """Find the tool turns and the tool results of a request.

    Raises WireError where `messages` is missing or not a list. A message that is no object,
    and a field of an unexpected type, is passed over.
    """
    if "messages" not in body:
        raise WireError("no messages", "body")
    messages = body["messages"]
    if not isinstance(messages, list):
        raise WireError(f"expected list, got {type(messages).__name__}", "body.messages")
    return _bind(enumerate(messages))


def _bind(messages: Iterable[tuple[int, object]]) -> ToolHistory:
    turns = 0
    declared: dict[str, tuple[int, str | None]] = {}
    waiting: dict[str, list[int]] = {}
    results: list[ToolResult] = []
    for index, message in messages:
        if not isinstance(message, dict):
            continue
        role = message.get("role")
        if role == "tool":
            result = _read_result(index, message, declared)
            if result.call_id is not None and result.turn is None:
                waiting.setdefault(result.call_id, []).append(len(results))
            results.append(result)
        elif role == "assistant" and (calls := _read_calls(message)):
            for call_id, tool in calls.items():
                declared[call_id] = (turns, tool)
                for early in waiting.pop(call_id, ()):
                    results[early] = results[early]._replace(turn=turns, tool=tool)
            turns += 1
    return ToolHistory(turns=turns, results=tuple(results))


def _read_calls(message: Mapping[str, object]) -> dict[str, str | None]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return {}
    return {
        call_id: _read_name(call)
        for call in calls
        if isinstance(call, dict) and (call_id := _non_empty(call.get("id"))) is not None
    }


def _read_name(call: Mapping[str, object]) -> str | None:
    function = call.get("function")
    return _non_empty(function.get("name")) if isinstance(function, dict) else None


def _read_result(
    index: int, message: Mapping[str, object], declared: Mapping[str, tuple[int, str | None]]
) -> ToolResult:
    call_id = _non_empty(message.get("tool_call_id"))
    turn, tool = declared.get(call_id, (None, None)) if call_id is not None else (None, None)
    path = ("messages", index, "content")
    kind, slots = _read_content(path, message.get("content"))
    return ToolResult(
        path=path,
        call_id=call_id,
        tool=tool,
        turn=turn,
        kind=kind,
        slots=slots,
        is_error=message.get("is_error") is True,
    )


def _read_content(path: Path, content: object) -> tuple[ContentKind, tuple[TextSlot, ...]]:
    if isinstance(content, str):
        return "string", (TextSlot(path, content),)
    if not isinstance(content, list):
        return "other", ()
    slots = tuple(
        TextSlot((*path, place, "text"), part["text"])
        for place, part in enumerate(content)
        if _is_text_part(part)
    )
    return ("text_parts" if slots and len(slots) == len(content) else "other"), slots


def _is_text_part(part: object) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _non_empty(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
