"""Anthropic's Messages, as the scripted provider speaks, counts, signs and refuses it."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from tests.tools.provider.script import Call, JsonDict, Received, Reply, Said, Spell

# The blocks of a Messages request in the order in which the provider renders them.
#
# Tools come first, then the system prompt, then the messages. A block is what a cache mark stands
# on and what a thinking block's signature vouches for.

_BILLING = "x-anthropic-billing-header"
"""A system block that begins so says who pays; the provider takes it out."""

_THINKING = ("thinking", "redacted_thinking")


class Block(NamedTuple):
    """A block without its cache mark.

    content: the block in one spelling: a string is a text block, and an absent `is_error` is false.
    mark: its `cache_control`, if it has one.
    message: the index of its message; None in the system prompt and the tools.
    """

    role: str
    content: JsonDict
    mark: JsonDict | None
    message: int | None = None

    @property
    def is_thinking(self) -> bool:
        return self.content.get("type") in _THINKING

    @property
    def spelling(self) -> str:
        """Its text, for sizes and digests; what spells the same means the same."""
        return json.dumps([self.role, self.content], sort_keys=True)


def read_blocks(request: JsonDict) -> Iterator[Block]:
    """Yield all blocks of a request."""
    for tool in request.get("tools") or ():
        yield _block("tools", tool)
    for content in list_content(request.get("system")):
        if not str(content.get("text", "")).startswith(_BILLING):
            yield _block("system", content)
    for index, message in enumerate(request.get("messages") or ()):
        for content in list_content(message.get("content")):
            yield _block(str(message.get("role")), content, index)


def list_content(content: object) -> list[JsonDict]:
    """Return content as a list of blocks, whichever way it is spelled."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list) else []
    return [each for each in blocks if isinstance(each, dict)]


def digest_prefixes(blocks: Iterable[Block]) -> Iterator[bytes]:
    """Yield the digest of what stands before each block, and then that of all; no thinking in it.

    Blocks of one role say the same in one message or in several.
    """
    digest = hashlib.sha256()
    for block in blocks:
        yield digest.digest()
        if not block.is_thinking:
            digest.update(block.spelling.encode())
    yield digest.digest()


def _block(role: str, content: JsonDict, message: int | None = None) -> Block:
    bare = {key: value for key, value in content.items() if key != "cache_control"}
    if bare.get("type") == "tool_result":
        bare["content"] = list_content(bare.get("content"))
        bare["is_error"] = bool(bare.get("is_error"))
    return Block(role, bare, content.get("cache_control"), message)


# Signs thinking blocks, and says which signatures still hold.
#
# A signature is a digest of the thought and one of everything before it: tools, system prompt and
# messages, without cache marks and without other thinking. Newer models bind the block to all of
# that ("preserved thinking"), older ones to its own text alone. Some of the newer ones refuse a
# request for it on accounts made since 31 August 2026 alone, or where the request sets
# `block_binding`. The source is Anthropic's documentation, `build-with-claude/preserved-thinking`.

_BY_ACCOUNT = re.compile(r"(?:opus-5-5|sonnet-5-5|haiku-5-5|fable-5-1)\b")
_ALWAYS = re.compile(r"(?:fable-5-2|mythos-5-[12])\b")
_HALF = 64


class Signature(NamedTuple):
    """The signature of a thinking block, by its place in the request.

    problem: "invalid" where it is none of this thought; "moved" where it was made after other
        blocks than those that stand before it now.
    """

    message: int
    position: int
    problem: Literal["invalid", "moved"] | None


def sign(request: JsonDict, thought: str) -> str:
    """Return the signature of a thought in answer to a request."""
    *_, everything = digest_prefixes(read_blocks(request))
    return _spell(thought, everything)


def sign_anew(request: JsonDict) -> None:
    """Sign all thinking of a request, in place, as if each had been this provider's answer."""
    contents = [
        content
        for message in request["messages"]
        for content in list_content(message.get("content"))
    ]
    befores = [*digest_prefixes(read_blocks(request))][-len(contents) - 1 : -1]
    for content, before in zip(contents, befores, strict=True):
        if content.get("type") == "thinking":
            content["signature"] = _spell(str(content.get("thinking")), before)


