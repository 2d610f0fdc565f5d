"""Anthropic Messages: a result is a `tool_result` block in what the user says.

Sources: https://platform.claude.com/docs/en/api/messages, and what its clients send. The same body
goes to Vertex (`rawPredict`) and to Bedrock (`invoke`), with the model in the path. A prompt is
rendered in the order tools, system, messages, whatever the order of the keys.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from masking.model import Call, Speaker, ToolResult, make
from masking.tokens import count_claude
from masking.wire.blocks import Blocks
from masking.wire.format import (
    CALL_TOKENS,
    Added,
    Charge,
    Document,
    Notes,
    OnHistoryEdit,
    ProviderEdit,
    ServerHistory,
    as_list,
    follow,
    non_empty,
    objects,
    render_json,
)
from masking.wire.parts import (
    CACHE_MARK,
    ENCRYPTED_CHARS_PER_TOKEN,
    UNKNOWN_PART_TOKENS,
    ImageParts,
    Picture,
    find_messages_binding,
    is_binding_assumed,
    read_address,
    read_content,
    read_picture,
    unmark_content,
    without_mark,
)

BILLING_HEADER = "x-anthropic-billing-header:"
"""claude-code begins a system text with this; the rest of it differs in every request."""

SIGNED = "signed (cch)"
"""Why a request passes unchanged that claude-code signed."""

_SIGNATURE = re.compile(rf"{BILLING_HEADER}.*\bcch=(?!00000\b)[0-9a-f]", re.DOTALL)
"""A hash of the body; towards hosts other than Anthropic's it is absent, or all zeros."""

_THINKING = ("thinking", "redacted_thinking")

_UNTOUCHABLE = "tool_reference"
"""A part of a result that loads a tool; the result then stays whole."""

_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"

_MISMATCH_BEHAVIOR = ("thinking", "block_binding", "prefix_mismatch_behavior")

_MODEL_IN_PATH = re.compile(r"/models?/([^/:]+(?::\d+)?)[:/]")
_STREAMING_PATH = re.compile(r":streamRawPredict$|/invoke-with-response-stream$")
_BEDROCK = r"/model/[^/]*(?:anthropic|claude|inference-profile)[^/]*(?:/[^/]+)?"


# Clearing by the provider (https://platform.claude.com/docs/en/build-with-claude/context-editing).

_EDITS_PATH = ("context_management", "edits")

_ASKS_BY_HEADER = re.compile(r"^$|/v1/messages(?:/count_tokens)?$")
"""Bedrock and Vertex name betas in the body, where nothing is to change. A file has no path."""

_RUN_BY_CLIENTS = re.compile(r"(?:custom$|bash_|text_editor_|computer_|memory_)")
"""The types of tools whose results the client sends; the others run at the vendor's."""

_RUN_BY_VENDOR = ("server_tool_use", "mcp_tool_use")


def can_clear(document: Document, path: str, model: str | None) -> bool:
    """Whether a request can ask for the provider's clearing, as it does not do so itself.

    It cannot if tools run at the vendor's.
    """
    managed = document.get(_EDITS_PATH[0])
    edits = managed.get(_EDITS_PATH[1]) if isinstance(managed, dict) else None
    if not isinstance(managed, dict | None) or not isinstance(edits, list | None):
        return False
    types = (tool.get("type", "custom") for tool in objects(document.get("tools")))
    has_tools = not all(isinstance(each, str) and _RUN_BY_CLIENTS.match(each) for each in types)
    has_used = any(
        block.get("type") in _RUN_BY_VENDOR
        for message in objects(document.get("messages"))
        for block in objects(message.get("content"))
    )
    runs_there = has_tools or document.get("mcp_servers") or has_used
    return not runs_there and bool(_ASKS_BY_HEADER.search(path))


def write_clearing(keep: int, excluded: Sequence[str]) -> Added:
    """Return the edit that clears the results of all tool uses but the last ones."""
    edit: dict[str, object] = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 1},
        "keep": {"type": "tool_uses", "value": keep},
    }
    edit |= {"exclude_tools": [*excluded]} if excluded else {}
    return Added(_EDITS_PATH, edit, in_list=True)


# Dropping of bound reasoning by the provider
# (https://platform.claude.com/docs/en/build-with-claude/preserved-thinking).

_THINKS = ("adaptive", "enabled")


