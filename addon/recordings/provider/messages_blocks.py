"""The blocks of a Messages request in the order in which the provider renders them.

Tools come first, then the system prompt, then the messages. A block is what a cache mark stands on
and what a thinking block's signature vouches for.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from addon.recordings.provider.received import JsonDict

_BILLING = "x-anthropic-billing-header"
"""A system block that begins so says who pays; the provider takes it out."""

_THINKING = ("thinking", "redacted_thinking")


class Block(NamedTuple):
    """A block without its cache mark.

    content: the block in one spelling: a string is a text block, and an absent `is_error` is false.
    mark: its `cache_control`, if it has one.
    message: the index of its message; None in the system prompt and the tools.
    """

    role: str
    content: JsonDict
    mark: JsonDict | None
    message: int | None = None

    @property
    def is_thinking(self) -> bool:
        return self.content.get("type") in _THINKING

    @property
    def spelling(self) -> str:
        """Its text, for sizes and digests; what spells the same means the same."""
        return json.dumps([self.role, self.content], sort_keys=True)


def read_blocks(request: JsonDict) -> Iterator[Block]:
    """Yield all blocks of a request."""
    for tool in request.get("tools") or ():
        yield _block("tools", tool)
    for content in list_content(request.get("system")):
        if not str(content.get("text", "")).startswith(_BILLING):
            yield _block("system", content)
    for index, message in enumerate(request.get("messages") or ()):
        for content in list_content(message.get("content")):
            yield _block(str(message.get("role")), content, index)


def list_content(content: object) -> list[JsonDict]:
    """Return content as a list of blocks, whichever way it is spelled."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list) else []
    return [each for each in blocks if isinstance(each, dict)]


def digest_prefixes(blocks: Iterable[Block]) -> Iterator[bytes]:
    """Yield the digest of what stands before each block, and then that of all; no thinking in it.

    Blocks of one role say the same in one message or in several.
    """
    digest = hashlib.sha256()
    for block in blocks:
        yield digest.digest()
        if not block.is_thinking:
            digest.update(block.spelling.encode())
    yield digest.digest()


def _block(role: str, content: JsonDict, message: int | None = None) -> Block:
    bare = {key: value for key, value in content.items() if key != "cache_control"}
    if bare.get("type") == "tool_result":
        bare["content"] = list_content(bare.get("content"))
        bare["is_error"] = bool(bare.get("is_error"))
    return Block(role, bare, content.get("cache_control"), message)
