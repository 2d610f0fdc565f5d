"""Gemini: a result is a `functionResponse` part, an object whose strings can be replaced.

Sources: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/function-calling. Code Assist has the same request one level
deeper. Thoughts, signatures, media and executed code are never touched. Protocol buffers allow
`functionResponse` and `function_response` alike, and clients write both. The provider caches any
prefix by itself, without marks. A signature is bound to nothing but its part.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from masking.model import UNKNOWN, Call, ContentKind, Element, Path, Speaker, ToolResult, make
from masking.wire.format import (
    CALL_TOKENS,
    MESSAGE_FRAME,
    Charge,
    Document,
    WireFormat,
    follow,
    non_empty,
    render_json,
)
from masking.wire.parts import ImageParts, Picture, read_picture

Part = Mapping[str, object]

_SPEAKERS: Mapping[str, Speaker] = {
    "user": "user",
    "function": "tool",
    "model": "assistant",
    "system": "system",
}
"""By role."""

_LIST_PATHS: tuple[Path, ...] = (
    ("contents",),
    ("request", "contents"),  # Code Assist
    ("generateContentRequest", "contents"),  # a whole request whose tokens are counted
    ("generate_content_request", "contents"),
)

_MODEL = re.compile(r"/(?:models|tunedModels|endpoints)/([^/:]+):\w+$")

_NAME = "name"
"""The AI SDK writes the tool's name into the response, too; providers match it with the call's."""

_MEDIA_TOKENS = 1_120
"""What an image costs on Gemini 3 unless the request asks for less; older models take 258 a tile.

