"""One conversation in plain words, and how every wire format spells it.

A test tells what is said once (`User`, `Model`, `Tools`), and each writer spells it as a client of
its format does. So what must hold of all formats is one table with one expectation.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from masking.conversation import Conversation
from masking.rewrite import read_request
from masking.wire.chat import CHAT
from masking.wire.converse import CONVERSE
from masking.wire.format import WireFormat
from masking.wire.gemini import GEMINI
from masking.wire.messages import MESSAGES
from masking.wire.ollama import OLLAMA
from masking.wire.responses import RESPONSES
from tests.support.builders import OLD
from tests.support.made_up_format import MADE_UP
from tests.support.marks import thorough
from tests.tools.provider.messages import sign

Spelled = dict[str, Any]


class Ask(NamedTuple):
    """A call of a tool."""

    call_id: str
    tool: str = "shell"
    arguments: Mapping[str, object] = {}


class Give(NamedTuple):
    """A result: a text, several texts in a list, or an object; PNG images, in base64, after it."""

    call_id: str
    content: str | tuple[str, ...] | Mapping[str, object] = OLD
    tool: str = "shell"
    fails: bool = False
    images: tuple[str, ...] = ()


class User(NamedTuple):
    text: str = "Go on."


class Model(NamedTuple):
    """An answer of the model: what it says, and then calls."""

    calls: tuple[Ask, ...] = ()
    text: str = ""
    thought: str = ""


class Tools(NamedTuple):
    """The results that a client sends at once."""

    results: tuple[Give, ...]


Step = User | Model | Tools


class Writer(NamedTuple):
    """How a client of a format spells what is said.

    spell: the elements for a step; several for one step in some formats.
    wrap: the request around the elements.
    has_ids, has_lists: whether results name their calls, and can be lists of texts.
    tells_errors: whether a result can say that it failed.
    has_images: whether a result can hold images that a text may replace.
    """

    name: str
    wire: WireFormat
    path: str
    spell: Callable[[Step], list[Spelled]]
    wrap: Callable[[list[Any]], Spelled]
    has_ids: bool = True
    has_lists: bool = True
    tells_errors: bool = True
    has_images: bool = True

    def tell(self, *steps: Step) -> "Told":
        """Return a request that holds these steps."""
        return Told(self, [item for step in steps for item in self.spell(step)])


class Told(NamedTuple):
    """A request in the spelling of a format."""

    writer: Writer
    items: Sequence[object]

    @property
    def wire(self) -> WireFormat:
        return self.writer.wire

    @property
    def document(self) -> Spelled:
        return self.writer.wrap([*self.items])

    @property
    def body(self) -> bytes:
        """It with blanks, as a client may write them, so that each byte counts."""
        return spell(self.document).encode()

    def read(self) -> Conversation:
        return read_request(self.body, self.wire, self.writer.path)

    def until(self, end: int) -> "Told":
        """Return the request as it was when it had so many elements."""
        return self._replace(items=self.items[:end])

    def then(self, *steps: Step) -> "Told":
        """Return the request after more has been said."""
        return self._replace(items=[*self.items, *self.writer.tell(*steps).items])


def spell(value: object) -> str:
    """Spell a JSON value with blanks in unusual places."""
    return json.dumps(value, separators=(" ,", " : "))


def turn(call_id: str = "a", content: str = OLD, tool: str = "shell") -> tuple[Step, Step]:
    """Return an answer with one call, and its result."""
    return Model((Ask(call_id, tool),)), Tools((Give(call_id, content, tool),))


def turns(count: int, first: str = "later") -> list[Step]:
    """Return so many turns that have nothing to be masked."""
    return [step for n in range(count) for step in turn(f"{first}_{n}", "ok")]


_FINE = "Compiled fine, nothing to see here. " * 20
_FAILED = "Error: the disk is full, and so the build has failed. " * 10
_FIVE = tuple(Give(f"call_{n}", _FINE) for n in range(5))


class RunAgain(NamedTuple):
    """Two conversations with the same answers, that differ in the results of some turns.

    As with providers that number the calls of every turn anew, ids tell no turns apart.
    """

    case: str
    first: Mapping[int, tuple[Give, ...]]
    second: Mapping[int, tuple[Give, ...]]

    def tell_first(self, count: int) -> list[Step]:
        """Return the first conversation after so many turns."""
        return self._tell(count, self.first)

    def tell_second(self, count: int) -> list[Step]:
        """Return the second conversation after so many turns."""
        return self._tell(count, self.second)

    def _tell(self, count: int, given: Mapping[int, tuple[Give, ...]]) -> list[Step]:
        steps: list[Step] = [User(f"Build it, with {self.case}.")]
        for turn in range(count):
            calls = 5 if turn == 1 else 1
            steps += [
                Model(tuple(Ask(f"call_{n}", "shell", {"job": n}) for n in range(calls))),
                Tools(given.get(turn, _FIVE[:1])),
            ]
        return steps


RUN_AGAIN = (
    RunAgain("an error", {}, {3: (Give("call_0", _FAILED),)}),
    RunAgain("fewer results", {1: _FIVE}, {1: _FIVE[:1]}),
)


def _parts(
    given: Give, kind: str = "text", show: Callable[[str], Spelled] = lambda data: {"data": data}
) -> object:
    """Return a content: a text, an object as its JSON, a list of parts for anything else.

    `show` spells an image.
    """
    content = given.content
    if isinstance(content, tuple) or given.images:
        texts = content if isinstance(content, tuple) else (_write(content),)
        return [{"type": kind, "text": text} for text in texts] + [*map(show, given.images)]
    return _write(content)


def _write(content: str | Mapping[str, object]) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def _data_url(data: str) -> str:
    return f"data:image/png;base64,{data}"


# Chat Completions


def _spell_chat(step: Step) -> list[Spelled]:
    match step:
        case User(text):
            return [{"role": "user", "content": text}]
        case Model(calls, text):
            message: Spelled = {"role": "assistant", "content": text or None}
            return [message | ({"tool_calls": [*map(_chat_call, calls)]} if calls else {})]
        case Tools(results):
            return [
                {"role": "tool", "tool_call_id": r.call_id}
                | {"content": _parts(r, show=_chat_image)}
                | ({"is_error": True} if r.fails else {})
                for r in results
            ]


def _chat_image(data: str) -> Spelled:
    return {"type": "image_url", "image_url": {"url": _data_url(data)}}


def _chat_call(call: Ask) -> Spelled:
    function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


# Anthropic Messages


def _spell_messages(step: Step) -> list[Spelled]:
    match step:
        case User(text):
            return [{"role": "user", "content": [{"type": "text", "text": text}]}]
        case Model(calls, text, thought):
            signature = sign({"messages": []}, thought)
            thinking = {"type": "thinking", "thinking": thought, "signature": signature}
            blocks: list[Spelled] = [thinking] if thought else []
            blocks += [{"type": "text", "text": text}] if text else []
            blocks += [
                {"type": "tool_use", "id": c.call_id, "name": c.tool, "input": {**c.arguments}}
                for c in calls
            ]
            return [{"role": "assistant", "content": blocks}]
        case Tools(results):
            return [{"role": "user", "content": [*map(_messages_result, results)]}]


def _messages_result(given: Give) -> Spelled:
    content = _parts(given, show=_messages_image)
    block = {"type": "tool_result", "tool_use_id": given.call_id, "content": content}
    return block | ({"is_error": True} if given.fails else {})


def _messages_image(data: str) -> Spelled:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


# Bedrock's Converse


def _spell_converse(step: Step) -> list[Spelled]:
    match step:
        case User(text):
            return [{"role": "user", "content": [{"text": text}]}]
        case Model(calls, text, thought):
            thinking = {"reasoningText": {"text": thought, "signature": "c2lnbmVk"}}
            blocks: list[Spelled] = [{"reasoningContent": thinking}] if thought else []
            blocks += [{"text": text}] if text else []
            for call in calls:
                named = {"toolUseId": call.call_id, "name": call.tool}
                blocks.append({"toolUse": named | {"input": {**call.arguments}}})
            return [{"role": "assistant", "content": blocks}]
        case Tools(results):
            return [{"role": "user", "content": [*map(_converse_result, results)]}]


def _converse_result(given: Give) -> Spelled:
    texts = given.content if isinstance(given.content, tuple) else (_write(given.content),)
    parts: list[Spelled] = [{"text": text} for text in texts]
    parts += [{"image": {"format": "png", "source": {"bytes": data}}} for data in given.images]
    result: Spelled = {"toolUseId": given.call_id, "content": parts}
    return {"toolResult": result | ({"status": "error"} if given.fails else {})}


# OpenAI Responses


def _spell_responses(step: Step) -> list[Spelled]:
    match step:
        case User(text):
            content = [{"type": "input_text", "text": text}]
            return [{"type": "message", "role": "user", "content": content}]
        case Model(calls, text, thought):
            summary = [{"type": "summary_text", "text": thought}]
            items: list[Spelled] = (
                [{"type": "reasoning", "id": "rs", "summary": summary}] if thought else []
            )
            content = [{"type": "output_text", "text": text}]
            items += [{"type": "message", "role": "assistant", "content": content}] if text else []
            return items + [
                {"type": "function_call", "call_id": c.call_id, "name": c.tool}
                | {"arguments": json.dumps(c.arguments)}
                for c in calls
            ]
        case Tools(results):
            return [
                {"type": "function_call_output", "call_id": r.call_id}
                | {"output": _parts(r, "input_text", _responses_image)}
                | ({"status": "failed"} if r.fails else {})
                for r in results
            ]


def _responses_image(data: str) -> Spelled:
    return {"type": "input_image", "image_url": _data_url(data)}


# Gemini


def _spell_gemini(step: Step, *, with_ids: bool = True) -> list[Spelled]:
    match step:
        case User(text):
            return [{"role": "user", "parts": [{"text": text}]}]
        case Model(calls, text, thought):
            parts: list[Spelled] = [{"text": thought, "thought": True}] if thought else []
            parts += [{"text": text}] if text else []
            for call in calls:
                named: Spelled = {"id": call.call_id} if with_ids else {}
                named |= {"name": call.tool, "args": {**call.arguments}}
                parts.append({"functionCall": named})
            return [{"role": "model", "parts": parts}]
        case Tools(results):
            given: list[Spelled] = []
            for each in results:
                given.append(_gemini_result(each, with_ids=with_ids))
                blobs = ({"mimeType": "image/png", "data": data} for data in each.images)
                given += [{"inlineData": blob} for blob in blobs]
            return [{"role": "user", "parts": given}]


def _spell_gemini_in_pieces(step: Step) -> list[Spelled]:
    """Spell an answer as the Python SDK does: each piece of a stream is a content of its own."""
    return [
        {"role": content["role"], "parts": [part]}
        for content in _spell_gemini(step)
        for part in content["parts"]
    ]


def _gemini_result(given: Give, *, with_ids: bool) -> Spelled:
    named: Spelled = {"id": given.call_id} if with_ids else {}
    content = given.content if isinstance(given.content, tuple) else (_write(given.content),)
    keys = ["error" if given.fails else "output", *(f"more_{n}" for n in range(1, len(content)))]
    named["name"], named["response"] = given.tool, dict(zip(keys, content, strict=True))
    named["response"] |= {} if with_ids else {"name": given.tool}  # as the AI SDK writes it
    return {"functionResponse": named}


# Ollama


def _spell_ollama(step: Step) -> list[Spelled]:
    match step:
        case User(text):
            return [{"role": "user", "content": text}]
        case Model(calls, text, thought):
            message: Spelled = {"role": "assistant", "content": text}
            message |= {"thinking": thought} if thought else {}
            asked = [{"function": {"name": c.tool, "arguments": {**c.arguments}}} for c in calls]
            return [message | ({"tool_calls": asked} if asked else {})]
        case Tools(results):
            return [{"role": "tool", "tool_name": r.tool, "content": _parts(r)} for r in results]


# The format that no provider has


def _spell_made_up(step: Step) -> list[Spelled]:
    match step:
        case User(text):
            return [{"by": "human", "pieces": [{"say": text}]}]
        case Model(calls, text):
            pieces: list[Spelled] = [{"say": text}] if text else []
            pieces += [
                {"call": {"id": c.call_id, "tool": c.tool, "with": {**c.arguments}}} for c in calls
            ]
            return [{"by": "model", "pieces": [piece]} for piece in pieces]
        case Tools(results):
            given = [{"outcome": {"of": r.call_id, "value": r.content}} for r in results]
            return [{"by": "human", "pieces": given}]


WRITERS: tuple[Writer, ...] = (
    Writer(
        "chat",
        CHAT,
        "/v1/chat/completions",
        _spell_chat,
        lambda items: {"model": "gpt-4o", "messages": items},
    ),
    Writer(
        "messages",
        MESSAGES,
        "/v1/messages",
        _spell_messages,
        lambda items: {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": items},
    ),
    Writer(
        "converse",
        CONVERSE,
        "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
        _spell_converse,
        lambda items: {"messages": items},
    ),
    Writer(
        "responses",
        RESPONSES,
        "/v1/responses",
        _spell_responses,
        lambda items: {"model": "gpt-5", "input": items},
    ),
    Writer(
        "gemini",
        GEMINI,
        "/v1beta/models/gemini-2.5-pro:generateContent",
        _spell_gemini,
        lambda items: {"contents": items},
    ),
    Writer(
        "gemini without ids",
        GEMINI,
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
        lambda step: _spell_gemini(step, with_ids=False),
        lambda items: {"contents": items},
        has_ids=False,
    ),
    Writer(
        "gemini in pieces",
        GEMINI,
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
        _spell_gemini_in_pieces,
        lambda items: {"contents": items},
        has_images=False,
    ),
    Writer(
        "code assist",
        GEMINI,
        "/v1internal:generateContent",
        _spell_gemini,
        lambda items: {"model": "gemini-2.5-pro", "request": {"contents": items}},
    ),
    Writer(
        "ollama",
        OLLAMA,
        "/api/chat",
        _spell_ollama,
        lambda items: {"model": "qwen3", "messages": items},
        has_ids=False,
        has_lists=False,
        tells_errors=False,
        has_images=False,
    ),
    Writer(
        "made up",
        MADE_UP,
        "/talk",
        _spell_made_up,
        lambda items: {"model": "m", "request": {"contents": items}},
        has_lists=False,
        tells_errors=False,
        has_images=False,
    ),
)
"""All formats; those with several kinds of clients more than once."""


def in_each(writers: Sequence[Writer]) -> pytest.MarkDecorator:
    """Have a test ask the same of each of these formats; it is given one as `writer`."""
    return pytest.mark.parametrize("writer", writers, ids=[writer.name for writer in writers])


IN_EVERY_FORMAT = in_each(WRITERS)


def in_two(writers: Sequence[Writer]) -> pytest.MarkDecorator:
    """Have a test ask the same of the two formats least alike, and in a thorough run of all these.

    For what reads no format: when the boundary moves, what is remembered, what is billed.
    """
    cases = [
        each if each.name in ("chat", "gemini without ids") else thorough(each) for each in writers
    ]
    return pytest.mark.parametrize("writer", cases, ids=[writer.name for writer in writers])


IN_TWO_FORMATS = in_two(WRITERS)
