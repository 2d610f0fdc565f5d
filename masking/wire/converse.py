"""Amazon Bedrock's Converse: a result is a `toolResult` block in what the user says.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. The model
is in the path. A cache mark is a block of its own, `cachePoint`, behind what it marks. As
everywhere, requests that are signed pass; those with a bearer token are read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import unquote

from masking.conversation import follow
from masking.model import UNKNOWN, Call, ContentKind, Element, Image, Path, Speaker, ToolResult
from masking.wire.cache_marks import find_lifetimes
from masking.wire.converse_sizes import (
    BLOCK_TOKENS,
    MESSAGE_TOKENS,
    POINT,
    find_picture,
    find_value,
    is_image,
    is_point,
    measure_image,
    measure_message,
    measure_prompt_head,
)
from masking.wire.images import offer
from masking.wire.json_values import non_empty, objects, spell
from masking.wire.messages import find_binding as find_messages_binding
from masking.wire.messages import find_obstacle as find_messages_obstacle
from masking.wire_format import Binding, Marks, WireFormat

_SPEAKERS: Mapping[object, Speaker] = {"user": "user", "assistant": "assistant"}
"""By role."""

_NOTE = "text"
"""The key under which a placeholder stands in place of an object."""

_PATH = re.compile(r"/model/(.+)/(?:converse(?:-stream)?|count-tokens)$")

_MORE = "additionalModelRequestFields"
"""What goes to the model as it is; for Claude these are fields of Messages."""

_COUNTED = ("input", "converse")
"""Where a request stands whose tokens are counted."""


def read_message(message: object) -> Element:
    """Read one message: its texts, its `toolUse` blocks, its `toolResult` blocks."""
    if not isinstance(message, dict):
        return UNKNOWN
    role, content = message.get("role"), message.get("content")
    speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
    texts, calls, results, is_bound = [], [], [], False
    for at, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        if isinstance(text := block.get("text"), str):
            texts.append(text)
        elif isinstance(use := block.get("toolUse"), dict) and speaker == "assistant":
            names = non_empty(use.get("toolUseId")), non_empty(use.get("name"))
            calls.append(Call(*names, use.get("input")))
        elif isinstance(result := block.get("toolResult"), dict) and speaker == "user":
            results.append(_read_result(result, ("content", at, "toolResult", "content")))
        is_bound = is_bound or "reasoningContent" in block
    return Element(speaker, tuple(texts), tuple(calls), tuple(results), is_bound)


def find_model(_: Mapping[str, object], path: str) -> str | None:
    """Return the model, or the profile, that a path names."""
    found = _PATH.search(path)
    return unquote(found[1]) if found else None


def asks_for_stream(_: Mapping[str, object], path: str) -> bool:
    """Whether a request asks for its answer as a stream."""
    return path.endswith("/converse-stream")


def find_obstacle(document: Mapping[str, object]) -> str | None:
    """Return why a request must go out whole: the provider trims its history."""
    return find_messages_obstacle(_find_more(document))


def find_binding(document: Mapping[str, object], model: str | None) -> Binding | None:
    """Return what becomes of bound reasoning after a change; the request may allow to drop it."""
    return find_messages_binding(_find_more(document), model)


def find_tools(body: Mapping[str, object]) -> object:
    """Return the tool schemas of a request, without cache marks."""
    tools = follow(body, ("toolConfig", "tools"))
    if not isinstance(tools, list):
        return tools
    return [tool for tool in tools if not is_point(tool)] or None


def find_head_texts(body: Mapping[str, object]) -> Sequence[str]:
    """Return the texts of the system prompt."""
    texts = (block.get("text") for block in objects(body.get("system")))
    return tuple(text for text in texts if isinstance(text, str))


def find_marks(document: Mapping[str, object]) -> Marks:
    """Return the cache points of tools, system and messages."""
    body = _find_body(document)
    tools = follow(body, ("toolConfig", "tools"))
    in_head = [*find_lifetimes([*objects(tools), *objects(body.get("system"))], POINT)]
    in_list = [*_find_lifetimes(body.get("messages"))]
    return Marks(bool(in_head), bool(in_list), (*in_head, *in_list))


def stands_out(message: object) -> bool:
    """Whether a message has a cache point."""
    return any(True for _ in _find_lifetimes([message]))


def unmark_message(message: object) -> object:
    """Return a message without cache points."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": [each for each in message["content"] if not is_point(each)]}


