"""Anthropic Messages: a result is a `tool_result` block in what the user says.

Sources: https://platform.claude.com/docs/en/api/messages, and what its clients send. The same body
goes to Vertex (`rawPredict`) and to Bedrock (`invoke`), with the model in the path.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import unquote

from masking.conversation import follow
from masking.model import UNKNOWN, Call, Element, Image, Path, Speaker, ToolResult
from masking.wire.cache_marks import find_lifetimes, unmark_parts, without_mark
from masking.wire.images import offer
from masking.wire.json_values import is_text_part, non_empty, objects, spell
from masking.wire.messages_sizes import (
    find_picture,
    measure_image,
    measure_message,
    measure_prompt_head,
)
from masking.wire.reasoning import find_messages_binding
from masking.wire_format import Binding, Marks, WireFormat

_SPEAKERS: Mapping[object, Speaker] = {"user": "user", "assistant": "assistant", "system": "system"}
"""By role. A system's message can stand anywhere in the list."""

_THINKING = ("thinking", "redacted_thinking")

_UNTOUCHABLE = "tool_reference"
"""A part of a result that loads a tool; the result then stays whole."""

_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"


def read_message(message: object) -> Element:
    """Read one message: its texts, its `tool_use` blocks, its `tool_result` blocks."""
    if not isinstance(message, dict):
        return UNKNOWN
    role, content = message.get("role"), message.get("content")
    speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
    if isinstance(content, str):
        return Element(speaker, (content,), (), (), False)
    blocks = content if isinstance(content, list) else []
    texts, calls, results, is_bound = [], [], [], False
    for at, block in enumerate(blocks):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind == "tool_use" and speaker == "assistant":
            named = non_empty(block.get("id")), non_empty(block.get("name"))
            calls.append(Call(*named, block.get("input")))
        elif kind == "tool_result" and speaker == "user":
            results.append(_read_result(at, block))
        is_bound = is_bound or kind in _THINKING
    return Element(speaker, tuple(texts), tuple(calls), tuple(results), is_bound)


def split_reminders(text: str) -> tuple[str, str]:
    """Split off the trailing run of `<system-reminder>` blocks, with the blanks before it.

    claude-code appends them to a result; they can hold what the user has said meanwhile.
    """
    end = tail = len(text.rstrip())
    while text.endswith(_REMINDER_END, 0, end):
        begin = text.rfind(_REMINDER, 0, end)
        if begin < 0:
            break
        end = begin
        while end and text[end - 1].isspace():
            end -= 1
    return (text, "") if end == tail else (text[:end], text[end:])


def find_model(document: Mapping[str, object], path: str) -> str | None:
    """Return the model that a request names in its body, or in its path (Vertex, Bedrock)."""
    found = _MODEL_IN_PATH.search(path)
    return non_empty(document.get("model")) or (unquote(found[1]) if found else None)


def asks_for_stream(document: Mapping[str, object], path: str) -> bool:
    """Whether a request asks for its answer as a stream."""
    return document.get("stream") is True or bool(_STREAMING_PATH.search(path))


def find_obstacle(document: Mapping[str, object]) -> str | None:
    """Return why a request must go out whole: its history is the provider's, or it is signed."""
    if isinstance(document.get("thread"), dict):
        return "the provider holds the history (thread)"
    if document.get("compaction"):
        return "the provider trims the history (compaction)"
    for edit in objects(follow(document, ("context_management", "edits"))):
        kind = str(edit.get("type"))
        if kind.startswith(("clear_tool_uses", "compact")):
            return f"the provider trims the history ({kind})"
    if any(map(_SIGNATURE.match, _find_system_texts(document))):
        return "signed (cch)"
    return None


def find_binding(document: Mapping[str, object], model: str | None) -> Binding | None:
    """Return what becomes of thinking after a change; the request may allow to drop it."""
    if follow(document, _MISMATCH_BEHAVIOR) == "drop_block":
        return None
    return find_messages_binding(model)


def find_tools(body: Mapping[str, object]) -> object:
    """Return the tool schemas of a request, without cache marks."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return tools
    return [without_mark(tool) if isinstance(tool, dict) else tool for tool in tools]


def find_head_texts(body: Mapping[str, object]) -> Sequence[str]:
    """Return the texts of the system prompt; the billing header is none of them."""
    texts = _find_system_texts(body)
    return tuple(text for text in texts if not text.startswith(_BILLING_HEADER))


def find_marks(document: Mapping[str, object]) -> Marks:
    """Return the `cache_control` of tools, system and messages; at the top it marks the end."""
    system = objects(document.get("system"))
    in_head = [*find_lifetimes([*objects(document.get("tools")), *system])]
    in_list = [*find_lifetimes(_find_markable(document)), *find_lifetimes((document,))]
    return Marks(bool(in_head), bool(in_list), (*in_head, *in_list))


def stands_out(message: object) -> bool:
    """Whether a message has a cache mark."""
    return any(True for _ in find_lifetimes(_find_markable({"messages": [message]})))


def unmark_message(message: object) -> object:
    """Return a message without cache marks; a content of one text block becomes a string."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    blocks = [_unmark_result(block) for block in message["content"]]
    return {**message, "content": unmark_parts(blocks)}


