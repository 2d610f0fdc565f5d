"""The requests that Envoy asks about: it opens a stream for each, and tells of it part by part.

A request is masked if it is one to a model; its answer is only read. Whatever goes wrong in here,
each part goes on unchanged.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from addon.config import ConfigFile
from addon.content import encode_body, estimate_bytes, read_body
from addon.engine import Engine, Exchange
from addon.gateways.envoy.messages import (
    ASK_FOR_BODY,
    ASK_FOR_HEADERS,
    ASK_FOR_STREAM,
    GO_ON,
    Part,
    ask_for_time,
    read_part,
    replace_body,
)
from addon.records.recorder import Sink
from addon.request import HeaderFields, PlainMessage, find_wire_format
from addon.stages import Interruption, Received, Run
from addon.threads import share_interpreter
from masking.model import Decision
from masking.rewrite import Rewrite

logger = logging.getLogger("observation_masking")

HOST_KEY = "obsmask-host"
"""What Envoy's configuration can give a route to name the provider's host (gRPC metadata)."""

PATIENCE_SECONDS = 0.1
"""After this, Envoy is asked to wait longer than `message_timeout` for a request."""

MOST_SECONDS = 60
"""How long it is asked to wait; its configuration has the last word (`max_message_timeout`)."""

MAX_BODY_BYTES = 128_000_000
"""A longer one is not asked for. Envoy answers 413 if it cannot buffer what it was asked for: its
configuration has to let it buffer as much."""

_TOO_LONG = f"larger than {MAX_BODY_BYTES:,} bytes"
_HAS_TRAILERS = "trailers follow the body, and may sign it"


class Processor:
    """What a process does with the streams. To be made and used in the event loop.

    `sink` gets each record. A change of the configuration is taken up without a line in the log:
    whoever started this process reads the file, too.
    """

    def __init__(self, config: ConfigFile, run: Run, sink: Sink) -> None:
        self._config = config
        self._engine = Engine(run, reports_changes=False)
        self._engine.recorder.sinks.append(sink)
        self._is_stopping = False

    def start(self, page: str | None = None) -> None:
        """Take up the configuration, and its changes from now on.

        page: where the page of the service is.
        """
        share_interpreter()
        # Lines are logged by the thread that they come from. Nothing else prints here, and a turn
        # of the event loop for each request's line takes 0.4 ms of the CPU.
        self._engine.recorder.start()
        self._engine.use(self._config)
        self._engine.watch()
        self._engine.announce(page)

    async def process(self, messages: AsyncIterator[Any], host: str | None) -> AsyncIterator[bytes]:
        """Yield the answers to Envoy's messages of one stream.

        host: the provider's, where Envoy's configuration names it.
        """
        stream = Stream(self._engine, host)
        try:
            async for message in messages:
                part = read_part(message)
                if part is None:
                    break  # Envoy never sends such a message; whoever does gets no answer
                try:
                    async for response in stream.receive(part):
                        yield response
                except Exception as error:  # noqa: BLE001 - the traffic goes on, whatever happened
                    logger.warning(f"Envoy's {part.kind} was not looked at: {type(error).__name__}")
                    yield GO_ON[part.kind]
                if stream.is_over:
                    break  # Envoy goes on without us, and holds no stream open for it
        finally:
            stream.end(stopping=self._is_stopping)

    def stop(self) -> None:
        """Take what breaks off from now on for our own end."""
        self._is_stopping = True

    def close(self) -> None:
        """End, once what is to be recorded is recorded."""
        self._engine.close()


class Stream:
    """One request and its answer."""

    def __init__(self, engine: Engine, host: str | None) -> None:
        self._engine, self._host = engine, host
        self._request: EnvoyRequest | None = None
        self._exchange: Exchange | None = None
        self._answer: PlainMessage | None = None
        self._status: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be said, as the request is none to a model."""
        return self._exchange is None

    async def receive(self, part: Part) -> AsyncIterator[bytes]:
        """Yield the answers to a part."""
        exchange, request = self._exchange, self._request
        if part.kind == "request_headers":
            request = EnvoyRequest(HeaderFields(part.fields), self._host)
            match = find_wire_format(request)
            exchange = self._engine.open(request, match) if match else None
            self._request, self._exchange = request, exchange
        if exchange is None or request is None:
            yield GO_ON[part.kind]
        elif part.kind == "request_headers" and not part.is_last:
            length = request.headers.get("content-length", "")
            if length.isdecimal() and int(length) > MAX_BODY_BYTES:
                exchange.pass_through(EnvoyCarrier(request), _TOO_LONG)
                yield ASK_FOR_HEADERS
            else:
                yield ASK_FOR_BODY
        elif exchange.rewritten is None and part.kind == "request_body" and not part.is_last:
            # Envoy has the whole body, so trailers follow. It waits for an answer to this first.
            exchange.pass_through(EnvoyCarrier(request), _HAS_TRAILERS)
            yield GO_ON[part.kind]
        elif exchange.rewritten is None and part.kind in ("request_headers", "request_body"):
            async for response in self._mask(exchange, request, part):
                yield response
        else:
            self._note_answer(exchange, part)
            is_wanted = part.kind == "response_headers" and not part.is_last
            yield ASK_FOR_STREAM if is_wanted and exchange.rewritten else GO_ON[part.kind]

    def end(self, *, stopping: bool = False) -> None:
        """Record a request whose end Envoy has not told: either side has left."""
        error: Interruption = "broken off" if self._answer else "client left"
        self._finish("proxy ended" if stopping else error)

    async def _mask(
        self, exchange: Exchange, request: "EnvoyRequest", part: Part
    ) -> AsyncIterator[bytes]:
        """Mask a request; `part` has its body, or says that it has none."""
        request.raw_content = part.body
        carrier = EnvoyCarrier(request)
        masking = asyncio.ensure_future(exchange.mask(carrier))
        await asyncio.wait({masking}, timeout=PATIENCE_SECONDS)
        if not masking.done():
            yield ask_for_time(MOST_SECONDS)
        await masking
        request.raw_content = None  # it may be large, and the answer may take long
        if carrier.replacement is None:
            yield GO_ON[part.kind]
        else:
            has_length = "content-length" in request.headers
            yield replace_body(carrier.replacement, has_length=has_length)

    def _note_answer(self, exchange: Exchange, part: Part) -> None:
        if part.kind == "response_headers":
            self._answer = PlainMessage(headers=HeaderFields(part.fields))
            status = self._answer.headers.get(":status", "")
            self._status = int(status) if status.isdecimal() else None
        elif part.kind == "response_body":
            exchange.copy(part.body or b"")
        if part.kind.startswith("response_") and part.is_last:
            self._finish(None)

    def _finish(self, interrupted: Interruption | None) -> None:
        """Record the request, once."""
        exchange, answer = self._exchange, self._answer
        if exchange is None:
            return
        if answer is not None:
            answer.raw_content = exchange.copy.body
            if not exchange.may_stream(answer):
                exchange.copy.first_chunk_seconds = None
        exchange.finish(self._status, answer, interrupted=interrupted)


