"""Chat Completions: a result is a message of role `tool`, bound to a call by `tool_call_id`.

Source: https://platform.openai.com/docs/api-reference/chat/create, and what compatible clients and
providers make of it (`cache_control`, `reasoning`, lists of text parts in results).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from masking.conversation import UNKNOWN, Call, Element, ElementSize, Result, Speaker, WireFormat
from masking.model import ContentKind, Path, make
from masking.wire.cache_marks import CACHE_MARK
from masking.wire.chat_sizes import measure_content, measure_frame, measure_tools

_SPEAKERS: Mapping[object, Speaker] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
    "user": "user",
    "assistant": "assistant",
}
"""By role."""

_CONTENT: tuple[Path, ...] = (("content",),)


def read_message(message: object) -> Element:
    """Read one message: who speaks, an assistant's calls, a tool's result."""
    if not isinstance(message, dict):
        return UNKNOWN
    role = message.get("role")
    if role == "tool":
        return make(Element, ("tool", (), (), (_read_result(message),)))
    speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
    content = message.get("content")
    texts = () if content is None else find_texts(content)
    calls = message.get("tool_calls") if speaker == "assistant" else None
    read = tuple([_read_call(call) for call in calls]) if isinstance(calls, list) else ()
    return make(Element, (speaker, texts, read, ()))


def find_texts(content: object) -> tuple[str, ...]:
    """Return the texts of a content: the string, or its text parts; other parts have none."""
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(part["text"] for part in parts if _is_text_part(part))


def measure_message(message: object) -> ElementSize:
    """Return the estimated tokens of a message, and those of a tool result's content."""
    if not isinstance(message, dict):
        return ElementSize(0)
    content = measure_content(message.get("content"))
    results = ((0, content),) if message.get("role") == "tool" else ()
    return make(ElementSize, (content + measure_frame(message), results))


def find_model(body: Mapping[str, object]) -> str | None:
    """Return the model that a request names."""
    model = body.get("model")
    return model if isinstance(model, str) else None


def find_tools(body: Mapping[str, object]) -> object:
    """Return the tool schemas of a request."""
    return body.get("tools")


def find_head_texts(_: Mapping[str, object]) -> Sequence[str]:
    """Return the texts beside the list: none, as a system prompt is a message."""
    return ()


def measure_head(body: Mapping[str, object]) -> int:
    """Return the estimated tokens of the tool schemas."""
    return measure_tools(find_tools(body))


def find_cache_lifetimes(body: Mapping[str, object]) -> Iterator[str]:
    """Return how long a request asks its provider to keep its prompt, as spelled: `1h`, `24h`.

    That is `prompt_cache_retention` of the whole request (OpenAI), and `ttl` in a `cache_control`
    of a tool, a message or a part of it (Anthropic).
    """
    marks = (item.get(CACHE_MARK) for item in _find_markable(body))
    asked = (mark.get("ttl") for mark in marks if isinstance(mark, dict))
    spelled = (body.get("prompt_cache_retention"), *asked)
    return (spelling for spelling in spelled if isinstance(spelling, str))


def unmark_message(message: object) -> object:
    """Return a message without cache marks; a content of one text part becomes a string.

    Agents move Anthropic's `cache_control` to the last message of every request, and for that
    write its string content as a list of one part. The mark is not part of the prompt.
    """
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list):
        message = {**message, "content": _unmark_parts(content)}
    return _without_mark(message)


def count_message_parts(message: object) -> tuple[Sequence[str], int]:
    """Return the texts of a message that are tokens of the prompt, and its other tokens.

    The texts of its content and of its calls (name and arguments), 4 more for the message and 8
    more for each call. Images and other parts without text are not counted.
    """
    if not isinstance(message, dict):
        return (), 0
    calls = _objects(message.get("tool_calls"))
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    texts += [text for part in _objects(content) if isinstance(text := part.get("text"), str)]
    for function in _objects([call.get("function") for call in calls]):
        texts += [
            text for key in ("name", "arguments") if isinstance(text := function.get(key), str)
        ]
    return texts, _MESSAGE_TOKENS + _CALL_TOKENS * len(calls)


def say_as_user(text: str) -> object:
    """Return a message in which the user says a text."""
    return {"role": "user", "content": text}


CHAT = WireFormat(
    name="chat",
    path_ending="/chat/completions",
    list_path=("messages",),
    read_element=read_message,
    measure_element=measure_message,
    find_model=find_model,
    find_tools=find_tools,
    find_head_texts=find_head_texts,
    measure_head=measure_head,
    find_cache_lifetimes=find_cache_lifetimes,
    unmark=unmark_message,
    count_parts=count_message_parts,
    user_message=say_as_user,
)

_MESSAGE_TOKENS = 4
_CALL_TOKENS = 8


def _read_call(call: object) -> Call:
    if not isinstance(call, dict):
        return Call(None, None, None)
    call_id, function = _non_empty(call.get("id")), call.get("function")
    if not isinstance(function, dict):
        return Call(call_id, None, None)
    name = function.get("name")
    tool = name if isinstance(name, str) and name else None
    return make(Call, (call_id, tool, function.get("arguments")))


def _read_result(message: Mapping[str, object]) -> Result:
    content = message.get("content")
    call_id = _non_empty(message.get("tool_call_id"))
    is_error = message.get("is_error") is True
    if isinstance(content, str):
        return make(Result, (call_id, "string", (content,), _CONTENT, is_error, None))
    texts = find_texts(content)
    kind: ContentKind = (
        "text_parts" if isinstance(content, list) and 0 < len(content) == len(texts) else "other"
    )
    slots = tuple(("content", place, "text") for place in range(len(texts)))
    return Result(call_id, kind, texts, slots if kind == "text_parts" else (), is_error)


def _is_text_part(part: object) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _find_markable(body: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for group in (body.get("tools"), body.get("messages")):
        for item in _objects(group):
            yield item
            yield from _objects(item.get("content"))


def _unmark_parts(parts: list[object]) -> object:
    unmarked = [_without_mark(part) if isinstance(part, dict) else part for part in parts]
    match unmarked:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text
    return unmarked


def _without_mark(value: Mapping[str, object]) -> Mapping[str, object]:
    return {key: item for key, item in value.items() if key != CACHE_MARK}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _non_empty(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
