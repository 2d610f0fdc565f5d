"""Requests of Anthropic Messages with cache marks where agents set them."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from addon.replay.replay import RecordedRequest, Session

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}

Request = dict[str, Any]
Marker = Callable[[Request], Request]
"""Returns a request with marks."""


def mark_as_claude_code(request: Request, mark: Mapping[str, str] = MARK) -> Request:
    """Mark the end of the system prompt and the last block of the last message."""
    system = [*_as_blocks(request.get("system"))]
    system[-2:] = [{**block, "cache_control": mark} for block in system[-2:]]
    messages = [*request["messages"]]
    return {**request, "system": system, "messages": _mark_last(messages, -1, mark)}


def mark_for_an_hour(request: Request) -> Request:
    """Mark a request as claude-code does where it asks for an hour."""
    return mark_as_claude_code(request, HOUR)


def mark_as_pi(request: Request) -> Request:
    """Mark the system prompt, the last tool and the last block of the last user message."""
    messages = request["messages"]
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    return {**_mark_head(request), "messages": _mark_last(messages, last, MARK)}


def mark_as_opencode(request: Request) -> Request:
    """Mark the system prompt and the last two messages."""
    messages = request["messages"]
    for at in range(max(0, len(messages) - 2), len(messages)):
        messages = _mark_last(messages, at, MARK)
    return {**_mark_head(request, tools=False), "messages": messages}


def mark_at_the_top(request: Request) -> Request:
    """Mark the system prompt, the last tool, and let the provider mark the end."""
    return {**_mark_head(request), "cache_control": MARK}


def mark_nothing(request: Request) -> Request:
    """Return the request as it is."""
    return request


MARKERS: Mapping[str, Marker] = {
    "claude-code": mark_as_claude_code,
    "pi": mark_as_pi,
    "opencode": mark_as_opencode,
    "langchain": mark_at_the_top,
}


@dataclass(frozen=True, slots=True)
class MarkedSession:
    """A session whose requests are marked, and sent to a host; itself a `Session`."""

    session: Session
    marker: Marker
    host: str | None = "api.anthropic.com"
    model: str | None = None

    @property
    def name(self) -> str:
        return self.session.name

    def requests(self) -> Iterator[RecordedRequest]:
        for recorded in self.session.requests():
            request = self.marker(json.loads(recorded.body))
            body = json.dumps({**request, "model": self.model or request.get("model")}).encode()
            yield replace(recorded, body=body, host=self.host)


def _mark_head(request: Request, *, tools: bool = True) -> Request:
    system, schemas = [*_as_blocks(request.get("system"))], [*request.get("tools", [])]
    system[-1:] = [{**block, "cache_control": MARK} for block in system[-1:]]
    if tools:
        schemas[-1:] = [{**schema, "cache_control": MARK} for schema in schemas[-1:]]
    return {**request, "system": system, "tools": schemas}


def _mark_last(messages: list[Any], at: int, mark: Mapping[str, str]) -> list[Any]:
    """Return the messages with a mark on the last block of one of them."""
    message = messages[at]
    blocks = [*_as_blocks(message["content"])]
    blocks[-1:] = [{**block, "cache_control": mark} for block in blocks[-1:]]
    marked = [*messages]
    marked[at] = {**message, "content": blocks}
    return marked


def _as_blocks(content: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
