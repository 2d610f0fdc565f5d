"""Chat Completions: a result is a message of role `tool`, bound to a call by `tool_call_id`.

Ids are re-used in real traffic, so a result belongs to the nearest earlier turn that declared
its id, and one that comes before its call to the first later turn that does.
"""

from collections.abc import Iterable, Mapping

from masking.model import ContentKind, ToolHistory, ToolResult, WireError


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
    declared: dict[str | None, _Declared] = {}
    waiting: dict[str, list[int]] = {}
    results: list[ToolResult] = []
    for index, message in messages:
        if not isinstance(message, dict):
            continue
        role = message.get("role")
        if role == "tool":
            result = _read_result(index, message, declared)
            if result.turn is None and result.call_id is not None:
                waiting.setdefault(result.call_id, []).append(len(results))
            results.append(result)
        elif role == "assistant" and (names := _read_names(message.get("tool_calls"))):
            for call_id, tool in names.items():
                declared[call_id] = (turns, tool)
                for early in waiting.pop(call_id, ()) if waiting else ():
                    results[early] = results[early]._replace(turn=turns, tool=tool)
            turns += 1
    return ToolHistory(turns=turns, results=tuple(results))


_Declared = tuple[int, str | None]
"""The last turn that declared an id, and the tool it called there."""

_UNDECLARED = (None, None)


def _read_names(calls: object) -> dict[str, str | None]:
    """Return the tool's name by the call's id; a call without an id is passed over."""
    names: dict[str, str | None] = {}
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and (call_id := _non_empty(call.get("id"))):
            function = call.get("function")
            names[call_id] = (
                _non_empty(function.get("name")) if isinstance(function, dict) else None
            )
    return names


def _read_result(
    index: int, message: Mapping[str, object], declared: Mapping[str | None, _Declared]
) -> ToolResult:
    call_id = _non_empty(message.get("tool_call_id"))
    turn, tool = declared.get(call_id, _UNDECLARED)
    kind, texts = _read_content(message.get("content"))
    is_error = message.get("is_error") is True
    return ToolResult(("messages", index, "content"), call_id, tool, turn, kind, texts, is_error)


def _read_content(content: object) -> tuple[ContentKind, tuple[str, ...]]:
    if isinstance(content, str):
        return "string", (content,)
    if not isinstance(content, list):
        return "other", ()
    texts = tuple(part["text"] for part in content if _is_text_part(part))
    return ("text_parts" if texts and len(texts) == len(content) else "other"), texts


def _is_text_part(part: object) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _non_empty(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
