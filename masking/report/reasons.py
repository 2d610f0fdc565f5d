"""The reasons of decisions, as the masking map spells and explains them."""

from typing import NamedTuple

from masking.model import Reason


class ReasonText(NamedTuple):
    """A letter for the data, and what the legend says."""

    letter: str
    label: str


REASON_TEXTS: dict[Reason, ReasonText] = {
    "masked": ReasonText("m", "masked"),
    "redacted": ReasonText("r", "redacted: the tool is named, and its result was answered"),
    "reduced": ReasonText("d", "reduced to a placeholder"),
    "dropped": ReasonText("x", "dropped with its message, by reduction"),
    "held": ReasonText("h", "held: old enough, but masking it does not pay yet"),
    "in_window": ReasonText("w", "in the window: one of the last turns"),
    "error": ReasonText("e", "kept: it looks like an error"),
    "last_k": ReasonText("k", "kept: among the last results of its tool"),
    "latest": ReasonText("l", "kept: the latest result of its target"),
    "too_short": ReasonText("t", "kept: shorter than min_chars"),
    "not_shorter": ReasonText("s", "kept: a placeholder would not be shorter"),
    "already_masked": ReasonText("a", "a placeholder already"),
    "not_string": ReasonText("n", "kept: more than text"),
    "bad_id": ReasonText("b", "kept: it names no call"),
    "orphan": ReasonText("o", "kept: it names an unknown call"),
    "other_tool": ReasonText("q", "kept: redaction does not name its tool"),
    "in_use": ReasonText("u", "kept: not answered yet, so not redacted"),
    "off": ReasonText("f", "kept: masking is off"),
}
"""In the order of the legend."""
