"""A server as MCP's conformance suite asks for it.

Run it by `python -m tests.tools.benchmarks.mcp_server PORT`.

Its tools, resources and prompts have the names and the texts that the suite's scenarios look for.
"""

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.prompts.base import Message, UserMessage
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import (
    AudioContent,
    Completion,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    JSONRPCMessage,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)
from pydantic import AnyUrl

from tests.support.images import png

Asked = Context[Any, Any, Any]

_PNG = png(1, 1)
_WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt ").decode()
_PAUSE = 0.05
_RETRY_MS = 500

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
_DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [
    {"const": f"value{n}", "title": f"{name} Option"}
    for n, name in enumerate(("First", "Second", "Third"), 1)
]
_ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


class Events(EventStore):
    """Every event, in memory, so that a client may come back for those that it has missed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str:
        place = int(last_event_id)
        stream = self._events[place - 1][0]
        for number, (name, message) in enumerate(self._events[place:], place + 1):
            if name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Server(FastMCP):
    """Lists a tool more, whose schema is written by hand."""

    async def list_tools(self) -> list[Tool]:
        by_hand = Tool(
            name="json_schema_2020_12_tool",
            description="Tool with JSON Schema 2020-12 features",
            inputSchema=_SCHEMA,
        )
        return [*await super().list_tools(), by_hand]


def say(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def show_image() -> ImageContent:
    return ImageContent(type="image", data=_PNG, mimeType="image/png")


def embed(uri: str, text: str, kind: str = "text/plain") -> EmbeddedResource:
    held = TextResourceContents(uri=AnyUrl(uri), mimeType=kind, text=text)
    return EmbeddedResource(type="resource", resource=held)


# Tools


def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


def test_image_content() -> ContentBlock:
    """Return an image."""
    return show_image()


def test_audio_content() -> ContentBlock:
    """Return a sound."""
    return AudioContent(type="audio", data=_WAV, mimeType="audio/wav")


def test_embedded_resource() -> ContentBlock:
    """Return a resource."""
    return embed("test://embedded-resource", "This is an embedded resource content.")


def test_multiple_content_types() -> list[ContentBlock]:
    """Return a text, an image and a resource."""
    held = json.dumps({"test": "data", "value": 123})
    return [
        say("Multiple content types test:"),
        show_image(),
        embed("test://mixed-content-resource", held, "application/json"),
    ]


def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


async def test_tool_with_logging(ctx: Asked) -> str:
    """Log three times."""
    for text in ("execution started", "processing data", "execution completed"):
        await ctx.info(f"Tool {text}")
        await asyncio.sleep(_PAUSE)
    return "Three messages were logged."


async def test_tool_with_progress(ctx: Asked) -> str:
    """Tell how far it is, three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(_PAUSE)
    return "Progress was told three times."


async def test_sampling(prompt: str, ctx: Asked) -> str:
    """Ask the client's model."""
    asked = SamplingMessage(role="user", content=say(prompt))
    related = ctx.request_id
    answer = await ctx.session.create_message([asked], max_tokens=100, related_request_id=related)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


async def test_elicitation(message: str, ctx: Asked) -> str:
    """Ask the user."""
    fields = {name: {"type": "string"} for name in ("username", "email")}
    return await ask_user(ctx, message, fields, required=[*fields])


async def test_elicitation_sep1034_defaults(ctx: Asked) -> str:
    """Ask the user for what has defaults."""
    return await ask_user(ctx, "Please say who you are.", _DEFAULTS)


async def test_elicitation_sep1330_enums(ctx: Asked) -> str:
    """Ask the user to choose."""
    return await ask_user(ctx, "Please choose.", _ENUMS)


async def ask_user(ctx: Asked, message: str, fields: dict[str, Any], **more: object) -> str:
    schema = {"type": "object", "properties": fields, **more}
    answer = await ctx.session.elicit(message, schema, related_request_id=ctx.request_id)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


async def test_reconnection(ctx: Asked) -> str:
    """Close the stream before the answer is there."""
    await ctx.close_sse_stream()
    await asyncio.sleep(_PAUSE)
    return "The client has come back for this."


TOOLS: tuple[Callable[..., Any], ...] = (
    *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
    *(test_multiple_content_types, test_error_handling, test_tool_with_logging),
    *(test_tool_with_progress, test_sampling, test_elicitation, test_reconnection),
    *(test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums),
)


# Prompts


def test_simple_prompt() -> str:
    """Ask for nothing."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Ask for two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's
    """Hold a resource."""
    held = embed(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(held), UserMessage("Please process the embedded resource above.")]


def test_prompt_with_image() -> list[Message]:
    """Hold an image."""
    return [UserMessage(show_image()), UserMessage("Please analyze the image above.")]


PROMPTS: tuple[Callable[..., Any], ...] = (
    *(test_simple_prompt, test_prompt_with_arguments),
    *(test_prompt_with_embedded_resource, test_prompt_with_image),
)


def make_server(port: int) -> Server:
    server = Server("conformance", port=port, event_store=Events(), retry_interval=_RETRY_MS)
    for tool in TOOLS:
        server.tool(structured_output=False)(tool)
    for prompt in PROMPTS:
        server.prompt()(prompt)
    _add_resources(server)
    _add_requests(server)
    return server


def _add_resources(server: Server) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def binary() -> bytes:
        return base64.b64decode(_PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002 - as the template has it
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        return "This may change."


def _add_requests(server: Server) -> None:
    """Take requests that have to be answered, and need not be heeded."""

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(*_: object) -> Completion:
        return Completion(values=["paris", "park", "party"], total=3, hasMore=False)

    inner = server._mcp_server

    @inner.set_logging_level()  # type: ignore[no-untyped-call, untyped-decorator]
    async def set_level(_: object) -> None:
        pass

    @inner.subscribe_resource()  # type: ignore[no-untyped-call, untyped-decorator]
    async def subscribe(_: object) -> None:
        pass

    @inner.unsubscribe_resource()  # type: ignore[no-untyped-call, untyped-decorator]
    async def unsubscribe(_: object) -> None:
        pass


if __name__ == "__main__":
    make_server(int(sys.argv[1])).run("streamable-http")