def find_signatures(request: JsonDict) -> Iterator[Signature]:
    """Yield the signatures of a request's thinking blocks, in order."""
    blocks = list(read_blocks(request))
    first = {block.message: index for index, block in reversed(list(enumerate(blocks)))}
    for index, (block, before) in enumerate(zip(blocks, digest_prefixes(blocks), strict=False)):
        if block.message is not None and block.content.get("type") == "thinking":
            place = block.message, index - first[block.message]
            yield Signature(*place, _compare(block.content, before))


def binds(received: Received) -> bool:
    """Whether thinking that is bound to something else is refused, or dropped."""
    model = str(received.request.get("model"))
    asks = bool((received.request.get("thinking") or {}).get("block_binding"))
    by_account = _BY_ACCOUNT.search(model) and (asks or not received.old_account)
    return bool(by_account or _ALWAYS.search(model))


def drops(request: JsonDict) -> bool:
    """Whether the request lets the provider drop thinking that is bound to something else."""
    thinking = request.get("thinking") or {}
    binding = thinking.get("block_binding") or {}
    return bool(binding.get("prefix_mismatch_behavior") == "drop_block")


def _forgives(request: JsonDict) -> bool:
    """Whether thinking that is bound to something else is no reason to refuse a request.

    Without thinking, earlier thoughts are ignored (`build-with-claude/extended-thinking`).
    """
    return drops(request) or (request.get("thinking") or {}).get("type") == "disabled"


def find_transformations(received: Received) -> list[JsonDict]:
    """Return what the provider says of blocks that are bound to something else.

    It drops them, or lets an old account have them and says so to whoever sends the beta header.
    """
    request = received.request
    if binds(received):
        kind = "thinking_dropped"
    elif _BY_ACCOUNT.search(str(request.get("model"))) and (
        BINDING_BETA in received.header("anthropic-beta")
    ):
        kind = "thinking_mismatch_allowed"
    else:
        return []
    return [
        {"type": kind, "message_index": each.message, "content_index": each.position}
        for each in find_signatures(request)
        if each.problem == "moved"
    ]


def _compare(thinking: JsonDict, before: bytes) -> Literal["invalid", "moved"] | None:
    thought, signature = str(thinking.get("thinking")), str(thinking.get("signature"))
    expected = _spell(thought, before)
    if signature == expected:
        return None
    return "moved" if signature[:_HALF] == expected[:_HALF] else "invalid"


def _spell(thought: str, before: bytes) -> str:
    """Return a signature: its first half vouches for the thought, the other for its place."""
    return (hashlib.sha256(thought.encode()).digest() + before).hex()


# Writes a scripted reply as Anthropic's Messages does: a body, a stream's events, an error.
#
# Ids of tool calls are the script's behind a prefix that differs from turn to turn, because the
# real provider takes no id twice. A thinking block gets a signature.

THINKS = "toolu_t"
"""How the ids of a turn begin that was thought about; other turns' begin with `toolu_s`."""

_ERRORS = {
    400: ("invalid_request_error", "The scripted provider refuses this request."),
    401: ("authentication_error", "The scripted provider wants another key."),
    429: ("rate_limit_error", "The scripted provider has had enough for now."),
    500: ("api_error", "The scripted provider broke on purpose."),
    529: ("overloaded_error", "The scripted provider has too much to do."),
}

_STREAM_PATHS = ("streamRawPredict", "invoke-with-response-stream")

_PIECE = re.compile(r".{16,}?\s+|.+", re.DOTALL)
"""Pieces of a stream end at a space, so that no path or number is split."""


def read_said(request: JsonDict) -> Iterator[Said]:
    """Yield what the model said so far."""
    for message in request.get("messages") or ():
        if message.get("role") == "assistant":
            blocks = list_content(message.get("content"))
            text = "".join(each["text"] for each in blocks if each.get("type") == "text")
            yield Said(text, tuple(each["name"] for each in blocks if each["type"] == "tool_use"))


def find_previous(request: JsonDict) -> tuple[str, JsonDict] | None:
    """Return the message that a request of a thread continues, and all else in it."""
    others = {key: value for key, value in request.items() if key != "thread"}
    previous = (request.get("thread") or {}).get("previous_message_id")
    return None if previous is None else (previous, others)


