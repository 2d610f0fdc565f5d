"""Chat Completions: a result is a message of role `tool`, bound to a call by `tool_call_id`.

Ids are re-used in real traffic, so a result belongs to the nearest earlier turn that declared
its id, and one that comes before its call to the first later turn that does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from masking.errors import WireError
from masking.model import ContentKind, Layout, Request, Target, ToolHistory, ToolResult
from masking.strategies.texts import find_texts
from masking.wire.chat_sizes import measure_content, measure_frame, measure_tools


def find_tool_results(
    body: Mapping[str, object], target_arguments: Sequence[str] = ()
) -> ToolHistory:
    """Find the tool turns and the tool results of a request.

    The first of the `target_arguments` that a call has, a non-empty string, tells its target.
    Raises WireError where `messages` is missing or not a list. A message that is no object,
    and a field of an unexpected type, is passed over.
    """
    return _bind(enumerate(_find_messages(body)), target_arguments)


def lay_out(body: Mapping[str, object]) -> Layout:
    """Return the sizes in a request, in estimated tokens (see `masking.wire.chat_sizes`).

    Each message of the assistant was a request. Raises WireError as `find_tool_results`.
    """
    messages = _find_messages(body)
    size = measure_tools(body.get("tools"))
    turns = 0
    requests: list[Request] = []
    offsets: list[int] = []
    turns_before: list[int] = []
    sizes: list[int] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        role, content = message.get("role"), measure_content(message.get("content"))
        if role == "assistant":
            requests.append(Request(size, turns, len(offsets)))
            turns += bool(_read_calls(message.get("tool_calls")))
        elif role == "tool":
            offsets.append(size)
            turns_before.append(turns)
            sizes.append(content)
        size += content + measure_frame(message)
    requests.append(Request(size, turns, len(offsets)))
    return Layout(tuple(requests), tuple(offsets), tuple(turns_before), tuple(sizes))


def find_opening(body: Mapping[str, object]) -> list[str]:
    """Return the texts of a request up to its first user message, included.

    Where a tool turn comes before it, those before that turn, and without either, those before the
    first message of the assistant: a conversation that has masked results keeps its opening.
    Raises WireError.
    """
    messages = _find_messages(body)
    return [text for message in messages[: _find_end(messages)] for text in find_texts(message)]


def _find_end(messages: Sequence[object]) -> int:
    answered = len(messages)
    for at, message in enumerate(messages):
        if isinstance(message, dict):
            role = message.get("role")
            if role == "user":
                return at + 1
            if role == "assistant":
                answered = min(answered, at)
                if _read_calls(message.get("tool_calls")):
                    return at
    return answered


def find_answers(body: Mapping[str, object]) -> list[tuple[str, ...]]:
    """Return what tells each message of the assistant from others: texts, ids, calls, in order.

    There is one for each of the requests that `lay_out` counts, but for the last. Raises WireError.
    """
    return [
        (*find_texts(message), *_find_call_texts(message.get("tool_calls")))
        for message in _find_messages(body)
        if isinstance(message, dict) and message.get("role") == "assistant"
    ]


def find_cache_lifetimes(body: Mapping[str, object]) -> Iterator[str]:
    """Return how long a request asks its provider to keep its prompt, as spelled: `1h`, `24h`.

    That is `prompt_cache_retention` of the whole request (OpenAI), and `ttl` in a `cache_control`
    of a tool, a message or a part of it (Anthropic).
    """
    markers = (item.get("cache_control") for item in _find_markable(body))
    asked = (marker.get("ttl") for marker in markers if isinstance(marker, dict))
    spelled = (body.get("prompt_cache_retention"), *asked)
    return (spelling for spelling in spelled if isinstance(spelling, str))


def _find_markable(body: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for group in (body.get("tools"), body.get("messages")):
        for item in _objects(group):
            yield item
            yield from _objects(item.get("content"))


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    return (
        (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )


def _find_call_texts(calls: object) -> Iterator[str]:
    for call in _objects(calls):
        function = call.get("function")
        named = (
            (function.get("name"), function.get("arguments")) if isinstance(function, dict) else ()
        )
        yield from (value for value in (call.get("id"), *named) if isinstance(value, str))


def _find_messages(body: Mapping[str, object]) -> list[object]:
    if "messages" not in body:
        raise WireError("no messages", "body")
    messages = body["messages"]
    if not isinstance(messages, list):
        raise WireError(f"expected list, got {type(messages).__name__}", "body.messages")
    return messages


def _bind(messages: Iterable[tuple[int, object]], target_arguments: Sequence[str]) -> ToolHistory:
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
        elif role == "assistant" and (calls := _read_calls(message.get("tool_calls"))):
            for call_id, function in calls.items():
                tool, target = _read_function(function, target_arguments)
                declared[call_id] = (turns, tool, target)
                for early in waiting.pop(call_id, ()) if waiting else ():
                    results[early] = results[early]._replace(turn=turns, tool=tool, target=target)
            turns += 1
    return ToolHistory(turns=turns, results=tuple(results))


_Declared = tuple[int, str | None, Target | None]
"""The last turn that declared an id, the tool it called there, and about what."""

_UNDECLARED = (None, None, None)


def _read_calls(calls: object) -> dict[str, object]:
    """Return the called function by the call's id; a call without an id is passed over."""
    functions: dict[str, object] = {}
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and (call_id := _non_empty(call.get("id"))):
            functions[call_id] = call.get("function")
    return functions


def _read_function(
    function: object, target_arguments: Sequence[str]
) -> tuple[str | None, Target | None]:
    if not isinstance(function, dict):
        return None, None
    tool = _non_empty(function.get("name"))
    path = _read_path(function.get("arguments"), target_arguments) if target_arguments else None
    return tool, None if path is None else (tool, path)


def _read_path(arguments: object, names: Sequence[str]) -> str | None:
    """Return the first of these arguments that is a non-empty string."""
    if isinstance(arguments, str) and any(f'"{name}"' in arguments for name in names):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    if not isinstance(arguments, dict):
        return None
    return next((path for name in names if (path := _non_empty(arguments.get(name)))), None)


def _read_result(
    index: int, message: Mapping[str, object], declared: Mapping[str | None, _Declared]
) -> ToolResult:
    call_id = _non_empty(message.get("tool_call_id"))
    turn, tool, target = declared.get(call_id, _UNDECLARED)
    kind, texts = _read_content(message.get("content"))
    is_error = message.get("is_error") is True
    path = ("messages", index, "content")
    return ToolResult(path, call_id, tool, turn, kind, texts, is_error, target)


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
