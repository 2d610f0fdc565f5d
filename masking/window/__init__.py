"""The observation window: which tool results are old enough, and what takes their place."""

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
from masking.window.signs import is_summary_request, looks_like_error

__all__ = [
    "RECALL_ID_CHARS",
    "Rendering",
    "encode_text",
    "is_recall_id",
    "is_summary_request",
    "looks_like_error",
    "masked_texts",
    "parse_template",
    "recall_id",
    "recall_id_of",
]
