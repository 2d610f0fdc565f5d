"""OpenAI Responses: a result is an item of its own, bound to its call by `call_id`.

Sources: https://platform.openai.com/docs/api-reference/responses, the types of the openai package,
and what codex, opencode, pi and the Agents SDK send. All that a model makes for one request is a
run of items: its reasoning, its words, its calls.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from masking.model import UNKNOWN, Call, Element, Speaker, ToolResult
from masking.wire.json_values import is_text_part, non_empty, objects
from masking.wire.reasoning import find_responses_binding
from masking.wire.request_fields import asks_for_stream, find_model
from masking.wire.responses_results import TEXT_TYPES, read_result
from masking.wire.responses_sizes import (
    OUTPUT,
    PAIRED_BY,
    count_image_tokens,
    find_item_texts,
    holds_result,
    measure_item,
    measure_prompt_head,
)
from masking.wire_format import Binding, Marks, WireFormat

_SPEAKERS: Mapping[object, Speaker] = {
    **dict.fromkeys(("system", "developer"), "system"),
    "user": "user",
    "assistant": "assistant",
}
"""By role."""

_OTHERS: Mapping[str, Speaker] = {
    **dict.fromkeys(("mcp_list_tools", "mcp_approval_request", "program"), "assistant"),
    **dict.fromkeys(("tool_search_output", "program_output"), "assistant"),
    **dict.fromkeys(("additional_tools", "compaction", "compaction_trigger"), "system"),
    "mcp_approval_response": "user",
}
"""Whose items are that are neither messages nor calls nor results. What the provider's own tools
give out belongs to the model's answer. A compaction stands for a history that is gone."""

_CALL = "_call"
"""How the types of calls end. Of the others only what the client runs has a `call_id`."""

_BREAKPOINT = "prompt_cache_breakpoint"


def read_item(item: object) -> Element:
    """Read one item: a message, a call, a result, reasoning, or what the provider made."""
    if not isinstance(item, dict):
        return UNKNOWN
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
        return Element(speaker, _find_texts(item.get("content")), (), (), False)
    if not isinstance(kind, str):
        return UNKNOWN
    if kind == "reasoning":
        return Element("assistant", (), (), (), True)
    if kind in _OTHERS:
        return Element(_OTHERS[kind], (), *_read_pair(kind, item))
    if kind.endswith(_CALL):
        return Element("assistant", (), _read_call(kind, item), (), False)
    if kind.endswith(OUTPUT):
        return Element("tool", (), (), (read_result(kind, item),), False)
    return UNKNOWN


def find_obstacle(document: Mapping[str, object]) -> str | None:
    """Return why a request must go out whole: the provider holds its history, or trims it."""
    for key in ("previous_response_id", "conversation"):
        if document.get(key):
            return f"the provider holds the history ({key})"
    if any(e.get("type") == "compaction" for e in objects(document.get("context_management"))):
        return "the provider trims the history (compaction)"
    given = document.get("input")
    if isinstance(given, str):
        return "its input is one text, without tool results"
    if any(item.get("type") == "item_reference" for item in objects(given)):
        return "the provider holds a part of the history (item_reference)"
    return None


def find_binding(document: Mapping[str, object], model: str | None) -> Binding | None:
    """Return what becomes of reasoning after a change; that of older models is not bound."""
    return find_responses_binding(model, is_encrypted=_has_encrypted_reasoning(document))


def find_tools(body: Mapping[str, object]) -> object:
    """Return the tool schemas of a request; codex has others in items (`additional_tools`)."""
    return body.get("tools")


def find_head_texts(body: Mapping[str, object]) -> Sequence[str]:
    """Return the text beside the list: `instructions`."""
    instructions = body.get("instructions")
    return (instructions,) if isinstance(instructions, str) else ()


def find_marks(document: Mapping[str, object]) -> Marks:
    """Return the `prompt_cache_breakpoint` of parts of items, and how long the prompt is kept.

    The latter is `ttl` in `prompt_cache_options`, or `prompt_cache_retention`; neither is a mark.
    """
    options = document.get("prompt_cache_options")
    asked = (
        options.get("ttl") if isinstance(options, dict) else None,
        document.get("prompt_cache_retention"),
    )
    lifetimes = tuple(spelling for spelling in asked if isinstance(spelling, str))
    is_marked = any(part.get(_BREAKPOINT) for part in _find_parts(document))
    return Marks(in_list=is_marked, lifetimes=lifetimes)


