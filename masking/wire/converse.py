"""Amazon Bedrock's Converse: a result is a `toolResult` block in what the user says.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. The model
is in the path. A cache mark is a block of its own, `cachePoint`, behind what it marks. As
everywhere, requests that are signed pass; those with a bearer token are read.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from masking.model import Call, Path, Speaker, ToolResult, make
from masking.tokens import count_claude
from masking.wire.blocks import Blocks
from masking.wire.format import (
    CALL_TOKENS,
    Charge,
    Document,
    Notes,
    OnHistoryEdit,
    as_list,
    follow,
    measure_tools,
    non_empty,
    render_json,
)
from masking.wire.messages import MESSAGES
from masking.wire.parts import (
    CACHE_POINT,
    ENCRYPTED_CHARS_PER_TOKEN,
    UNKNOWN_PART_TOKENS,
    ImageParts,
    Picture,
    read_address,
    read_content,
    read_picture,
)

_NOTE = "text"
"""The key under which a placeholder stands in place of an object."""

_PATH = re.compile(r"/model/(.+)/(?:converse(?:-stream)?|count-tokens)$")

_MORE = "additionalModelRequestFields"
"""What goes to the model as it is; for Claude these are fields of Messages."""

_COUNTED = ("input", "converse")
"""Where a request stands whose tokens are counted."""


class Converse(Blocks):
    name = "converse"
    paths = (
        (r"/model/.+/converse(?:-stream)?$", "answer"),
        (r"/model/.+/count-tokens$", "count"),
    )
    list_paths = (("messages",), (*_COUNTED, "messages"))
    role_order = "alternating"
    speakers: ClassVar[Mapping[object, Speaker]] = {"user": "user", "assistant": "assistant"}
    tools_path = ("toolConfig", "tools")
    mark = CACHE_POINT

    def read_block(
        self, block: Mapping[str, Any], at: int, speaker: Speaker
    ) -> str | Call | ToolResult | None:
        if isinstance(text := block.get("text"), str):
            return text
        if isinstance(use := block.get("toolUse"), dict) and speaker == "assistant":
            names = non_empty(use.get("toolUseId")), non_empty(use.get("name"))
            return make(Call, (*names, use.get("input")))
        if isinstance(result := block.get("toolResult"), dict) and speaker == "user":
            return _read_result(result, ("content", at, "toolResult", "content"))
        return None

    def is_reasoning(self, block: Mapping[str, Any]) -> bool:
        return "reasoningContent" in block

    def find_result(self, block: object) -> Mapping[str, object] | None:
        result = block.get("toolResult") if isinstance(block, dict) else None
        return result if isinstance(result, dict) else None

    def charge_block(self, block: object, result: int | None = None) -> Charge:
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

    def unmark(self, message: object) -> object:
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            return message
        return {**message, "content": _without_points(message["content"])}

    def user_message(self, text: str) -> object:
        return {"role": "user", "content": [{"text": text}]}

    def measure_schemas(self, tools: object) -> int:
        return measure_tools(_without_points(as_list(tools)) or None)

    def find_tools(self, body: Document) -> object:
        tools = follow(body, self.tools_path)
        return (_without_points(tools) or None) if isinstance(tools, list) else tools

    def find_body(self, document: Document) -> Document:
        counted = follow(document, _COUNTED)
        return counted if isinstance(counted, dict) else document

    def find_model(self, document: Document, path: str) -> str | None:
        found = _PATH.search(path)
        return unquote(found[1]) if found else None

    def streams(self, document: Document, path: str) -> bool:
        return path.endswith("/converse-stream")

    def find_obstacle(self, document: Document) -> str | None:
        return MESSAGES.find_obstacle(self._find_more(document))

    def on_history_edit(
        self, document: Document, model: str | None, notes: Sequence[Notes]
    ) -> OnHistoryEdit | None:
        """Return what the model does with bound reasoning; the request may allow dropping it."""
        return MESSAGES.on_history_edit(self._find_more(document), model, notes)

    def _find_more(self, document: Document) -> Document:
        more = self.find_body(document).get(_MORE)
        return more if isinstance(more, dict) else {}


CONVERSE = Converse()


def _read_result(result: Mapping[str, Any], at: Path) -> ToolResult:
    """Read a result: its texts; if it has none, its only JSON value.

    Beside texts a JSON value stays, as an image does.
    """
    call_id, is_error = non_empty(result.get("toolUseId")), result.get("status") == "error"
    parts = as_list(result.get("content"))
    if len(parts) == 1 and _has_text(parts[0]):
        return ToolResult(call_id, "string", (parts[0]["text"],), ((*at, 0, "text"),), is_error)
    if len(parts) == 1 and isinstance(parts[0], dict) and "json" in parts[0]:
        return _read_json(call_id, parts[0]["json"], (*at, 0, "json"), is_error=is_error)
    return read_content(call_id, at, parts, _IMAGES, is_error=is_error, is_text=_has_text)


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
    source, kind = follow(block, ("image", "source")), follow(block, ("image", "format"))
    if not isinstance(source, dict):
        return Picture(0)
    if "bytes" in source:
        return read_picture(source["bytes"], f"image/{kind}", count_claude)
    return read_address(follow(source, ("s3Location", "uri")), count_claude)


_IMAGES = ImageParts(_read_image, frozenset(("image",)), {})


def _without_points(values: Sequence[object]) -> list[object]:
    return [value for value in values if not (isinstance(value, dict) and CACHE_POINT in value)]
