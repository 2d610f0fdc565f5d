"""What an answer calls, for a next request that names the answer and does not show it.

Where a provider holds the history, a request has results without their calls: OpenAI's Responses
with `previous_response_id` or `conversation`, over HTTP or a WebSocket, and Anthropic's threads.
What such a result answers is known from the answer that passed before.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from masking.model import Call, Element
from masking.wire.format import non_empty, objects
from masking.wire.messages import MESSAGES
from masking.wire.responses import RESPONSES
from masking.wire.usage import read_payloads

_WORDS = (
    *(b"response.output_item.done", b"response.completed", b"response.incomplete"),
    *(b"message_start", b"content_block_start", b"input_json_delta"),
)
_MAY_CALL = re.compile(b"|".join(map(re.escape, (*_WORDS, b'"output"', b'"content"'))))


class AnsweredCalls(NamedTuple):
    """The calls of an answer: its id, None if it has none, and the calls in it, by their ids."""

    answer_id: str | None
    calls: Mapping[str, Call]


def read_calls(bodies: Iterable[bytes]) -> AnsweredCalls:
    """Return the calls of an answer: whole, a stream of events, or the messages of a WebSocket.

    What is not understood is skipped.
    """
    answer_id: str | None = None
    calls: dict[str, Call] = {}
    open_blocks: dict[int, tuple[Call, list[str]]] = {}
    """Of Anthropic's streams: the calls whose arguments come in pieces, by the block's index."""
    for payload in chain.from_iterable(read_payloads(body, _WORDS, _MAY_CALL) for body in bodies):
        if not isinstance(payload, dict):
            continue
        kind, index = payload.get("type"), payload.get("index")
        # OpenAI's Responses: an item that is done, and the response itself, whole or in an event.
        if kind == "response.output_item.done":
            calls |= _calls_of([RESPONSES.read_element(payload.get("item"))])
            continue
        response = payload.get("response", payload)
        if isinstance(response, dict) and isinstance(response.get("output"), list):
            answer_id = non_empty(response.get("id")) or answer_id
            calls |= _calls_of(map(RESPONSES.read_element, response["output"]))
            continue
        # Anthropic's Messages.
        message = payload.get("message") if kind == "message_start" else payload
        if isinstance(message, dict) and message.get("type") == "message":
            answer_id = non_empty(message.get("id")) or answer_id
            calls |= _calls_of([_read_blocks(message.get("content"))])
        elif isinstance(index, int) and kind == "content_block_start":
            for call in _calls_of([_read_blocks([payload.get("content_block")])]).values():
                open_blocks[index] = call, []
        elif isinstance(index, int) and index in open_blocks:
            for delta in objects([payload.get("delta")]):
                open_blocks[index][1].append(str(delta.get("partial_json", "")))
    for call, pieces in open_blocks.values():
        with suppress(ValueError):
            arguments = json.loads("".join(pieces) or "{}")
            calls[str(call.call_id)] = call._replace(arguments=arguments)
    return AnsweredCalls(answer_id, calls)


def _read_blocks(blocks: object) -> Element:
    return MESSAGES.read_element({"role": "assistant", "content": blocks})


def _calls_of(elements: Iterable[Element]) -> dict[str, Call]:
    calls = (call for element in elements for call in element.calls)
    return {call.call_id: call for call in calls if call.call_id}
