"""Sessions for the tests: the shipped recordings of conversations."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from addon.recordings.flows import FlowSession, name_of, read_flows
from addon.replay.replay import RecordedRequest
from tests.support.places import recordings

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
