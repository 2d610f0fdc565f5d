"""The observation window: which tool results are old enough, and what takes their place."""

from masking.window.placeholder import Rendering, parse_template, recall_id
from masking.window.signs import is_summary_request, looks_like_error

__all__ = ["Rendering", "is_summary_request", "looks_like_error", "parse_template", "recall_id"]
