"""Which models bind their reasoning to everything before it.

The newest Claude models do: once a text before a thinking block has changed, a request with that
block is refused. Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking. It holds
for every later model, so a version that is not known counts as a new one.
"""

import re

from masking.conversation import Binding

_CLAUDE = re.compile(r"claude|anthropic|\b(?:opus|sonnet|haiku|fable|mythos)\b", re.IGNORECASE)
_VERSION = re.compile(
    r"(?:opus|sonnet|haiku|fable|mythos)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
    r"|claude-v?(?P<old>[1-4])(?!\d)|claude-(?P<older>instant)",
    re.IGNORECASE,
)
_LAST_FREE = (5, 0)

_OTHER_MAKERS = re.compile(
    r"\b(?:gpt|o\d|codex|gemini|gemma|kimi|moonshot|glm|deepseek|qwen|minimax|grok|llama|mistral"
    r"|devstral|nova|command|step|ernie|doubao|seed|mimo|longcat)",
    re.IGNORECASE,
)


def find_claude_binding(model: str | None) -> Binding | None:
    """Return what becomes of bound thinking at a Claude model; None for any other name."""
    if model is None or not _CLAUDE.search(model):
        return None
    found = _VERSION.search(model)
    if found is None:
        return "refuses"
    if found["old"] or found["older"]:
        return None
    version = (int(found["major"]), int(found["minor"] or 0))
    return None if version <= _LAST_FREE else "refuses"


def find_messages_binding(model: str | None) -> Binding | None:
    """Return what becomes of bound thinking where Claude is at home: a name may be an alias."""
    if model is not None and _CLAUDE.search(model):
        return find_claude_binding(model)
    return None if model is not None and _OTHER_MAKERS.search(model) else "refuses"