def count_message_parts(message: object) -> tuple[Sequence[str], int]:
    """Return the texts of a message that are tokens of the prompt, and its other tokens.

    The texts of its blocks and of results, thinking, names and inputs of calls; 4 more for the
    message, 8 more for each call or result, and images. All other blocks are not counted.
    """
    if not isinstance(message, dict):
        return (), 0
    content = message.get("content")
    if isinstance(content, str):
        return (content,), _MESSAGE_TOKENS
    texts: list[str] = []
    others = _MESSAGE_TOKENS
    for block in objects(content):
        kind = block.get("type")
        others += _BLOCK_TOKENS if kind in ("tool_use", "tool_result") else 0
        if kind == "tool_use":
            texts += (str(block.get("name", "")), spell(block.get("input")))
        inner = block.get("content") if kind == "tool_result" else None
        parts = [block, {"text": inner}, *objects(inner)]
        found = (part.get(key) for part in parts for key in ("text", "thinking"))
        texts += [text for text in found if isinstance(text, str)]
        others += sum(measure_image(part) for part in parts if part.get("type") == "image")
    return texts, others


def say_as_user(text: str) -> object:
    """Return a message in which the user says a text."""
    return {"role": "user", "content": text}


_BEDROCK = r"/model/[^/]*(?:anthropic|claude|inference-profile)[^/]*(?:/[^/]+)?"

MESSAGES = WireFormat(
    name="messages",
    paths=(
        (r"/v1/messages$", "answer"),
        (r"/v1/messages/count_tokens$", "count"),
        (r"/anthropic/models/[^/]+:(?:rawP|streamRawP)redict$", "answer"),
        (rf"{_BEDROCK}/invoke(?:-with-response-stream)?$", "answer"),
    ),
    list_paths=(("messages",),),
    read_element=read_message,
    measure_element=measure_message,
    find_model=find_model,
    streams=asks_for_stream,
    find_obstacle=find_obstacle,
    find_binding=find_binding,
    find_tools=find_tools,
    find_head_texts=find_head_texts,
    measure_head=measure_prompt_head,
    find_marks=find_marks,
    unmark=unmark_message,
    count_parts=count_message_parts,
    user_message=say_as_user,
    stands_out=stands_out,
    role_order="user first",  # neighbours of one role are joined
)

_MODEL_IN_PATH = re.compile(r"/models?/([^/:]+(?::\d+)?)[:/]")
_STREAMING_PATH = re.compile(r":streamRawPredict$|/invoke-with-response-stream$")

_BILLING_HEADER = "x-anthropic-billing-header:"
"""claude-code begins a system text with this; the rest of it differs in every request."""

_SIGNATURE = re.compile(rf"{_BILLING_HEADER}.*\bcch=(?!00000\b)[0-9a-f]", re.DOTALL)
"""A hash of the body; towards hosts other than Anthropic's it is absent, or all zeros."""

_MISMATCH_BEHAVIOR = ("thinking", "block_binding", "prefix_mismatch_behavior")

_MESSAGE_TOKENS = 4
_BLOCK_TOKENS = 8


def _read_result(at: int, block: Mapping[str, Any]) -> ToolResult:
    content, slot = block.get("content"), ("content", at, "content")
    call_id, is_error = non_empty(block.get("tool_use_id")), block.get("is_error") is True
    if isinstance(content, str):
        text, tail = split_reminders(content)
        tails = (tail,) if tail else ()
        return ToolResult(call_id, "string", (text,), (slot,), is_error, None, tails, None, ())
    parts = objects(content)
    if any(part.get("type") == _UNTOUCHABLE for part in parts):
        return ToolResult(call_id, "other", (), (), is_error)
    images = [_find_image((*slot, at), part) for at, part in enumerate(_as_list(content))]
    places = [place for place, part in enumerate(_as_list(content)) if is_text_part(part)]
    split = [split_reminders(_as_list(content)[place]["text"]) for place in places]
    return ToolResult(
        call_id,
        "text_parts" if places else "other",
        tuple(text for text, _ in split),
        tuple((*slot, place, "text") for place in places),
        is_error,
        tails=tuple(tail for _, tail in split) if any(tail for _, tail in split) else (),
        images=tuple(chain.from_iterable(images)),
    )


def _find_image(slot: Path, part: object) -> tuple[Image, ...]:
    if not isinstance(part, dict) or part.get("type") != "image" or part.keys() != _IMAGE_KEYS:
        return ()
    return offer(
        slot,
        part,
        find_picture(part),
        measure_image(part),
        lambda text: {"type": "text", "text": text},
    )


_IMAGE_KEYS = {"type", "source"}
"""An image with any other key stays, such as one with a cache mark."""


def _find_system_texts(body: Mapping[str, object]) -> Iterator[str]:
    system = body.get("system")
    if isinstance(system, str):
        yield system
    for block in objects(system):
        if isinstance(text := block.get("text"), str):
            yield text


def _find_markable(document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for message in objects(document.get("messages")):
        for block in objects(message.get("content")):
            yield block
            yield from objects(block.get("content"))


def _unmark_result(block: object) -> object:
    if not isinstance(block, dict) or not isinstance(block.get("content"), list):
        return block
    return {**block, "content": unmark_parts(block["content"])}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
