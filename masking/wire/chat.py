"""Chat Completions: a result is a message of role `tool`, bound to a call by `tool_call_id`.

Source: https://platform.openai.com/docs/api-reference/chat/create, and what compatible clients and
providers make of it (`cache_control`, `reasoning`, lists of text parts in results).
"""

from collections.abc import Iterator, Mapping, Sequence

from masking.model import UNKNOWN, Call, Element, ElementSize, Image, Path, Speaker, ToolResult
from masking.wire.cache_marks import (
    CACHE_MARK,
    find_last_mark,
    find_lifetimes,
    unmark_parts,
    without_mark,
)
from masking.wire.chat_sizes import (
    find_picture,
    measure_content,
    measure_frame,
    measure_image,
    measure_tools,
)
from masking.wire.images import offer
from masking.wire.json_values import is_text_part, non_empty, objects
from masking.wire.reasoning import find_claude_binding
from masking.wire.request_fields import asks_for_stream, find_model
from masking.wire_format import Binding, HeadSize, Marks, WireFormat

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
        return Element("tool", (), (), (_read_result(message),), False)
    speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
    content = message.get("content")
    texts = () if content is None else find_texts(content)
    calls = message.get("tool_calls") if speaker == "assistant" else None
    read = tuple([_read_call(call) for call in calls]) if isinstance(calls, list) else ()
    return Element(speaker, texts, read, (), _holds_reasoning(message))


def find_texts(content: object) -> tuple[str, ...]:
    """Return the texts of a content: the string, or its text parts; other parts have none."""
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(part["text"] for part in parts if is_text_part(part))


def measure_message(message: object) -> ElementSize:
    """Return the estimated tokens of a message, and those of a tool result's content."""
    if not isinstance(message, dict):
        return ElementSize(0)
    content = measure_content(message.get("content"))
    results = ((0, content),) if message.get("role") == "tool" else ()
    return ElementSize(content + measure_frame(message), results)


def find_obstacle(_: Mapping[str, object]) -> str | None:
    """Return why a request must go out whole: nothing, as its history is all in it."""
    return None


def find_binding(document: Mapping[str, object], model: str | None) -> Binding | None:
    """Return what becomes of reasoning after a change, where LiteLLM passes on Claude's.

    OpenRouter has it not bound (openrouter.ai/docs, Claude 5.5).
    """
    binding = find_claude_binding(model)
    if binding is None or not any(map(_holds_reasoning, objects(document.get("messages")))):
        return None
    return binding


def find_tools(body: Mapping[str, object]) -> object:
    """Return the tool schemas of a request."""
    return body.get("tools")


def find_head_texts(_: Mapping[str, object]) -> Sequence[str]:
    """Return the texts beside the list: none, as a system prompt is a message."""
    return ()


def measure_head(body: Mapping[str, object]) -> HeadSize:
    """Return the estimated tokens of the tool schemas, and of those up to the last cache mark."""
    tools = find_tools(body)
    size = measure_tools(tools)
    schemas = tools if isinstance(tools, list) else []
    last = find_last_mark(schemas)
    if not last:
        return HeadSize(size)
    return HeadSize(size, size if last == len(schemas) else measure_tools(schemas[:last]))


def find_marks(document: Mapping[str, object]) -> Marks:
    """Return the `cache_control` of tools, messages, parts, and of the whole request (Anthropic).

    Its `ttl` is a lifetime, `1h`; without one it is `5m`. So is OpenAI's `prompt_cache_retention`,
    which is no mark.
    """
    retention = document.get("prompt_cache_retention")
    asked = [retention] if isinstance(retention, str) else []
    in_head = [*find_lifetimes(objects(find_tools(document)))]
    in_list = [*find_lifetimes(_find_markable(document)), *find_lifetimes((document,))]
    return Marks(bool(in_head), bool(in_list), (*asked, *in_head, *in_list))


def stands_out(message: object) -> bool:
    """Whether a message has a cache mark, or reasoning that may be bound."""
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    return (
        CACHE_MARK in message
        or _REASONING in message
        or (isinstance(content, list) and any(CACHE_MARK in part for part in objects(content)))
    )


