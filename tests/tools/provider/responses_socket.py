"""OpenAI Responses over a WebSocket: each message of the client asks for one answer.

A message that names the response before it holds only what is new, and the connection remembers the
rest: the latest response, and nothing once the connection is closed. A client that names any other
is told `previous_response_not_found`, and then sends everything. This is what codex does with the
beta `responses_websockets`.
"""

import asyncio
import json
from typing import Any, Protocol

from tornado import iostream, websocket

from tests.tools.provider import responses
from tests.tools.provider.dialects import Dialect
from tests.tools.provider.plan import Plan
from tests.tools.provider.responses import items_of
from tests.tools.provider.script import JsonDict, Received, Reply

_ASKS = "response.create"
_UNKNOWN = "previous_response_not_found"


class Answering(Protocol):
    """The provider, as far as a connection needs it."""

    def find_problem(self, received: Received, dialect: Dialect) -> str | None: ...

    def reply(self, received: Received) -> tuple[Reply, JsonDict]: ...

    @property
    def plan(self) -> Plan | None: ...


class ResponsesSocket(websocket.WebSocketHandler):
    """One connection. A request is noted as a whole, with what the connection remembers of it."""

    def initialize(self, provider: Answering, dialect: Dialect) -> None:
        self._provider, self._dialect = provider, dialect
        self._latest: tuple[str, list[Any]] = ("", [])

    def get_compression_options(self) -> dict[str, Any]:
        """Have messages compressed, as OpenAI does."""
        return {}

    async def on_message(self, message: str | bytes) -> None:
        body = message.encode() if isinstance(message, str) else message
        try:
            await self._answer(body)
        except (websocket.WebSocketClosedError, iostream.StreamClosedError):
            return  # the client has left

    async def _answer(self, body: bytes) -> None:
        request = json.loads(body)
        previous = request.pop("previous_response_id", None)
        generates = request.pop("generate", True)
        if request.pop("type", None) != _ASKS:
            await self._refuse(400, "Unknown event type.")
        elif previous not in (None, self._latest[0]):
            await self._refuse(400, f"Previous response '{previous}' not found.", _UNKNOWN)
        else:
            before = [] if previous is None else self._latest[1]
            whole = {**request, "input": [*before, *items_of(request)]}
            headers = self.request.headers.get_all()
            received = self._dialect.receive(whole, self.request.path, headers, body)
            if problem := self._provider.find_problem(received, self._dialect):
                await self._refuse(400, problem)
            else:
                await (self._tell if generates else self._prepare)(received)

    async def _tell(self, received: Received) -> None:
        """Let the model answer."""
        reply, usage = self._provider.reply(received)
        if reply.status != 200:
            await self._refuse(reply.status)
            return
        plan = self._provider.plan
        if plan is not None and (event := plan.event(received)) is not None:
            await self._send(event)
        for number, event in enumerate(responses.tell_events(received, reply, usage)):
            if number == reply.dies_after:
                self.close()
                return
            await asyncio.sleep(reply.pause if number else 0)
            await self._send(event)
        whole = responses.answer(received, reply, usage)
        self._latest = (whole["id"], [*received.request["input"], *whole["output"]])

    async def _prepare(self, received: Received) -> None:
        """Remember a request that wants no answer yet."""
        _, usage = self._provider.reply(received)
        usage |= {"output_tokens": 0, "total_tokens": usage["input_tokens"]}
        whole = responses.answer(received, Reply(), usage)
        await self._send({"type": "response.created", "response": whole, "sequence_number": 0})
        await self._send({"type": "response.completed", "response": whole, "sequence_number": 1})
        self._latest = (whole["id"], received.request["input"])

    async def _refuse(self, status: int, words: str | None = None, code: str | None = None) -> None:
        body = responses.error(status, words)
        if code is not None:
            body["error"]["code"] = code
        self._latest = ("", [])
        await self._send({"type": "error", "status": status, **body})

    async def _send(self, event: JsonDict) -> None:
        await self.write_message(json.dumps(event, separators=(",", ":")))
