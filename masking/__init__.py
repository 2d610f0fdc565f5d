"""Observation masking: old tool results become short placeholders, nothing else changes.

The core knows no proxy, no clock and no file; `addon` puts it in front of a provider.
"""

from masking.errors import ConfigError, WireError
from masking.model import ChatMessage, Decision, Replacement, ToolHistory, ToolResult
from masking.rewrite import Rewrite, rewrite_request
from masking.strategies.policy import MaskPolicy
from masking.strategies.window import decide, mask_old_tool_results

__all__ = [
    "ChatMessage",
    "ConfigError",
    "Decision",
    "MaskPolicy",
    "Replacement",
    "Rewrite",
    "ToolHistory",
    "ToolResult",
    "WireError",
    "decide",
    "mask_old_tool_results",
    "rewrite_request",
]
