"""OpenAI's Responses, as the scripted provider speaks, counts, seals and refuses it."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.tools.provider.script import Call, JsonDict, Received, Reply, Said, Spell

# The items of OpenAI Responses as a model sees them, and the seals of its reasoning.
#
# Reasoning comes back to its provider as `encrypted_content`. Here that is a seal: it holds a
# digest of everything before the reasoning, and proves that neither it nor the summary beside it
# was changed. Newer models are given reasoning only where what stands before it is what stood there
# when it was made (https://platform.openai.com/docs/guides/keep-prefix-unchanged); they say nothing
# about the rest. `find_dropped` says it.

_NOT_SEEN = frozenset(
    (
        *("id", "status", "phase", "annotations", "logprobs", "prompt_cache_breakpoint"),
        "internal_chat_message_metadata_passthrough",
    )
)
"""Keys that are no part of the prompt; clients leave them out, or add them."""

_HEAD = ("model", "tools", "instructions", "text")

_BINDS = re.compile(r"gpt-(5\.[6-9]|[6-9])")
"""How the models are named that drop reasoning after a changed prefix."""

_SEAL_BYTES = 300
_DIGEST_BYTES = 16
_KEY = b"the scripted provider"


def items_of(request: Mapping[str, Any]) -> list[Any]:
    """Return the items of a request; a text stands for one message of the user."""
    given = request.get("input", [])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def render_head(request: Mapping[str, Any]) -> str:
    """Return what a model sees before all items."""
    return json.dumps([request.get(name) for name in _HEAD], sort_keys=True)


def render_item(item: Mapping[str, Any]) -> str:
    """Return an item as a model sees it, however a client spells it."""
    seen = {key: value for key, value in item.items() if key not in _NOT_SEEN and value is not None}
    if "role" in seen:
        seen |= {"type": "message", "content": _render_content(seen.get("content"))}
    if isinstance(arguments := seen.get("arguments"), str):
        seen["arguments"] = _render_arguments(arguments)
    return json.dumps(seen, sort_keys=True)


def seal(request: Mapping[str, Any], thinking: str) -> str:
    """Return the `encrypted_content` of what a model thinks upon a request."""
    *_, prefix = _digest_prefixes(request)
    return _seal(prefix, thinking)


def is_sealed(item: Mapping[str, Any]) -> bool:
    """Whether an item of reasoning is as it was made."""
    prefix = _unseal(item)
    return prefix is not None and item["encrypted_content"] == _seal(prefix, _thinking(item))


def find_dropped(request: Mapping[str, Any]) -> list[int]:
    """Return which items of reasoning the model of a request would not be given."""
    if not _BINDS.match(str(request.get("model"))):
        return []
    prefixes = _digest_prefixes(request)
    return [
        index
        for index, (item, prefix) in enumerate(zip(items_of(request), prefixes, strict=False))
        if item.get("type") == "reasoning" and _unseal(item) != prefix
    ]


def _digest_prefixes(request: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield a digest of what stands before each item, and of the whole request."""
    digest = hashlib.sha256(render_head(request).encode())
    for item in items_of(request):
        yield digest.digest()[:_DIGEST_BYTES]
        digest.update(render_item(item).encode())
    yield digest.digest()[:_DIGEST_BYTES]


def _seal(prefix: bytes, thinking: str) -> str:
    proof = hashlib.shake_256(_KEY + prefix + thinking.encode()).digest(_SEAL_BYTES)
    return base64.urlsafe_b64encode(b"\x80" + prefix + proof).decode()


def _unseal(item: Mapping[str, Any]) -> bytes | None:
    try:
        sealed = base64.urlsafe_b64decode(item["encrypted_content"])
    except (KeyError, TypeError, ValueError):
        return None
    return sealed[1 : 1 + _DIGEST_BYTES]


def _thinking(item: Mapping[str, Any]) -> str:
    return "".join(part.get("text", "") for part in item.get("summary") or ())


def _render_content(content: object) -> Sequence[JsonDict]:
    if isinstance(content, str):
        return [{"text": content}]
    kept = ("text", "refusal", "image_url", "file_id", "file_data")
    parts = content if isinstance(content, list) else []
    return [{key: part[key] for key in kept if key in part} for part in parts]


