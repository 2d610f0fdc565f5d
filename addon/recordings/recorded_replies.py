"""A recording as a script: what the agent wrote, and what the model answered."""

import json
from pathlib import Path
from typing import NamedTuple

from addon.recordings.flows import read_flows
from addon.recordings.provider.script import Call, Reply
from addon.request import find_wire_format, path_of
from masking.conversation import Conversation
from masking.rewrite import read_request

LAST_ANSWER = "All of it is done."
"""An answer that no later request repeats: a recording has it only as its vendor spells it."""


class RecordedExchange(NamedTuple):
    """A request, its body decompressed, what is read in it, and the answer to it."""

    path: str
    body: bytes
    conversation: Conversation
    reply: Reply


def read_exchanges(recording: Path) -> list[RecordedExchange]:
    """Read a recording of one conversation.

    What the model answered is taken from the next request, which repeats it. Raises as `read_flows`
    does, and WireError for a request that cannot be read.
    """
    requests = [flow.request for flow in read_flows(recording)]
    found = [(request, match) for request in requests if (match := find_wire_format(request))]
    conversations = [
        read_request(request.content or b"", match.wire, path_of(request))
        for request, match in found
    ]
    later = [*conversations[1:], None]
    return [
        RecordedExchange(
            request.path,
            request.content or b"",
            conversation,
            _find_reply(conversation, following),
        )
        for (request, _), conversation, following in zip(found, conversations, later, strict=True)
    ]


def _find_reply(asked: Conversation, following: Conversation | None) -> Reply:
    new = following.elements[len(asked.elements) :] if following else ()
    answer = [element for element in new if element.speaker == "assistant"]
    texts = [text for element in answer for text in element.texts]
    calls = [call for element in answer for call in element.calls]
    return Reply(
        content="\n".join(texts) or (None if calls else LAST_ANSWER),
        calls=tuple(
            Call(
                id=call.call_id or "",
                tool=call.tool or "",
                arguments=args if isinstance(args := call.arguments, str) else json.dumps(args),
            )
            for call in calls
        ),
    )
