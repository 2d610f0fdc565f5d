"""Chat Completions: a result is a message of role `tool`, bound to a call by `tool_call_id`.

Source: https://platform.openai.com/docs/api-reference/chat/create, and what compatible clients and
providers make of it (`cache_control`, `reasoning`, lists of text parts in results).
"""

from collections.abc import Mapping, Sequence

from masking.model import UNKNOWN, Call, Element, Speaker, make
from masking.tokens import LOW_DETAIL_TOKENS, count_openai
from masking.wire.format import (
    CALL_TOKENS,
    MESSAGE_FRAME,
    NO_NOTES,
    Charge,
    Document,
    HeadSize,
    Marks,
    Notes,
    OnHistoryEdit,
    WireFormat,
    as_list,
    measure_tools,
    non_empty,
    objects,
    read_texts,
)
from masking.wire.parts import (
    CACHE_MARK,
    ImageParts,
    Picture,
    charge_content,
    find_claude_binding,
    find_lifetimes,
    find_marked,
    join_marks,
    read_address,
    read_content,
    unmark_content,
    without_mark,
)

_SPEAKERS: Mapping[object, Speaker] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
    "user": "user",
    "assistant": "assistant",
}
"""By role."""

_REASONING = "thinking_blocks"
"""Where LiteLLM puts the signed thinking of Claude."""


class Chat(WireFormat):
    name = "chat"
    paths = ((r"/chat/completions$", "answer"),)
    list_paths = (("messages",),)

    def read_element(self, message: object) -> Element:
        if not isinstance(message, dict):
            return UNKNOWN
        role = message.get("role")
        if role == "tool":
            call_id, content = non_empty(message.get("tool_call_id")), message.get("content")
            is_error = message.get("is_error") is True
            result = read_content(call_id, ("content",), content, _IMAGES, is_error=is_error)
            return make(Element, ("tool", (), (), (result,), False))
        speaker = _SPEAKERS.get(role, "unknown") if isinstance(role, str) else "unknown"
        texts = read_texts(message.get("content"))
        calls = as_list(message.get("tool_calls")) if speaker == "assistant" else ()
        is_bound = bool(message.get(_REASONING))
        return make(Element, (speaker, texts, tuple(map(_read_call, calls)), (), is_bound))

    def read_charges(self, message: object) -> list[Charge]:
        if not isinstance(message, dict):
            return []
        result = 0 if message.get("role") == "tool" else None
        charges = charge_content(message.get("content"), result, _read_image)
        charges.append(MESSAGE_FRAME)
        for call in as_list(message.get("tool_calls")):
            _, name, arguments = _read_call(call)
            text = non_empty(arguments) or ""
            charges.append(make(Charge, (text, CALL_TOKENS, None, name or "")))
        return charges

    def read_notes(self, message: object) -> Notes:
        if not isinstance(message, dict):
            return NO_NOTES
        content, is_bound = message.get("content"), bool(message.get(_REASONING))
        if not isinstance(content, list) and CACHE_MARK not in message and not is_bound:
            return NO_NOTES  # as nearly all messages
        lifetimes = (*find_lifetimes((message, *objects(content))),)
        return Notes(bool(lifetimes), lifetimes, is_bound)

    def unmark(self, message: object) -> object:
        return without_mark(unmark_content(message))

    def measure_head(self, body: Document) -> HeadSize:
        tools = body.get("tools")
        return HeadSize(measure_tools(tools), measure_tools(find_marked(as_list(tools)) or None))

    def find_marks(self, document: Document, notes: Sequence[Notes]) -> Marks:
        """Return the `cache_control` (Anthropic) of tools, messages, parts, and the whole request.

        Its `ttl` is a lifetime, `1h`; without one it is `5m`. OpenAI's `prompt_cache_retention` is
        a lifetime, too, but no mark.
        """
        retention = document.get("prompt_cache_retention")
        asked = [retention] if isinstance(retention, str) else []
        return join_marks(objects(document.get("tools")), notes, document, asked=asked)

    def on_history_edit(
        self, document: Document, model: str | None, notes: Sequence[Notes]
    ) -> OnHistoryEdit | None:
        """Return what the model does with bound reasoning, where LiteLLM passes on Claude's.

        OpenRouter has it not bound (openrouter.ai/docs, Claude 5.5).
        """
        has_reasoning = any(each.is_bound for each in notes)
        return find_claude_binding(model) if has_reasoning else None


CHAT = Chat()


def _read_call(call: object) -> Call:
    call = call if isinstance(call, dict) else {}
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    names = non_empty(call.get("id")), non_empty(function.get("name"))
    return make(Call, (*names, function.get("arguments")))


def _read_image(part: Mapping[str, object]) -> Picture | None:
    if part.get("type") != "image_url":
        return None
    image = part.get("image_url")
    if not isinstance(image, dict):
        return read_address(image, count_openai)
    picture = read_address(image.get("url"), count_openai)
    is_low = image.get("detail") == "low"
    return picture._replace(tokens=LOW_DETAIL_TOKENS) if is_low else picture


_IMAGES = ImageParts(_read_image, frozenset(("type", "image_url")), {"type": "text"})
