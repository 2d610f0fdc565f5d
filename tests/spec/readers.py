"""What each element of a request says, by wire format: a slow reading of the contract.

It reads what the standard library decodes, one element at a time, and asks nothing of the code
under test. What takes more than one element is in `tests/spec/reference.py`.
"""

import base64
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Where = tuple[str | int, ...]


class Unclear(Exception):  # noqa: N818 - it ends a reading
    """The contract does not settle what this is."""


@dataclass(slots=True)
class Asked:
    """A call; without an id or a tool where it gives none that is a text."""

    call_id: str | None
    tool: str | None
    arguments: object


@dataclass(slots=True)
class Given:
    """A tool result: where its content stands, and what of it may be replaced.

    texts: the path of each, the text, and what follows it in the same string and stays.
    kind: "text", "list" or "other".
    images: the path of each, and the part that may take its place.
    turn, tool, arguments: of its call; `early` if that came later.
    """

    at: Where
    call_id: str | None
    kind: str = "other"
    texts: list[tuple[Where, str, str]] = field(default_factory=list)
    fails: bool = False
    tool: str | None = None
    images: list[tuple[Where, object]] = field(default_factory=list)
    wrap: str | None = None
    turn: int | None = None
    arguments: object = None
    early: bool = False

    @property
    def said(self) -> str:
        return "".join(text for _, text, _ in self.texts)


@dataclass(slots=True)
class Spoken:
    """An element: who speaks (system, user, model, tool, nobody), texts, calls and results."""

    speaker: str = "nobody"
    texts: list[str] = field(default_factory=list)
    calls: list[Asked] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)


LISTS: dict[str, tuple[Where, ...]] = {
    "chat": (("messages",),),
    "ollama": (("messages",),),
    "messages": (("messages",),),
    "converse": (("messages",), ("input", "converse", "messages")),
    "responses": (("input",),),
    "gemini": (
        *(("contents",), ("request", "contents")),
        *(("generateContentRequest", "contents"), ("generate_content_request", "contents")),
    ),
}
"""Where the list of a request may be; the first place that is there holds."""

IN_RUNS = ("responses", "gemini")
"""Where consecutive elements of the model are one answer."""

BY_ORDER = ("ollama", "gemini")
"""Where a result without an id answers the next open call of its tool."""


def find_list(name: str, document: Any) -> tuple[Where, list[Any]]:  # noqa: ANN401 - JSON
    """Return where the list of a request is, and its elements."""
    for path in LISTS[name]:
        found = document
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return path, found if isinstance(found, list) else []
    return LISTS[name][0], []


def hear(name: str, element: Any, at: Where) -> Spoken:  # noqa: ANN401 - JSON
    """Return what an element says in the wire format of this name."""
    return _FORMATS[name](element, at) if isinstance(element, dict) else Spoken()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_text(part: object, *kinds: str) -> bool:
    return isinstance(part, dict) and part.get("type") in kinds and type(part.get("text")) is str


_PNG = b"\x89PNG\r\n\x1a\n"


def show_image(data: object) -> str:
    """Return the text that stands for a PNG in base64. Raises Unclear for anything else."""
    try:
        found = base64.b64decode(str(data)[:40], validate=True)
    except ValueError:
        raise Unclear("an image") from None
    if found[:8] != _PNG or found[12:16] != b"IHDR" or len(str(data)) < 400:
        raise Unclear("an image")
    width, height = struct.unpack(">II", found[16:24])
    if min(width, height) < 300 or max(width, height) > 5_000:
        raise Unclear("an image")
    return f"[image: png {width}x{height} masked]"


_DATA = re.compile(r"data:image/png;base64,")


def _show_address(url: object) -> str:
    found = _DATA.match(url) if isinstance(url, str) else None
    if found is None:
        raise Unclear("an image")
    return show_image(str(url)[found.end() :])


def _read_parts(given: Given, parts: list[Any], kinds: tuple[str, ...]) -> None:
    """Take the texts of a list."""
    found = [(n, p) for n, p in enumerate(parts) if _is_text(p, *kinds)]
    given.texts = [((*given.at, n, "text"), part["text"], "") for n, part in found]
    given.kind = "list" if given.texts else "other"


# Chat Completions, and Ollama's

_CHAT = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
    "user": "user",
    "assistant": "model",
}