def can_drop(document: Document, path: str, model: str | None) -> bool:
    """Whether a request can have bound thinking dropped.

    What its client says of that stays, and without thinking nothing is bound. Where a request says
    nothing of thinking, the models that bind it think all the same; of others nobody knows.
    """
    if not _ASKS_BY_HEADER.search(path):
        return False
    thinking = document.get("thinking")
    if thinking is None:
        return not is_binding_assumed(model)
    if not isinstance(thinking, dict) or thinking.get("type") not in _THINKS:
        return False
    asked = thinking.get("block_binding")
    return asked is None or (isinstance(asked, dict) and asked.get(_MISMATCH_BEHAVIOR[-1]) is None)


def write_dropping(document: Document) -> Added:
    """Return what has bound thinking dropped that no longer fits."""
    if document.get("thinking") is not None:
        return Added(_MISMATCH_BEHAVIOR, "drop_block")
    binding = {_MISMATCH_BEHAVIOR[-1]: "drop_block"}
    return Added(_MISMATCH_BEHAVIOR[:1], {"type": "adaptive", "block_binding": binding})


class Messages(Blocks):
    name = "messages"
    paths = (
        (r"/v1/messages$", "answer"),
        (r"/v1/messages/count_tokens$", "count"),
        (r"/anthropic/models/[^/]+:(?:rawP|streamRawP)redict$", "answer"),
        (rf"{_BEDROCK}/invoke(?:-with-response-stream)?$", "answer"),
    )
    list_paths = (("messages",),)
    role_order = "user first"  # neighbors of one role are joined
    speakers: ClassVar[Mapping[object, Speaker]] = {
        "user": "user",
        "assistant": "assistant",
        "system": "system",  # its message can stand anywhere in the list
    }
    tools_path = ("tools",)
    mark = CACHE_MARK

    clearing = ProviderEdit(can_clear, write_clearing, "context-management-2025-06-27")
    dropping = ProviderEdit(can_drop, write_dropping, "thinking-binding-controls-2026-08-01")

    def list_blocks(self, content: object) -> list[Any]:
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return as_list(content)

    def read_block(
        self, block: Mapping[str, Any], at: int, speaker: Speaker
    ) -> str | Call | ToolResult | None:
        kind = block.get("type")
        if kind == "text" and isinstance(text := block.get("text"), str):
            return text
        if kind == "tool_use" and speaker == "assistant":
            named = non_empty(block.get("id")), non_empty(block.get("name"))
            return make(Call, (*named, block.get("input")))
        if kind == "tool_result" and speaker == "user":
            return _read_result(at, block)
        return None

    def is_reasoning(self, block: Mapping[str, Any]) -> bool:
        return block.get("type") in _THINKING

    def find_result(self, block: object) -> Mapping[str, object] | None:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            return block
        return None

    def charge_block(self, block: object, result: int | None = None) -> Charge:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, dict) and isinstance(kind, str):
            if isinstance(text := block.get(_TEXT_KEYS.get(kind, "")), str):
                return make(Charge, (text, 0, result, ""))
            if kind in _CALLS:
                name, text = str(block.get("name", "")), render_json(block.get("input"))
                return Charge(text, CALL_TOKENS, result, name)
            if picture := _read_image(block):
                return Charge("", picture.tokens, result)
            if kind in ("document", "search_result"):
                return self._charge_document(block, result)
            if kind == "redacted_thinking" and isinstance(data := block.get("data"), str):
                return Charge("", len(data) // ENCRYPTED_CHARS_PER_TOKEN, result)
        return Charge("", UNKNOWN_PART_TOKENS, result)

    def _charge_document(self, block: Mapping[str, object], result: int | None) -> Charge:
        """Return the charge of a document: of its title, and of its text; of a file it is a guess.

        Source: https://platform.claude.com/docs/en/build-with-claude/citations
        """
        texts = [block.get("title"), block.get("context"), block.get("source")]
        tokens = 0
        match block:
            case {"source": {"type": "text", "data": content}}:
                texts.append(content)
            case {"source": {"type": "content", "content": content}} | {"content": content}:
                charges = [self.charge_block(part) for part in as_list(content)]
                texts += [content, *(charge.text for charge in charges)]
                tokens = sum([charge.tokens for charge in charges])
            case _:
                tokens = UNKNOWN_PART_TOKENS
        return Charge("".join([text for text in texts if isinstance(text, str)]), tokens, result)

    def read_reasoning(self, message: object) -> Sequence[Charge]:
        blocks = objects(follow(message, ("content",)))
        return [self.charge_block(block) for block in blocks if block.get("type") in _THINKING]

    def unmark(self, message: object) -> object:
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            return message
        return unmark_content({**message, "content": [*map(unmark_content, message["content"])]})

    def find_tools(self, body: Document) -> object:
        tools = body.get("tools")
        return [*map(without_mark, tools)] if isinstance(tools, list) else tools

    def find_head_texts(self, body: Document) -> Sequence[str]:
        texts = super().find_head_texts(body)
        return tuple([text for text in texts if not text.startswith(BILLING_HEADER)])

    def find_model(self, document: Document, path: str) -> str | None:
        """Return the model of the body, or of the path (Vertex, Bedrock)."""
        found = _MODEL_IN_PATH.search(path)
        return non_empty(document.get("model")) or (unquote(found[1]) if found else None)

    def streams(self, document: Document, path: str) -> bool:
        return document.get("stream") is True or bool(_STREAMING_PATH.search(path))

    def find_obstacle(self, document: Document) -> str | None:
        if isinstance(document.get("thread"), dict):
            return "the provider holds the history (thread)"
        if document.get("compaction"):
            return "the provider trims the history (compaction)"
        for edit in objects(follow(document, ("context_management", "edits"))):
            kind = str(edit.get("type"))
            if kind.startswith(("clear_tool_uses", "compact")):
                return f"the provider trims the history ({kind})"
        if any(map(_SIGNATURE.match, super().find_head_texts(document))):
            return SIGNED
        return None

    def on_history_edit(
        self, document: Document, model: str | None, notes: Sequence[Notes]
    ) -> OnHistoryEdit | None:
        """Return what the model does with bound thinking.

        The request may allow dropping it. If it asks for an error instead, it gets one on any
        account.
        """
        asked = follow(document, _MISMATCH_BEHAVIOR)
        if asked == "drop_block":
            return None
        binding = find_messages_binding(model)
        return "refuses" if binding == "may_refuse" and asked is not None else binding

    def find_server_history(self, document: Document) -> ServerHistory | None:
        """Return what history the provider holds in a thread, which the request may begin."""
        thread = document.get("thread")
        rest = {key: value for key, value in document.items() if key != "thread"}
        if not isinstance(thread, dict) or self.find_obstacle(rest) is not None:
            return None
        return ServerHistory(non_empty(thread.get("previous_message_id")))

    def may_be_continued(self, document: Document) -> bool:
        """Whether a message can be named by the next request: it is in a thread."""
        return isinstance(document.get("thread"), dict)


MESSAGES = Messages()


def _read_result(at: int, block: Mapping[str, Any]) -> ToolResult:
    content, slot = block.get("content"), ("content", at, "content")
    call_id, is_error = non_empty(block.get("tool_use_id")), block.get("is_error") is True
    if isinstance(content, str):  # as nearly all
        text, tail = split_reminders(content)
        tails = (tail,) if tail else ()
        return ToolResult(call_id, "string", (text,), (slot,), is_error, None, tails)
    if any(part.get("type") == _UNTOUCHABLE for part in objects(content)):
        return ToolResult(call_id, "other", (), (), is_error)
    result = read_content(call_id, slot, content, _IMAGES, is_error=is_error)
    split = [*map(split_reminders, result.texts)]
    if any(tail for _, tail in split):
        texts, tails = zip(*split, strict=True)
        result = result._replace(texts=texts, tails=tails)
    return result


def split_reminders(text: str) -> tuple[str, str]:
    """Split off the trailing run of `<system-reminder>` blocks, with the blanks before it.

    claude-code appends them to a result; they can hold what the user has said meanwhile.
    """
    end = tail = len(text.rstrip())
    while text.endswith(_REMINDER_END, 0, end):
        begin = text.rfind(_REMINDER, 0, end)
        if begin < 0:
            break
        end = begin
        while end and text[end - 1].isspace():
            end -= 1
    return (text, "") if end == tail else (text[:end], text[end:])


_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")

_TEXT_KEYS = {"text": "text", "thinking": "thinking", _UNTOUCHABLE: "tool_name"}
"""By the type of a block, the key of its text. A tool that is loaded has its schema in `tools`."""


def _read_image(block: Mapping[str, object]) -> Picture | None:
    """Return what is known of the image in a block: its data, its address, or its id."""
    if block.get("type") != "image":
        return None
    source = block.get("source")
    if not isinstance(source, dict):
        return Picture(0)
    if "data" in source:
        return read_picture(source["data"], source.get("media_type"), count_claude)
    return read_address(source.get("url", source.get("file_id")), count_claude)


_IMAGES = ImageParts(_read_image, frozenset(("type", "source")), {"type": "text"})
