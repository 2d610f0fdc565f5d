"""Observation masking: old tool results become short placeholders, nothing else changes.

The core knows no proxy, no clock and no file; `addon` puts it in front of a provider.
"""

from masking.conversation import Conversation
from masking.errors import ConfigError, WireError
from masking.messages_api import (
    ReductionResult,
    mask_old_tool_results,
    redact_tool_results,
    reduce_history,
)
from masking.model import (
    ChatMessage,
    Decision,
    Edits,
    Replacement,
    ToolCall,
    ToolCallFunction,
    ToolResult,
)
from masking.redaction import RedactionPolicy, should_redact
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, rewrite_request
from masking.window import BoundaryPrices, MaskPolicy
from masking.wire import find_format

__all__ = [
    "BoundaryPrices",
    "ChatMessage",
    "ConfigError",
    "Conversation",
    "Decision",
    "Edits",
    "MaskPolicy",
    "RedactionPolicy",
    "ReductionOptions",
    "ReductionResult",
    "Replacement",
    "Rewrite",
    "ToolCall",
    "ToolCallFunction",
    "ToolResult",
    "WireError",
    "find_format",
    "mask_old_tool_results",
    "redact_tool_results",
    "reduce_history",
    "rewrite_request",
    "should_redact",
]
