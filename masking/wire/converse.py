"""Amazon Bedrock's Converse: a result is a `toolResult` block in what the user says.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. The model
is in the path. A cache mark is a block of its own, `cachePoint`, behind what it marks. As
everywhere, requests that are signed pass; those with a bearer token are read. A prompt is rendered
in the order tools, system, messages, whatever the order of the keys.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import unquote

from masking.model import UNKNOWN, Call, ContentKind, Element, Path, Speaker, ToolResult, make
from masking.tokens import count_claude
from masking.wire import messages
from masking.wire.format import (
    CALL_TOKENS,
    MESSAGE_TOKENS,
    Charge,
    Document,
    HeadSize,
    Marks,
    OnHistoryEdit,
    WireFormat,
    as_list,
    follow,
    measure_charges,
    measure_tools,
    non_empty,
    objects,
    render_json,
)
from masking.wire.parts import (
    CACHE_POINT,
    ENCRYPTED_CHARS_PER_TOKEN,
    UNKNOWN_PART_TOKENS,
    ImageParts,
    Picture,
    find_last_mark,
    find_lifetimes,
    read_address,
    read_picture,
)

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
    role = message.get("role")
    speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
    texts, calls, results, is_bound = [], [], [], False
    for at, block in enumerate(as_list(message.get("content"))):
        if not isinstance(block, dict):
            continue
        if isinstance(text := block.get("text"), str):
            texts.append(text)
        elif isinstance(use := block.get("toolUse"), dict) and speaker == "assistant":
            names = non_empty(use.get("toolUseId")), non_empty(use.get("name"))
            calls.append(make(Call, (*names, use.get("input"))))
        elif isinstance(result := block.get("toolResult"), dict) and speaker == "user":
            results.append(_read_result(result, ("content", at, "toolResult", "content")))
        is_bound = is_bound or "reasoningContent" in block
    return make(Element, (speaker, tuple(texts), tuple(calls), tuple(results), is_bound))


def _read_result(result: Mapping[str, Any], at: Path) -> ToolResult:
    """Read a result: its texts; if it has none, its only JSON value.

    Beside texts a JSON value stays, as an image does.
    """
    call_id, is_error = non_empty(result.get("toolUseId")), result.get("status") == "error"
    parts = as_list(result.get("content"))
    images = _IMAGES.find_all(at, parts)
    places = [n for n, part in enumerate(parts) if _has_text(part)]
    if places:
        kind: ContentKind = "string" if len(parts) == 1 else "text_parts"
        texts = tuple(str(parts[place]["text"]) for place in places)
        slots = tuple((*at, place, "text") for place in places)
        return ToolResult(call_id, kind, texts, slots, is_error, images=images)
    if len(parts) == 1 and isinstance(parts[0], dict) and "json" in parts[0]:
        return _read_json(call_id, parts[0]["json"], (*at, 0, "json"), is_error=is_error)
    return ToolResult(call_id, "other", (), (), is_error, images=images)


def _has_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _read_json(call_id: str | None, value: object, at: Path, *, is_error: bool) -> ToolResult:
    match value:
        case str():
            return ToolResult(call_id, "string", (value,), (at,), is_error)
        case {"text": str(text), **others} if not others:
            return ToolResult(call_id, "string", (text,), ((*at, _NOTE),), is_error)
        case dict() if text := render_json(value):
            return ToolResult(call_id, "string", (text,), (at,), is_error, wrap=_NOTE)
    return ToolResult(call_id, "other", (), (), is_error)


def read_charges(message: object) -> list[Charge]:
    """Return what of a message is tokens: its frame, then block by block.

    Texts are those of its blocks and of results, reasoning, and the names and inputs of calls. 4
    tokens are the message's own, 8 each call's and each result's.
    """
    if not isinstance(message, dict):
        return []
    charges, results, is_user = [_FRAME], 0, message.get("role") == "user"
    for block in as_list(message.get("content")):
        if isinstance(block, dict) and isinstance(result := block.get("toolResult"), dict):
            place = results if is_user else None
            results += is_user
            inner = [_charge_block(part, place) for part in as_list(result.get("content"))]
            charges += (_RESULT_FRAME, *(inner or [Charge("", 0, place)]))
        else:
            charges.append(_charge_block(block))
    return charges


_FRAME = Charge("", MESSAGE_TOKENS)
_RESULT_FRAME = Charge("", CALL_TOKENS)


def _charge_block(block: object, result: int | None = None) -> Charge:
    if isinstance(block, dict):
        if CACHE_POINT in block:
            return Charge("", 0, result)
        if (text := _find_text(block)) is not None:
            return Charge(text, 0, result)
        if isinstance(use := block.get("toolUse"), dict):
            name, text = str(use.get("name", "")), render_json(use.get("input"))
            return Charge(text, CALL_TOKENS, result, name)
        if picture := _read_image(block):
            return Charge("", picture.tokens, result)
        redacted = follow(block, ("reasoningContent", "redactedContent"))
        if isinstance(redacted, str):
            return Charge("", len(redacted) // ENCRYPTED_CHARS_PER_TOKEN, result)
    return Charge("", UNKNOWN_PART_TOKENS, result)


def _find_text(block: Mapping[str, object]) -> str | None:
    """Return the text of a block: said, thought, of a JSON value, or of a document that is one."""
    if isinstance(text := block.get("text"), str):
        return text
    if "json" in block:
        return render_json(block["json"])
    for path in _TEXT_PATHS:
        if isinstance(text := follow(block, path), str):
            return text
    return None


_TEXT_PATHS: tuple[Path, ...] = (
    ("reasoningContent", "reasoningText", "text"),
    ("document", "source", "text"),
)


def _read_image(block: Mapping[str, object]) -> Picture | None:
    """Return what is known of the image in a block: its bytes, or where they are."""
    if "image" not in block:
        return None
    image = block["image"]
    source = image.get("source") if isinstance(image, dict) else None
    if not isinstance(image, dict) or not isinstance(source, dict):
        return Picture(0)
    if "bytes" in source:
        return read_picture(source["bytes"], f"image/{image.get('format')}", count_claude)
    return read_address(follow(source, ("s3Location", "uri")), count_claude)


_IMAGES = ImageParts(_read_image, frozenset(("image",)), {})


def measure_head(body: Document) -> HeadSize:
    """Return the estimated tokens of tools and system prompt, and of those up to the last mark."""
    schemas = as_list(follow(body, ("toolConfig", "tools")))
    blocks = as_list(body.get("system"))
    size = _measure_schemas(schemas)
    total = size + _measure_blocks(blocks)
    if last := find_last_mark(blocks, CACHE_POINT):
        return HeadSize(total, size + _measure_blocks(blocks[:last]))
    return HeadSize(total, _measure_schemas(schemas[: find_last_mark(schemas, CACHE_POINT)]))


def _measure_blocks(blocks: Sequence[object]) -> int:
    return measure_charges(map(_charge_block, blocks))


def _measure_schemas(tools: Sequence[object]) -> int:
    return measure_tools(_without_points(tools) or None)


def _without_points(values: Sequence[object]) -> list[object]:
    return [value for value in values if not (isinstance(value, dict) and CACHE_POINT in value)]


def find_model(_: Document, path: str) -> str | None:
    """Return the model, or the profile, that a path names."""
    found = _PATH.search(path)
    return unquote(found[1]) if found else None


def find_obstacle(document: Document) -> str | None:
    """Return why a request must pass unchanged: the provider trims its history."""
    return messages.find_obstacle(_find_more(document))


def on_history_edit(document: Document, model: str | None) -> OnHistoryEdit | None:
    """Return what the model does with bound reasoning; the request may allow dropping it."""
    return messages.on_history_edit(_find_more(document), model)


def _find_more(document: Document) -> Document:
    more = _find_body(document).get(_MORE)
    return more if isinstance(more, dict) else {}


def _find_body(document: Document) -> Document:
    counted = follow(document, _COUNTED)
    return counted if isinstance(counted, dict) else document


def find_tools(body: Document) -> object:
    """Return the tool schemas of a request, without cache marks."""
    tools = follow(body, ("toolConfig", "tools"))
    return (_without_points(tools) or None) if isinstance(tools, list) else tools


def find_head_texts(body: Document) -> Sequence[str]:
    """Return the texts of the system prompt."""
    texts = (block.get("text") for block in objects(body.get("system")))
    return tuple(text for text in texts if isinstance(text, str))


def find_marks(document: Document) -> Marks:
    """Return the cache points of tools, system and messages."""
    body = _find_body(document)
    tools = follow(body, ("toolConfig", "tools"))
    in_head = [*find_lifetimes([*objects(tools), *objects(body.get("system"))], CACHE_POINT)]
    in_list = [*_find_lifetimes(body.get("messages"))]
    return Marks(bool(in_head), bool(in_list), (*in_head, *in_list))


def _find_lifetimes(messages: object) -> Iterator[str]:
    contents = (objects(message.get("content")) for message in objects(messages))
    return find_lifetimes(chain.from_iterable(contents), CACHE_POINT)


def is_needed_in_envelope(message: object) -> bool:
    """Whether a message has a cache point."""
    return any(True for _ in _find_lifetimes([message]))


def unmark_message(message: object) -> object:
    """Return a message without cache points."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": _without_points(message["content"])}


def streams(_: Document, path: str) -> bool:
    """Whether the answer is streamed, as the path says."""
    return path.endswith("/converse-stream")


def user_message(text: str) -> object:
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
    read_charges=read_charges,
    measure_head=measure_head,
    find_model=find_model,
    streams=streams,
    find_obstacle=find_obstacle,
    on_history_edit=on_history_edit,
    find_tools=find_tools,
    find_head_texts=find_head_texts,
    find_marks=find_marks,
    unmark=unmark_message,
    user_message=user_message,
    is_needed_in_envelope=is_needed_in_envelope,
    role_order="alternating",
)
