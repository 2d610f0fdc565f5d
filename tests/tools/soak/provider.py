"""The soak's provider: it takes requests on loopback, and compares each with what is to arrive.

It fails some, and answers others in part, until their client has left.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple

from addon.proxy.server import HOST
from tests.tools.soak.answers import make_answer, make_stream

NUMBER = b"x-soak"
"""The header by which the provider knows a request."""

MAX_HEAD = 1 << 16


class Expected(NamedTuple):
    """What is to arrive, and what is answered: a status, and whether the answer stops midway."""

    body: bytes
    format: str
    streams: bool
    status: int = 200
    stops: bool = False


@dataclass(slots=True)
class Provider:
    """It takes what is `expected`, by number; what went wrong is counted in `faults`.

    taken, taken_bytes: the requests that arrived, and their bodies.
    prompt_tokens: what all whole answers said of their prompts.
    """

    expected: dict[int, Expected] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    taken: int = 0
    taken_bytes: int = 0
    prompt_tokens: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head, body = await read_message(reader)
                await self._answer(head, body, reader, writer)
        writer.close()

    async def _answer(
        self,
        head: bytes,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        expected = self.expected.pop(int(find_header(head, NUMBER) or b"0"), None)
        if expected is None:
            self.faults["requests that nobody sent, or that arrived twice"] += 1
            expected = Expected(body, "chat", False)
        self.taken += 1
        self.taken_bytes += len(body)
        if body != expected.body:
            self.faults["requests with other bytes than the core's"] += 1
        tokens = len(body) // 4
        if expected.status != 200:
            writer.write(_write_answer(b'{"error": {}}', expected.status))
        elif not expected.streams:
            self.prompt_tokens += tokens
            writer.write(_write_answer(make_answer(expected.format, tokens)))
        else:
            kind, first, others = make_stream(expected.format, tokens)
            fields = f"content-type: {kind}\r\ntransfer-encoding: chunked"
            writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + _frame(first))
            await writer.drain()
            if expected.stops:
                await reader.read()  # until the proxy hangs up, as its client has left
                raise ConnectionError
            self.prompt_tokens += tokens
            await asyncio.sleep(0.01)
            writer.write(_frame(others) + _frame(b""))
        await writer.drain()


@contextlib.asynccontextmanager
async def running_provider() -> AsyncIterator[tuple[Provider, int]]:
    """Run a provider; yield it, and its port."""
    provider = Provider()
    server = await asyncio.start_server(provider.serve, HOST, 0, limit=MAX_HEAD)
    async with server:
        yield provider, server.sockets[0].getsockname()[1]


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the head and the body of a message that gives its length.

    Raises ConnectionError or IncompleteReadError where none comes.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(find_header(head, b"content-length") or b"0")
    return head, await reader.readexactly(length)


def find_header(head: bytes, name: bytes) -> bytes | None:
    """Return the value of a header, spelled in whatever case."""
    _, found, rest = head.lower().partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else None


def _write_answer(body: bytes, status: int = 200) -> bytes:
    fields = f"content-type: application/json\r\ncontent-length: {len(body)}"
    return f"HTTP/1.1 {status} So\r\n{fields}\r\n\r\n".encode() + body


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