def stands_out(item: object) -> bool:
    """Whether an item has a breakpoint, is encrypted reasoning, or refers to the provider's."""
    document = {"input": [item]}
    return (
        find_obstacle(document) is not None
        or _has_encrypted_reasoning(document)
        or any(part.get(_BREAKPOINT) for part in _find_parts(document))
    )


def unmark_item(item: object) -> object:
    """Return an item as the model sees it: without breakpoints, ids and a client's own notes.

    A content of one text is written as the text.
    """
    if not isinstance(item, dict):
        return item
    seen = {key: value for key, value in item.items() if key not in _NOTES}
    for key in ("content", "output"):
        if isinstance(parts := seen.get(key), list):
            seen[key] = _unmark_parts(parts)
    return seen


def count_item_parts(item: object) -> tuple[Sequence[str], int]:
    """Return the texts of an item that are tokens of the prompt, and its other tokens.

    4 more for a message, 8 more for any other item, and images. Files and what is encrypted are
    not counted.
    """
    if not isinstance(item, dict):
        return (), 0
    is_message = item.get("type", "message") == "message"
    frame = _MESSAGE_TOKENS if is_message else _ITEM_TOKENS
    return find_item_texts(item), frame + count_image_tokens(item)


def say_as_user(text: str) -> object:
    """Return a message in which the user says a text."""
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    }


def compacts(document: Mapping[str, object], path: str) -> bool:
    """Whether a request asks for its history in short: by its path, or by codex's last item."""
    items = document.get("input")
    last = items[-1] if isinstance(items, list) and items else None
    is_trigger = isinstance(last, dict) and last.get("type") == "compaction_trigger"
    return is_trigger or path.endswith("/compact")


RESPONSES = WireFormat(
    name="responses",
    paths=(
        (r"/responses$", "answer"),
        (r"/responses/compact$", "compact"),
        (r"/responses/input_tokens$", "count"),
    ),
    list_paths=(("input",),),
    read_element=read_item,
    measure_element=measure_item,
    find_model=find_model,
    streams=asks_for_stream,
    find_obstacle=find_obstacle,
    find_binding=find_binding,
    find_tools=find_tools,
    find_head_texts=find_head_texts,
    measure_head=measure_prompt_head,
    find_marks=find_marks,
    unmark=unmark_item,
    count_parts=count_item_parts,
    user_message=say_as_user,
    stands_out=stands_out,
    answers_in_runs=True,
    compacts=compacts,
)

_NOTES = frozenset(("id", "status", "internal_chat_message_metadata_passthrough"))
"""Keys of an item that a model does not see."""

_MESSAGE_TOKENS = 4
_ITEM_TOKENS = 8


def _read_pair(
    kind: str, item: Mapping[str, Any]
) -> tuple[tuple[Call, ...], tuple[ToolResult, ...]]:
    """Return the call or the result in an item that is never touched: pairs stay together."""
    call_id = non_empty(item.get(PAIRED_BY.get(kind, "")))
    if call_id is None:
        return (), ()
    if holds_result(item):
        return (), (ToolResult(call_id, "other", (), ()),)
    return (Call(call_id, kind, None),), ()


def _read_call(kind: str, item: Mapping[str, Any]) -> tuple[Call, ...]:
    call_id = non_empty(item.get("call_id"))
    if call_id is None and kind not in _CLIENTS_CALLS:  # one of the provider's own tools
        return ()
    tool = non_empty(item.get("name")) or kind.removesuffix(_CALL)
    arguments = next((item[key] for key in _ARGUMENTS if key in item), None)
    return (Call(call_id, tool, arguments),)


_CLIENTS_CALLS = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call")
)
"""The calls that a client runs; one without an id is a call all the same."""

_ARGUMENTS = ("arguments", "input", "action", "operation")


def _find_texts(content: object) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple([part["text"] for part in parts if is_text_part(part, TEXT_TYPES)])


def _has_encrypted_reasoning(document: Mapping[str, object]) -> bool:
    items = objects(document.get("input"))
    return any(i.get("type") == "reasoning" and bool(i.get("encrypted_content")) for i in items)


def _find_parts(document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for item in objects(document.get("input")):
        yield from objects(item.get("content"))
        yield from objects(item.get("output"))


def _unmark_parts(parts: Sequence[object]) -> object:
    unmarked = [
        {key: value for key, value in part.items() if key != _BREAKPOINT}
        if isinstance(part, dict)
        else part
        for part in parts
    ]
    match unmarked:
        case [{"type": kind, "text": str(text), **others}] if kind in TEXT_TYPES and not others:
            return text
    return unmarked
