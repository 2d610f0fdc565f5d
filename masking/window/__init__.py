"""The window: tool results older than a number of tool turns become placeholders."""

from masking.window.boundary import (
    FREE,
    BoundaryPosition,
    BoundaryPrices,
    lay_out,
    price_boundary,
    price_request,
)
from masking.window.decide import CallKey, call_key, decide
from masking.window.placeholder import (
    RECALL_ID_CHARS,
    Rendering,
    encode_text,
    is_recall_id,
    masked_texts,
    parse_marker,
    parse_template,
    recall_id,
    recall_id_of,
)
from masking.window.policy import DEFAULT_TEMPLATE, MaskPolicy
from masking.window.signs import is_summary_request, looks_like_error

__all__ = [
    "DEFAULT_TEMPLATE",
    "FREE",
    "RECALL_ID_CHARS",
    "BoundaryPosition",
    "BoundaryPrices",
    "CallKey",
    "MaskPolicy",
    "Rendering",
    "call_key",
    "decide",
    "encode_text",
    "is_recall_id",
    "is_summary_request",
    "lay_out",
    "looks_like_error",
    "masked_texts",
    "parse_marker",
    "parse_template",
    "price_boundary",
    "price_request",
    "recall_id",
    "recall_id_of",
]
