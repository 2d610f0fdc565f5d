"""The nouns everything else uses: where a tool result is, and what was decided about it.

What a request has by the hundred is a NamedTuple, which is made in a third of the time that a
frozen dataclass takes.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, cast, get_args

ChatMessage = dict[str, object]

Path = tuple[str | int, ...]
"""Where a value is in a JSON document: object keys and array indices, from the root."""

ContentKind = Literal["string", "text_parts", "other"]
"""What a result's content is: a string, a non-empty list of nothing but text parts, the rest."""

Strategy = Literal["schema1", "redaction", "reduction"]

ChangeReason = Literal["masked", "redacted", "reduced", "dropped"]

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

Reason = ChangeReason | KeepReason


class ReasonInfo(NamedTuple):
    """What a reason means: who decides so, one sentence for people, one letter for a map."""

    strategy: Strategy
    sentence: str
    letter: str


REASONS: Mapping[Reason, ReasonInfo] = {
    "masked": ReasonInfo("schema1", "replaced by a placeholder, as it is old enough", "M"),
    "redacted": ReasonInfo("redaction", "replaced, as the assistant has answered since", "R"),
    "reduced": ReasonInfo("reduction", "replaced, to bring the history within its budget", "B"),
    "dropped": ReasonInfo("reduction", "gone with its message, for the same budget", "D"),
    "off": ReasonInfo("schema1", "the strategy is off", "-"),
    "bad_id": ReasonInfo("schema1", "it names no call", "?"),
    "orphan": ReasonInfo("schema1", "no call in the request has its id", "?"),
    "in_window": ReasonInfo("schema1", "among the last tool turns", "w"),
    "held": ReasonInfo("schema1", "old enough, but moving the boundary does not pay yet", "h"),
    "last_k": ReasonInfo("schema1", "among the last results of its tool", "k"),
    "latest": ReasonInfo("schema1", "the latest result of its target", "l"),
    "error": ReasonInfo("schema1", "it reads like an error", "e"),
    "not_string": ReasonInfo("schema1", "its content is more than text", "n"),
    "already_masked": ReasonInfo("schema1", "it is a placeholder already", "m"),
    "too_short": ReasonInfo("schema1", "shorter than min_chars", "s"),
    "not_shorter": ReasonInfo("schema1", "its placeholder would not be shorter", "s"),
    "other_tool": ReasonInfo("redaction", "no result of a tool that is redacted", "o"),
    "in_use": ReasonInfo("redaction", "the assistant has not answered since", "u"),
}
"""Every reason, in the order in which people read them; log, report, page and docs quote it."""

CHANGES: tuple[ChangeReason, ...] = get_args(ChangeReason)
"""The reasons by which a result is changed; all others keep it."""

Target = tuple[str | None, str]
"""What a call is about: its tool, if that is known, and its path-like argument."""


class ToolResult(NamedTuple):
    """One tool result of a request, bound to its call.

    `at` is the path of the element that holds it, `slots` are the paths of its `texts` from there.
    `call_id` is None where the result names no call, `turn` where no turn declares the call, `tool`
    where the name is unknown, `target` where the call has none or nobody asks. `texts` are those
    in its content, in order, whatever else the content holds; `wrap` is as in
    `conversation.Result`. Turns count from 0, the oldest.
    """

    at: Path
    slots: tuple[Path, ...]
    call_id: str | None
    tool: str | None
    turn: int | None
    kind: ContentKind
    texts: tuple[str, ...]
    is_error: bool
    target: Target | None = None
    wrap: str | None = None

    @property
    def element(self) -> int:
        """Where its element stands in the request's list, counted from 0."""
        return cast(int, self.at[-1])

    @property
    def text(self) -> str:
        """All of its texts, joined."""
        return self.texts[0] if len(self.texts) == 1 else "".join(self.texts)

    def replace(self, place: int, placeholder: str) -> "Replacement":
        """Return the edit of the text at `place`; not for a content of the kind `other`."""
        path = (*self.at, *self.slots[place])
        return Replacement(path, self.texts[place], placeholder, self.wrap)


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
    """A text, where it stands, and the placeholder that takes its place.

    Where `wrap` is given, the text is the JSON of an object, and the placeholder comes into an
    object with this one key.
    """

    path: Path
    text: str
    placeholder: str
    wrap: str | None = None

    @property
    def value(self) -> object:
        """The JSON value that comes to stand there."""
        return self.placeholder if self.wrap is None else {self.wrap: self.placeholder}


class Edits(NamedTuple):
    """All that is to be done to a request: texts that are replaced, elements that go or come.

    The replacements are in the order of the request. `inserted` is a new element, None where
    there is none, and `inserted_at` its position: the same before and after the drop, as all that
    precedes it is kept.
    """

    replacements: tuple[Replacement, ...] = ()
    dropped: frozenset[int] = frozenset()
    inserted: object = None
    inserted_at: int = 0

    @property
    def moves(self) -> bool:
        """Whether elements go or come."""
        return bool(self.dropped) or self.inserted is not None

    def order(self, count: int) -> list[int | None]:
        """Return the positions that stay of so many elements; None is the inserted one."""
        kept: list[int | None] = [at for at in range(count) if at not in self.dropped]
        if self.inserted is not None:
            kept.insert(self.inserted_at, None)
        return kept


Scenario = Literal[1, 2, 3, 4, 5]
"""A row of the redaction's decision matrix, by what follows a result (see `redaction.py`)."""


class Decision(NamedTuple):
    """What becomes of one tool result, and why; only what got a placeholder has replacements.

    `scenario` is None but where redaction has looked at what follows the result. `is_new` tells a
    result that is redacted in this request from one that was in the one before, which held what
    stands before the assistant's last answer.
    """

    result: ToolResult
    reason: Reason
    replacements: tuple[Replacement, ...] = ()
    scenario: Scenario | None = None
    is_new: bool = False

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