Source: https://ai.google.dev/gemini-api/docs/media-resolution
"""

_DATA = ("inlineData", "inline_data")
_MEDIA = (*_DATA, "fileData", "file_data")

_UNBILLED = frozenset({"text", "thought", "thoughtSignature", "thought_signature", *_MEDIA})
"""Keys that are measured otherwise, or are no text of the prompt."""


class Gemini(WireFormat):
    name = "gemini"
    paths = (
        (r"(?::|%3[Aa])(?:streamG|g)enerateContent$", "answer"),
        (r"(?::|%3[Aa])countTokens$", "count"),
    )
    list_paths = _LIST_PATHS
    answers_in_runs = True
    pairs_by_order = True
    role_order = "alternating"  # a call must come right after the user or a result

    def read_element(self, content: object) -> Element:
        if not isinstance(content, dict):
            return UNKNOWN
        speaker = _read_speaker(content)
        texts: list[str] = []
        calls: list[Call] = []
        results: list[ToolResult] = []
        for place, part in _find_parts(content):
            if text := _find_said(part):
                texts.append(text)
            if speaker != "assistant":
                if found := _find_response(part):
                    key, response = found
                    results.append(_read_result(response, (*place, key, "response")))
                elif results and (image := _IMAGES.find(part, place)):
                    # As gemini-cli sends it: behind a response. Images in the `parts` of a response
                    # stay, as nothing but media may stand there
                    # (https://ai.google.dev/api/caching#FunctionResponsePart).
                    results[-1] = results[-1]._replace(images=(*results[-1].images, image))
            elif call := _find_call(part):
                name = non_empty(call.get("name"))
                calls.append(make(Call, (_read_id(call), name, call.get("args"))))
        return make(Element, (speaker, tuple(texts), tuple(calls), tuple(results), False))

    def read_charges(self, content: object) -> list[Charge]:
        """Read the frame of a content, then part by part.

        Texts are those of its parts, whatever a tool gave, and the names and arguments of calls.
        """
        if not isinstance(content, dict):
            return []
        charges, results = [MESSAGE_FRAME], 0
        gives_results = _read_speaker(content) != "assistant"
        for _, part in _find_parts(content):
            found = _find_response(part)
            if found is None:
                charges.append(_charge_part(part))
                continue
            # What a tool gave comes first, as that is the result; then all else in the response.
            response, result = found[1], results if gives_results else None
            results += gives_results
            outputs = _find_outputs(response)
            for text in outputs.values() or ("",):
                charges.append(Charge(text, 0, result))
            values = response.get("response")
            if isinstance(values, dict):
                values = {key: "" if key in outputs else value for key, value in values.items()}
            charges.append(Charge(_read_name(response) + render_json(values), CALL_TOKENS))
            if "parts" in response:
                charges += [_charge_part(inner) for _, inner in _find_parts(response)]
        return charges

    def user_message(self, text: str) -> object:
        return {"role": "user", "parts": [{"text": text}]}

    def find_head_texts(self, body: Document) -> Sequence[str]:
        instruction = body.get("systemInstruction") or body.get("system_instruction")
        if isinstance(instruction, str):
            return (instruction,)
        parts = _find_parts(instruction) if isinstance(instruction, dict) else ()
        return tuple(text for _, part in parts if (text := _find_said(part)))

    def forbids_tools(self, body: Document) -> bool:
        found = _find_object(body, "toolConfig", "tool_config")
        if found is not None:
            found = _find_object(found[1], "functionCallingConfig", "function_calling_config")
        return found is not None and found[1].get("mode") == "NONE"

    def find_model(self, document: Document, path: str) -> str | None:
        """Return the model, which the path names; for Code Assist the document does."""
        if found := _MODEL.search(unquote(path)):
            return found[1]
        model = non_empty(document.get("model"))
        return model and model.removeprefix("models/")

    def streams(self, document: Document, path: str) -> bool:
        """Whether the answer is streamed: as events, or as an array in pieces."""
        return path.endswith("streamGenerateContent")

    def find_obstacle(self, document: Document) -> str | None:
        """Return why a request must pass unchanged: its prefix is bought already."""
        for path in _LIST_PATHS:
            body = follow(document, path[:-1])
            if isinstance(body, dict) and (body.get("cachedContent") or body.get("cached_content")):
                return "the provider holds the history (cachedContent)"
        return None


GEMINI = Gemini()


def _read_speaker(content: Part) -> Speaker:
    """Return who speaks; without a role it is the user."""
    role = content.get("role") or "user"
    return _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"


def _read_id(call: Part) -> str | None:
    """Return the id of a call or its response, which may have none; None if it is no text."""
    call_id = call.get("id") or ""
    return call_id if isinstance(call_id, str) else None


def _read_result(response: Part, at: Path) -> ToolResult:
    outputs = _find_outputs(response)
    kinds: tuple[ContentKind, ...] = ("other", "string", "text_parts")
    return ToolResult(
        _read_id(response),
        kinds[min(2, len(outputs))],
        tuple(outputs.values()),
        tuple((*at, key) for key in outputs),
        # A tool says that it failed; an empty `error` says that it did not.
        bool(follow(response, ("response", "error"))),
        tool=non_empty(response.get("name")),
    )


def _find_parts(content: Part) -> Iterator[tuple[Path, Part]]:
    """Yield the parts of a content that are objects, each with its path; one may stand alone."""
    parts = content.get("parts")
    if isinstance(parts, dict):
        yield ("parts",), parts
    for place, part in enumerate(parts) if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield ("parts", place), part


def _find_said(part: Part) -> str | None:
    """Return the text that a part says; None if it has none, or if it is a thought."""
    text = part.get("text")
    return text if isinstance(text, str) and not part.get("thought") else None


def _find_call(part: Part) -> Part | None:
    """Return the function call in a part."""
    found = _find_object(part, "functionCall", "function_call")
    return found and found[1]


def _find_response(part: Part) -> tuple[str, Part] | None:
    """Return the function response in a part, after its key."""
    return _find_object(part, "functionResponse", "function_response")


def _find_object(part: Part, *keys: str) -> tuple[str, Part] | None:
    for key in keys:
        value = part.get(key)
        if isinstance(value, dict):
            return key, value
    return None


def _find_outputs(response: Part) -> dict[str, str]:
    """Return the texts that a tool gave, by their keys: the strings right under `response`."""
    values = response.get("response")
    if not isinstance(values, dict):
        return {}
    return {key: v for key, v in values.items() if isinstance(v, str) and key != _NAME}


def _read_image(part: Part) -> Picture | None:
    """Return what is known of the image in a part; None for other media."""
    found = _find_object(part, *_DATA)
    data = found[1] if found else {}
    media_type = data.get("mimeType") or data.get("mime_type")
    if not isinstance(media_type, str) or not media_type.startswith("image/"):
        return None
    picture = read_picture(data.get("data"), media_type, lambda _width, _height: _MEDIA_TOKENS)
    return picture._replace(tokens=_MEDIA_TOKENS)


_IMAGES = ImageParts(_read_image, frozenset((*_DATA, "mediaResolution", "media_resolution")), {})


def _charge_part(part: Part) -> Charge:
    if isinstance(text := part.get("text"), str):
        return Charge(text)
    if call := _find_call(part):
        return Charge(_read_name(call) + render_json(call.get("args")), CALL_TOKENS)
    # Media, code, its outcome, and whatever is not known here.
    rest = {key: value for key, value in part.items() if key not in _UNBILLED}
    has_media = any(key in part for key in _MEDIA)
    return Charge(render_json(rest) if rest else "", _MEDIA_TOKENS if has_media else 0)


def _read_name(call: Part) -> str:
    return non_empty(call.get("name")) or ""
