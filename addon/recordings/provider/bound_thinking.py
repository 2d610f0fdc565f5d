"""Signs thinking blocks, and says which signatures still hold.

A signature is a digest of the thought and one of everything before it: tools, system prompt and
messages, without cache marks and without other thinking. Newer models bind the block to all of
that ("preserved thinking"), older ones to its own text alone. The source is Anthropic's
documentation, `build-with-claude/preserved-thinking`.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from addon.recordings.provider.messages_blocks import digest_prefixes, list_content, read_blocks
from addon.recordings.provider.received import JsonDict

_BINDING = re.compile(r"(?:opus-5-5|sonnet-5-5|haiku-5-5|fable-5-[12]|mythos-5-[12])\b")
_HALF = 64


class Signature(NamedTuple):
    """The signature of a thinking block, by its place in the request.

    problem: "invalid" where it is none of this thought; "moved" where it was made after other
        blocks than those that stand before it now.
    """

    message: int
    position: int
    problem: Literal["invalid", "moved"] | None


def sign(request: JsonDict, thought: str) -> str:
    """Return the signature of a thought in answer to a request."""
    *_, everything = digest_prefixes(read_blocks(request))
    return _spell(thought, everything)


def sign_anew(request: JsonDict) -> None:
    """Sign all thinking of a request, in place, as if each had been this provider's answer."""
    contents = [
        content
        for message in request["messages"]
        for content in list_content(message.get("content"))
    ]
    befores = [*digest_prefixes(read_blocks(request))][-len(contents) - 1 : -1]
    for content, before in zip(contents, befores, strict=True):
        if content.get("type") == "thinking":
            content["signature"] = _spell(str(content.get("thinking")), before)


def find_signatures(request: JsonDict) -> Iterator[Signature]:
    """Yield the signatures of a request's thinking blocks, in order."""
    blocks = list(read_blocks(request))
    first = {block.message: index for index, block in reversed(list(enumerate(blocks)))}
    for index, (block, before) in enumerate(zip(blocks, digest_prefixes(blocks), strict=False)):
        if block.message is not None and block.content.get("type") == "thinking":
            place = block.message, index - first[block.message]
            yield Signature(*place, _compare(block.content, before))


def binds(request: JsonDict) -> bool:
    """Whether the model of a request binds its thinking to all that stands before it."""
    return bool(_BINDING.search(str(request.get("model"))))


def drops(request: JsonDict) -> bool:
    """Whether the request lets the provider drop thinking that is bound to something else."""
    thinking = request.get("thinking") or {}
    binding = thinking.get("block_binding") or {}
    return bool(binding.get("prefix_mismatch_behavior") == "drop_block")


def find_dropped(request: JsonDict) -> list[JsonDict]:
    """Return what the provider says of the blocks that it drops from a request."""
    if not (binds(request) and drops(request)):
        return []
    return [
        {"type": "thinking_dropped", "message_index": each.message, "content_index": each.position}
        for each in find_signatures(request)
        if each.problem == "moved"
    ]


def _compare(thinking: JsonDict, before: bytes) -> Literal["invalid", "moved"] | None:
    thought, signature = str(thinking.get("thinking")), str(thinking.get("signature"))
    expected = _spell(thought, before)
    if signature == expected:
        return None
    return "moved" if signature[:_HALF] == expected[:_HALF] else "invalid"


def _spell(thought: str, before: bytes) -> str:
    """Return a signature: its first half vouches for the thought, the other for its place."""
    return (hashlib.sha256(thought.encode()).digest() + before).hex()
