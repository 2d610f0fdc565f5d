"""Conversations in files in the Chat Completions form, and the requests that they stand for.

A conversation is an object with `messages`, a list of objects. Files of other formats look alike,
but their tool calls would not be found, so a sign of another format is an error.
"""

from collections.abc import Callable, Iterator, Mapping

from masking.model import ChatMessage
from masking.wire.chat import read_message


def are_messages(items: list[object]) -> bool:
    """Whether a list has messages rather than conversations."""
    first = items[0] if items else None
    return isinstance(first, dict) and "role" in first and "messages" not in first


def as_document(messages: list[object]) -> dict[str, object]:
    """Return a conversation of which only the messages are known."""
    return {"messages": messages}


def parse_messages(document: Mapping[str, object], place: str) -> tuple[ChatMessage, ...]:
    """Return a conversation's messages. Raises ValueError with the place of a mistake."""
    if "messages" not in document:
        found = next((name for key, name in _OTHER_LISTS.items() if key in document), None)
        hint = "got one without" if found is None else f"got what looks like {found}"
        raise ValueError(f"{place}: expected object with messages, {hint}")
    messages = document["messages"]
    if not isinstance(messages, list):
        got = type(messages).__name__
        raise ValueError(f"{place}: expected list, got {got} in 'messages'")
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            got = type(message).__name__
            raise ValueError(f"{place}: expected object, got {got} in 'messages[{index}]'")
        if (problem := _find_other_format(message)) is not None:
            raise ValueError(
                f"{place}: expected messages of Chat Completions, got {problem} in "
                f"'messages[{index}]'"
            )
    if messages and not any(isinstance(message.get("role"), str) for message in messages):
        raise ValueError(f"{place}: expected messages of Chat Completions, got none with a role")
    return tuple(messages)


def write_requests(
    messages: tuple[ChatMessage, ...],
    others: Mapping[str, object],
    write: Callable[[object], bytes],
) -> Iterator[bytes]:
    """Yield the body of the request that each message of the assistant answered, oldest first.

    It has the messages before that one, between `model` and what else is in `others`. A message of
    the assistant that opens the conversation answers nothing. `write` spells JSON.
    """
    frame = {"model": others.get("model"), "messages": [], **others}
    filled = {key: value for key, value in frame.items() if value is not None}
    before, slot, after = write(filled).partition(b'"messages":[')
    body = bytearray(before + slot)
    for index, message in enumerate(messages):
        if index and read_message(message).speaker == "assistant":
            yield b"".join((body, after))
        body += (b"," if index else b"") + write(message)


_OTHER_LISTS = {
    "input": "a request of OpenAI Responses (input)",
    "contents": "a request of Gemini (contents)",
    "conversations": "ShareGPT (conversations)",
    "mapping": "an export of ChatGPT (mapping)",
}
"""Where other formats have their messages."""

_OTHER_PARTS = {
    **dict.fromkeys(("tool_use", "tool_result"), "a part of Anthropic Messages"),
    **dict.fromkeys(("input_text", "output_text"), "a part of OpenAI Responses"),
    **dict.fromkeys(("tool-call", "tool-result"), "a part of the AI SDK"),
}
"""Types of content parts that Chat Completions does not have, and that carry what we count."""


def _find_other_format(message: Mapping[str, object]) -> str | None:
    """Return the sign that a message is of another format, whose tool calls would not be found."""
    if "parts" in message and "content" not in message:
        return "one with parts in place of content"
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    types = [part.get("type") for part in parts if isinstance(part, dict)]
    return next((name for kind, name in _OTHER_PARTS.items() if kind in types), None)
