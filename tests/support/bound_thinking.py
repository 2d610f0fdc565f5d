"""Thinking that a provider binds to all that stood before it, as Anthropic's newest models do."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def sign(messages: Sequence[Any]) -> str:
    """Return the signature of thinking that stands behind these messages."""
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()


def is_taken(sent: Mapping[str, Any]) -> bool:
    """Tell whether all thinking still stands behind what it was signed for."""
    return all(
        block["signature"] == sign(sent["messages"][:at])
        for at, message in enumerate(sent["messages"])
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "thinking"
    )


def forget_thinking(messages: Sequence[dict[str, Any]]) -> None:
    """Drop all thinking, as claude-code does after a refusal."""
    for message in messages:
        if message["role"] == "assistant":
            message["content"] = [b for b in message["content"] if b["type"] != "thinking"]
