"""Made-up sessions. Another process that is handed one imports this module, and so little else."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from addon.replay.replay import RecordedRequest
from masking.model import ChatMessage

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Talk:
    """A session of these bodies, in order, at these `seconds`; all at once without them."""

    bodies: tuple[bytes, ...]
    seconds: tuple[float, ...] = ()
    name: str = "talk"

    def requests(self) -> Iterator[RecordedRequest]:
        seconds = self.seconds or [0.0] * len(self.bodies)
        for body, second in zip(self.bodies, seconds, strict=True):
            yield RecordedRequest(body=body, when=WHEN + timedelta(seconds=second))


def write_body(messages: Sequence[object], **others: object) -> bytes:
    return json.dumps({"model": "deepseek-chat", "messages": messages, **others}).encode()


def grow(messages: Sequence[ChatMessage], **others: object) -> Talk:
    """Return a session with a request before each message of the assistant, and a last one."""
    cuts = [at for at, message in enumerate(messages) if at and message["role"] == "assistant"]
    return Talk(tuple(write_body(messages[:at], **others) for at in (*cuts, len(messages))))


def work(turns: int, chars: int = 4_000) -> list[ChatMessage]:
    """Return a conversation with this many tool turns, and results of about so many characters."""
    messages: list[ChatMessage] = [{"role": "system", "content": "Be brief. " * 300}]
    for turn in range(turns):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/module_{turn}.py"})}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        text = f"line {turn} of what was read\n" * (chars // 25)
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": text},
        ]
    return messages