def say_again(answer: JsonDict) -> list[JsonDict]:
    """Return a message as the next request repeats it."""
    return [{"role": "assistant", "content": answer["content"]}]


def streams(received: Received) -> bool:
    """Whether a stream is wanted; towards Vertex and Bedrock the path says so."""
    return received.path.endswith(_STREAM_PATHS) or bool(received.request.get("stream"))


def message(received: Received, reply: Reply, usage: JsonDict) -> JsonDict:
    """Return the body of an answer that is not streamed."""
    head = _head(received) | {"content": _blocks(received, reply), "usage": usage}
    return head | {"stop_reason": _stop(reply)} | _tell_applied(received)


def events(received: Received, reply: Reply, usage: JsonDict) -> Iterator[bytes]:
    """Yield the events of a streamed answer.

    The prompt's usage comes first, with the start of the message, and the output's last.
    """
    yield _event("message_start", message=_head(received) | {"usage": usage | {"output_tokens": 1}})
    yield _event("ping")
    for index, block in enumerate(_blocks(received, reply)):
        opening, deltas = _in_pieces(block)
        yield _event("content_block_start", index=index, content_block=opening)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": _stop(reply), "stop_sequence": None}
    spent = {"output_tokens": usage["output_tokens"]}
    yield _event("message_delta", delta=delta, usage=spent, **_tell_applied(received))
    yield _event("message_stop")


def error(status: int, problem: str | None = None) -> JsonDict:
    """Return an error body as Anthropic writes it; an unknown status is an API error."""
    kind, words = _ERRORS.get(status, _ERRORS[500])
    return {
        "type": "error",
        "error": {"type": kind, "message": problem or words},
        "request_id": "req_scripted",
    }


