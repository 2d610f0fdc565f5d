"""A recording as a script: what the agent wrote, and what its provider answered."""

import json
from pathlib import Path
from typing import NamedTuple

from addon.recordings.flows import read_flows
from addon.recordings.provider.script import Call, Reply


class RecordedExchange(NamedTuple):
    """A request's body, decompressed, and the answer to it."""

    body: bytes
    reply: Reply


def read_exchanges(recording: Path) -> list[RecordedExchange]:
    """Read a recording of Chat Completions without streams. Raises as `read_flows` does."""
    return [
        RecordedExchange(
            flow.request.content or b"",
            read_reply((flow.response and flow.response.content) or b""),
        )
        for flow in read_flows(recording)
    ]


def read_reply(body: bytes) -> Reply:
    """Read the answer in a response's body."""
    message = json.loads(body)["choices"][0]["message"]
    calls = (
        Call(id=c["id"], tool=c["function"]["name"], arguments=c["function"]["arguments"])
        for c in message.get("tool_calls") or ()
    )
    return Reply(content=message.get("content"), calls=tuple(calls))
