"""Why a tool result is changed or kept: every reason, and what it means."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

Strategy = Literal["schema1", "redaction", "reduction"]

ChangeReason = Literal["masked", "redacted", "reduced", "dropped"]

KeepReason = Literal[
    "off",
    "bad_id",
    "orphan",
    "in_window",
    "held",
    "last_k",
    "kept_tool",
    "unlisted_tool",
    "kept_argument",
    "last_images",
    "latest",
    "reread",
    "bound",
    "summary",
    "refused",
    "error",
    "not_string",
    "already_masked",
    "too_short",
    "not_shorter",
    "other_tool",
    "in_use",
]

Reason = ChangeReason | KeepReason


class ReasonInfo(NamedTuple):
    """What a reason means: whose it is, what it says of a result, and a letter for maps."""

    strategy: Strategy
    sentence: str
    letter: str


REASONS: Mapping[Reason, ReasonInfo] = {
    "masked": ReasonInfo("schema1", "old enough, and replaced by a placeholder", "m"),
    "redacted": ReasonInfo("redaction", "answered since, and replaced by a placeholder", "r"),
    "reduced": ReasonInfo("reduction", "replaced to bring the history within its budget", "b"),
    "dropped": ReasonInfo("reduction", "dropped with its message for the same budget", "d"),
    "off": ReasonInfo("schema1", "kept, as the window is off", "x"),
    "bad_id": ReasonInfo("schema1", "names no call", "i"),
    "orphan": ReasonInfo("schema1", "no call in the request has its id", "o"),
    "in_window": ReasonInfo("schema1", "in one of the last tool turns", "w"),
    "held": ReasonInfo("schema1", "old enough, but moving the boundary does not pay yet", "h"),
    "last_k": ReasonInfo("schema1", "among the last results of its tool", "k"),
    "kept_tool": ReasonInfo("schema1", "of a tool that keep_tools names", "c"),
    "unlisted_tool": ReasonInfo("schema1", "of a tool that mask_tools does not name", "z"),
    "kept_argument": ReasonInfo(
        "schema1", "its call has an argument that keep_arguments names", "v"
    ),
    "last_images": ReasonInfo("schema1", "holds one of the last images", "p"),
    "latest": ReasonInfo("schema1", "the latest result of its target", "l"),
    "reread": ReasonInfo("schema1", "its call repeats one whose result had left the window", "q"),
    "bound": ReasonInfo("schema1", "later reasoning is bound to it as it was sent", "g"),
    "summary": ReasonInfo("schema1", "in an agent's request for a summary, left whole", "y"),
    "refused": ReasonInfo("schema1", "in a conversation that its provider refused masked", "j"),
    "error": ReasonInfo("schema1", "looks like an error", "e"),
    "not_string": ReasonInfo("schema1", "not text", "n"),
    "already_masked": ReasonInfo("schema1", "already a placeholder", "a"),
    "too_short": ReasonInfo("schema1", "shorter than min_chars", "t"),
    "not_shorter": ReasonInfo("schema1", "would not get shorter", "s"),
    "other_tool": ReasonInfo("redaction", "of a tool that is not redacted", "f"),
    "in_use": ReasonInfo("redaction", "not answered by the assistant yet", "u"),
}
"""Every reason, in the order in which people read them. All that explains a reason quotes it."""

CHANGES: tuple[ChangeReason, ...] = get_args(ChangeReason)
"""The reasons by which a result is changed; all others keep it."""