def _hear_chat(message: dict[str, Any], at: Where) -> Spoken:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        return Spoken("tool", given=[_chat_result(message, (*at, "content"))])
    spoken = Spoken(_CHAT.get(role, "nobody") if isinstance(role, str) else "nobody")
    parts = [content] if isinstance(content, str) else _list(content)
    spoken.texts = [p if isinstance(p, str) else p["text"] for p in parts if _says(p, content)]
    for call in _list(message.get("tool_calls")) if spoken.speaker == "model" else ():
        call = call if isinstance(call, dict) else {}
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        named = _text(call.get("id")), _text(function.get("name"))
        spoken.calls.append(Asked(*named, function.get("arguments")))
    return spoken


def _says(part: object, content: object) -> bool:
    return isinstance(content, str) or _is_text(part, "text")


def _chat_result(message: dict[str, Any], at: Where) -> Given:
    content = message.get("content")
    given = Given(at, _text(message.get("tool_call_id")), fails=message.get("is_error") is True)
    if isinstance(content, str):
        given.kind, given.texts = "text", [(at, content, "")]
        return given
    _read_parts(given, _list(content), ("text",))
    for place, part in enumerate(_list(content)):
        if isinstance(part, dict) and part.keys() == {"type", "image_url"}:
            if part["type"] != "image_url":
                continue
            address = part["image_url"]
            shown = _show_address(address.get("url") if isinstance(address, dict) else address)
            given.images.append(((*at, place), {"type": "text", "text": shown}))
    return given


def _hear_ollama(message: dict[str, Any], at: Where) -> Spoken:
    spoken = _hear_chat(message, at)
    for call in spoken.calls:
        if call.call_id is None and call.tool:
            call.call_id = ""
    for given in spoken.given:
        given.call_id = given.call_id or ""
        given.tool = _text(message.get("tool_name")) or _text(message.get("name"))
    return spoken


# Anthropic Messages

_REMINDERS = re.compile(
    r"\s*(?:<system-reminder>(?:(?!</?system-reminder>).)*</system-reminder>\s*)+\Z", re.DOTALL
)


def _split(text: str) -> tuple[str, str]:
    """Split off the run of reminders at a text's end, with the blanks before it."""
    stripped = text.rstrip()
    if not stripped.endswith("</system-reminder>"):
        return text, ""
    if stripped.count("<system-reminder>") != stripped.count("</system-reminder>"):
        raise Unclear("reminders that are not closed")
    found = _REMINDERS.search(text)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def _hear_messages(message: dict[str, Any], at: Where) -> Spoken:
    role, content = message.get("role"), message.get("content")
    speakers = {"user": "user", "assistant": "model", "system": "system"}
    spoken = Spoken(speakers.get(role, "nobody") if isinstance(role, str) else "nobody")
    if isinstance(content, str):
        spoken.texts.append(content)
    for place, block in enumerate(_list(content)):
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if _is_text(block, "text"):
            spoken.texts.append(block["text"])
        elif kind == "tool_use" and spoken.speaker == "model":
            named = _text(block.get("id")), _text(block.get("name"))
            spoken.calls.append(Asked(*named, block.get("input")))
        elif kind == "tool_result" and spoken.speaker == "user":
            spoken.given.append(_messages_result(block, (*at, "content", place, "content")))
    return spoken


def _messages_result(block: dict[str, Any], at: Where) -> Given:
    content = block.get("content")
    given = Given(at, _text(block.get("tool_use_id")), fails=block.get("is_error") is True)
    if isinstance(content, str):
        given.kind, given.texts = "text", [(at, *_split(content))]
        return given
    parts = _list(content)
    if any(isinstance(part, dict) and part.get("type") == "tool_reference" for part in parts):
        return given
    _read_parts(given, parts, ("text",))
    given.texts = [(where, *_split(text)) for where, text, _ in given.texts]
    for place, part in enumerate(parts):
        if isinstance(part, dict) and part.get("type") == "image" and len(part) == 2:
            source = part.get("source")
            if not isinstance(source, dict) or source.get("type") != "base64":
                raise Unclear("an image")
            shown = show_image(source.get("data"))
            given.images.append(((*at, place), {"type": "text", "text": shown}))
    return given


# Bedrock's Converse


