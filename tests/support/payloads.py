"""What is cut of an answer of an MCP server, decoded."""

from masking.edit.splice import apply
from masking.mcp import UNKNOWN, McpSettings, Methods, find_cuts


def mask_payload(value: object, policy: McpSettings, methods: Methods = UNKNOWN) -> object:
    """Return a decoded message, or a batch, with its long strings cut; the same if none is."""
    cuts = find_cuts(value, policy, methods)
    return apply(value, cuts)
