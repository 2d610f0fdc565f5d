"""OpenAI Responses: a result is an item of its own, bound to its call by `call_id`.

Sources: https://platform.openai.com/docs/api-reference/responses, the types of the openai package,
and what codex, opencode, pi and the Agents SDK send. All that a model makes for one request is a
run of items: its reasoning, its words, its calls.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from masking.model import UNKNOWN, Call, ContentKind, Element, Path, Speaker, ToolResult, make
from masking.tokens import LOW_DETAIL_TOKENS, count_openai
from masking.wire.format import (
    CALL_FRAME,
    MESSAGE_FRAME,
    NO_NOTES,
    Charge,
    Document,
    Marks,
    Notes,
    OnHistoryEdit,
    ServerHistory,
    WireFormat,
    as_list,
    follow,
    is_text_part,
    non_empty,
    objects,
    read_texts,
    render_json,
)
from masking.wire.parts import (
    ENCRYPTED_CHARS_PER_TOKEN,
    ImageParts,
    Picture,
    charge_content,
    find_responses_binding,
    read_address,
    read_content,
    unmark_parts,
)

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
"""The speaker of every item that is neither a message nor a call nor a result. What the provider's
own tools give out belongs to the model's answer. A compaction stands for a history that is gone."""

_CALL = "_call"
"""How the types of calls end. Of the others only what the client runs has a `call_id`."""

_OUTPUT = "_output"
"""How the types of results end."""

_PAIRED_BY: Mapping[str, str] = {
    **dict.fromkeys(("program", "program_output", "tool_search_output"), "call_id"),
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
}
"""Where items that are neither calls nor results of a client's tools name what they belong to."""

_ANSWERS = ("program_output", "tool_search_output", "mcp_approval_response")

_CLIENTS_CALLS = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call")
)
"""The calls that a client runs; one without an id is a call all the same."""

_ARGUMENTS = ("arguments", "input", "action", "operation")

_TEXT_TYPES = ("input_text", "output_text")
_is_text = partial(is_text_part, types=_TEXT_TYPES)

_BREAKPOINT = "prompt_cache_breakpoint"

_NOTES = frozenset(("id", "status", "internal_chat_message_metadata_passthrough"))
"""Keys of an item that a model does not see."""

HELD_BY_RESPONSE = "the provider holds the history (previous_response_id)"
"""Why a request passes unchanged that continues an earlier response."""

_REFERS = "the provider holds a part of the history (item_reference)"

_HELD_BY = ("previous_response_id", "conversation")


