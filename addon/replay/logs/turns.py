"""What user, model and tools said, as the elements of a request in the format of its provider.

Agents that speak to many providers log a conversation in a form of their own. They, or the package
that they use for it, write it in the format of each provider when they ask.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from addon.replay.logs.entries import Entry, write_json
from addon.vendors import VENDORS
from masking.wire import CHAT, GEMINI, MESSAGES, RESPONSES, WireFormat


class Text(NamedTuple):
    """Words of the user or the model."""

    text: str


class Media(NamedTuple):
    """An image or a document: its kind (`image/png`) and its bytes in base64."""

    mime: str
    data: str


class Thought(NamedTuple):
    """Reasoning of the model.

    signature: what the provider wants back with it, if anything: a signature, or the whole
        encrypted.
    item: names the reasoning of which this is a part, where it has several.
    is_redacted: whether there is nothing but the signature.
    """

    text: str
    signature: str | None = None
    item: str | None = None
    is_redacted: bool = False


class Call(NamedTuple):
    """A call of a tool."""

    id: str
    name: str
    input: object
    signature: str | None = None


class Result(NamedTuple):
    """What the tool of a call gave."""

    id: str
    name: str
    text: str
    is_error: bool = False
    media: Sequence[Media] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What one side says at once."""

    role: Literal["user", "assistant", "tool"]
    parts: Sequence[Text | Media | Thought | Call | Result]


class TurnWriter:
    """Writes turns as the elements of requests; those of the same turns are the same objects.

    A request mostly begins as the one before did, and only what is new in it is looked at.
    """

    def __init__(self, wire: WireFormat) -> None:
        self._wire = wire
        self._written: dict[tuple[Turn, ...], Sequence[Entry]] = {}
        self._turns: list[Turn] = []
        self._items: list[Entry] = []
        self._last = 0, 0
        """Where the last group of turns began, and its elements: more turns may join it."""

    def write(self, turns: Iterable[Turn]) -> tuple[Entry, ...]:
        """Return the elements of a request."""
        turns = [*turns]
        begins_so = turns[: len(self._turns)] == self._turns
        at, count = self._last if begins_so else (0, 0)
        items = self._items[:count]
        for group in self._join(turns[at:]):
            self._last = at, len(items)
            written = self._written.get(group)
            if written is None:
                written = self._written[group] = [*_WRITERS[self._wire](group)]
            items += written
            at += len(group)
        self._turns, self._items = turns, items
        return tuple(items)

    def _join(self, turns: Iterable[Turn]) -> Iterator[tuple[Turn, ...]]:
        """Yield the turns that are one element: Anthropic's are a side's, all others one each."""
        if self._wire is MESSAGES:
            for _, group in groupby(turns, key=lambda turn: turn.role == "assistant"):
                yield (*group,)
        else:
            yield from ((turn,) for turn in turns)


def _write_chat(turns: Sequence[Turn]) -> Iterator[Entry]:
    for turn in turns:
        texts = [part.text for part in turn.parts if isinstance(part, Text)]
        media = [part for part in turn.parts if isinstance(part, Media)]
        if turn.role == "user":
            blocks = [{"type": "text", "text": text} for text in texts]
            is_text = len(texts) == 1 and not media
            yield {
                "role": "user",
                "content": texts[0] if is_text else [*blocks, *map(_write_image, media)],
            }
        elif turn.role == "assistant":
            thoughts = "".join(part.text for part in turn.parts if isinstance(part, Thought))
            calls = [
                {
                    "id": part.id,
                    "type": "function",
                    "function": {"name": part.name, "arguments": write_json(part.input)},
                }
                for part in turn.parts
                if isinstance(part, Call)
            ]
            yield {
                "role": "assistant",
                "content": "".join(texts),
                **({"reasoning_content": thoughts} if thoughts else {}),
                **({"tool_calls": calls} if calls else {}),
            }
        else:
            results = [part for part in turn.parts if isinstance(part, Result)]
            for part in results:
                yield {"role": "tool", "tool_call_id": part.id, "content": part.text}
            images = [_write_image(each) for part in results for each in part.media]
            if images:  # a result has text alone, so they go into a message behind
                told = {"type": "text", "text": "Attached image(s) from tool result:"}
                yield {"role": "user", "content": [told, *images]}


