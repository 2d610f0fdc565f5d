"""Ollama's own chat: the messages of Chat Completions, but for calls, which need no id.

A result names its tool, and answers that tool's next open call. Newer servers give ids, which some
clients drop. Arguments are objects, images stand beside the content, and an answer is streamed
unless the request says otherwise. The server keeps any prefix by itself, without marks.
Source: https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from masking.model import Call, Element, ToolResult, make
from masking.wire.chat import Chat
from masking.wire.format import (
    NO_NOTES,
    Charge,
    Document,
    Notes,
    WireFormat,
    follow,
    non_empty,
    objects,
    render_json,
)
from masking.wire.parts import UNKNOWN_PART_TOKENS


class Ollama(Chat):
    name = "ollama"
    paths = ((r"/api/chat$", "answer"),)
    pairs_by_order = True

    # There are no cache marks.
    measure_head = WireFormat.measure_head
    find_marks = WireFormat.find_marks

    def read_notes(self, message: object) -> Notes:
        return NO_NOTES

    def read_element(self, message: object) -> Element:
        element = super().read_element(message)
        speaker, texts, calls, results, is_bound = element
        if calls:
            calls = tuple([_allow_no_id(call) for call in calls])
        elif results and isinstance(message, dict):
            (result,) = results
            named = non_empty(message.get("tool_name")) or non_empty(message.get("name"))
            before, after = result[1:7], result[8:]
            results = (make(ToolResult, (result.call_id or "", *before, named, *after)),)
        else:
            return element
        return make(Element, (speaker, texts, calls, results, is_bound))

    def read_charges(self, message: object) -> list[Charge]:
        """Read what Chat does, and what it does not have.

        These are arguments that are objects, thoughts, and images beside the content. What an image
        costs differs too much between the models that the server runs to be more than a guess.
        """
        charges = super().read_charges(message)
        if not isinstance(message, dict):
            return charges
        for call in objects(message.get("tool_calls")):
            if isinstance(arguments := follow(call, ("function", "arguments")), dict):
                charges.append(Charge(render_json(arguments)))
        if thinking := non_empty(message.get("thinking")):
            charges.append(Charge(thinking))
        if isinstance(images := message.get("images"), list):
            charges.append(Charge("", UNKNOWN_PART_TOKENS * len(images)))
        return charges

    def streams(self, document: Document, path: str) -> bool:
        """Whether the answer is streamed, as lines of JSON: unless the request says no."""
        return document.get("stream") is not False


OLLAMA = Ollama()


def _allow_no_id(call: Call) -> Call:
    call_id, tool, arguments = call
    return make(Call, ("", tool, arguments)) if call_id is None and tool else call
