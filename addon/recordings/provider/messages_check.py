"""Why Anthropic would refuse a Messages request.

The rules are those of the Messages reference and of its pages on tool use, prompt caching, extended
thinking and preserved thinking; the words are close to the real ones, because clients look for some
of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from addon.recordings.provider.bound_thinking import binds, drops, find_signatures
from addon.recordings.provider.messages import THINKS
from addon.recordings.provider.messages_blocks import list_content, read_blocks
from addon.recordings.provider.received import JsonDict, Received

MOST_MARKS = 4

BINDING_BETA = "thinking-binding-controls-2026-08-01"

_FIELDS = frozenset(
    (
        *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream"),
        *("metadata", "temperature", "top_k", "top_p", "stop_sequences", "thinking"),
        *("service_tier", "container", "context_management", "mcp_servers", "output_config"),
        *("cache_control", "diagnostics", "inference_geo", "speed", "betas", "thread"),
        *("anthropic_version", "anthropic_beta"),
    )
)
_ROLES = ("user", "assistant", "system")
_RESULT_FIELDS = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_RESULT_PARTS = frozenset(
    ("text", "image", "document", "search_result", "tool_reference", "browser_state")
)


def check(received: Received) -> str | None:
    """Say what the first problem is; None if there is none."""
    problems = (problem for rule in _RULES for problem in rule(received))
    return next(problems, None)


def _check_fields(received: Received) -> Iterator[str]:
    request = received.request
    for name in request.keys() - _FIELDS:
        yield f"{name}: Extra inputs are not permitted"
    wanted = ["messages", *([] if "count_tokens" in received.path else ["max_tokens"])]
    for name in wanted:
        if name not in request:
            yield f"{name}: Field required"
    bound = (request.get("thinking") or {}).get("block_binding")
    betas = received.header("anthropic-beta"), *(request.get("anthropic_beta") or ())
    if bound and not any(BINDING_BETA in beta for beta in betas):
        yield "thinking.block_binding: Extra inputs are not permitted"


def _check_roles(received: Received) -> Iterator[str]:
    messages = received.request["messages"]
    if not messages:
        yield "messages: at least one message is required"
    for index, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            yield f"messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
        if not list_content(message.get("content")) and "output_config" not in message:
            yield f"messages.{index}: all messages must have non-empty content"
    if messages and messages[0].get("role") != "user":
        yield 'messages: first message must use the "user" role'


def _check_texts(received: Received) -> Iterator[str]:
    for block in read_blocks(received.request):
        if block.content.get("type") == "text" and not block.content.get("text"):
            yield "messages: text content blocks must be non-empty"


def _check_results(received: Received) -> Iterator[str]:
    for index, message in enumerate(received.request["messages"]):
        for place, block in enumerate(list_content(message.get("content"))):
            where = f"messages.{index}.content.{place}"
            if block.get("type") == "tool_result":
                for name in block.keys() - _RESULT_FIELDS:
                    yield f"{where}.tool_result.{name}: Extra inputs are not permitted"
                for part in list_content(block.get("content")):
                    if part.get("type") not in _RESULT_PARTS:
                        yield f"{where}.tool_result.content: unexpected type {part.get('type')!r}"


def _check_pairs(received: Received) -> Iterator[str]:
    """Yield calls without a result at the start of the next user message, and the other way."""
    groups = list(_group(received.request["messages"]))
    seen: set[str] = set()
    for before, group in zip_longest([(0, "", []), *groups], groups):
        calls = [each["id"] for each in before[2] if each.get("type") == "tool_use"]
        if seen & {*calls} or len({*calls}) < len(calls):
            yield "messages: `tool_use` ids must be unique"
        seen.update(calls)
        index, role, blocks = group or (len(groups), "user", [])
        if role == "user" or calls:
            yield from _compare_ids(index, calls, blocks)


def _compare_ids(index: int, calls: Sequence[str], blocks: Sequence[JsonDict]) -> Iterator[str]:
    results = [each.get("tool_use_id") for each in blocks if each.get("type") == "tool_result"]
    first = [each.get("tool_use_id") for each in blocks[: len(results)]]
    for result in results:
        if result not in calls:
            yield (
                f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {result}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
        if results.count(result) > 1:
            yield (
                f"messages.{index}.content: each tool_use must have a single result. Found "
                f"multiple `tool_result` blocks with id: {result}"
            )
    if missing := [call for call in calls if call not in first]:
        yield (
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
            "corresponding `tool_result` block in the next message."
        )


def _group(messages: Sequence[JsonDict]) -> Iterator[tuple[int, str, list[JsonDict]]]:
    """Yield the messages as the provider joins them: neighbours of one role are one."""
    index, role, blocks = 0, "", list[JsonDict]()
    for place, message in enumerate(messages):
        if role and message.get("role") != role:
            yield index, role, blocks
            index, blocks = place, []
        role = str(message.get("role"))
        blocks = blocks + list_content(message.get("content"))
    if role:
        yield index, role, blocks


def _check_marks(received: Received) -> Iterator[str]:
    marks = [block.mark for block in read_blocks(received.request) if block.mark]
    marks += [received.request["cache_control"]] if received.request.get("cache_control") else []
    if len(marks) > MOST_MARKS:
        yield (
            f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. "
            f"Found {len(marks)}."
        )
    lifetimes = [mark.get("ttl", "5m") for mark in marks]
    if lifetimes != sorted(lifetimes):  # "1h" sorts before "5m"
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _check_thinking(received: Received) -> Iterator[str]:
    """Yield signatures that do not hold, and what is missing in the latest assistant message."""
    request = received.request
    answers = [n for n, m in enumerate(request["messages"]) if m.get("role") == "assistant"]
    latest = answers[-1] if answers else None
    for signature in find_signatures(request):
        where = f"messages.{signature.message}.content.{signature.position}"
        if signature.problem == "invalid" and (binds(request) or signature.message == latest):
            yield f"{where}: Invalid `signature` in `thinking` block"
        if signature.problem == "moved" and binds(request) and not drops(request):
            yield f"{where}: `thinking` block is bound to a different conversation"
    if latest is not None and (request.get("thinking") or {}).get("type") == "enabled":
        blocks = list_content(request["messages"][latest].get("content"))
        thought = any(str(each.get("id", "")).startswith(THINKS) for each in blocks)
        kinds = [each.get("type") for each in blocks]
        if thought and not {"thinking", "redacted_thinking"}.intersection(kinds):
            yield (
                f"messages.{latest}.content.0: `thinking` or `redacted_thinking` blocks in the "
                "latest assistant message cannot be modified. These blocks must remain as they "
                "were in the original response."
            )


_RULES: tuple[Callable[[Received], Iterator[str]], ...] = (
    *(_check_fields, _check_roles, _check_texts, _check_results),
    *(_check_pairs, _check_marks, _check_thinking),
)
