"""Recognises an agent's own request for a summary of its history.

What it says takes the history's place for good, so it is worth sending whole. The signs are data. A
request is one of these only if its last message asks for it: a wrong yes breaks the cached prefix
once, a wrong no leaves the request masked like any other.
"""

import re
from collections.abc import Sequence

from masking.conversation import Conversation

_OPENINGS = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",  # claude-code
    "CRITICAL: Respond with text only. Do NOT call any tools.",  # vibe
    "Please provide a concise summary of our conversation so far, capturing the key ",  # Continue
    "Your task is to create a detailed summary of ",  # older claude-code, Roo Code, Kilo Code
    "You are performing a CONTEXT CHECKPOINT COMPACTION",  # codex, where it makes its own
    '<explicit_instructions type="summarize_task"',  # cline
    '<explicit_instructions type="condense"',  # cline, by its user
)
"""How a text of the last message begins where an agent may leave its tools in the request."""

_ASKS = re.compile(
    r"""\b(?:create|generate|write|provide|produce|prepare)\ (?:an?|the|your)\b [^\n]{0,80}?
        \b(?:summary|state_snapshot|handoff|prompt\ for\ continuing)\b
      | \bsummari[sz]e\b [^\n]{0,60}? \b(?:conversation|session|history|chat|above|so\ far)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""What a text asks for where no tool can be called, as in qwen-code and gemini-cli."""

_LOOKED_AT = 2_000
"""In characters: so much of a text's beginning, and of its end, is looked at."""

_LAST_TEXTS = 4
"""An instruction is in one of so many at the end: a message may have any number of them."""


def is_summary_request(conversation: Conversation) -> bool:
    """Whether an agent asks for a summary of its history, to go on with that alone."""
    wire, body = conversation.wire, conversation.body
    if not conversation.results:
        return False
    if wire.compacts(conversation.document, conversation.path):
        return True
    texts = _find_last_said(conversation)
    if any(text[:_LOOKED_AT].lstrip().startswith(_OPENINGS) for text in texts):
        return True
    can_call = wire.find_tools(body) and not wire.forbids_tools(body)
    return not can_call and any(map(_asks, texts[-_LAST_TEXTS:]))


def _find_last_said(conversation: Conversation) -> Sequence[str]:
    """Return what the user says at the end of a request, after every answer of the assistant."""
    for element in reversed(conversation.elements):
        if element.speaker != "system":  # reminders may follow
            return element.texts if element.speaker == "user" else ()
    return ()


def _asks(text: str) -> bool:
    return _ASKS.search(text[:_LOOKED_AT]) is not None or (
        len(text) > _LOOKED_AT and _ASKS.search(text[-_LOOKED_AT:]) is not None
    )