class Responses(WireFormat):
    name = "responses"
    paths = (
        (r"/responses$", "answer"),
        (r"/responses/compact$", "compact"),
        (r"/responses/input_tokens$", "count"),
    )
    list_paths = (("input",),)
    answers_in_runs = True

    def read_element(self, item: object) -> Element:
        if not isinstance(item, dict):
            return UNKNOWN
        kind = item.get("type", "message")
        if kind == "message":
            role = item.get("role")
            speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
            texts = read_texts(item.get("content"), _TEXT_TYPES)
            return make(Element, (speaker, texts, (), (), False))
        if not isinstance(kind, str):
            return UNKNOWN
        if kind == "reasoning":
            return Element("assistant", is_bound=True)
        if kind in _OTHERS:
            return Element(_OTHERS[kind], (), *_read_pair(kind, item))
        if kind.endswith(_CALL):
            return make(Element, ("assistant", (), _read_call(kind, item), (), False))
        if kind.endswith(_OUTPUT):
            return make(Element, ("tool", (), (), (_read_result(kind, item),), False))
        return UNKNOWN

    def read_charges(self, item: object) -> list[Charge]:
        """Read the frame of an item, then its content.

        Of an item that is neither a message nor a result, all is text but its frame; arguments are
        compact JSON, and what is encrypted counts by its length.
        """
        if not isinstance(item, dict):
            return []
        kind = item.get("type", "message")
        if kind == "message":
            return [MESSAGE_FRAME, *charge_content(item.get("content"), None, _read_image)]
        if isinstance(kind, str) and (
            _read_pair(kind, item)[1] if kind in _OTHERS else kind.endswith(_OUTPUT)
        ):
            output = item.get("output")
            content = [output] if isinstance(output, dict) else output  # a screenshot stands alone
            return [CALL_FRAME, *charge_content(content, 0, _read_image)]
        charges = [CALL_FRAME]
        for key, value in item.items():
            if key not in _FRAME and value is not None:
                charges.append(Charge(value if isinstance(value, str) else render_json(value)))
        if isinstance(encrypted := item.get("encrypted_content"), str):
            reasoning = max(0, len(encrypted) - _ENVELOPE_CHARS)
            charges.append(Charge("", reasoning // ENCRYPTED_CHARS_PER_TOKEN))
        return charges

    def read_notes(self, item: object) -> Notes:
        if not isinstance(item, dict):
            return NO_NOTES
        kind = item.get("type")
        parts = [*objects(item.get("content")), *objects(item.get("output"))]
        return Notes(
            is_marked=any(part.get(_BREAKPOINT) for part in parts),
            is_bound=kind == "reasoning" and bool(item.get("encrypted_content")),
            obstacle=_REFERS if kind == "item_reference" else None,
        )

    def unmark(self, item: object) -> object:
        """Return an item without breakpoints, ids and a client's own notes.

        A content of one text is written as the text.
        """
        if not isinstance(item, dict):
            return item
        seen = {key: value for key, value in item.items() if key not in _NOTES}
        for key in ("content", "output"):
            if isinstance(parts := seen.get(key), list):
                seen[key] = unmark_parts(parts, _BREAKPOINT, _TEXT_TYPES)
        return seen

    def user_message(self, text: str) -> object:
        return {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }

    def find_head_texts(self, body: Document) -> Sequence[str]:
        instructions = body.get("instructions")
        return (instructions,) if isinstance(instructions, str) else ()

    def find_marks(self, document: Document, notes: Sequence[Notes]) -> Marks:
        """Return the `prompt_cache_breakpoint` of parts, and how long the prompt is kept.

        The latter is `ttl` in `prompt_cache_options`, or `prompt_cache_retention`, which are no
        marks.
        """
        ttl = follow(document, ("prompt_cache_options", "ttl"))
        asked = (ttl, document.get("prompt_cache_retention"))
        lifetimes = tuple(spelling for spelling in asked if isinstance(spelling, str))
        return Marks(in_list=any(each.is_marked for each in notes), lifetimes=lifetimes)

    def find_obstacle(self, document: Document) -> str | None:
        if document.get("previous_response_id"):
            return HELD_BY_RESPONSE
        if document.get("conversation"):
            return "the provider holds the history (conversation)"
        if any(e.get("type") == "compaction" for e in objects(document.get("context_management"))):
            return "the provider trims the history (compaction)"
        if isinstance(document.get("input"), str):
            return "its input is one text, without tool results"
        return None

    def on_history_edit(
        self, document: Document, model: str | None, notes: Sequence[Notes]
    ) -> OnHistoryEdit | None:
        is_encrypted = any(each.is_bound for each in notes)
        return find_responses_binding(model, is_encrypted=is_encrypted)

    def compacts(self, document: Document, path: str) -> bool:
        """Whether a request asks for its history in short: by its path, or by codex's last item."""
        items = document.get("input")
        last = items[-1] if isinstance(items, list) and items else None
        is_trigger = isinstance(last, dict) and last.get("type") == "compaction_trigger"
        return is_trigger or path.endswith("/compact")

    def find_server_history(self, document: Document) -> ServerHistory | None:
        """Return what history the provider holds: by an earlier response, or by a conversation."""
        previous, conversation = map(document.get, _HELD_BY)
        if isinstance(conversation, dict):
            conversation = conversation.get("id")
        held = ServerHistory(non_empty(previous), non_empty(conversation))
        rest = {key: value for key, value in document.items() if key not in _HELD_BY}
        is_held = held != ServerHistory() and self.find_obstacle(rest) is None
        return held if is_held else None

    def may_be_continued(self, document: Document) -> bool:
        """Whether a response can be named: it is stored, or its socket has it."""
        return document.get("store") is not False or document.get("type") == "response.create"


RESPONSES = Responses()


def _read_pair(
    kind: str, item: Mapping[str, Any]
) -> tuple[tuple[Call, ...], tuple[ToolResult, ...]]:
    """Return the call or the result in an item that is never touched: pairs stay together."""
    call_id = non_empty(item.get(_PAIRED_BY.get(kind, "")))
    if call_id is None:
        return (), ()
    if kind in _ANSWERS:
        return (), (ToolResult(call_id, "other", (), ()),)
    return (Call(call_id, kind, None),), ()


def _read_call(kind: str, item: Mapping[str, Any]) -> tuple[Call, ...]:
    call_id = non_empty(item.get("call_id"))
    if call_id is None and kind not in _CLIENTS_CALLS:  # one of the provider's own tools
        return ()
    tool = non_empty(item.get("name")) or kind.removesuffix(_CALL)
    arguments = next((item[key] for key in _ARGUMENTS if key in item), None)
    return (make(Call, (call_id, tool, arguments)),)


def _read_result(kind: str, item: Mapping[str, Any]) -> ToolResult:
    """Read an item of the type `kind` that is a result, and which of its texts may be replaced."""
    call_id = non_empty(item.get("call_id"))
    read = _RESULTS.get(kind)
    is_replayed = follow(item, ("caller", "type")) == "program"
    if read is None or is_replayed:  # a program is run again, and must find what it found
        return ToolResult(call_id or non_empty(item.get("id")), "other", (), ())
    return read(call_id, item)


def _read_output(call_id: str | None, item: Mapping[str, Any]) -> ToolResult:
    """Read a text, or a list of parts, of which the texts may go."""
    content, is_error = item.get("output"), item.get("status") == "failed"
    return read_content(call_id, ("output",), content, _IMAGES, is_error=is_error, is_text=_is_text)


def _read_shell_output(call_id: str | None, item: Mapping[str, Any]) -> ToolResult:
    """Read what commands printed: a list of `stdout`, `stderr` and how each command ended."""
    texts: list[str] = []
    slots: list[Path] = []
    is_error = False
    for place, piece in enumerate(as_list(item.get("output"))):
        if not isinstance(piece, dict):
            continue
        if isinstance(outcome := piece.get("outcome"), dict):
            is_error |= outcome.get("type") == "timeout" or outcome.get("exit_code", 0) != 0
        for key in ("stdout", "stderr"):
            if text := non_empty(piece.get(key)):
                texts.append(text)
                slots.append(("output", place, key))
    kind: ContentKind = "text_parts" if texts else "other"
    return ToolResult(call_id, kind, tuple(texts), tuple(slots), is_error)


_RESULTS: Mapping[str, Callable[[str | None, Mapping[str, Any]], ToolResult]] = {
    **dict.fromkeys(
        ("function_call_output", "custom_tool_call_output", "apply_patch_call_output"),
        _read_output,
    ),
    "shell_call_output": _read_shell_output,
}
"""The results whose texts may be replaced, by their type; all others stay as they are."""


_ENVELOPE_CHARS = 1_100
"""How much longer an encrypted text is than its reasoning alone.

Measured on recorded requests to gpt-5-nano, gpt-5.5 and gpt-5.6, whose usage tells what nine texts
of 1,144 to 9,420 characters came to: 2,077 tokens together, by this rule 2,085. gpt-5-nano was not
billed for reasoning from before the last thing that the user said. An item does not show that.
"""

_FRAME = frozenset(
    (
        *("id", "type", "status", "call_id", "caller", "fingerprint", "encrypted_content"),
        *("result", "summary", "internal_chat_message_metadata_passthrough"),
    )
)
"""Keys whose values are no text of the prompt."""


def _read_image(part: Mapping[str, object]) -> Picture | None:
    """Return what is known of the image in an `input_image`, or of a screenshot."""
    if part.get("type") not in ("input_image", "computer_screenshot"):
        return None
    picture = read_address(part.get("image_url") or part.get("file_id"), count_openai)
    return picture._replace(tokens=LOW_DETAIL_TOKENS) if part.get("detail") == "low" else picture


_IMAGES = ImageParts(
    _read_image, frozenset(("type", "image_url", "detail", "file_id")), {"type": "input_text"}
)