def _hear_converse(message: dict[str, Any], at: Where) -> Spoken:
    role = message.get("role")
    speakers = {"user": "user", "assistant": "model"}
    spoken = Spoken(speakers.get(role, "nobody") if isinstance(role, str) else "nobody")
    for place, block in enumerate(_list(message.get("content"))):
        if not isinstance(block, dict):
            continue
        use, result = block.get("toolUse"), block.get("toolResult")
        if isinstance(block.get("text"), str):
            spoken.texts.append(block["text"])
        elif isinstance(use, dict) and spoken.speaker == "model":
            named = _text(use.get("toolUseId")), _text(use.get("name"))
            spoken.calls.append(Asked(*named, use.get("input")))
        elif isinstance(result, dict) and spoken.speaker == "user":
            where = (*at, "content", place, "toolResult", "content")
            spoken.given.append(_converse_result(result, where))
    return spoken


def _converse_result(result: dict[str, Any], at: Where) -> Given:
    parts = _list(result.get("content"))
    given = Given(at, _text(result.get("toolUseId")), fails=result.get("status") == "error")
    for place, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            given.texts.append(((*at, place, "text"), part["text"], ""))
        if part.keys() == {"image"}:
            source = part["image"].get("source") if isinstance(part["image"], dict) else None
            shown = show_image(source.get("bytes") if isinstance(source, dict) else None)
            given.images.append(((*at, place), {"text": shown}))
    if given.texts:
        given.kind = "text" if len(parts) == 1 else "list"
    elif len(parts) == 1 and isinstance(parts[0], dict) and "json" in parts[0]:
        value = parts[0]["json"]
        given.images.clear()
        if isinstance(value, str):
            given.kind, given.texts = "text", [((*at, 0, "json"), value, "")]
        elif isinstance(value, dict) and value.keys() == {"text"} and type(value["text"]) is str:
            given.kind, given.texts = "text", [((*at, 0, "json", "text"), value["text"], "")]
        elif isinstance(value, dict):
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            given.kind, given.texts, given.wrap = "text", [((*at, 0, "json"), text, "")], "text"
    return given


# OpenAI Responses

_RUN_BY_PROVIDER = {
    **dict.fromkeys(("mcp_list_tools", "mcp_approval_request", "program"), "model"),
    **dict.fromkeys(("tool_search_output", "program_output"), "model"),
    **dict.fromkeys(("additional_tools", "compaction", "compaction_trigger"), "system"),
    "mcp_approval_response": "user",
}


def _hear_responses(item: dict[str, Any], at: Where) -> Spoken:
    kind, content = item.get("type", "message"), item.get("content")
    if kind == "message":
        role = item.get("role")
        speaker = _CHAT.get(role, "nobody") if isinstance(role, str) else "nobody"
        spoken = Spoken(speaker if speaker != "tool" else "nobody")
        parts = _list(content)
        spoken.texts = [p["text"] for p in parts if _is_text(p, "input_text", "output_text")]
        spoken.texts += [content] if isinstance(content, str) else []
        return spoken
    if not isinstance(kind, str):
        return Spoken()
    if kind in _RUN_BY_PROVIDER:
        return _hear_of_provider(kind, item, (*at, "output"))
    if kind == "reasoning":
        return Spoken("model")
    call_id = _text(item.get("call_id"))
    if kind.endswith("_call"):
        tool = _text(item.get("name")) or kind.removesuffix("_call")
        keys = ("arguments", "input", "action", "operation")
        arguments = next((item[key] for key in keys if key in item), None)
        is_call = call_id or kind in _RUN_BY_CLIENT
        return Spoken("model", calls=[Asked(call_id, tool, arguments)] if is_call else [])
    if kind.endswith("_output"):
        return Spoken("tool", given=[_responses_result(kind, item, call_id, (*at, "output"))])
    return Spoken()


_PAIRED_BY = {
    **dict.fromkeys(("program", "program_output", "tool_search_output"), "call_id"),
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
}


def _hear_of_provider(kind: str, item: dict[str, Any], at: Where) -> Spoken:
    """Return what an item says that is never touched; calls and results in it stay together."""
    spoken = Spoken(_RUN_BY_PROVIDER[kind])
    call_id = _text(item.get(_PAIRED_BY.get(kind, "")))
    if call_id and kind.endswith(("_output", "_response")):
        spoken.given.append(Given(at, call_id))
    elif call_id:
        spoken.calls.append(Asked(call_id, kind, None))
    return spoken


_RUN_BY_CLIENT = (
    *("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"),
)

_READ = ("function_call_output", "custom_tool_call_output", "apply_patch_call_output")