def _write_image(media: Media) -> Entry:
    url = f"data:{media.mime};base64,{media.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _write_messages(turns: Sequence[Turn]) -> Iterator[Entry]:
    blocks: list[Entry] = []
    for turn in turns:
        for part in turn.parts:
            match part:
                case Text(text) if text:
                    blocks.append({"type": "text", "text": text})
                case Media():
                    blocks.append(_write_source(part))
                case Thought(text, signature, _, is_redacted) if signature:
                    blocks.append(
                        {"type": "redacted_thinking", "data": signature}
                        if is_redacted
                        else {"type": "thinking", "thinking": text, "signature": signature}
                    )
                case Call():
                    blocks.append(
                        {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}
                    )
                case Result():
                    told = {"type": "text", "text": part.text}
                    block: dict[str, object] = {"type": "tool_result", "tool_use_id": part.id}
                    block["content"] = part.text
                    if part.media:
                        block["content"] = [told, *map(_write_source, part.media)]
                    if part.is_error:
                        block["is_error"] = True
                    blocks.append(block)
    if blocks:
        yield {
            "role": "assistant" if turns[0].role == "assistant" else "user",
            "content": blocks,
        }


def _write_source(media: Media) -> Entry:
    kind = "image" if media.mime.startswith("image/") else "document"
    source = {"type": "base64", "media_type": media.mime, "data": media.data}
    return {"type": kind, "source": source}


def _write_responses(turns: Sequence[Turn]) -> Iterator[Entry]:
    for turn in turns:
        if turn.role == "user":
            blocks: list[Entry] = [
                {"type": "input_text", "text": part.text}
                for part in turn.parts
                if isinstance(part, Text)
            ]
            blocks += [_write_input(part) for part in turn.parts if isinstance(part, Media)]
            yield {"role": "user", "content": blocks}
            continue
        summaries: dict[str, list[Entry]] = {}
        for part in turn.parts:
            match part:
                case Text(text):
                    yield {
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": text}],
                    }
                case Thought(text, signature, item) if signature:
                    told = [{"type": "summary_text", "text": text}] if text else []
                    if item is not None and item in summaries:
                        summaries[item] += told
                        continue
                    summary = summaries[item or ""] = [*told]
                    yield {
                        "type": "reasoning",
                        "encrypted_content": signature,
                        "summary": summary,
                    }
                case Call():
                    yield {
                        "type": "function_call",
                        "call_id": part.id,
                        "name": part.name,
                        "arguments": write_json(part.input),
                    }
                case Result():
                    texts = {"type": "input_text", "text": part.text}
                    output = [texts, *map(_write_input, part.media)] if part.media else part.text
                    yield {"type": "function_call_output", "call_id": part.id, "output": output}


def _write_input(media: Media) -> Entry:
    return {"type": "input_image", "image_url": f"data:{media.mime};base64,{media.data}"}


def _write_gemini(turns: Sequence[Turn]) -> Iterator[Entry]:
    for turn in turns:
        parts: list[Entry] = []
        for part in turn.parts:
            match part:
                case Text(text) if text:
                    parts.append({"text": text})
                case Thought(text, signature) if text:
                    signed = {"thoughtSignature": signature} if signature else {}
                    parts.append({"text": text, "thought": True, **signed})
                case Media():
                    parts.append(_write_inline(part))
                case Call():
                    signed = {"thoughtSignature": part.signature} if part.signature else {}
                    parts.append(
                        {"functionCall": {"name": part.name, "args": part.input}, **signed}
                    )
                case Result():
                    response = {"name": part.name, "content": part.text}
                    parts.append({"functionResponse": {"name": part.name, "response": response}})
                    parts += map(_write_inline, part.media)
        if parts:
            yield {"role": "model" if turn.role == "assistant" else "user", "parts": parts}


def _write_inline(media: Media) -> Entry:
    return {"inlineData": {"mimeType": media.mime, "data": media.data}}


_WRITERS = {
    CHAT: _write_chat,
    MESSAGES: _write_messages,
    RESPONSES: _write_responses,
    GEMINI: _write_gemini,
}

PATHS = {
    CHAT: "/v1/chat/completions",
    MESSAGES: "/v1/messages",
    RESPONSES: "/v1/responses",
    GEMINI: "/v1beta/models/{model}:streamGenerateContent",
}
"""The path of a request, by its format."""


class Provider(NamedTuple):
    """Where a provider is reached, if that is known, and the format in which it is spoken to."""

    host: str | None
    wire: WireFormat = CHAT


PROVIDERS = {name: Provider(each.host, each.wire) for each in VENDORS for name in each.names}
"""Providers as agents name them."""

UNKNOWN = Provider(None)
"""A provider of another name: most speak Chat Completions."""
