"""What is cut of an answer of an MCP server, decoded."""

from collections.abc import Mapping
from typing import cast

from masking.edit.splice import apply
from masking.mcp import UNKNOWN, McpSettings, Methods, find_cuts
from masking.model import Edits


def mask_payload(value: object, policy: McpSettings, methods: Methods = UNKNOWN) -> object:
    """Return a decoded message, or a batch, with its long strings cut; the same if none is."""
    cuts = find_cuts(value, policy, methods)
    return apply(cast(Mapping[str, object], value), Edits(cuts)) if cuts else value
