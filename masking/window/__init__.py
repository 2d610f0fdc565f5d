"""The window: tool results older than a number of tool turns become placeholders."""

from masking.window.boundary import (
    FREE,
    Boundary,
    BoundaryPosition,
    BoundaryPrices,
    Layout,
    RequestSize,
    SentMoves,
    lay_out,
    price_boundary,
)
from masking.window.decide import (
    CallKey,
    Limits,
    WindowDecisions,
    call_key,
    decide,
    evaluate,
    in_order,
    measure_candidates,
)
from masking.window.eligible import Candidate, PinnedResults
from masking.window.placeholder import (
    RECALL_ID_CHARS,
    Rendering,
    encode_text,
    is_recall_id,
    masked_texts,
    parse_template,
    recall_id,
    recall_id_of,
)
from masking.window.policy import DEFAULT_TEMPLATE, BoundReasoning, MaskPolicy
from masking.window.signs import is_summary_request, looks_like_error

__all__ = [
    "DEFAULT_TEMPLATE",
    "FREE",
    "RECALL_ID_CHARS",
    "BoundReasoning",
    "Boundary",
    "BoundaryPosition",
    "BoundaryPrices",
    "CallKey",
    "Candidate",
    "Layout",
    "Limits",
    "MaskPolicy",
    "PinnedResults",
    "Rendering",
    "RequestSize",
    "SentMoves",
    "WindowDecisions",
    "call_key",
    "decide",
    "encode_text",
    "evaluate",
    "in_order",
    "is_recall_id",
    "is_summary_request",
    "lay_out",
    "looks_like_error",
    "masked_texts",
    "measure_candidates",
    "parse_template",
    "price_boundary",
    "recall_id",
    "recall_id_of",
]