def _render_arguments(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


# Writes a scripted reply as OpenAI Responses does: a body, a stream's events, an error.
#
# Source: https://platform.openai.com/docs/api-reference/responses, and the events that codex and
# the SDKs wait for. A call becomes what the request calls its tool: a function, a custom tool
# (codex's `exec`), a shell or a patch.

CREATED = 1_735_689_600
"""The fixed time of every answer, in seconds: the first of January 2025."""

ACCOUNT = "acc_scripted"
"""Any subscriber's."""

_ERRORS = {
    400: ("invalid_request_error", "invalid_value", "The scripted provider refuses this request."),
    401: ("invalid_request_error", "invalid_api_key", "The scripted provider wants another key."),
    429: ("requests", "rate_limit_exceeded", "The scripted provider has had enough for now."),
    500: ("server_error", None, "The scripted provider broke on purpose."),
}

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""

_REPEATED = ("model", "tools", "tool_choice", "parallel_tool_calls", "store", "reasoning")
"""What an answer repeats of its request."""


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far: each run of its items was one answer."""
    texts: list[str] = []
    tools: list[str] = []
    items = (item for item in items_of(request) if isinstance(item, dict))
    for item in (*items, {"role": "user"}):
        if item.get("role") == "assistant":
            texts.append(_text(item.get("content")))
        elif item.get("type") in _CALLED:
            tools.append(_CALLED[item["type"]](item))
        elif item.get("type") != "reasoning" and (texts or tools):
            yield Said("".join(texts), tuple(tools))
            texts, tools = [], []


def offers_tools(request: JsonDict) -> bool:
    """Whether a request lets the model call tools, be they named in an item of their own."""
    return bool(_find_tools(request))


def find_previous(request: JsonDict) -> tuple[str, JsonDict] | None:
    """Return the response that a request continues, and all else in it."""
    others = {key: value for key, value in request.items() if key != "previous_response_id"}
    previous = request.get("previous_response_id")
    return None if previous is None else (previous, others)


def say_again(answer: JsonDict) -> list[JsonDict]:
    """Return a response as the next request repeats it."""
    output: list[JsonDict] = answer["output"]
    return output


def streams(received: Received) -> bool:
    """Whether an answer is to be a stream."""
    return received.request.get("stream") is True


def answer(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer."""
    return _head(received) | {
        "status": "completed",
        "output": [*_output(received, reply)],
        "usage": usage,
    }


def tell_events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[JsonDict]:
    """Yield the events of a streamed answer, in order."""
    started = _head(received) | {"status": "in_progress", "output": [], "usage": None}
    whole = answer(received, reply, usage)
    events: list[JsonDict] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for index, item in enumerate(whole["output"]):
        place: JsonDict = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress", **_EMPTY[item["type"]]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        events += [{**event, **place} for event in _PIECES[item["type"]](item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the same as server-sent events."""
    for event in tell_events(received, reply, usage):
        data = json.dumps(event, separators=(",", ":"))
        yield f"event: {event['type']}\ndata: {data}\n\n".encode()


def error(status: int, message: str | None = None) -> JsonDict:
    """Return an error body as OpenAI writes it; a status without an entry is a server error."""
    kind, code, words = _ERRORS.get(status, _ERRORS[500])
    return {"error": {"message": message or words, "type": kind, "param": None, "code": code}}


def find_accounts(_: Received) -> JsonDict:
    """Return where a subscriber's requests go, which codex asks with a ChatGPT login."""
    account = {
        "id": ACCOUNT,
        "workspace_backend_origin": "https://chatgpt.com",
        "account_routing_override": "NO_CONSTRAINT",
    }
    return {"accounts": [account], "account_ordering": [ACCOUNT]}


def compact(received: Received) -> JsonDict:
    """Return the answer to `POST …/responses/compact`: what the user said, and a summary."""
    items = items_of(received.request)
    return {
        "id": f"resp_scripted_{len(items)}",
        "object": "response.compaction",
        "created_at": CREATED,
        "output": [*(i for i in items if i.get("role") == "user"), _summarize(received.request)],
        "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    }


def _summarize(request: JsonDict) -> JsonDict:
    """Return a history in short, the whole answer where a request ends in a trigger for it."""
    return {
        "id": f"cmp_scripted_{len(items_of(request))}",
        "type": "compaction",
        "encrypted_content": seal(request, ""),
    }


def _head(received: Received) -> JsonDict:
    number = len(items_of(received.request))
    repeated = {key: received.request[key] for key in _REPEATED if key in received.request}
    return {
        "id": f"resp_scripted_{number}",
        "object": "response",
        "created_at": CREATED,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "previous_response_id": None,
        "temperature": 1.0,
        "top_p": 1.0,
        **repeated,
        "tools": [],
    }


def _output(received: Received, reply: Reply) -> Iterator[JsonDict]:
    items = items_of(received.request)
    number = len(items)
    if items and items[-1].get("type") == "compaction_trigger":
        yield _summarize(received.request)
        return
    if reply.thinking is not None:
        yield {
            "id": f"rs_scripted_{number}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reply.thinking}],
            "encrypted_content": seal(received.request, reply.thinking),
        }
    if reply.content is not None:
        text = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}
        yield {
            "id": f"msg_scripted_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    kinds = {tool.get("name", tool["type"]): tool for tool in _find_tools(received.request)}
    for index, call in enumerate(reply.calls):
        tool = kinds.get(call.tool, {"type": "function"})
        spelled = _CALLS.get(tool["type"], _call_function)(call, tool)
        yield {"id": f"fc_scripted_{number}_{index}", **spelled, "status": "completed"}


def _call_function(call: Call, tool: Mapping[str, Any]) -> JsonDict:
    named = {"namespace": tool["namespace"]} if "namespace" in tool else {}
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.tool,
        **named,
        "arguments": call.arguments,
    }


def _call_custom(call: Call, tool: Mapping[str, Any]) -> JsonDict:
    named = {"namespace": tool["namespace"]} if "namespace" in tool else {}
    return {
        "type": "custom_tool_call",
        "call_id": call.id,
        "name": call.tool,
        **named,
        "input": call.arguments,
    }


def _call_shell(call: Call, _: Mapping[str, Any]) -> JsonDict:
    return {"type": "shell_call", "call_id": call.id, "action": json.loads(call.arguments)}


def _call_patch(call: Call, _: Mapping[str, Any]) -> JsonDict:
    return {
        "type": "apply_patch_call",
        "call_id": call.id,
        "operation": json.loads(call.arguments),
    }


_CALLS: dict[str, Callable[[Call, Mapping[str, Any]], JsonDict]] = {
    "function": _call_function,
    "custom": _call_custom,
    "shell": _call_shell,
    "apply_patch": _call_patch,
}
"""How a tool is called, by its type."""

_CALLED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "function_call": lambda item: str(item["name"]),
    "custom_tool_call": lambda item: str(item["name"]),
    "shell_call": lambda _: "shell",
    "apply_patch_call": lambda _: "apply_patch",
}
"""The tool that an item calls, by the item's type."""


