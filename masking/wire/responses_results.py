"""OpenAI Responses: the results among the items, and which of their texts may be replaced."""

from collections.abc import Callable, Mapping
from typing import Any

from masking.model import ContentKind, Image, Path, ToolResult
from masking.wire.images import offer
from masking.wire.json_values import is_text_part, non_empty
from masking.wire.responses_sizes import find_picture, measure_image

TEXT_TYPES = ("input_text", "output_text")

_STRING: tuple[Path, ...] = (("output",),)
_BY_A_PROGRAM = "program"


def read_result(kind: str, item: Mapping[str, Any]) -> ToolResult:
    """Read an item of the type `kind` that is a result."""
    call_id = non_empty(item.get("call_id"))
    caller = item.get("caller")
    read = _RESULTS.get(kind)
    is_replayed = isinstance(caller, dict) and caller.get("type") == _BY_A_PROGRAM
    if read is None or is_replayed:  # a program is run again, and must find what it found
        return ToolResult(call_id or non_empty(item.get("id")), "other", (), ())
    return read(call_id, item)


def _read_output(call_id: str | None, item: Mapping[str, Any]) -> ToolResult:
    """Read a text, or a list of parts, of which the texts may go."""
    output = item.get("output")
    is_error = item.get("status") == "failed"
    if isinstance(output, str):
        return _make_result(call_id, "string", (output,), _STRING, is_error)
    parts = output if isinstance(output, list) else []
    places = [place for place, part in enumerate(parts) if is_text_part(part, TEXT_TYPES)]
    texts = tuple([parts[place]["text"] for place in places])
    slots = tuple([("output", place, "text") for place in places])
    images = tuple([image for at, part in enumerate(parts) for image in _find_image(at, part)])
    kind: ContentKind = "text_parts" if places else "other"
    return _make_result(call_id, kind, texts, slots, is_error, images)


def _find_image(at: int, part: object) -> tuple[Image, ...]:
    if not isinstance(part, dict) or part.get("type") != "input_image":
        return ()
    if not part.keys() <= _IMAGE_KEYS:
        return ()
    return offer(
        ("output", at),
        part,
        find_picture(part),
        measure_image(part),
        lambda text: {"type": "input_text", "text": text},
    )


_IMAGE_KEYS = {"type", "image_url", "detail", "file_id"}
"""An image with any other key stays, such as one with a breakpoint."""


def _read_shell_output(call_id: str | None, item: Mapping[str, Any]) -> ToolResult:
    """Read what commands printed: a list of `stdout`, `stderr` and how each command ended."""
    texts: list[str] = []
    slots: list[Path] = []
    is_error = False
    output = item.get("output")
    for place, piece in enumerate(output if isinstance(output, list) else ()):
        if not isinstance(piece, dict):
            continue
        is_error = is_error or _has_failed(piece.get("outcome"))
        for key in ("stdout", "stderr"):
            if text := non_empty(piece.get(key)):
                texts.append(text)
                slots.append(("output", place, key))
    return _make_result(
        call_id, "text_parts" if texts else "other", tuple(texts), tuple(slots), is_error
    )


_RESULTS: Mapping[str, Callable[[str | None, Mapping[str, Any]], ToolResult]] = {
    **dict.fromkeys(
        ("function_call_output", "custom_tool_call_output", "apply_patch_call_output"),
        _read_output,
    ),
    "shell_call_output": _read_shell_output,
}
"""The results whose texts may be replaced, by their type; all others stay as they are."""


def _make_result(
    call_id: str | None,
    kind: ContentKind,
    texts: tuple[str, ...],
    slots: tuple[Path, ...],
    is_error: bool,
    images: tuple[Image, ...] = (),
) -> ToolResult:
    return ToolResult(call_id, kind, texts, slots, is_error, None, (), None, images)


def _has_failed(outcome: object) -> bool:
    if not isinstance(outcome, dict):
        return False
    return outcome.get("type") == "timeout" or outcome.get("exit_code", 0) != 0
