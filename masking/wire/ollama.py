"""Ollama's own chat: the messages of Chat Completions, but for calls, which need no id.

A result names its tool, and answers that tool's next open call. Newer servers give ids, which some
clients drop. Arguments are objects, images stand beside the content, and an answer is streamed
unless the request says otherwise.
Source: https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from collections.abc import Iterator, Mapping, Sequence

from masking.model import Call, Element, ElementSize
from masking.tokens import estimate_tokens
from masking.wire import chat
from masking.wire.chat_sizes import PART_TOKENS, measure_tools
from masking.wire.json_values import non_empty, objects, spell
from masking.wire_format import Binding, HeadSize, Marks


def read_message(message: object) -> Element:
    """Read one message: who speaks, an assistant's calls, a tool's result."""
    element = chat.read_message(message)
    speaker, texts, calls, results, is_bound = element
    if calls:
        calls = tuple([_allow_no_id(call) for call in calls])
    elif results and isinstance(message, dict):
        (result,) = results
        named = non_empty(message.get("tool_name")) or non_empty(message.get("name"))
        results = (result._replace(call_id=result.call_id or "", tool=named),)
    else:
        return element
    return Element(speaker, texts, calls, results, is_bound)


def measure_message(message: object) -> ElementSize:
    """Return the estimated tokens of a message, and those of a tool result's content."""
    size = chat.measure_message(message)
    if not isinstance(message, dict):
        return size
    images = message.get("images")
    beside = PART_TOKENS * len(images) if isinstance(images, list) else 0
    beside += sum([estimate_tokens(text) for text in _find_texts_beside(message)])
    return ElementSize(size.total + beside, size.results) if beside else size


def asks_for_stream(document: Mapping[str, object], _path: str) -> bool:
    """Whether the answer is streamed, as lines of JSON: unless the request says no."""
    return document.get("stream") is not False


def find_binding(_document: Mapping[str, object], _model: str | None) -> Binding | None:
    """Return what becomes of bound reasoning: there is none."""
    return None


def measure_head(body: Mapping[str, object]) -> HeadSize:
    """Return the estimated tokens of the tool schemas; a system prompt is a message."""
    return HeadSize(measure_tools(chat.find_tools(body)))


def find_marks(_: Mapping[str, object]) -> Marks:
    """Return the cache marks: the server keeps any prefix by itself."""
    return Marks()


def stands_out(_: object) -> bool:
    """Whether a message has what a function of a document looks for: never."""
    return False


def count_parts(message: object) -> tuple[Sequence[str], int]:
    """Return the texts of a message that are tokens of the prompt, and its other tokens."""
    texts, others = chat.count_message_parts(message)
    beside = _find_texts_beside(message) if isinstance(message, dict) else ()
    return (*texts, *beside), others


OLLAMA = chat.CHAT._replace(
    name="ollama",
    paths=((r"/api/chat$", "answer"),),
    read_element=read_message,
    measure_element=measure_message,
    streams=asks_for_stream,
    find_binding=find_binding,
    measure_head=measure_head,
    find_marks=find_marks,
    count_parts=count_parts,
    stands_out=stands_out,
    pairs_by_order=True,
)


def _allow_no_id(call: Call) -> Call:
    call_id, tool, arguments = call
    return Call("", tool, arguments) if call_id is None and tool else call


def _find_texts_beside(message: Mapping[str, object]) -> Iterator[str]:
    """Yield the texts of a message that Chat does not have: arguments as objects, and thoughts."""
    for call in objects(message.get("tool_calls")):
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, dict):
            yield spell(arguments)
    if thinking := non_empty(message.get("thinking")):
        yield thinking
