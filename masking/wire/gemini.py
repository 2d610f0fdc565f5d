"""Gemini: a result is a `functionResponse` part, an object whose strings can be replaced.

Sources: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/function-calling. Code Assist has the same request one level
deeper. Thoughts, signatures, media and executed code are never touched.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from masking.conversation import follow
from masking.model import (
    UNKNOWN,
    Call,
    ContentKind,
    Element,
    ElementSize,
    Image,
    Path,
    Speaker,
    ToolResult,
)
from masking.wire.gemini_parts import (
    Part,
    find_call,
    find_inline_data,
    find_outputs,
    find_parts,
    find_response,
    find_said,
)
from masking.wire.gemini_sizes import count_content, measure_contents, measure_media
from masking.wire.gemini_sizes import measure_head as measure_tools_and_texts
from masking.wire.images import offer, read_picture
from masking.wire.json_values import non_empty
from masking.wire_format import Binding, HeadSize, Marks, WireFormat

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


def read_content(content: object) -> Element:
    """Read one content: what is said in it, a model's calls, the results for a model."""
    if not isinstance(content, dict):
        return UNKNOWN
    speaker = _find_speaker(content)
    texts: list[str] = []
    calls: list[Call] = []
    results: list[ToolResult] = []
    for place, part in find_parts(content):
        if text := find_said(part):
            texts.append(text)
        if speaker != "assistant":
            if found := find_response(part):
                key, response = found
                results.append(_read_result(response, (*place, key, "response")))
            elif results and (images := _find_image(place, part)):
                joined = (*results[-1].images, *images)
                results[-1] = results[-1]._replace(images=joined)
        elif call := find_call(part):
            fields = (_find_id(call), non_empty(call.get("name")), call.get("args"))
            calls.append(Call(*fields))
    return Element(speaker, tuple(texts), tuple(calls), tuple(results), False)


def measure_content(content: object) -> ElementSize:
    """Return the estimated tokens of a content, and those of the texts in its results."""
    if not isinstance(content, dict):
        return ElementSize(0)
    return measure_contents(content, answers=_find_speaker(content) != "assistant")


def find_model(document: Mapping[str, object], path: str) -> str | None:
    """Return the model, which the path names; for Code Assist the document does."""
    if found := _MODEL.search(unquote(path)):
        return found[1]
    model = non_empty(document.get("model"))
    return model and model.removeprefix("models/")


def asks_for_stream(_: Mapping[str, object], path: str) -> bool:
    """Whether a request asks for its answer as a stream: of events, or as an array in pieces."""
    return path.endswith("streamGenerateContent")


def find_obstacle(document: Mapping[str, object]) -> str | None:
    """Return why a request must go out whole: its prefix is bought already."""
    for path in _LIST_PATHS:
        body = follow(document, path[:-1])
        if isinstance(body, dict) and (body.get("cachedContent") or body.get("cached_content")):
            return "the provider holds the history (cachedContent)"
    return None


def find_binding(_document: Mapping[str, object], _model: str | None) -> Binding | None:
    """Return what becomes of bound reasoning: a signature is bound to nothing but its part."""
    return None


def find_tools(body: Mapping[str, object]) -> object:
    """Return the tool schemas of a request."""
    return body.get("tools")


def find_head_texts(body: Mapping[str, object]) -> Sequence[str]:
    """Return the texts of the system instruction."""
    instruction = body.get("systemInstruction") or body.get("system_instruction")
    if isinstance(instruction, str):
        return (instruction,)
    parts = find_parts(instruction) if isinstance(instruction, dict) else ()
    return tuple(text for _, part in parts if (text := find_said(part)))


def measure_head(body: Mapping[str, object]) -> HeadSize:
    """Return the estimated tokens of the tool schemas and of the system instruction."""
    return measure_tools_and_texts(find_tools(body), find_head_texts(body))


def find_marks(_: Mapping[str, object]) -> Marks:
    """Return the cache marks: the provider caches any prefix by itself."""
    return Marks()


def stands_out(_: object) -> bool:
    """Whether a content has what a function of a document looks for: never."""
    return False


def unmark(content: object) -> object:
    """Return a content as a prompt cache sees it: it has no cache marks."""
    return content


def count_parts(content: object) -> tuple[Sequence[str], int]:
    """Return the texts of a content that are tokens of the prompt, and its other tokens."""
    return count_content(content) if isinstance(content, dict) else ((), 0)


def say_as_user(text: str) -> object:
    """Return a content in which the user says a text."""
    return {"role": "user", "parts": [{"text": text}]}


def forbids_tools(body: Mapping[str, object]) -> bool:
    """Whether the mode of calling functions is `NONE`."""
    config: object = body
    for keys in (
        ("toolConfig", "tool_config"),
        ("functionCallingConfig", "function_calling_config"),
    ):
        config = next(
            (config[key] for key in keys if isinstance(config, dict) and key in config), None
        )
    return isinstance(config, dict) and config.get("mode") == "NONE"


GEMINI = WireFormat(
    name="gemini",
    paths=(
        (r"(?::|%3[Aa])(?:streamG|g)enerateContent$", "answer"),
        (r"(?::|%3[Aa])countTokens$", "count"),
    ),
    list_paths=_LIST_PATHS,
    read_element=read_content,
    measure_element=measure_content,
    find_model=find_model,
    streams=asks_for_stream,
    find_obstacle=find_obstacle,
    find_binding=find_binding,
    find_tools=find_tools,
    find_head_texts=find_head_texts,
    measure_head=measure_head,
    find_marks=find_marks,
    unmark=unmark,
    count_parts=count_parts,
    user_message=say_as_user,
    stands_out=stands_out,
    answers_in_runs=True,
    pairs_by_order=True,
    role_order="alternating",  # a call must come right after the user or a result
    forbids_tools=forbids_tools,
)


def _find_speaker(content: Part) -> Speaker:
    """Return who speaks; without a role it is the user."""
    role = content.get("role") or "user"
    return _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"


def _find_id(call: Part) -> str | None:
    """Return the id of a call or its response, which may have none; None if it is no text."""
    call_id = call.get("id") or ""
    return call_id if isinstance(call_id, str) else None


def _read_result(response: Part, at: Path) -> ToolResult:
    outputs = find_outputs(response)
    kinds: tuple[ContentKind, ...] = ("other", "string", "text_parts")
    fields = (
        _find_id(response),
        kinds[min(2, len(outputs))],
        tuple(outputs.values()),
        tuple((*at, key) for key in outputs),
        _is_error(response.get("response")),
        None,
        (),
        non_empty(response.get("name")),
        (),
    )
    return ToolResult(*fields)


def _find_image(place: Path, part: Part) -> tuple[Image, ...]:
    """Return the image in a part that stands after a response, as gemini-cli sends it.

    Those in the `parts` of a response stay: nothing but media may stand there
    (https://ai.google.dev/api/caching#FunctionResponsePart).
    """
    data = find_inline_data(part)
    media_type = data and (data.get("mimeType") or data.get("mime_type"))
    if data is None or not str(media_type).startswith("image/"):
        return ()
    picture = read_picture(data.get("data"), media_type)
    return offer(place, part, picture, measure_media(part), lambda text: {"text": text})


def _is_error(values: object) -> bool:
    """Whether a tool says that it failed; an empty `error` says that it did not."""
    return isinstance(values, dict) and bool(values.get("error"))
