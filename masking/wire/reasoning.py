"""Which models bind their reasoning to everything before it.

The newest Claude models do: once a text before a thinking block has changed, a request with that
block is refused (platform.claude.com/docs/en/build-with-claude/preserved-thinking). OpenAI's from
GPT-5.6 on are not given such reasoning, without a word
(developers.openai.com/api/docs/guides/keep-prefix-unchanged). It holds for every later model, so a
version that is not known counts as a new one.
"""

import re

from masking.wire_format import Binding

_CLAUDE = re.compile(r"claude|anthropic|\b(?:opus|sonnet|haiku|fable|mythos)\b", re.IGNORECASE)
_VERSION = re.compile(
    r"(?:opus|sonnet|haiku|fable|mythos)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
    r"|claude-v?(?P<old>[1-4])(?!\d)|claude-(?P<older>instant)",
    re.IGNORECASE,
)
_LAST_FREE = (5, 0)

_OPENAI = re.compile(
    r"(?:\b|chat)(?:gpt-(?P<major>\d{1,2})(?:\.(?P<minor>\d{1,2}))?|(?P<older>o[1-4]|codex-mini|gpt-oss|"
    r"computer-use))(?![\d.])",
    re.IGNORECASE,
)
_LAST_FREE_OPENAI = (5, 5)

_NEITHER = (
    "gemini|gemma|kimi|moonshot|glm|deepseek|qwen|minimax|grok|llama|mistral|devstral|nova|command"
    "|step|ernie|doubao|seed|mimo|longcat"
)
_OTHER_MAKERS = re.compile(rf"\b(?:gpt|o\d|codex|{_NEITHER})", re.IGNORECASE)
_NOT_OPENAI = re.compile(rf"\b(?:{_NEITHER})", re.IGNORECASE)


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
    """Return what becomes of bound thinking where Claude is at home: a name may be an alias.

    A model that is not named at all, as in a file, thinks no more.
    """
    if model is not None and _CLAUDE.search(model):
        return find_claude_binding(model)
    return None if model is None or _OTHER_MAKERS.search(model) else "refuses"


def find_responses_binding(model: str | None, *, is_encrypted: bool) -> Binding | None:
    """Return what becomes of bound reasoning where OpenAI is at home.

    A name may be an alias. Where the reasoning is not encrypted, nobody can bind it.
    """
    if model is not None and _CLAUDE.search(model):
        return find_claude_binding(model)
    found = _OPENAI.search(model or "")
    if found is None:
        is_other = model is not None and _NOT_OPENAI.search(model)
        return "drops" if is_encrypted and not is_other else None
    if found["older"]:
        return None
    version = (int(found["major"]), int(found["minor"] or 0))
    return None if version <= _LAST_FREE_OPENAI else "drops"