def count_message_parts(message: object) -> tuple[Sequence[str], int]:
    """Return the texts of a message that are tokens of the prompt, and its other tokens.

    The texts of its blocks, of reasoning and of results, names and inputs of calls; 4 more for the
    message, 8 more for each call or result, and images. All other blocks are not counted.
    """
    if not isinstance(message, dict):
        return (), 0
    texts: list[str] = []
    others = MESSAGE_TOKENS
    for block in objects(message.get("content")):
        use, result = block.get("toolUse"), block.get("toolResult")
        others += BLOCK_TOKENS * (isinstance(use, dict) + isinstance(result, dict))
        if isinstance(use, dict):
            texts += (str(use.get("name", "")), spell(use.get("input")))
        inner = objects(result.get("content")) if isinstance(result, dict) else []
        texts += [text for part in (block, *inner) if (text := find_value(part)) is not None]
        others += sum(measure_image(part) for part in (block, *inner) if is_image(part))
    return texts, others


def say_as_user(text: str) -> object:
    """Return a message in which the user says a text."""
    return {"role": "user", "content": [{"text": text}]}


CONVERSE = WireFormat(
    name="converse",
    paths=(
        (r"/model/.+/converse(?:-stream)?$", "answer"),
        (r"/model/.+/count-tokens$", "count"),
    ),
    list_paths=(("messages",), (*_COUNTED, "messages")),
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
    role_order="alternating",
)


def _read_result(result: Mapping[str, Any], at: Path) -> ToolResult:
    """Read a result: its texts; if it has none, its only JSON value.

    Beside texts a JSON value stays, as an image does.
    """
    call_id, is_error = non_empty(result.get("toolUseId")), result.get("status") == "error"
    parts = result.get("content")
    parts = parts if isinstance(parts, list) else []
    images = tuple(i for n, part in enumerate(parts) for i in _find_image((*at, n), part))
    places = [n for n, part in enumerate(parts) if _has_text(part)]
    if places:
        kind: ContentKind = "string" if len(parts) == 1 else "text_parts"
        texts = tuple(str(parts[place]["text"]) for place in places)
        slots = tuple((*at, place, "text") for place in places)
        return ToolResult(call_id, kind, texts, slots, is_error, images=images)
    if len(parts) == 1 and isinstance(parts[0], dict) and "json" in parts[0]:
        return _read_json(call_id, parts[0]["json"], (*at, 0, "json"), is_error=is_error)
    return ToolResult(call_id, "other", (), (), is_error, images=images)


def _find_image(slot: Path, part: object) -> tuple[Image, ...]:
    if not isinstance(part, dict) or part.keys() != {"image"}:
        return ()
    return offer(slot, part, find_picture(part), measure_image(part), lambda text: {"text": text})


def _read_json(call_id: str | None, value: object, at: Path, *, is_error: bool) -> ToolResult:
    match value:
        case str():
            return ToolResult(call_id, "string", (value,), (at,), is_error)
        case {"text": str(text), **others} if not others:
            return ToolResult(call_id, "string", (text,), ((*at, _NOTE),), is_error)
        case dict() if text := spell(value):
            return ToolResult(call_id, "string", (text,), (at,), is_error, wrap=_NOTE)
    return ToolResult(call_id, "other", (), (), is_error)


def _find_lifetimes(messages: object) -> Iterator[str]:
    contents = (objects(message.get("content")) for message in objects(messages))
    return find_lifetimes(chain.from_iterable(contents), POINT)


def _has_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _find_more(document: Mapping[str, object]) -> Mapping[str, object]:
    more = _find_body(document).get(_MORE)
    return more if isinstance(more, dict) else {}


def _find_body(document: Mapping[str, object]) -> Mapping[str, object]:
    counted = follow(document, _COUNTED)
    return counted if isinstance(counted, dict) else document
