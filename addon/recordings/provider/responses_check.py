"""What OpenAI Responses refuses: a request in which anything is unknown, unpaired or altered."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from addon.recordings.provider.received import Received
from addon.recordings.provider.responses_items import is_sealed, items_of

_FIELDS = frozenset(
    (
        *("model", "input", "stream", "tools", "tool_choice", "parallel_tool_calls", "store"),
        *("include", "instructions", "reasoning", "text", "max_output_tokens", "max_tool_calls"),
        *("previous_response_id", "conversation", "context_management", "metadata", "background"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "prompt"),
        *("temperature", "top_p", "top_logprobs", "truncation", "user", "safety_identifier"),
        *("service_tier", "stream_options", "moderation", "client_metadata", "generate", "type"),
    )
)

_ANSWERS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "local_shell_call_output": "local_shell_call",
    "computer_call_output": "computer_call",
}
"""The types of results, and of the calls that they answer."""

_WORDS = {
    "function_call": "function call",
    "custom_tool_call": "custom tool call",
    "shell_call": "shell call",
    "apply_patch_call": "apply patch call",
    "local_shell_call": "local shell call",
    "computer_call": "computer call",
}

_OTHERS = frozenset(
    (
        *("message", "reasoning", "item_reference", "additional_tools", "compaction"),
        *("compaction_trigger", "web_search_call", "file_search_call", "code_interpreter_call"),
        *("image_generation_call", "mcp_call", "mcp_list_tools", "mcp_approval_request"),
        *("mcp_approval_response", "tool_search_call", "tool_search_output", "program"),
        "program_output",
    )
)

_PARTS = {
    "assistant": ("output_text", "refusal"),
    **dict.fromkeys(("user", "developer", "system"), ("input_text", "input_image", "input_file")),
}
"""By role, what a message may hold."""

_RESULT_PARTS = ("input_text", "input_image", "input_file")


def check(received: Received) -> str | None:
    """Return the first thing for which OpenAI would refuse a request; None if there is none."""
    request = received.request
    unknown = sorted(request.keys() - _FIELDS)
    if unknown:
        return f"Unknown parameter: '{unknown[0]}'."
    if not isinstance(request.get("model"), str):
        return "Missing required parameter: 'model'."
    if not isinstance(request.get("input"), (str, list)):
        return "Invalid type for 'input': expected one of a text or an array of items."
    items = items_of(request)
    for index, item in enumerate(items):
        if (problem := _check_item(item)) is not None:
            return f"Invalid 'input[{index}]': {problem}"
    return next((problem for find in _RULES if (problem := next(find(items), None))), None)


def _check_item(item: object) -> str | None:
    if not isinstance(item, dict):
        return "expected an object."
    kind = item.get("type", "message")
    if kind == "message":
        return _check_message(item)
    if kind in _ANSWERS:
        return _check_result(item)
    if kind in _WORDS:
        return None if item.get("call_id") else "missing 'call_id'."
    return None if kind in _OTHERS else f"unknown type '{kind}'."


def _check_message(item: Mapping[str, Any]) -> str | None:
    allowed = _PARTS.get(item.get("role", ""))
    if allowed is None:
        return f"unknown role '{item.get('role')}'."
    content = item.get("content")
    return None if isinstance(content, str) else _check_parts(content, allowed)


def _check_result(item: Mapping[str, Any]) -> str | None:
    kind, output = item["type"], item.get("output")
    if not item.get("call_id"):
        return "missing 'call_id'."
    if kind == "shell_call_output":
        return None if _are_outputs(output) else "expected stdout, stderr and outcome."
    if kind == "apply_patch_call_output":
        told = item.get("status") in ("completed", "failed") and isinstance(
            output, (str, type(None))
        )
        return None if told else "expected a status and a text."
    if kind == "local_shell_call_output":
        return None if isinstance(output, str) else "expected a text."
    if kind == "computer_call_output" or isinstance(output, str):
        return None
    return _check_parts(output, _RESULT_PARTS)


def _check_parts(content: object, allowed: tuple[str, ...]) -> str | None:
    if not isinstance(content, list):
        return "expected a text or an array of parts."
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            return f"unknown part '{kind}', supported are {', '.join(allowed)}."
        if kind in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            return "missing 'text'."
    return None


def _are_outputs(output: object) -> bool:
    pieces = output if isinstance(output, list) else [None]
    return all(
        isinstance(piece, dict)
        and isinstance(piece.get("stdout"), str)
        and isinstance(piece.get("stderr"), str)
        and isinstance(piece.get("outcome"), dict)
        for piece in pieces
    )


def _find_unanswered(items: list[Mapping[str, Any]]) -> Iterator[str]:
    answered = {(_ANSWERS[i["type"]], i["call_id"]) for i in items if i.get("type") in _ANSWERS}
    for item in items:
        if item.get("type") in _WORDS and (item["type"], item["call_id"]) not in answered:
            yield f"No tool output found for {_WORDS[item['type']]} {item['call_id']}."


def _find_uncalled(items: list[Mapping[str, Any]]) -> Iterator[str]:
    called: set[tuple[str, str]] = set()
    for item in items:
        kind = item.get("type", "message")
        if kind in _WORDS:
            called.add((kind, item["call_id"]))
        elif kind in _ANSWERS and (_ANSWERS[kind], item["call_id"]) not in called:
            words = f"{_WORDS[_ANSWERS[kind]]} output"
            yield f"No tool call found for {words} with call_id {item['call_id']}."


def _find_altered(items: list[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        has_content = item.get("encrypted_content") is not None
        if item.get("type") == "reasoning" and has_content and not is_sealed(item):
            yield f"The encrypted content for item {item.get('id')} could not be verified."


def _find_unfollowed(items: list[Mapping[str, Any]]) -> Iterator[str]:
    for item, following in zip(items, (*items[1:], {}), strict=True):
        if item.get("type") == "reasoning" and not _is_models(following):
            yield (
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item."
            )


def _is_models(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type", "") in (*_WORDS, "reasoning")


_RULES: tuple[Callable[[list[Mapping[str, Any]]], Iterator[str]], ...] = (
    _find_unanswered,
    _find_uncalled,
    _find_altered,
    _find_unfollowed,
)