class EnvoyRequest(PlainMessage):
    """A request. `host` is the provider's, where Envoy's configuration names it."""

    def __init__(self, headers: HeaderFields, host: str | None = None) -> None:
        super().__init__(headers=headers)
        self.method = headers.get(":method", "")
        self.path = headers.get(":path", "")
        self.pretty_host = host or _find_host(headers.get(":authority", ""))


def _find_host(authority: str) -> str:
    """Return the host of an authority, without its port."""
    try:
        return urlsplit(f"//{authority}").hostname or authority
    except ValueError:  # as of an address in brackets that is none
        return authority


class EnvoyCarrier:
    """Carries a request whose body Envoy holds, and sends on in the form that it gets here.

    The request's body is as on the wire.
    """

    wire_body = betas = None  # Envoy sends no request a second time with another body

    def __init__(self, request: EnvoyRequest) -> None:
        self._request = request
        self.replacement: bytes | None = None

    @property
    def size(self) -> int:
        """The bytes of the body as it goes on."""
        sent = self._request.raw_content if self.replacement is None else self.replacement
        return len(sent or b"")

    @property
    def most_bytes(self) -> int:
        """About how long the body is at most, decoded."""
        return estimate_bytes(self._request)

    def read(self) -> bytes:
        """Return the decoded body. Raises WireError if it must not or cannot be read."""
        return read_body(self._request)

    def encode(self, body: bytes) -> bytes:
        """Return another body as it would be on the wire."""
        return self._encode(body)

    def mark(self, decisions: Sequence[Decision]) -> None:
        """Envoy has no place for decisions; the records have them."""

    def replace(self, rewrite: Rewrite, received: Received) -> None:
        """Have the body of a rewrite go on."""
        self.replacement = self._encode(rewrite.body)

    def _encode(self, body: bytes) -> bytes:
        return encode_body(body, self._request.headers.get("content-encoding", ""))
