"""The nouns everything else uses: where a tool result is, and what was decided about it.

What a request has by the hundred is a NamedTuple, which is made in a third of the time that a
frozen dataclass takes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

ChatMessage = dict[str, object]

Path = tuple[str | int, ...]
"""Where a value is in a JSON document: object keys and array indices, from the root."""

ContentKind = Literal["string", "text_parts", "other"]
"""What a result's content is: a string, a non-empty list of nothing but text parts, the rest."""

KeepReason = Literal[
    "off",
    "bad_id",
    "orphan",
    "in_window",
    "held",
    "last_k",
    "latest",
    "error",
    "not_string",
    "already_masked",
    "too_short",
    "not_shorter",
    "other_tool",
    "in_use",
]
"""The last two are redaction's, where the window is off."""

ChangeReason = Literal["masked", "redacted", "reduced", "dropped"]
"""By Schéma 1's window, by redaction, by a reduction: as a placeholder, or with its message."""

CHANGES: tuple[ChangeReason, ...] = get_args(ChangeReason)

Reason = ChangeReason | KeepReason

Target = tuple[str | None, str]
"""What a call is about: its tool, if that is known, and its path-like argument."""


class ToolResult(NamedTuple):
    """One tool result of a request, as its finder saw it.

    `path` is its content's. `call_id` is None where the result names no call, `turn` where no
    turn declares the call, `tool` where the name is unknown, `target` where the call has none or
    nobody asks. `texts` are those in its content, in order, whatever else the content holds.
    Turns count from 0, the oldest.
    """

    path: Path
    call_id: str | None
    tool: str | None
    turn: int | None
    kind: ContentKind
    texts: tuple[str, ...]
    is_error: bool
    target: Target | None = None

    @property
    def text(self) -> str:
        """All of its texts, joined."""
        return self.texts[0] if len(self.texts) == 1 else "".join(self.texts)

    def path_of_text(self, place: int) -> Path:
        """Return where the text at `place` stands; not for a content of the kind `other`."""
        return self.path if self.kind == "string" else (*self.path, place, "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHistory:
    """The tool turns of a request (answered or not), and its tool results in order."""

    turns: int
    results: tuple[ToolResult, ...]


class Request(NamedTuple):
    """One request of the conversation: its size, unmasked; its tool turns; its tool results."""

    size: float
    turns: int
    results: int


class Layout(NamedTuple):
    """The sizes in a request, in any unit, the same throughout.

    `requests` are all that the conversation has had, oldest first, this one last; `offsets` the
    size of everything before each of its tool results, `turns` the tool turns before it, `sizes`
    that of its content.
    """

    requests: tuple[Request, ...]
    offsets: tuple[int, ...]
    turns: tuple[int, ...]
    sizes: tuple[int, ...]


class Maskable(NamedTuple):
    """A tool result as the boundary sees it, sizes in any unit, the same throughout.

    `offset` is the size of everything before it, unmasked; `saving` what masking it saves on each
    request, 0 where it is never masked, less where its placeholder is longer; `tool` None where it
    takes no part in the last K, `target` None where it has none.
    """

    turn: int | None
    offset: float
    saving: float
    tool: str | None
    target: Target | None = None


class PriceStep(NamedTuple):
    """A prompt of more than `above` tokens costs `factor` times as much, every token of it.

    The factor is relative to the price of prompts below the first step.
    """

    above: int
    factor: float


class Replacement(NamedTuple):
    """A text, where it stands, and the placeholder that takes its place."""

    path: Path
    text: str
    placeholder: str


class Decision(NamedTuple):
    """What becomes of one tool result, and why; only what got a placeholder has replacements."""

    result: ToolResult
    reason: Reason
    replacements: tuple[Replacement, ...] = ()

    @property
    def chars_before(self) -> int:
        """Code points of the result's texts."""
        return sum(map(len, self.result.texts))

    @property
    def chars_after(self) -> int:
        """Code points that are left of them, placeholders included."""
        if self.reason == "dropped":
            return 0
        return self.chars_before + sum(len(r.placeholder) - len(r.text) for r in self.replacements)


def replacements_of(decisions: Iterable[Decision]) -> tuple[Replacement, ...]:
    """All replacements of a request, in the order in which they stand in it."""
    return tuple(r for decision in decisions for r in decision.replacements)


def places_masked(decisions: Iterable[Decision]) -> frozenset[int]:
    """Which tool results of a request are masked, counted from 0."""
    return frozenset(n for n, decision in enumerate(decisions) if decision.reason == "masked")