def _head(received: Received) -> JsonDict:
    head: JsonDict = {
        "id": f"msg_scripted_{len(received.said)}",
        "type": "message",
        "role": "assistant",
        "model": str(received.request.get("model", "claude-sonnet-4-5")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if transformations := find_transformations(received):
        head["input_transformations"] = transformations
    return head


def _blocks(received: Received, reply: Reply) -> list[JsonDict]:
    blocks: list[JsonDict] = []
    if reply.thinking is not None:
        signature = sign(received.request, reply.thinking)
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": signature})
    if reply.content:
        blocks.append({"type": "text", "text": reply.content})
    return blocks + [_tool_use(received, reply, each) for each in reply.calls]


def _tool_use(received: Received, reply: Reply, call: Call) -> JsonDict:
    prefix = THINKS if reply.thinking is not None else "toolu_s"
    return {
        "type": "tool_use",
        "id": f"{prefix}{len(received.said):04}_{call.id}",
        "name": call.tool,
        "input": json.loads(call.arguments),
    }


def _in_pieces(block: JsonDict) -> tuple[JsonDict, list[JsonDict]]:
    """Return how a block begins in a stream, and the deltas that complete it."""
    match block:
        case {"type": "text", "text": text}:
            deltas = [{"type": "text_delta", "text": piece} for piece in _PIECE.findall(text)]
            return {"type": "text", "text": ""}, deltas
        case {"type": "thinking", "thinking": text, "signature": signature}:
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _PIECE.findall(text)]
            deltas.append({"type": "signature_delta", "signature": signature})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    text = json.dumps(block["input"], ensure_ascii=False)
    pieces = ["", *_PIECE.findall(text)]
    return block | {"input": {}}, [
        {"type": "input_json_delta", "partial_json": piece} for piece in pieces
    ]


def _event(kind: str, **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


# Clearing old tool results (`build-with-claude/context-editing`).
#
# The request is edited before the model reads it, anew each time: nothing is remembered. What was
# sent stays what signatures vouch for. How excluded tools count in `keep` is written nowhere; here
# they count. Nor is it written which text takes a result's place.

CLEARING_BETA = "context-management-2025-06-27"

_CLEARS, _CLEARS_THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
_CLEARED = "[Old tool result content cleared]"
_CLEARING_FIELDS: dict[str, frozenset[str]] = {
    _CLEARS: frozenset(
        (
            *("type", "trigger", "keep", "clear_at_least", "exclude_tools"),
            "clear_tool_inputs",
        )
    ),
    _CLEARS_THINKING: frozenset(("type", "keep")),
}
_TRIGGER, _KEEP = {"type": "input_tokens", "value": 100_000}, {"type": "tool_uses", "value": 3}


class Edited(NamedTuple):
    """A request as the model reads it, and what was done to it; None if it asks for nothing."""

    request: JsonDict
    applied: list[JsonDict] | None = None


def edit(received: Received) -> Edited:
    """Return a request as its own edits leave it, unless they clear too little for the vendor."""
    request = received.request
    managed = request.get("context_management")
    if not managed:
        return Edited(request)
    wanted = next((each for each in managed.get("edits") or () if each["type"] == _CLEARS), None)
    if wanted is None:
        return Edited(request, [])
    uses = [
        block
        for message in request["messages"]
        for block in list_content(message.get("content"))
        if block.get("type") == "tool_use"
    ]
    trigger, keep = wanted.get("trigger", _TRIGGER), wanted.get("keep", _KEEP)["value"]
    before = _count(request)
    reached = len(uses) if trigger["type"] == "tool_uses" else before
    spared = wanted.get("exclude_tools") or ()
    old = uses[: max(0, len(uses) - keep)]
    cleared = {each["id"] for each in old if each["name"] not in spared}
    messages = [_clear(message, cleared) for message in request["messages"]]
    edited = {**request, "messages": messages}
    tokens = before - _count(edited)
    least = max(received.least_cleared, wanted.get("clear_at_least", {}).get("value", 0))
    if reached <= trigger["value"] or not cleared or tokens < least:
        return Edited(request, [])
    counts = {"cleared_tool_uses": len(cleared), "cleared_input_tokens": tokens}
    return Edited(edited, [{"type": _CLEARS, **counts}])


def _clear(message: JsonDict, cleared: set[str]) -> JsonDict:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return message | {
        "content": [
            block | {"content": _CLEARED}
            if block.get("type") == "tool_result" and block.get("tool_use_id") in cleared
            else block
            for block in content
        ]
    }


def _count(request: JsonDict) -> int:
    *_, tokens = (0, *(each.tokens for each in _read_prefixes(request, str)))
    return tokens


def _tell_applied(received: Received) -> JsonDict:
    applied = edit(received).applied
    return {} if applied is None else {"context_management": {"applied_edits": applied}}


# The prompt cache and the usage of Messages, as Anthropic documents them.
#
# A prompt is cached where `cache_control` stands and nowhere else. Each mark looks for an entry of
# an earlier request at its own block and at the 19 before it, and what stands behind the longest
# entry up to the last mark is written. Four characters count as a token. Nothing is ever forgotten:
# the provider has no clock.

CHARS_PER_TOKEN = 4
LOOKBACK = 20

_LEAST = (
    (re.compile(r"(?:opus|fable)-5"), 512),
    (re.compile(r"opus-4-7"), 2048),
    (re.compile(r"opus-4-[56]|haiku-4-5"), 4096),
)
"""The shortest prompts that are cached, in tokens, by model; other models' is 1,024."""


class _Prefix(NamedTuple):
    """A prompt up to a block and with it."""

    digest: bytes
    tokens: int
    mark: JsonDict | None


class PromptCache:
    """The cache of all models; `spell` is applied to each block before it is counted."""

    def __init__(self, spell: Spell = str) -> None:
        self._entries: set[bytes] = set()
        self._spell = spell

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prompt up to each of its marks."""
        request = edit(received).request
        prefixes = list(_read_prefixes(request, self._spell))
        marks = _find_marks(request, prefixes)
        read = max((self._find_entry(prefixes, place) for place in marks), default=0)
        written = {"5m": 0, "1h": 0}
        done = read
        for place in marks:
            prefix = prefixes[place]
            self._entries.add(prefix.digest)
            lifetime = (prefix.mark or {}).get("ttl", "5m")
            written[lifetime] += max(0, prefix.tokens - done)
            done = max(done, prefix.tokens)
        return {
            "input_tokens": (prefixes[-1].tokens if prefixes else 0) - done,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
            "output_tokens": max(1, len(_said(reply)) // CHARS_PER_TOKEN),
            "service_tier": "standard",
        }

    def _find_entry(self, prefixes: Sequence[_Prefix], place: int) -> int:
        """Return the length in tokens of the entry that a mark finds; 0 if it finds none."""
        back = prefixes[max(0, place - LOOKBACK + 1) : place + 1]
        found = (each.tokens for each in reversed(back) if each.digest in self._entries)
        return next(found, 0)


def count_tokens(received: Received) -> JsonDict:
    """Return the answer to a count of tokens."""
    edited = edit(received)
    answer: JsonDict = {"input_tokens": _count(edited.request)}
    if edited.applied is not None:
        before = {"original_input_tokens": _count(received.request)}
        answer["context_management"] = before
    return answer


def _read_prefixes(request: JsonDict, spell: Spell) -> Iterator[_Prefix]:
    digest = hashlib.sha256(str(request.get("model")).encode())
    chars = 0
    blocks: list[Block] = list(read_blocks(request))
    for block in blocks:
        text = spell(block.spelling)
        digest.update(text.encode())
        chars += len(text)
        yield _Prefix(digest.digest(), chars // CHARS_PER_TOKEN, block.mark)


def _find_marks(request: JsonDict, prefixes: Sequence[_Prefix]) -> list[int]:
    """Return the places of the marks in order; one at the top level marks the last block."""
    least = next((n for name, n in _LEAST if name.search(str(request.get("model")))), 1024)
    marked = {place for place, each in enumerate(prefixes) if each.mark}
    if request.get("cache_control") and prefixes:
        marked.add(len(prefixes) - 1)
    return [place for place in sorted(marked) if prefixes[place].tokens >= least]


def _said(reply: Reply) -> str:
    calls = "".join(each.tool + each.arguments for each in reply.calls)
    return (reply.thinking or "") + (reply.content or "") + calls


# Why Anthropic would refuse a Messages request.
#
# The rules are those of the Messages reference and of its pages on tool use, prompt caching,
# extended thinking and preserved thinking; the words are close to the real ones, because clients
# look for some of them.

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
    thinking = request.get("thinking") or {}
    betas = received.header("anthropic-beta"), *(request.get("anthropic_beta") or ())
    is_named = any(BINDING_BETA in beta for beta in betas) and thinking.get("type") != "disabled"
    if thinking.get("block_binding") and not is_named:
        yield "thinking.block_binding: Extra inputs are not permitted"
    if received.refuses_dropping and drops(request):
        yield "thinking.block_binding: not available to this account"


def _check_edits(received: Received) -> Iterator[str]:
    managed = received.request.get("context_management")
    if not managed:
        return
    betas = received.header("anthropic-beta"), *(received.request.get("anthropic_beta") or ())
    if not any(CLEARING_BETA in beta for beta in betas):
        yield "context_management: Extra inputs are not permitted"
    kinds = [each.get("type") for each in managed.get("edits") or ()]
    for place, each in enumerate(managed.get("edits") or ()):
        where = f"context_management.edits.{place}"
        known = _CLEARING_FIELDS.get(each.get("type"))
        if known is None:
            yield f"{where}: Input tag {each.get('type')!r} does not match any of the expected tags"
            continue
        for name in each.keys() - known:
            yield f"{where}.{name}: Extra inputs are not permitted"
    if _CLEARS_THINKING in kinds[1:]:
        yield f"context_management.edits: `{_CLEARS_THINKING}` must be the first edit"
    if len(kinds) != len({*kinds}):
        yield "context_management.edits: each strategy may be given once"
    if received.refuses_clearing and _CLEARS in kinds:
        yield "context_management: not available to this account"


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
        if signature.problem == "invalid" and (binds(received) or signature.message == latest):
            yield f"{where}: Invalid `signature` in `thinking` block"
        if signature.problem == "moved" and binds(received) and not _forgives(request):
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
    *(_check_fields, _check_edits, _check_roles, _check_texts, _check_results),
    *(_check_pairs, _check_marks, _check_thinking),
)
