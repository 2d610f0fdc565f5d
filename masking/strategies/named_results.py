"""Results that the policy keeps by name: those of a tool, or of calls with some argument.

That is a function of the call alone, so it never changes while a conversation goes on.
"""

from masking.model import ToolResult
from masking.pairing import read_arguments
from masking.patterns import matches
from masking.reasons import KeepReason
from masking.strategies.policy import MaskPolicy


def find_named(result: ToolResult, policy: MaskPolicy) -> KeepReason | None:
    """Return why a result stays whatever its age; None if the policy does not name it.

    A tool whose name is unknown is named by no glob.
    """
    tool = result.tool
    if tool is not None and matches(tool, policy.keep_tools):
        return "kept_tool"
    if policy.mask_tools and (tool is None or not matches(tool, policy.mask_tools)):
        return "unlisted_tool"
    return "kept_argument" if policy.keep_arguments and _has_kept(result, policy) else None


def _has_kept(result: ToolResult, policy: MaskPolicy) -> bool:
    """Whether an argument of the call is a text that is to be kept."""
    values = read_arguments(result.arguments).values()
    return any(isinstance(each, str) and matches(each, policy.keep_arguments) for each in values)
