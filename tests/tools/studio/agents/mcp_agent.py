"""A client and a server of the real mcp package, speaking over HTTP about a project's files.

    python mcp_agent.py FD HOST

The server works in the current folder and listens on the socket that it inherits as FD: under one
path it answers in documents, under another in event streams. The client calls it by the name HOST,
so a proxy, HTTP_PROXY, must know the way. It is run as a script, and needs the mcp package alone.
"""

import argparse
import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import Completion, ErrorData, ResourceTemplateReference
from pydantic import AnyUrl
from starlette.applications import Starlette

LONG, OTHER, SHORT, MISSING = "logs/import.log", "data/orders.json", "README.md", "logs/refused.log"
_TEMPLATE = "project://{folder}/{name}"
_LINES_A_STEP = 50

_Context = Context[Any, Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("fd", type=int)
    parser.add_argument("host")
    options = parser.parse_args()
    servers = [_make_server("documents"), _make_server("streams")]
    server = uvicorn.Server(uvicorn.Config(_join(servers), log_level="warning"))
    listening = socket.socket(fileno=options.fd)
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    for each in servers:
        path = each.settings.streamable_http_path
        asyncio.run(_use(f"http://{options.host}{path}"))


async def _use(url: str) -> None:
    """Ask for each thing once."""
    async with (
        streamable_http_client(url) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        await session.list_tools()
        for path in (LONG, SHORT, MISSING):
            await session.call_tool("read_file", {"path": path}, progress_callback=_hear)
        await session.read_resource(AnyUrl(f"project://{OTHER}"))
        with contextlib.suppress(McpError):
            reference = ResourceTemplateReference(type="ref/resource", uri=_TEMPLATE)
            await session.complete(reference, {"name": "name", "value": "invoices"})


async def _hear(progress: float, total: float | None, message: str | None) -> None:
    """Take note of progress: a server reports it only to a client that asks for it."""


def _make_server(name: str) -> FastMCP:
    server = FastMCP(
        "files",
        json_response=name == "documents",
        streamable_http_path=f"/{name}",
        log_level="ERROR",
    )

    @server.tool()
    async def read_file(path: str, context: _Context) -> str:
        """Read a file of the project."""
        text = _read(path)
        lines = text.count("\n")
        for done in range(0, lines, _LINES_A_STEP):
            await _report(context, done, lines)
        return text

    @server.resource(_TEMPLATE, mime_type="text/plain")
    def project_file(folder: str, name: str) -> str:
        """Give a file of the project."""
        return _read(f"{folder}/{name}")

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(*_: object) -> Completion | None:
        """Know of no such file, and say at length what there is."""
        message = f"Nothing here begins like that. These are the orders:\n{_read(OTHER)}"
        raise McpError(ErrorData(code=-32602, message=message, data={"log": _read(LONG)}))

    return server


async def _report(context: _Context, done: int, total: int) -> None:
    """Report progress within the answer, which `Context.report_progress` does not do everywhere."""
    meta = context.request_context.meta
    if meta is not None and meta.progressToken is not None:
        await context.session.send_progress_notification(
            meta.progressToken, done, total, "reading", context.request_id
        )


def _join(servers: list[FastMCP]) -> Starlette:
    """Join servers with different paths into one application."""
    apps = [server.streamable_http_app() for server in servers]

    @contextlib.asynccontextmanager
    async def run_all(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server.session_manager.run())
            yield

    return Starlette(routes=[route for app in apps for route in app.routes], lifespan=run_all)


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
