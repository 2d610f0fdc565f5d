"""The soak's clients: many conversations at once, a few requests of them at a time.

Some requests fail, and are sent again; some clients leave within a stream.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from addon.proxy.server import HOST
from masking.config import Settings
from tests.tools.soak.offline import mask
from tests.tools.soak.provider import MAX_HEAD, NUMBER, Expected, Provider, find_header
from tests.tools.soak.talks import Kind, Talk

_AT_ONCE = 8
"""Requests on their way: as many as keep two proxies busy."""

_SECONDS = 300
"""After which an answer is given up."""

_FAILS = {97: 429, 89: 500, 83: 400}
"""Every so many requests one is answered with this status."""

_LEAVES = 41
"""Every so many requests one is left within its stream."""


@dataclass(slots=True)
class Clients:
    """They play conversations through the proxies on `ports`, a conversation through one of them.

    Nothing is sent after so many `requests`, or once the monotonic clock says that it `ends`.

    sent, conversations: requests and conversations so far.
    answers: those that came to an end, by status, or `left`.
    waits: the milliseconds until each answer began.
    """

    ports: list[int]
    provider: Provider
    settings: Settings
    requests: int
    ends: float
    note: Callable[[list[float]], object]
    sent: int = 0
    conversations: int = 0
    answers: Counter[int | str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def play(self, mean: float, *, at_once: int) -> None:
        """Play conversations until all requests are sent, so many `at_once`.

        A conversation has `mean` requests in the mean.
        """
        talks = (Talk(number, mean) for number in count())
        await asyncio.gather(*(self._play_some(talks) for _ in range(at_once)))

    async def _play_some(self, talks: Iterator[Talk]) -> None:
        for talk in talks:
            if self._has_ended():
                return
            self.conversations += 1
            port = self.ports[talk.number % len(self.ports)]
            connection = _Connection(port)
            for body in talk.bodies():
                while not await self._send(connection, talk.kind, body):
                    pass
            connection.close()

    async def _send(self, connection: "_Connection", kind: Kind, body: bytes) -> bool:
        """Send a request; return whether there is no need to send it again."""
        async with self._turn:
            if self._has_ended():
                return True
            self.sent += 1
            number = next(self._numbers)
            expected = _expect(number, kind, mask(body, kind, self.settings))
            self.provider.expected[number] = expected
            began = time.perf_counter()
            try:
                async with asyncio.timeout(_SECONDS):
                    status = await connection.ask(kind.path, number, body, leaves=expected.stops)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.provider.faults[f"answers that broke off ({type(error).__name__})"] += 1
                connection.close()
                return False
            self.waits.append(1000 * (connection.answered - began))
            self.answers["left" if expected.stops else status] += 1
            self.note(self.waits)
            return status == 200 and not expected.stops

    def _has_ended(self) -> bool:
        return self.sent >= self.requests or time.monotonic() >= self.ends


def _expect(number: int, kind: Kind, body: bytes) -> Expected:
    status = next((status for each, status in _FAILS.items() if number % each == 0), 200)
    stops = kind.streams and status == 200 and number % _LEAVES == 0
    return Expected(body, kind.writer.wire.name, kind.streams, status, stops)


class _Connection:
    """A client's connection to a proxy, which is kept for its next request."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.answered = 0.0

    async def ask(self, path: str, number: int, body: bytes, *, leaves: bool) -> int:
        """Return the status of the answer, once it is whole, or has begun and the client left."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self._port, limit=MAX_HEAD)
        reader, writer = self._streams
        fields = f"host: provider\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        head = f"POST {path} HTTP/1.1\r\n{fields}\r\n{NUMBER.decode()}: {number}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        self.answered = time.perf_counter()
        if leaves:
            await _read_chunk(reader)
            self.close()
        elif find_header(answer, b"transfer-encoding"):
            while await _read_chunk(reader):
                pass
        else:
            await reader.readexactly(int(find_header(answer, b"content-length") or b"0"))
        return int(answer.split(b" ", 2)[1])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2]
