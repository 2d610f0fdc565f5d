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

from masking.model import Call
from masking.wire.format import non_empty, objects
from masking.wire.responses import RESPONSES
from masking.wire.usage import decode_payloads, split_answer

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
    chunks = chain.from_iterable(split_answer(body, _WORDS) for body in bodies)
    payloads = chain.from_iterable(
        decode_payloads(chunk) for chunk in chunks if _MAY_CALL.search(chunk)
    )
    for payload in payloads:
        if not isinstance(payload, dict):
            continue
        kind, index = payload.get("type"), payload.get("index")
        # OpenAI's Responses: an item that is done, and the response itself, whole or in an event.
        if kind == "response.output_item.done":
            calls |= _calls_of([payload.get("item")])
            continue
        response = payload.get("response", payload)
        if isinstance(response, dict) and isinstance(response.get("output"), list):
            answer_id = non_empty(response.get("id")) or answer_id
            calls |= _calls_of(response["output"])
            continue
        # Anthropic's Messages.
        message = payload.get("message") if kind == "message_start" else payload
        if isinstance(message, dict) and message.get("type") == "message":
            answer_id = non_empty(message.get("id")) or answer_id
            for block in objects(message.get("content")):
                if call := _read_use(block):
                    calls[str(call.call_id)] = call
        elif isinstance(index, int) and kind == "content_block_start":
            for block in objects([payload.get("content_block")]):
                if call := _read_use(block):
                    open_blocks[index] = call, []
        elif isinstance(index, int) and index in open_blocks:
            for delta in objects([payload.get("delta")]):
                open_blocks[index][1].append(str(delta.get("partial_json", "")))
    for call, pieces in open_blocks.values():
        with suppress(ValueError):
            arguments = json.loads("".join(pieces) or "{}")
            calls[str(call.call_id)] = call._replace(arguments=arguments)
    return AnsweredCalls(answer_id, calls)


def _calls_of(items: Iterable[object]) -> dict[str, Call]:
    found = (call for item in items for call in RESPONSES.read_element(item).calls)
    return {call.call_id: call for call in found if call.call_id}


def _read_use(block: Mapping[str, object]) -> Call | None:
    call_id, tool = non_empty(block.get("id")), non_empty(block.get("name"))
    if block.get("type") != "tool_use" or call_id is None:
        return None
    return Call(call_id, tool, block.get("input"))
