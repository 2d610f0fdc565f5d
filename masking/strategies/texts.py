"""The texts of a message, whatever its role: what the budget counts and what a summary reads."""

from collections.abc import Iterable


def find_texts(message: object) -> tuple[str, ...]:
    """Return the texts of a message's content: the string, or its text parts, in order.

    Arguments of calls, images and other parts are no texts. A message that is not an object has
    none.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(part["text"] for part in parts if _is_text(part))


def count_chars(messages: Iterable[object]) -> int:
    """Return the size of the messages: the code points of all their texts."""
    return sum(len(text) for message in messages for text in find_texts(message))


def clip(text: str, max_chars: int) -> str:
    """Return at most `max_chars` code points of a text; if it is cut, three dots end it.

    If there is no room for the dots, the text's first code points; below 1, nothing.
    """
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_DOTS)
    return text[:room] + _DOTS if room >= 0 else text[: max(0, max_chars)]


_DOTS = "..."


def _is_text(part: object) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )
