"""Masks the calls of a LiteLLM process, and records them; `litellm_hook` imports LiteLLM itself.

LiteLLM passes a request on as keyword arguments, decoded and among many of its own. None of them is
ever changed in place: a retry begins with them anew. Whatever goes wrong in here, a call goes on
unchanged.
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import orjson

from addon.config import FoundConfig, without_memory
from addon.engine import Engine, Exchange
from addon.request import Headers, PlainMessage
from addon.stages import Received
from addon.vendors import VENDORS
from masking.edit import apply_to_list
from masking.errors import WireError
from masking.model import Decision
from masking.rewrite import Rewrite
from masking.wire import Match, find_format

logger = logging.getLogger("observation_masking")

PATHS = {
    "acompletion": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "aresponses": "/v1/responses",
}
"""The calls that are masked, and under which path a client asks LiteLLM for each."""

_HOSTS = {name: vendor.host for vendor in VENDORS for name in vendor.litellm}
"""Where a provider of LiteLLM is, if the call does not say."""

_NOT_THE_REQUEST = frozenset(("timeout", "extra_headers", "extra_body"))


class Deployment(NamedTuple):
    """To whom a call goes: LiteLLM's name of the provider, the model's name there, the base URL."""

    provider: str | None
    model: str
    api_base: str | None = None

    @property
    def host(self) -> str:
        """The host of the base URL or of the provider, or else the provider's name."""
        try:
            named = urlsplit(self.api_base or "").hostname
        except ValueError:
            named = None
        provider = self.provider or "unknown"
        return named or _HOSTS.get(provider, provider)


class CallHeaders(dict[str, str]):
    """Header fields by their names in lower case, none of them twice."""

    def get_all(self, name: str) -> list[str]:
        return [self[name]] if name in self else []


class CallRequest(NamedTuple):
    """A call as the request that it stands for."""

    path: str
    pretty_host: str
    headers: Headers
    method: str = "POST"
    raw_content: bytes | None = None
    trailers: Headers | None = None


class Call(NamedTuple):
    """A call with its id, the name of its type, all its arguments, and to whom it goes."""

    id: str
    type: str
    arguments: Mapping[str, object]
    deployment: Deployment

    @property
    def format(self) -> Match | None:
        """The format of the request; None if such calls are not masked."""
        return find_format("POST", PATHS[self.type]) if self.type in PATHS else None

    def read_request(self) -> CallRequest:
        """Return the request that it stands for, with the credential of its deployment."""
        asked = self.arguments.get("proxy_server_request")
        given = asked.get("headers") if isinstance(asked, Mapping) else None
        fields = given.items() if isinstance(given, Mapping) else ()
        headers = CallHeaders({str(name).lower(): str(value) for name, value in fields})
        if key := self.arguments.get("api_key"):
            headers["authorization"] = f"Bearer {key}"
        return CallRequest(PATHS[self.type], self.deployment.host, headers)

    def read_document(self, own: Collection[str]) -> dict[str, object]:
        """Return the request among the arguments; `own` are the names of LiteLLM's own."""
        document = {
            name: value
            for name, value in self.arguments.items()
            if value is not None and name not in own and name not in _NOT_THE_REQUEST
            if not name.startswith("_")
        }
        return document | {"model": self.deployment.model}


class CallCarrier:
    """The request of a call, as a body for the masker; the call itself stays as it is.

    `changed` is the argument to be put in place of the call's own, once it is masked.
    """

    wire_body = betas = None  # it cannot be sent again from here

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self._body = _encode(document)
        self.size = len(self._body or b"")
        self.changed: dict[str, object] | None = None

    @property
    def most_bytes(self) -> int:
        return self.size

    def read(self) -> bytes:
        if self._body is None:
            raise WireError("not JSON")
        return self._body

    def encode(self, body: bytes) -> bytes:
        return body

    def mark(self, decisions: Sequence[Decision]) -> None:
        """Write nothing: a call has no place for it."""

    def replace(self, rewrite: Rewrite, received: Received) -> None:
        (name,) = map(str, rewrite.conversation.list_path)
        # All of the list that is not edited is shared with the call. What was shortened at arrival
        # is no edit of the rewrite, which begins with the shortened request.
        items = cast(Sequence[object], self._document[name])
        arrived = rewrite.arrived
        if arrived.conversation is not arrived.client:
            each = zip(items, arrived.client.items, arrived.conversation.items, strict=True)
            items = [own if now == before else now for own, before, now in each]
        self.size, self.changed = len(rewrite.body), {name: apply_to_list(items, rewrite.edits)}


def _encode(document: Mapping[str, object]) -> bytes | None:
    """Spell a request; None if it cannot be spelled as JSON."""
    try:
        return orjson.dumps(document, _as_data)
    except TypeError:  # half a surrogate pair, a number beyond 64 bits, keys that are no strings
        return _encode_any(document)


