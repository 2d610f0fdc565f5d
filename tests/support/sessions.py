"""Sessions for the tests: the shipped recordings of conversations, and made-up ones."""

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from addon.places import recordings
from addon.recordings.flows import FlowSession, name_of, read_flows
from addon.replay.replay import RecordedRequest
from masking.model import ChatMessage

TALKS = [path for path in recordings() if not path.stem.startswith("mcp-")]
"""The recordings of agents that speak with a model, in whatever format."""


def is_chat(recording: Path) -> bool:
    """Whether a recording is of Chat Completions."""
    first = next(read_flows(recording))
    return first.request.path.endswith("/chat/completions")


CHATS = [path for path in TALKS if is_chat(path)]

ENOUGH = (
    *("mini-swe-agent-scratch", "openai-questions", "anthropic-tour", "codex-tour"),
    *("codex-websocket-tour", "gemini-cli-code-assist-tour", "ollama-tour", "mcp-files"),
)
"""Of the recordings, those that are enough in every run: each format, and each strategy."""


def marks_of(recording: Path) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marks of a test of a recording: most recordings are for thorough runs."""
    return () if name_of(recording) in ENOUGH else (pytest.mark.thorough,)


def each_of(argument: str, recordings: Iterable[Path]) -> pytest.MarkDecorator:
    """Try each recording, as this argument of a test."""
    cases = [pytest.param(path, id=name_of(path), marks=marks_of(path)) for path in recordings]
    return pytest.mark.parametrize(argument, cases)


@dataclass(frozen=True, slots=True)
class ReadSession:
    """A session whose requests are kept."""

    name: str
    kept: tuple[RecordedRequest, ...]

    def requests(self) -> Iterator[RecordedRequest]:
        return iter(self.kept)


@functools.cache
def read_chat(recording: Path) -> ReadSession:
    """Return one of the recordings; it is decompressed and decoded once for all tests."""
    session = FlowSession(path=recording)
    return ReadSession(session.name, tuple(session.requests()))


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