def unmark_message(message: object) -> object:
    """Return a message without cache marks; a content of one text part becomes a string.

    Agents move Anthropic's `cache_control` to the last message of every request, and for that
    write its string content as a list of one part. The mark is not part of the prompt.
    """
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list):
        message = {**message, "content": unmark_parts(content)}
    return without_mark(message)


def count_message_parts(message: object) -> tuple[Sequence[str], int]:
    """Return the texts of a message that are tokens of the prompt, and its other tokens.

    The texts of its content and of its calls (name and arguments), 4 more for the message and 8
    more for each call, and images. Other parts without text are not counted.
    """
    if not isinstance(message, dict):
        return (), 0
    content, others = message.get("content"), _MESSAGE_TOKENS
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = objects(content)
        texts += [text for part in parts if isinstance(text := part.get("text"), str)]
        others += sum(map(measure_image, filter(_is_image, parts)))
    if "tool_calls" in message:
        calls = objects(message["tool_calls"])
        others += _CALL_TOKENS * len(calls)
        for function in objects([call.get("function") for call in calls]):
            named = function.get("name"), function.get("arguments")
            texts += [text for text in named if isinstance(text, str)]
    return texts, others


def say_as_user(text: str) -> object:
    """Return a message in which the user says a text."""
    return {"role": "user", "content": text}


CHAT = WireFormat(
    name="chat",
    paths=((r"/chat/completions$", "answer"),),
    list_paths=(("messages",),),
    read_element=read_message,
    measure_element=measure_message,
    find_model=find_model,
    streams=asks_for_stream,
    find_obstacle=find_obstacle,
    find_binding=find_binding,
    find_tools=find_tools,
    find_head_texts=find_head_texts,
    measure_head=measure_head,
    find_marks=find_marks,
    unmark=unmark_message,
    count_parts=count_message_parts,
    user_message=say_as_user,
    stands_out=stands_out,
)

_MESSAGE_TOKENS = 4
_CALL_TOKENS = 8


def _read_call(call: object) -> Call:
    if not isinstance(call, dict):
        return Call(None, None, None)
    call_id, function = non_empty(call.get("id")), call.get("function")
    if not isinstance(function, dict):
        return Call(call_id, None, None)
    return Call(call_id, non_empty(function.get("name")), function.get("arguments"))


def _read_result(message: Mapping[str, object]) -> ToolResult:
    content = message.get("content")
    call_id = non_empty(message.get("tool_call_id"))
    is_error = message.get("is_error") is True
    if isinstance(content, str):
        text, slot = (content,), _CONTENT
        return ToolResult(call_id, "string", text, slot, is_error, None, (), None, ())
    parts = content if isinstance(content, list) else []
    places = [place for place, part in enumerate(parts) if is_text_part(part)]
    return ToolResult(
        call_id,
        "text_parts" if places else "other",
        tuple(parts[place]["text"] for place in places),
        tuple(("content", place, "text") for place in places),
        is_error,
        images=tuple(image for at, part in enumerate(parts) for image in _find_image(at, part)),
    )


def _find_image(at: int, part: object) -> tuple[Image, ...]:
    if not isinstance(part, dict) or not _is_image(part) or part.keys() != _IMAGE_KEYS:
        return ()
    return offer(
        ("content", at),
        part,
        find_picture(part),
        measure_image(part),
        lambda text: {"type": "text", "text": text},
    )


_IMAGE_KEYS = {"type", "image_url"}
"""An image with any other key stays, such as one with a cache mark."""


def _is_image(part: Mapping[str, object]) -> bool:
    return part.get("type") == "image_url"


_REASONING = "thinking_blocks"
"""Where LiteLLM puts the signed thinking of Claude."""


def _holds_reasoning(message: Mapping[str, object]) -> bool:
    return bool(message.get(_REASONING))


def _find_markable(document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield what may have a mark: of messages only those that do, as there may be thousands."""
    for message in objects(document.get("messages")):
        if CACHE_MARK in message:
            yield message
        content = message.get("content")
        if isinstance(content, list):
            yield from objects(content)