def _find_tools(request: Mapping[str, Any]) -> list[JsonDict]:
    """Return the tools of a request, those within namespaces too."""
    groups = [request.get("tools") or []]
    items = (item for item in items_of(request) if isinstance(item, dict))
    groups += [item["tools"] for item in items if item.get("type") == "additional_tools"]
    tools: list[JsonDict] = []
    for tool in (tool for group in groups for tool in group):
        if tool["type"] == "namespace":
            tools += [{**inner, "namespace": tool["name"]} for inner in tool["tools"]]
        else:
            tools.append(tool)
    return tools


def _tell_reasoning(item: JsonDict) -> Iterator[JsonDict]:
    (part,) = item["summary"]
    place, name = {"summary_index": 0}, "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **place, "part": {**part, "text": ""}}
    for piece in _PIECE.findall(part["text"]):
        yield {"type": f"{name}_text.delta", **place, "delta": piece}
    yield {"type": f"{name}_text.done", **place, "text": part["text"]}
    yield {"type": f"{name}_part.done", **place, "part": part}


def _tell_message(item: JsonDict) -> Iterator[JsonDict]:
    (part,) = item["content"]
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in _PIECE.findall(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _tell_arguments(item: JsonDict) -> Iterator[JsonDict]:
    for piece in _PIECE.findall(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {
        "type": "response.function_call_arguments.done",
        "name": item["name"],
        "arguments": item["arguments"],
    }


def _tell_input(item: JsonDict) -> Iterator[JsonDict]:
    for piece in _PIECE.findall(item["input"]):
        yield {"type": "response.custom_tool_call_input.delta", "delta": piece}
    yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}


_PIECES: dict[str, Callable[[JsonDict], Iterator[JsonDict]]] = {
    "reasoning": _tell_reasoning,
    "message": _tell_message,
    "function_call": _tell_arguments,
    "custom_tool_call": _tell_input,
    "shell_call": lambda _: iter(()),
    "apply_patch_call": lambda _: iter(()),
    "compaction": lambda _: iter(()),
}
"""What is told of an item between its beginning and its end, by its type."""

_EMPTY: dict[str, JsonDict] = {
    "reasoning": {"summary": [], "encrypted_content": ""},
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    "shell_call": {},
    "apply_patch_call": {},
    "compaction": {},
}
"""What an item is like at its beginning, by its type."""


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


# OpenAI's prompt cache, as Responses reports it.
#
# Older models find any prefix again, in steps of 128 tokens. Those from gpt-5.6 on find only the
# ends of earlier prompts, as no request here asks for breakpoints of its own, and report what they
# write. Source: https://platform.openai.com/docs/guides/prompt-caching.

_CHARS_PER_TOKEN = 4
_STEP = 128
_LEAST = 1024

_FINDS_ENDS = re.compile(r"gpt-(5\.[6-9]|[6-9])")


class PromptCache:
    """Remembers the prompts that it has seen, as digests; four characters count as a token.

    `spell` is applied to each item before it is counted.
    """

    def __init__(self, spell: Spell = str) -> None:
        self._seen: set[bytes] = set()
        self._spell = spell

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prompt."""
        finds_ends = bool(_FINDS_ENDS.match(str(received.request.get("model"))))
        prefixes = [*_prefixes(received.request, self._spell)]
        prompt = prefixes[-1][1] // _CHARS_PER_TOKEN
        cached = max((n for digest, n in prefixes if digest in self._seen), default=0)
        cached = cached // _CHARS_PER_TOKEN
        cached = (cached if finds_ends else cached // _STEP * _STEP) if cached >= _LEAST else 0
        self._seen.update(digest for digest, _ in (prefixes[-1:] if finds_ends else prefixes))
        written = prompt - cached if finds_ends and prompt >= _LEAST else 0
        thought = len(reply.thinking or "") // _CHARS_PER_TOKEN
        said = (reply.content or "") + "".join(each.tool + each.arguments for each in reply.calls)
        output = max(1, len(said) // _CHARS_PER_TOKEN) + thought
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": prompt + output,
        }


def count_tokens(received: Received) -> JsonDict:
    """Return the answer to `POST …/responses/input_tokens`."""
    *_, (_, chars) = _prefixes(received.request, str)
    return {"object": "response.input_tokens", "input_tokens": chars // _CHARS_PER_TOKEN}


def _prefixes(request: Mapping[str, Any], spell: Spell) -> Iterator[tuple[bytes, int]]:
    """Yield a digest and the length in characters of a prompt's head, and up to each item."""
    head = spell(render_head(request))
    digest, chars = hashlib.sha256(head.encode()), len(head)
    yield digest.digest(), chars
    for item in items_of(request):
        text = spell(render_item(item))
        digest.update(text.encode())
        chars += len(text)
        yield digest.digest(), chars


# What OpenAI Responses refuses: a request in which anything is unknown, unpaired or altered.

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
    for item, following in zip(items, [*items[1:], {}][: len(items)], strict=True):
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