def _responses_result(kind: str, item: dict[str, Any], call_id: str | None, at: Where) -> Given:
    output, caller = item.get("output"), item.get("caller")
    is_program = isinstance(caller, dict) and caller.get("type") == "program"
    if kind not in _READ or is_program:
        if kind == "shell_call_output" and not is_program:
            return _shell_result(Given(at, call_id), _list(output))
        return Given(at, call_id or _text(item.get("id")))
    given = Given(at, call_id, fails=item.get("status") == "failed")
    if isinstance(output, str):
        given.kind, given.texts = "text", [(at, output, "")]
        return given
    _read_parts(given, _list(output), ("input_text", "output_text"))
    for place, part in enumerate(_list(output)):
        if not isinstance(part, dict) or part.get("type") != "input_image":
            continue
        if part.keys() <= {"type", "image_url", "detail", "file_id"}:
            shown = _show_address(part.get("image_url"))
            given.images.append(((*at, place), {"type": "input_text", "text": shown}))
    return given


def _shell_result(given: Given, pieces: list[Any]) -> Given:
    """Take what commands printed, and whether one failed."""
    for place, piece in enumerate(pieces):
        if not isinstance(piece, dict):
            continue
        for key in ("stdout", "stderr"):
            if text := _text(piece.get(key)):
                given.texts.append(((*given.at, place, key), text, ""))
        outcome = piece.get("outcome")
        if isinstance(outcome, dict):
            ended = outcome.get("type") != "timeout" and outcome.get("exit_code", 0) == 0
            given.fails = given.fails or not ended
    given.kind = "list" if given.texts else "other"
    return given


# Gemini


def _hear_gemini(content: dict[str, Any], at: Where) -> Spoken:
    role = content.get("role") or "user"
    speakers = {"user": "user", "function": "tool", "model": "model", "system": "system"}
    spoken = Spoken(speakers.get(role, "nobody") if isinstance(role, str) else "nobody")
    for where, part in _gemini_parts(content.get("parts"), (*at, "parts")):
        text = part.get("text")
        if isinstance(text, str) and text and not part.get("thought"):
            spoken.texts.append(text)
        response = _first_object(part, "functionResponse", "function_response")
        call = _first_object(part, "functionCall", "function_call")
        if spoken.speaker != "model":
            if response:
                spoken.given.append(_gemini_result(response[1], (*where, response[0])))
            elif spoken.given and (image := _gemini_image(part)):
                spoken.given[-1].images.append((where, image))
        elif call:
            named = _gemini_id(call[1]), _text(call[1].get("name"))
            spoken.calls.append(Asked(*named, call[1].get("args")))
    return spoken


def _gemini_parts(parts: object, at: Where) -> Iterator[tuple[Where, dict[str, Any]]]:
    if isinstance(parts, dict):
        yield at, parts
    for place, part in enumerate(_list(parts)):
        if isinstance(part, dict):
            yield (*at, place), part


def _first_object(part: dict[str, Any], *keys: str) -> tuple[str, dict[str, Any]] | None:
    return next(((key, part[key]) for key in keys if isinstance(part.get(key), dict)), None)


def _gemini_id(holder: dict[str, Any]) -> str | None:
    found = holder.get("id") or ""
    return found if isinstance(found, str) else None


def _gemini_result(response: dict[str, Any], at: Where) -> Given:
    values = response.get("response")
    values = values if isinstance(values, dict) else {}
    given = Given(at, _gemini_id(response), fails=bool(values.get("error")))
    given.tool = _text(response.get("name"))
    outputs = [(key, v) for key, v in values.items() if isinstance(v, str) and key != "name"]
    given.texts = [((*at, "response", key), text, "") for key, text in outputs]
    given.kind = ("other", "text", "list")[min(2, len(outputs))]
    return given


def _gemini_image(part: dict[str, Any]) -> object:
    found = _first_object(part, "inlineData", "inline_data")
    if not found or not part.keys() <= {found[0], "mediaResolution", "media_resolution"}:
        return None
    media_type = found[1].get("mimeType") or found[1].get("mime_type")
    if not str(media_type).startswith("image/"):
        return None
    return {"text": show_image(found[1].get("data"))}


_FORMATS: dict[str, Callable[[dict[str, Any], Where], Spoken]] = {
    "chat": _hear_chat,
    "ollama": _hear_ollama,
    "messages": _hear_messages,
    "converse": _hear_converse,
    "responses": _hear_responses,
    "gemini": _hear_gemini,
}
