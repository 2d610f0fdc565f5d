"""A call that LiteLLM is about to make: which of its arguments are the request, and whose it is.

LiteLLM passes a request on as keyword arguments, decoded and among many of its own. None of them
is ever changed in place: a retry begins with them anew.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

from addon.metrics.stages import Received
from addon.shared.http_message import Headers
from masking.conversation import Conversation
from masking.edit import apply
from masking.errors import WireError
from masking.model import Decision, Edits
from masking.wire import Match, find_format

PATHS = {
    "acompletion": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "aresponses": "/v1/responses",
}
"""The calls that are masked, and under which path a client asks LiteLLM for each."""

_HOSTS = {
    "anthropic": "api.anthropic.com",
    "azure_ai": "services.ai.azure.com",
    "bedrock": "bedrock-runtime.us-east-1.amazonaws.com",
    "bedrock_converse": "bedrock-runtime.us-east-1.amazonaws.com",
    "chatgpt": "chatgpt.com",
    "gemini": "generativelanguage.googleapis.com",
    "github_copilot": "api.githubcopilot.com",
    "openai": "api.openai.com",
    "openrouter": "openrouter.ai",
    "vertex_ai": "aiplatform.googleapis.com",
}
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
    """The request of a call, spelled as a body for the masker; the call itself stays as it is."""

    wire_body = None  # it cannot be sent again from here

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self._body = _encode(document)
        self.size = len(self._body or b"")
        self.is_replaced = False

    @property
    def most_bytes(self) -> int:
        return self.size

    def read(self) -> bytes:
        if self._body is None:
            raise WireError("not JSON")
        return self._body

    def measure(self, body: bytes) -> int:
        return len(body)

    def mark(self, decisions: Sequence[Decision]) -> None:
        """Write nothing: a call has no place for it."""

    def replace(self, body: bytes, received: Received) -> None:
        self.size, self.is_replaced = len(body), True

    def edit(self, edits: Edits, conversation: Conversation) -> dict[str, object]:
        """Return the argument that holds the list, after edits; all else in it is shared."""
        name = str(conversation.list_path[0])
        return {name: apply(self._document, edits, conversation.list_path)[name]}


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
