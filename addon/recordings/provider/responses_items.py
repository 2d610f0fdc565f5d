"""The items of OpenAI Responses as a model sees them, and the seals of its reasoning.

Reasoning comes back to its provider as `encrypted_content`. Here that is a seal: it holds a digest
of everything before the reasoning, and proves that neither it nor the summary beside it was
changed. Newer models are given reasoning only where what stands before it is what stood there when
it was made (https://platform.openai.com/docs/guides/keep-prefix-unchanged); they say nothing about
the rest. `find_dropped` says it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from addon.recordings.provider.received import JsonDict

_NOT_SEEN = frozenset(
    (
        *("id", "status", "phase", "annotations", "logprobs", "prompt_cache_breakpoint"),
        "internal_chat_message_metadata_passthrough",
    )
)
"""Keys that are no part of the prompt; clients leave them out, or add them."""

_HEAD = ("model", "tools", "instructions", "text")

_BINDS = re.compile(r"gpt-(5\.[6-9]|[6-9])")
"""How the models are named that drop reasoning after a changed prefix."""

_SEAL_BYTES = 300
_DIGEST_BYTES = 16
_KEY = b"the scripted provider"


def items_of(request: Mapping[str, Any]) -> list[Any]:
    """Return the items of a request; a text stands for one message of the user."""
    given = request.get("input", [])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def render_head(request: Mapping[str, Any]) -> str:
    """Return what a model sees before all items."""
    return json.dumps([request.get(name) for name in _HEAD], sort_keys=True)


def render_item(item: Mapping[str, Any]) -> str:
    """Return an item as a model sees it, however a client spells it."""
    seen = {key: value for key, value in item.items() if key not in _NOT_SEEN and value is not None}
    if "role" in seen:
        seen |= {"type": "message", "content": _render_content(seen.get("content"))}
    if isinstance(arguments := seen.get("arguments"), str):
        seen["arguments"] = _render_arguments(arguments)
    return json.dumps(seen, sort_keys=True)


def seal(request: Mapping[str, Any], thinking: str) -> str:
    """Return the `encrypted_content` of what a model thinks upon a request."""
    *_, prefix = _digest_prefixes(request)
    return _seal(prefix, thinking)


def is_sealed(item: Mapping[str, Any]) -> bool:
    """Whether an item of reasoning is as it was made."""
    prefix = _unseal(item)
    return prefix is not None and item["encrypted_content"] == _seal(prefix, _thinking(item))


def find_dropped(request: Mapping[str, Any]) -> list[int]:
    """Return which items of reasoning the model of a request would not be given."""
    if not _BINDS.match(str(request.get("model"))):
        return []
    prefixes = _digest_prefixes(request)
    return [
        index
        for index, (item, prefix) in enumerate(zip(items_of(request), prefixes, strict=False))
        if item.get("type") == "reasoning" and _unseal(item) != prefix
    ]


def _digest_prefixes(request: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield a digest of what stands before each item, and of the whole request."""
    digest = hashlib.sha256(render_head(request).encode())
    for item in items_of(request):
        yield digest.digest()[:_DIGEST_BYTES]
        digest.update(render_item(item).encode())
    yield digest.digest()[:_DIGEST_BYTES]


def _seal(prefix: bytes, thinking: str) -> str:
    proof = hashlib.shake_256(_KEY + prefix + thinking.encode()).digest(_SEAL_BYTES)
    return base64.urlsafe_b64encode(b"\x80" + prefix + proof).decode()


def _unseal(item: Mapping[str, Any]) -> bytes | None:
    try:
        sealed = base64.urlsafe_b64decode(item["encrypted_content"])
    except (KeyError, TypeError, ValueError):
        return None
    return sealed[1 : 1 + _DIGEST_BYTES]


def _thinking(item: Mapping[str, Any]) -> str:
    return "".join(part.get("text", "") for part in item.get("summary") or ())


def _render_content(content: object) -> Sequence[JsonDict]:
    if isinstance(content, str):
        return [{"text": content}]
    kept = ("text", "refusal", "image_url", "file_id", "file_data")
    parts = content if isinstance(content, list) else []
    return [{key: part[key] for key in kept if key in part} for part in parts]


def _render_arguments(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