def _encode_any(document: Mapping[str, object]) -> bytes | None:
    try:
        return json.dumps(document, default=_as_data).encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _as_data(value: object) -> object:
    """Return an object of a class as data: the answers that programs pass on are such objects."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(type(value).__name__)
    return dump(exclude_none=True)


_MAX_OPEN = 10_000
"""The most calls whose end is waited for. Of the one that was begun first, it never comes then."""

_TAKEN = 200


class _Open(NamedTuple):
    """A call on its way; `started` is local time, as LiteLLM tells it."""

    type: str
    started: datetime
    exchange: Exchange


class LiteLLMGateway:
    """Masks and records the calls of a process; its threads start with the first call.

    Raises ConfigError for a configuration that cannot be used, as one that asks for a memory.
    `own` are the names of the arguments that are LiteLLM's own. Calls are told apart by LiteLLM's
    id: a retry has the same one, and so has the call in another format that LiteLLM makes of one.
    """

    def __init__(self, config: FoundConfig, own: Collection[str]) -> None:
        self.config = config.open(adapt=without_memory)
        self._own = frozenset(own)
        self._engine = Engine()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    async def mask(self, call: Call) -> Mapping[str, object] | None:
        """Return the arguments to put in place of a call's own; None if it is not changed.

        Never raises an Exception.
        """
        try:
            return await self._mask(call)
        except Exception as error:  # noqa: BLE001 - the call goes on, whatever happened
            logger.warning(f"a call of LiteLLM was not masked: {type(error).__name__}")
            return None

    def succeed(self, call_id: str, ended: datetime, usage: object, first: datetime | None) -> None:
        """Record a call that was answered, with its usage as LiteLLM reports it.

        `first` is when the first piece of a stream came; None if it was no stream.
        """
        if (found := self._take(call_id, ended)) is None:
            return
        if first is not None:
            seconds = max(0.0, (first - found.started).total_seconds())
            found.exchange.copy.first_chunk_seconds = seconds
        found.exchange.finish(_TAKEN, PlainMessage(_encode_usage(usage)))

    def fail(
        self, call_id: str, ended: datetime, status: int | None, call_type: str | None = None
    ) -> None:
        """Record a call that the provider refused, or did not answer to the end.

        With a type, it is one try of a call of that type.
        """
        open_type = self._open[call_id].type if call_id in self._open else None
        if call_type in (None, open_type) and (found := self._take(call_id, ended)):
            found.exchange.finish(status, interrupted=None if status else "provider failed")

    def drop(self, call_id: str) -> None:
        """Leave out a call that LiteLLM answered by itself, from its own cache."""
        self._open.pop(call_id, None)

    def close(self) -> None:
        """Record what is still open, and wait for all records, though not for ever."""
        while self._open:
            self._open.popitem()[1].exchange.finish(interrupted="proxy ended")
        self._engine.close()

    async def _mask(self, call: Call) -> Mapping[str, object] | None:
        if call.format is None or self._is_made_of_another(call):
            return None
        if self._engine.config is None:
            self._engine.use(self.config)
            self._engine.watch()
        started = datetime.now()
        exchange = self._engine.open(call.read_request(), call.format)
        if exchange is None:
            return None
        carrier = CallCarrier(call.read_document(self._own))
        await exchange.mask(carrier)
        self._open[call.id] = _Open(call.type, started, exchange)
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)[1].exchange.finish()
        return carrier.changed

    def _is_made_of_another(self, call: Call) -> bool:
        """Whether LiteLLM makes a call of one in another format, which is masked already.

        A call with the id and the type of an open one is a second try: the first has failed.
        """
        earlier = self._open.get(call.id)
        if earlier is None:
            return False
        if earlier.type != call.type:
            return True
        del self._open[call.id]
        earlier.exchange.finish(interrupted="provider failed")
        return False

    def _take(self, call_id: str, ended: datetime) -> _Open | None:
        """Return an open call that has ended; LiteLLM may tell late of one that was tried again."""
        found = self._open.get(call_id)
        if found is None or ended < found.started:
            return None
        return self._open.pop(call_id)


_DETAILS = "prompt_tokens_details"
_LIFETIMES = "cache_creation_token_details"


def find_usage(answer: object) -> Mapping[str, object] | None:
    """Return the usage in an answer, an object of a class or a dictionary; None without one."""
    usage = _as_mapping(_find(answer, "usage"))
    if usage is None:
        return None
    details = _as_mapping(usage.get(_DETAILS)) or {}
    written = _as_mapping(details.get(_LIFETIMES))
    return {**usage, "cache_creation": written} if written else usage


def _encode_usage(usage: object) -> bytes | None:
    """Return a usage as the body of an answer that holds nothing else; None if there is none."""
    try:
        return orjson.dumps({"usage": usage}) if usage else None
    except TypeError:
        return None


def _find(answer: object, name: str) -> object:
    return answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)


def _as_mapping(value: object) -> Mapping[str, object] | None:
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    dumped = None if dump is None else dump()
    return dumped if isinstance(dumped, Mapping) else None
