"""The parts of a Gemini content: what is in them, in whichever of its two spellings.

Protocol buffers allow `functionResponse` and `function_response` alike, and clients write both.
"""

from collections.abc import Iterator, Mapping

from masking.model import Path

Part = Mapping[str, object]

_NAME = "name"
"""The AI SDK writes the tool's name into the response, too; providers match it with the call's."""


def find_parts(content: Part) -> Iterator[tuple[Path, Part]]:
    """Yield the parts of a content that are objects, each with its path; one may stand alone."""
    parts = content.get("parts")
    if isinstance(parts, dict):
        yield ("parts",), parts
    for place, part in enumerate(parts) if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield ("parts", place), part


def find_said(part: Part) -> str | None:
    """Return the text that a part says; None if it has none, or if it is a thought."""
    text = part.get("text")
    return text if isinstance(text, str) and not part.get("thought") else None


def find_call(part: Part) -> Part | None:
    """Return the function call in a part."""
    found = _find_object(part, "functionCall", "function_call")
    return found and found[1]


def find_response(part: Part) -> tuple[str, Part] | None:
    """Return the function response in a part, after its key."""
    return _find_object(part, "functionResponse", "function_response")


def find_outputs(response: Part) -> dict[str, str]:
    """Return the texts that a tool gave, by their keys: the strings right under `response`."""
    values = response.get("response")
    if not isinstance(values, dict):
        return {}
    return {key: v for key, v in values.items() if isinstance(v, str) and key != _NAME}


def find_inline_data(part: Part) -> Part | None:
    """Return the data in a part that holds nothing else, such as an image."""
    found = _find_object(part, "inlineData", "inline_data")
    if found is None or not part.keys() <= {found[0], "mediaResolution", "media_resolution"}:
        return None
    return found[1]


def _find_object(part: Part, *keys: str) -> tuple[str, Part] | None:
    for key in keys:
        value = part.get(key)
        if isinstance(value, dict):
            return key, value
    return None
